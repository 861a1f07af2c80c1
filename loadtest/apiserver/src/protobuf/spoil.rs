//! Frames that a decoder refuses, for faults within watches.

use super::envelope::{Type, event_object, event_type, open, write_event};
use super::table::{MESSAGES, wire_of};
use super::wire::{LENGTH, VARINT, key, put_field, put_varint};
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
    let opened = open(event_object(frame)?).ok()?;
    let path: Vec<&str> = pointer.split('/').skip(1).collect();
    let of = Type {
        api_version: &opened.api_version,
        kind: &opened.kind,
    };
    let raw = [opened.raw, &part(index, &path)?].concat();
    let mut out = Vec::with_capacity(frame.len() + 16);
    write_event(&mut out, std::str::from_utf8(event_type(frame)).ok()?, of, &raw);
    Some(out)
}

/// A message with nothing but the field at a path, which is not written as its type is. Where it follows a message of the
/// same type, decoders take both for one. None when the type has no such field.
fn part(index: usize, path: &[&str]) -> Option<Vec<u8>> {
    let (name, rest) = path.split_first()?;
    let message = &MESSAGES[index];
    let field = message.slots[message.find(name, &mut 0)?].field;
    let tag = field.tag?;
    let mut out = Vec::new();
    put(&mut out, tag.number, &field.shape, rest)?;
    Some(match tag.within {
        None => out,
        Some(within) => {
            let mut outer = Vec::new();
            put_field(&mut outer, within, &out);
            outer
        }
    })
}

fn put(out: &mut Vec<u8>, number: u32, shape: &Shape, rest: &[&str]) -> Option<()> {
    match (shape, rest) {
        (Shape::Struct(index), [_, ..]) => put_field(out, number, &part(*index, rest)?),
        // One more item, since it is as wrong at the end of the list.
        (Shape::List(item), [_, rest @ ..]) => put(out, number, item, rest)?,
        (Shape::Map(item), [key, ..]) => {
            let mut entry = Vec::new();
            put_field(&mut entry, 1, key.as_bytes());
            put(&mut entry, 2, item, &[])?;
            put_field(out, number, &entry);
        }
        _ if wire_of(shape) == LENGTH => {
            put_varint(out, key(number, VARINT));
            out.push(7);
        }
        // Numbers of a list may come in bytes; these bytes end within a number.
        _ => put_field(out, number, &[0xff]),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::{decode, encode, frame_len};
    use crate::schema::SCHEMA;

    #[test]
    fn a_wrong_type_anywhere() {
        let pod = SCHEMA.named("Pod");
        let json = br#"{"metadata":{"labels":{"x":"y"}},"spec":{"containers":[{"name":"a"},{"name":"b"}]}}"#;
        let of = Type {
            api_version: "v1",
            kind: "Pod",
        };
        let mut frame = Vec::new();
        write_event(&mut frame, "ADDED", of, &encode(pod, json));
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
            let object = open(event_object(&spoiled).unwrap()).unwrap();
            let fault = decode(pod, object.raw).expect_err(pointer).to_string();
            assert!(fault.contains("wrong wireType"), "{pointer}: {fault}");
        }
        assert_eq!(wrong_type(&frame, pod, "/spec/nonsense"), frame);
        let malformed = malformed(&frame);
        assert_eq!(
            (frame_len(&malformed), event_type(&malformed)),
            (Some(frame.len()), &b""[..])
        );
    }
}
