//! The parts of a watch and of a list that a proxy reads, in Kubernetes' protobuf: versions, and how many slices there
//! are. All else is skipped as it arrives, so that a thousand proxies fit beside a run.

/// How much of an event is looked at: its type and the beginning of its object's metadata, in which the version comes
/// before labels, annotations and managed fields.
const HEAD: usize = 4096;
/// The length of the length before each event.
const PREFIX: usize = 4;
/// The beginning of an envelope.
const MAGIC: &[u8] = b"k8s\0";
/// No event is as long: etcd takes no object of more than a few MiB.
const LONGEST: usize = 1 << 28;

/// The data of an answer are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Malformed;

/// One event of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    Added(u64),
    Modified(u64),
    Deleted(u64),
    Bookmark(u64),
    /// With the code of its status.
    Error(u64),
}

/// Splits a watch into its events.
#[derive(Default)]
pub(super) struct Frames {
    /// The beginning of an event, too short to be read.
    part: Vec<u8>,
    /// An event that was read, and how many bytes of it are yet to come.
    pending: Option<Event>,
    skip: usize,
}

/// Reads a list as it arrives.
#[derive(Default)]
pub(super) struct Listing {
    at: Place,
    /// The beginning of a field, too short to be read.
    part: Vec<u8>,
    /// How many bytes of a field are yet to come and not looked at.
    skip: usize,
    pub(super) version: Option<u64>,
    pub(super) slices: u64,
}

/// Where in a list the next byte is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Magic,
    Envelope,
    List,
}

/// A field of a message.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Value<'a> {
    Number(u64),
    /// The bytes of it that are there.
    Bytes(&'a [u8]),
}

// === impl Frames ===

impl Frames {
    /// Takes the next piece of the answer, and hands on each event that has arrived whole.
    pub(super) fn feed(&mut self, piece: &[u8], mut each: impl FnMut(Event)) -> Result<(), Malformed> {
        let joined = join(&mut self.part, piece);
        let mut bytes = joined.as_deref().unwrap_or(piece);
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if self.skip == 0
                && let Some(event) = self.pending.take()
            {
                each(event);
            }
            let length = frame_len(bytes)?;
            let Some(length) = length.filter(|length| bytes.len() >= HEAD.min(*length)) else {
                self.part.extend_from_slice(bytes);
                return Ok(());
            };
            let (head, rest) = bytes.split_at(HEAD.min(length));
            self.pending = Some(event(&head[PREFIX..])?);
            self.skip = length - head.len();
            bytes = rest;
        }
    }
}

/// Joins the rest of an earlier piece and this piece; none if there was no rest.
fn join(part: &mut Vec<u8>, piece: &[u8]) -> Option<Vec<u8>> {
    if part.is_empty() {
        return None;
    }
    let mut joined = std::mem::take(part);
    joined.extend_from_slice(piece);
    Some(joined)
}

/// The length of an event with its prefix, if the prefix is there.
fn frame_len(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some(prefix) = bytes.first_chunk::<PREFIX>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length == 0 || length > LONGEST {
        return Err(Malformed);
    }
    Ok(Some(PREFIX + length))
}

/// Reads an event, whose end may be missing.
fn event(message: &[u8]) -> Result<Event, Malformed> {
    let kind = bytes_of(message, 1).ok_or(Malformed)?;
    let envelope = bytes_of(bytes_of(message, 2).ok_or(Malformed)?, 1).ok_or(Malformed)?;
    let object = bytes_of(envelope.strip_prefix(MAGIC).ok_or(Malformed)?, 2).ok_or(Malformed)?;
    if kind == b"ERROR" {
        return match find(object, 6) {
            Some(Value::Number(code)) => Ok(Event::Error(code)),
            _ => Ok(Event::Error(0)),
        };
    }
    let version = bytes_of(object, 1).and_then(|metadata| bytes_of(metadata, 6));
    let version = version.and_then(number).ok_or(Malformed)?;
    match kind {
        b"ADDED" => Ok(Event::Added(version)),
        b"MODIFIED" => Ok(Event::Modified(version)),
        b"DELETED" => Ok(Event::Deleted(version)),
        b"BOOKMARK" => Ok(Event::Bookmark(version)),
        _ => Err(Malformed),
    }
}

// === impl Listing ===

impl Listing {
    /// Takes the next piece of the answer.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<(), Malformed> {
        let joined = join(&mut self.part, piece);
        let mut bytes = joined.as_deref().unwrap_or(piece);
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let read = self.read(bytes)?;
            if read == 0 && bytes.len() > HEAD {
                return Err(Malformed);
            }
            if read == 0 {
                self.part.extend_from_slice(bytes);
                return Ok(());
            }
            bytes = &bytes[read..];
        }
    }

    /// Reads one field, and says how many bytes of it; none if not enough of it is there.
    fn read(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        if self.at == Place::Magic {
            if bytes.len() < MAGIC.len() {
                return Ok(0);
            }
            if !bytes.starts_with(MAGIC) {
                return Err(Malformed);
            }
            self.at = Place::Envelope;
            return Ok(MAGIC.len());
        }
        let Some((tag, after)) = varint(bytes) else {
            return Ok(0);
        };
        let Some((length, after)) = varint(after) else {
            return Ok(0);
        };
        let head = bytes.len() - after.len();
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        match (self.at, tag >> 3, tag & 7) {
            (Place::Envelope, 2, 2) => self.at = Place::List,
            (Place::List, 1, 2) => {
                let Some(metadata) = after.get(..length) else {
                    return Ok(0);
                };
                self.version = bytes_of(metadata, 2).and_then(number);
                return Ok(head + length);
            }
            (Place::List, 2, 2) => {
                self.slices += 1;
                self.skip = length;
            }
            (_, _, 2) => self.skip = length,
            // No other field of these messages is anything but bytes.
            _ => return Err(Malformed),
        }
        Ok(head)
    }
}

/// The contents of a field of bytes, as far as they are there.
fn bytes_of(message: &[u8], wanted: u64) -> Option<&[u8]> {
    match find(message, wanted)? {
        Value::Bytes(bytes) => Some(bytes),
        Value::Number(_) => None,
    }
}

fn find(mut message: &[u8], wanted: u64) -> Option<Value<'_>> {
    loop {
        let (tag, rest) = varint(message)?;
        let (value, rest) = value(tag & 7, rest)?;
        if tag >> 3 == wanted {
            return Some(value);
        }
        message = rest;
    }
}

/// A field's value and what follows it.
fn value(wire: u64, bytes: &[u8]) -> Option<(Value<'_>, &[u8])> {
    match wire {
        0 => varint(bytes).map(|(number, rest)| (Value::Number(number), rest)),
        1 => Some((Value::Number(0), bytes.get(8..)?)),
        5 => Some((Value::Number(0), bytes.get(4..)?)),
        2 => {
            let (length, rest) = varint(bytes)?;
            let length = usize::try_from(length).ok()?;
            let (value, rest) = rest.split_at(length.min(rest.len()));
            Some((Value::Bytes(value), rest))
        }
        _ => None,
    }
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (place, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * place).min(63);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[place + 1..]));
        }
    }
    None
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = value.len();
        while length > 0x7f {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(value);
        out
    }

    fn slice(version: &str, size: usize) -> Vec<u8> {
        let metadata = [
            field(1, b"web-x7f2k"),
            field(3, b"shop"),
            field(6, version.as_bytes()),
        ];
        [field(1, &metadata.concat()), field(2, &vec![7; size])].concat()
    }

    fn envelope(object: &[u8]) -> Vec<u8> {
        let meta = [field(1, b"discovery.k8s.io/v1"), field(2, b"EndpointSlice")].concat();
        let unknown = [field(1, &meta), field(2, object), field(3, b""), field(4, b"")];
        [MAGIC, &unknown.concat()].concat()
    }

    fn frame(kind: &str, object: &[u8]) -> Vec<u8> {
        let event = [field(1, kind.as_bytes()), field(2, &field(1, &envelope(object)))].concat();
        [&(event.len() as u32).to_be_bytes()[..], &event].concat()
    }

    fn read(data: &[u8], piece: usize) -> Vec<Event> {
        let (mut frames, mut events) = (Frames::default(), Vec::new());
        for piece in data.chunks(piece) {
            frames.feed(piece, |event| events.push(event)).unwrap();
        }
        events
    }

    #[test]
    fn events_are_read_wherever_the_pieces_of_an_answer_are_cut() {
        let gone = [field(3, b"too old resource version"), vec![6 << 3, 0x9a, 3]].concat();
        let data = [
            frame("ADDED", &slice("7", 10)),
            frame("MODIFIED", &slice("123456789", 3 * HEAD)),
            frame("BOOKMARK", &slice("123456790", 0)),
            frame("DELETED", &slice("123456791", 300)),
            frame("ERROR", &gone),
        ]
        .concat();
        let expected = [
            Event::Added(7),
            Event::Modified(123_456_789),
            Event::Bookmark(123_456_790),
            Event::Deleted(123_456_791),
            Event::Error(410),
        ];
        for piece in [1, 2, 3, 5, 64, 4095, 4096, 4097, data.len()] {
            assert_eq!(read(&data, piece), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn an_event_counts_when_its_last_byte_has_arrived() {
        let data = frame("ADDED", &slice("7", 2 * HEAD));
        let (mut frames, mut events) = (Frames::default(), 0);
        frames.feed(&data[..data.len() - 1], |_| events += 1).unwrap();
        assert_eq!(events, 0);
        assert!(frames.part.is_empty(), "what is not looked at is not kept");
        frames.feed(&data[data.len() - 1..], |_| events += 1).unwrap();
        assert_eq!(events, 1);
    }

    #[test]
    fn a_list_is_counted_wherever_its_pieces_are_cut() {
        let metadata = [field(1, b""), field(2, b"4711")].concat();
        let mut list = field(1, &metadata);
        for size in [0, 10, 3 * HEAD, 200] {
            list.extend(field(2, &slice("9", size)));
        }
        let data = envelope(&list);
        for piece in [1, 2, 7, 100, 5000, data.len()] {
            let mut listing = Listing::default();
            for piece in data.chunks(piece) {
                listing.feed(piece).unwrap();
            }
            assert_eq!(
                (listing.version, listing.slices),
                (Some(4711), 4),
                "pieces of {piece}"
            );
        }
    }

    #[test]
    fn other_data_is_refused() {
        let refused = |data: &[u8]| Frames::default().feed(data, |_| {});
        assert_eq!(refused(b"{\"type\":\"ADDED\",\"object\":{}}"), Err(Malformed));
        assert_eq!(refused(&frame("ADDED", b"")), Err(Malformed));
        assert_eq!(refused(&frame("OTHER", &slice("7", 1))), Err(Malformed));
        assert_eq!(refused(&[0; 8]), Err(Malformed));
        assert_eq!(Listing::default().feed(b"{\"kind\":\"List\"}"), Err(Malformed));
    }
}
