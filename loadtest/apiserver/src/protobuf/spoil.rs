//! Frames that a decoder refuses, for faults within watches.

use super::envelope::{Type, open, write_event};
use super::table::{MESSAGES, wire_of};
use super::wire::{LENGTH, Raw, Reader, VARINT, key, put_field, put_varint};
use crate::schema::Shape;

/// A frame of the same length that holds no message: there is no wire type 7, wherever a decoder looks.
pub(crate) fn malformed(frame: &[u8]) -> Vec<u8> {
    let mut out = frame.to_vec();
    if let Some(first) = out.get_mut(4) {
        *first |= 7;
    }
    out
}

/// The frame with a field of its object that is not written as its type is. `index` is the type of the watched objects,
/// and `pointer` a JSON pointer into them.
pub(crate) fn wrong_type(frame: &[u8], index: usize, pointer: &str) -> Vec<u8> {
    spoiled(frame, index, pointer).unwrap_or_else(|| frame.to_vec())
}

fn spoiled(frame: &[u8], index: usize, pointer: &str) -> Option<Vec<u8>> {
    let event = frame.get(4..)?;
    let kind = std::str::from_utf8(field(event, 1)?).ok()?;
    let opened = open(field(field(event, 2)?, 1)?).ok()?;
    let path: Vec<&str> = pointer.split('/').skip(1).collect();
    let raw = rewrite(index, opened.raw, &path)?;
    let mut out = Vec::with_capacity(frame.len() + 16);
    let of = Type {
        api_version: &opened.api_version,
        kind: &opened.kind,
    };
    write_event(&mut out, kind, of, &raw);
    Some(out)
}

/// The bytes of a field.
fn field(message: &[u8], wanted: u32) -> Option<&[u8]> {
    let mut reader = Reader::new(message);
    while let Ok(Some((number, raw))) = reader.next("") {
        if let (true, Raw::Bytes(bytes)) = (number == wanted, raw) {
            return Some(bytes);
        }
    }
    None
}

/// The message with the wrong type at a path; none when it has no such field.
fn rewrite(index: usize, bytes: &[u8], path: &[&str]) -> Option<Vec<u8>> {
    let (name, rest) = path.split_first()?;
    let message = &MESSAGES[index];
    let slot = &message.slots[message.find(name, &mut 0)?];
    let tag = slot.field.tag?;
    match tag.within {
        None => change(bytes, tag.number, &slot.field.shape, rest),
        Some(within) => {
            let inner = change(
                field(bytes, within).unwrap_or(&[]),
                tag.number,
                &slot.field.shape,
                rest,
            )?;
            let mut out = without(bytes, within, None);
            put_field(&mut out, within, &inner);
            Some(out)
        }
    }
}

/// Changes the field of this number, or something in it.
fn change(bytes: &[u8], number: u32, shape: &Shape, rest: &[&str]) -> Option<Vec<u8>> {
    match (shape, rest) {
        (Shape::Struct(index), [_, ..]) => {
            let inner = rewrite(*index, field(bytes, number).unwrap_or(&[]), rest)?;
            let mut out = without(bytes, number, None);
            put_field(&mut out, number, &inner);
            Some(out)
        }
        (Shape::List(item), [at, rest @ ..]) => {
            // The item goes to the end of the list, which is as wrong there.
            let at = at.parse().ok()?;
            let mut out = without(bytes, number, Some(at));
            match (&**item, rest) {
                (Shape::Struct(index), [_, ..]) => {
                    let inner = rewrite(*index, nth(bytes, number, at).unwrap_or(&[]), rest)?;
                    put_field(&mut out, number, &inner);
                }
                (item, _) => put_wrong(&mut out, number, item),
            }
            Some(out)
        }
        (Shape::Map(item), [key, ..]) => {
            let mut entry = Vec::new();
            put_field(&mut entry, 1, key.as_bytes());
            put_wrong(&mut entry, 2, item);
            let mut out = bytes.to_vec();
            put_field(&mut out, number, &entry);
            Some(out)
        }
        _ => {
            let mut out = without(bytes, number, None);
            put_wrong(&mut out, number, shape);
            Some(out)
        }
    }
}

/// Writes a field as no value of its shape is written.
fn put_wrong(out: &mut Vec<u8>, number: u32, shape: &Shape) {
    if wire_of(shape) == LENGTH {
        put_varint(out, key(number, VARINT));
        out.push(7);
    } else {
        // Numbers of a list may come in bytes; these bytes end within a number.
        put_field(out, number, &[0xff]);
    }
}

/// The message without the fields of this number, or without the one at this place among them.
fn without(bytes: &[u8], unwanted: u32, at: Option<usize>) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    let (mut reader, mut seen, mut start) = (Reader::new(bytes), 0, 0);
    while let Ok(Some((number, _))) = reader.next("") {
        let end = bytes.len() - reader.len();
        let goes = number == unwanted && at.is_none_or(|at| at == seen);
        seen += usize::from(number == unwanted);
        if !goes {
            out.extend_from_slice(&bytes[start..end]);
        }
        start = end;
    }
    out
}

/// The bytes of one of several fields of the same number.
fn nth(message: &[u8], wanted: u32, at: usize) -> Option<&[u8]> {
    let mut reader = Reader::new(message);
    let mut seen = 0;
    while let Ok(Some((number, raw))) = reader.next("") {
        if let (true, Raw::Bytes(bytes)) = (number == wanted, raw) {
            if seen == at {
                return Some(bytes);
            }
            seen += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::{decode, encode, event_type, frame_len};
    use crate::schema::SCHEMA;

    #[test]
    fn a_wrong_type_anywhere() {
        let pod = SCHEMA.named("Pod");
        let json =
            br#"{"metadata":{"name":"a","labels":{"x":"y"}},"spec":{"containers":[{"name":"a"},{"name":"b"}],
            "volumes":[{"name":"v","emptyDir":{}}]},"status":{"phase":"Running"}}"#;
        let raw = encode(pod, json);
        let of = Type {
            api_version: "v1",
            kind: "Pod",
        };
        let mut frame = Vec::new();
        write_event(&mut frame, "ADDED", of, &raw);
        for pointer in [
            "/metadata",
            "/metadata/labels",
            "/metadata/labels/x",
            "/metadata/generation",
            "/spec/containers",
            "/spec/containers/1",
            "/spec/containers/1/name",
            "/spec/volumes/0/emptyDir",
            "/spec/hostNetwork",
            "/status/podIPs",
        ] {
            let spoiled = wrong_type(&frame, pod, pointer);
            assert_eq!(frame_len(&spoiled), Some(spoiled.len()), "{pointer}");
            assert_eq!(event_type(&spoiled), b"ADDED");
            let object = open(field(field(&spoiled[4..], 2).unwrap(), 1).unwrap()).unwrap();
            let fault = decode(pod, object.raw).expect_err(pointer).to_string();
            assert!(fault.contains("wrong wireType"), "{pointer}: {fault}");
        }
        assert_eq!(wrong_type(&frame, pod, "/spec/nonsense"), frame);
        let malformed = malformed(&frame);
        assert_eq!(frame_len(&malformed), Some(frame.len()));
        assert_eq!(event_type(&malformed), b"");
    }
}
