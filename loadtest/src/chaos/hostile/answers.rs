//! Cuts what a server sends into the heads of its answers and the events of its watches, in either encoding.

use anyhow::Context;

/// The most headers of a request or an answer.
pub(super) const MOST_HEADERS: usize = 64;
/// An event of the neighbours' pods is shorter.
const LONGEST_EVENT: usize = 16 * 1024;
/// A head, and the line before a chunk, are shorter.
const LONGEST_HEAD: usize = 16 * 1024;

/// The answers of a connection.
#[derive(Default)]
pub(super) struct Answers {
    /// The beginning of a head, or of the line before a chunk.
    partial: Vec<u8>,
    place: Place,
    events: Events,
}

/// A part of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Head {
        status: u16,
    },
    /// A text that ends in a new line, or a frame of protobuf behind its length. Not all of them are events: a list may
    /// be cut up as well.
    Event(&'a [u8]),
}

/// The part of the answer to which the next byte belongs.
#[derive(Clone, Copy, Default)]
enum Place {
    #[default]
    Head,
    /// A body of which so many bytes are left.
    Body(usize),
    /// The line before a chunk, with its length.
    ChunkLine,
    /// A chunk of which so many bytes are left.
    Chunk(usize),
    /// The line after a chunk; after the `last`, the answer ends.
    ChunkEnd { last: bool },
}

/// Cuts events out of a body.
#[derive(Default)]
struct Events {
    partial: Vec<u8>,
    /// The bytes of an event that are left, if their number is known.
    left: Option<usize>,
    /// The event is too long to be looked at.
    skipped: bool,
}

impl Answers {
    pub(super) fn take(&mut self, mut bytes: &[u8], mut each: impl FnMut(Piece<'_>)) -> anyhow::Result<()> {
        while !bytes.is_empty() {
            match self.place {
                Place::Head => {
                    let Some(head) = self.until(b"\r\n\r\n", &mut bytes)? else {
                        continue;
                    };
                    let (status, place) = read_head(&head)?;
                    each(Piece::Head { status });
                    (self.place, self.events) = (place, Events::default());
                }
                // Watches come in chunks.
                Place::Body(left) => {
                    let here = left.min(bytes.len());
                    bytes = &bytes[here..];
                    self.place = match left - here {
                        0 => Place::Head,
                        left => Place::Body(left),
                    };
                }
                Place::ChunkLine => {
                    let Some(line) = self.until(b"\r\n", &mut bytes)? else {
                        continue;
                    };
                    let line = std::str::from_utf8(&line)?.trim_end();
                    let length = usize::from_str_radix(line, 16).context("reading the length of a chunk")?;
                    self.place = match length {
                        0 => Place::ChunkEnd { last: true },
                        length => Place::Chunk(length),
                    };
                }
                Place::Chunk(left) => {
                    let (chunk, rest) = bytes.split_at(left.min(bytes.len()));
                    bytes = rest;
                    self.events.take(chunk, &mut each);
                    self.place = match left - chunk.len() {
                        0 => Place::ChunkEnd { last: false },
                        left => Place::Chunk(left),
                    };
                }
                Place::ChunkEnd { last } => {
                    if self.until(b"\r\n", &mut bytes)?.is_some() {
                        self.place = if last { Place::Head } else { Place::ChunkLine };
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes bytes up to an end, if it has come.
    fn until(&mut self, end: &[u8], bytes: &mut &[u8]) -> anyhow::Result<Option<Vec<u8>>> {
        let before = self.partial.len();
        self.partial.extend_from_slice(bytes);
        let Some(at) = memchr::memmem::find(&self.partial, end) else {
            anyhow::ensure!(self.partial.len() < LONGEST_HEAD, "a head without an end");
            *bytes = &[];
            return Ok(None);
        };
        let length = at + end.len();
        *bytes = &bytes[length - before..];
        self.partial.truncate(length);
        Ok(Some(std::mem::take(&mut self.partial)))
    }
}

/// The status of an answer, and what follows its head.
fn read_head(head: &[u8]) -> anyhow::Result<(u16, Place)> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    let parsed = answer.parse(head).context("reading an answer")?;
    anyhow::ensure!(parsed.is_complete(), "an answer without a head");
    let mut place = Place::Head;
    for header in answer.headers.iter() {
        let value = std::str::from_utf8(header.value)?;
        if header.name.eq_ignore_ascii_case("transfer-encoding") && value == "chunked" {
            place = Place::ChunkLine;
        }
        if header.name.eq_ignore_ascii_case("content-length") && value != "0" {
            place = Place::Body(value.parse()?);
        }
    }
    Ok((answer.code.unwrap_or_default(), place))
}

impl Events {
    fn take(&mut self, mut bytes: &[u8], each: &mut impl FnMut(Piece<'_>)) {
        while !bytes.is_empty() {
            if self.partial.is_empty() && self.left.is_none() && !self.skipped {
                // A frame begins with its length, which is less than 2^24. No line begins with a zero.
                self.left = (bytes[0] == 0).then_some(4);
            }
            let end = match self.left {
                Some(left) => (left <= bytes.len()).then_some(left),
                None => memchr::memchr(b'\n', bytes).map(|at| at + 1),
            };
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            bytes = rest;
            self.skipped |= self.partial.len() + piece.len() > LONGEST_EVENT;
            if !self.skipped {
                self.partial.extend_from_slice(piece);
            }
            if let Some(left) = &mut self.left {
                *left -= piece.len();
            }
            if end.is_none() {
                continue;
            }
            if self.left == Some(0) && !self.skipped && self.partial.len() == 4 {
                let length = u32::from_be_bytes([0, self.partial[1], self.partial[2], self.partial[3]]);
                self.left = Some(length as usize);
                if length > 0 {
                    continue;
                }
            }
            if !self.skipped {
                each(Piece::Event(&self.partial));
            }
            *self = Self::default();
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// All ways to cut bytes in three.
    pub(in super::super) fn pieces(bytes: &[u8]) -> impl Iterator<Item = [&[u8]; 3]> {
        (0..=bytes.len()).flat_map(move |first| {
            (first..=bytes.len())
                .map(move |second| [&bytes[..first], &bytes[first..second], &bytes[second..]])
        })
    }

    fn seen<'a>(sent: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let (mut answers, mut seen) = (Answers::default(), Vec::new());
        for bytes in sent {
            let each = |piece: Piece<'_>| {
                seen.push(match piece {
                    Piece::Head { status } => status.to_string(),
                    Piece::Event(event) => String::from_utf8(event.to_owned()).unwrap(),
                });
            };
            answers.take(bytes, each).unwrap();
        }
        seen
    }

    #[test]
    fn events_are_found_wherever_they_are_cut() {
        let sent = "HTTP/1.1 201 Created\r\ncontent-length: 3\r\n\r\n{}\nHTTP/1.1 200 OK\r\n\
            Transfer-Encoding: chunked\r\n\r\n8\r\n{1}\n{22}\r\n1\r\n\n\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\
            HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\n\0\0\0\x03a\nb\0\0\0\x02\r\n2\r\ncd\r\n0\r\n\r\n";
        for cut in pieces(sent.as_bytes()) {
            let expected = [
                "201",
                "200",
                "{1}\n",
                "{22}\n",
                "204",
                "200",
                "\0\0\0\x03a\nb",
                "\0\0\0\x02cd",
            ];
            assert_eq!(seen(cut), expected);
        }
    }

    #[test]
    fn an_event_that_is_too_long_is_passed_over() {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let long = "x".repeat(LONGEST_EVENT + 1);
        let frame = format!("\0\0\x40\x01{long}");
        for long in [format!("{long}\n"), frame] {
            let sent = format!("{head}{:x}\r\n{long}short\n\r\n", long.len() + 6);
            assert_eq!(seen(sent.as_bytes().chunks(1000)), ["200", "short\n"]);
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for sent in [
            "PRI * HTTP/2.0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno\r\n",
        ] {
            assert!(
                Answers::default().take(sent.as_bytes(), |_| {}).is_err(),
                "{sent:?}"
            );
        }
    }
}
