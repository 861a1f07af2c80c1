//! The codec against what a real server sent: the same objects in JSON and in protobuf.

use super::wire::{Raw, Reader};
use super::{
    Type, decode, encode, event_object, event_type, frame_len, open, split_events, write_event, write_object,
};
use crate::json::without_nulls;
use crate::schema::{Rule, SCHEMA, Shape};
use crate::{catalog, registry};
use jiff::Timestamp;
use serde_json::Value;

const POD: Type<'static> = Type {
    api_version: "v1",
    kind: "Pod",
};

fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/wire/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn fields(message: &[u8], number: u32) -> Vec<&[u8]> {
    let mut reader = Reader::new(message);
    let mut found = Vec::new();
    while let Some((n, raw)) = reader.field().unwrap() {
        if let (true, Raw::Bytes(bytes)) = (n == number, raw) {
            found.push(bytes);
        }
    }
    found
}

/// The first place where two messages differ, with what is around it.
fn same_bytes(what: &str, ours: &[u8], theirs: &[u8]) {
    if ours == theirs {
        return;
    }
    let at = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
    let around = |bytes: &[u8]| {
        bytes[at.saturating_sub(60)..bytes.len().min(at + 60)]
            .escape_ascii()
            .to_string()
    };
    panic!(
        "{what} differs at {at}:\nours   {}\ntheirs {}",
        around(ours),
        around(theirs)
    );
}

#[test]
fn lists_byte_for_byte() {
    for (name, kind) in [
        ("pods.list", "Pod"),
        ("nodes.list", "Node"),
        ("services.list", "Service"),
        ("endpoints.list", "Endpoints"),
        ("endpointslices.list", "EndpointSlice"),
        ("endpointslices.metadata", "PartialObjectMetadata"),
    ] {
        let (json, pb) = (file(&format!("{name}.json")), file(&format!("{name}.pb")));
        let list: Value = serde_json::from_slice(&json).unwrap();
        let opened = open(&pb).unwrap();
        assert_eq!(opened.kind, list["kind"]);
        assert_eq!(opened.api_version, list["apiVersion"]);
        let meta = encode(SCHEMA.named("ListMeta"), list["metadata"].to_string().as_bytes());
        same_bytes(name, &meta, fields(opened.raw, 1)[0]);
        let index = SCHEMA.named(kind);
        let items = fields(opened.raw, 2);
        assert_eq!(items.len(), list["items"].as_array().unwrap().len());
        assert!(!items.is_empty());
        for (item, message) in list["items"].as_array().unwrap().iter().zip(items) {
            same_bytes(name, &encode(index, item.to_string().as_bytes()), message);
            let mut item = item.clone();
            item.as_object_mut()
                .unwrap()
                .retain(|key, _| key != "kind" && key != "apiVersion");
            let mut read = decode(index, message).unwrap();
            without_nulls(&mut read);
            without_nulls(&mut item);
            assert_eq!(read, item, "{name}");
        }
    }
}

/// The event of a frame: its type, the type of its object and its message.
fn event(frame: &[u8]) -> (String, String, &[u8]) {
    let opened = open(event_object(frame).unwrap()).unwrap();
    let told = String::from_utf8(event_type(frame).to_vec()).unwrap();
    (told, opened.kind, opened.raw)
}

#[test]
fn watches_byte_for_byte() {
    let (lines, stream) = (file("pods.watch.jsonl"), file("pods.watch.pb"));
    let lines: Vec<Value> = std::str::from_utf8(&lines)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let frames = split_events(&stream);
    assert_eq!(frames.len(), lines.len());
    for (line, frame) in lines.iter().zip(frames) {
        let (told, kind, message) = event(frame);
        assert_eq!(
            (line["type"].as_str(), kind.as_str()),
            (Some(told.as_str()), "Pod")
        );
        let ours = encode(SCHEMA.named("Pod"), line["object"].to_string().as_bytes());
        if told != "BOOKMARK" {
            same_bytes("pods.watch", &ours, message);
        }
        let mut again = Vec::new();
        write_event(&mut again, &told, POD, message);
        same_bytes("the frame", &again, frame);
    }
}

/// Messages without a twin in JSON: read and written again they are the same.
#[test]
fn there_and_back() {
    let mut messages = Vec::new();
    for name in ["request.put.slice.txt", "get.not-found.pb"] {
        let bytes = file(name);
        let opened = open(&bytes).unwrap();
        let of = Type {
            api_version: &opened.api_version,
            kind: &opened.kind,
        };
        let mut again = Vec::new();
        write_object(&mut again, of, opened.raw);
        same_bytes(name, &again, &bytes);
        messages.push((name, opened.kind.clone(), opened.raw.to_vec()));
    }
    let name = "watch.metadata.pb";
    let bytes = file(name);
    messages.extend(split_events(&bytes).into_iter().map(|frame| {
        let (_, kind, message) = event(frame);
        (name, kind, message.to_vec())
    }));
    let leases = file("lease.list.pb");
    for lease in fields(open(&leases).unwrap().raw, 2) {
        messages.push(("lease.list.pb", "Lease".to_owned(), lease.to_vec()));
    }
    assert!(messages.len() > 3);
    for (name, kind, message) in messages {
        let index = SCHEMA.named(&kind);
        let json = decode(index, &message).unwrap();
        same_bytes(name, &encode(index, json.to_string().as_bytes()), &message);
    }
}

#[test]
fn every_field_of_a_kind_has_a_number() {
    for kind in catalog::all() {
        let (mut seen, mut next) = (vec![SCHEMA.root(kind)], 0);
        while let Some(index) = seen.get(next).copied() {
            for field in &SCHEMA.structs[index].fields {
                assert!(
                    field.tag.is_some(),
                    "{}.{} has no number",
                    SCHEMA.structs[index].name,
                    field.name
                );
                let mut shape = &field.shape;
                while let Shape::List(item) | Shape::Map(item) = shape {
                    shape = item;
                }
                if let Shape::Struct(index) = shape
                    && !seen.contains(index)
                {
                    seen.push(*index);
                }
            }
            next += 1;
        }
    }
}

/// A random object as Go writes one in JSON: what is no pointer is there, what is empty is not.
struct Making(fastrand::Rng);

impl Making {
    fn object(&mut self, index: usize, depth: usize) -> Value {
        let mut object = serde_json::Map::new();
        for field in &SCHEMA.structs[index].fields {
            let tag = field.tag.unwrap();
            let value_and_no_pointer = tag.always
                && matches!(
                    field.shape,
                    Shape::Struct(_) | Shape::Quantity | Shape::IntegerOrText
                );
            let there = field.rule == Rule::Always || value_and_no_pointer;
            if !there && (depth > 6 || self.0.u8(..3) > 0) {
                continue;
            }
            let empty = field.rule != Rule::UnlessEmpty && self.0.bool();
            object.insert(field.name.to_owned(), self.value(&field.shape, depth, empty));
        }
        object.into()
    }

    fn text(&mut self) -> String {
        let texts = ["a", "\u{e4}\u{20ac}", "with \"quotes\" and \\ and \n", "x"];
        let text = texts[self.0.usize(..texts.len())];
        // Lengths of one byte and of two.
        text.repeat(if self.0.u8(..8) == 0 { 90 } else { 1 })
    }

    fn value(&mut self, shape: &Shape, depth: usize, empty: bool) -> Value {
        match shape {
            Shape::Text if empty => "".into(),
            Shape::Integer | Shape::Long if empty => 0.into(),
            Shape::IntegerOrText if self.0.bool() => self.0.i32(..).into(),
            Shape::Text | Shape::IntegerOrText => self.text().into(),
            Shape::Integer => (i64::from(self.0.i32(..)) | 1).into(),
            Shape::Long => (self.0.i64(..) | 1).into(),
            Shape::Boolean => (!empty).into(),
            Shape::Quantity => "100m".into(),
            Shape::Time => Timestamp::from_second(self.0.i64(-62_000_000_000..200_000_000_000))
                .unwrap()
                .to_string()
                .into(),
            Shape::MicroTime => {
                let at = Timestamp::from_microsecond(self.0.i64(-60_000_000_000_000..1_800_000_000_000_000));
                format!("{:.6}", at.unwrap()).into()
            }
            Shape::Any => serde_json::json!({"f:metadata": {".": {}, "n": self.0.i32(..)}}),
            Shape::List(item) => (0..self.0.usize(1..4))
                .map(|_| self.value(item, depth + 1, false))
                .collect(),
            Shape::Map(item) => (0..self.0.usize(1..4))
                .map(|_| (self.text(), self.value(item, depth + 1, false)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            Shape::Struct(index) => self.object(*index, depth + 1),
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 200, failure_persistence: None, ..Default::default()
    })]

    #[test]
    fn what_is_written_is_read(seed: u64) {
        for kind in catalog::all() {
            let index = SCHEMA.root(kind);
            let object = Making(fastrand::Rng::with_seed(seed)).object(index, 0);
            let message = encode(index, object.to_string().as_bytes());
            let read = decode(index, &message).unwrap();
            proptest::prop_assert_eq!(&read, &object, "{}", kind.kind);
            // In the other order of fields too, and as the registry would keep what was read.
            let kept = registry::decode_value(kind, object).unwrap();
            proptest::prop_assert_eq!(registry::decode_value(kind, read).unwrap(), kept);
        }
    }

    #[test]
    fn broken_messages_are_refused_or_read(seed: u64, cut: proptest::sample::Index, at: proptest::sample::Index, byte: u8) {
        let kind = catalog::kind("Pod");
        let index = SCHEMA.root(kind);
        let object = Making(fastrand::Rng::with_seed(seed)).object(index, 0);
        let mut message = encode(index, object.to_string().as_bytes()).to_vec();
        let at = at.index(message.len());
        message[at] = byte;
        let mut envelope = Vec::new();
        write_object(&mut envelope, POD, &message);
        envelope.truncate(cut.index(envelope.len()) + 1);
        for bytes in [&message[..], &envelope] {
            if let Ok(read) = decode(index, bytes) {
                // A byte makes at most a value, and values are some tens of bytes.
                proptest::prop_assert!(read.to_string().len() < bytes.len() * 300 + 2000);
                encode(index, read.to_string().as_bytes());
            }
            let _ = open(bytes);
        }
        for pointer in ["/metadata/labels", "/spec/containers/0/name", "/spec/volumes/1"] {
            let _ = super::wrong_type(&envelope, index, pointer);
        }
        let _ = (frame_len(&envelope), event_type(&envelope), super::malformed(&envelope));
    }
}
