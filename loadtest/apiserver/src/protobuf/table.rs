//! The messages of the API's types, made from the table of types.

use super::wire::{LENGTH, VARINT, key, put_field, put_varint};
use crate::schema::{Field, SCHEMA, Shape};
use std::ops::Range;
use std::sync::LazyLock;

/// The messages, each at its type's index.
pub(super) static MESSAGES: LazyLock<Vec<Message>> =
    LazyLock::new(|| (0..SCHEMA.structs.len()).map(Message::new).collect());

/// A message: its fields in the order in which they are written.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) name: &'static str,
    pub(super) slots: Vec<Slot>,
    pub(super) runs: Vec<Run>,
    /// The slots' names in JSON, sorted.
    names: Vec<(&'static str, u16)>,
    numbers: Numbers,
}

/// A field's place.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) field: &'static Field,
    pub(super) key: Key,
    pub(super) always: bool,
    /// Written when the field is not there; possibly nothing.
    pub(super) absent: Box<[u8]>,
}

/// Slots that follow each other: of the message itself, or of one within it.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) within: Option<Key>,
    pub(super) slots: Range<usize>,
}

/// A field's number and how it is written, as one stands before its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    bytes: [u8; 2],
    len: u8,
}

/// The fields of a message by their numbers.
pub(super) type Numbers = Vec<Target>;

/// The place of a field that has a certain number.
#[derive(Debug)]
pub(super) enum Target {
    Nothing,
    Slot(usize),
    /// A message whose fields are shown as those of the one it is in.
    Within(Numbers),
}

impl Key {
    pub(super) fn new(number: u32, wire: u8) -> Self {
        let mut bytes = Vec::with_capacity(2);
        put_varint(&mut bytes, key(number, wire));
        let mut key = [0; 2];
        // No type of Kubernetes has 2,048 fields.
        key[..bytes.len()].copy_from_slice(&bytes);
        Self {
            bytes: key,
            len: bytes.len() as u8,
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Message {
    fn new(index: usize) -> Self {
        let kind = &SCHEMA.structs[index];
        let mut fields: Vec<&'static Field> =
            kind.fields.iter().filter(|field| field.tag.is_some()).collect();
        let place = |field: &Field| {
            let tag = field.tag.unwrap_or_default();
            (tag.within.unwrap_or(tag.number), tag.number)
        };
        fields.sort_by_key(|field| place(field));
        let mut runs: Vec<Run> = Vec::new();
        let (mut last, mut numbers) = (None, Numbers::new());
        for (i, field) in fields.iter().enumerate() {
            let tag = field.tag.unwrap_or_default();
            match runs.last_mut() {
                Some(run) if tag.within == last => run.slots.end = i + 1,
                _ => runs.push(Run {
                    within: tag.within.map(|number| Key::new(number, LENGTH)),
                    slots: i..i + 1,
                }),
            }
            last = tag.within;
            let within = match tag.within {
                Some(within) => {
                    let target = at(&mut numbers, within);
                    if let Target::Nothing = target {
                        *target = Target::Within(Numbers::new());
                    }
                    match target {
                        Target::Within(numbers) => numbers,
                        _ => panic!("{}: {within} is a field and a message within", kind.name),
                    }
                }
                None => &mut numbers,
            };
            let target = at(within, tag.number);
            assert!(
                matches!(target, Target::Nothing),
                "{}: {} is the number of two fields",
                kind.name,
                tag.number
            );
            *target = Target::Slot(i);
        }
        let mut names: Vec<(&'static str, u16)> =
            fields.iter().zip(0..).map(|(field, i)| (field.name, i)).collect();
        names.sort_unstable();
        Self {
            name: kind.name,
            slots: fields.iter().map(|field| Slot::new(field)).collect(),
            runs,
            names,
            numbers,
        }
    }

    /// The slot of a field by its name in JSON. `cursor` is the name after the last one found: most objects have their
    /// fields in the order of their names.
    pub(super) fn find(&self, name: &str, cursor: &mut usize) -> Option<usize> {
        let found = match self.names.get(*cursor) {
            Some((next, slot)) if *next == name => *slot,
            _ => {
                *cursor = self
                    .names
                    .binary_search_by(|(known, _)| (*known).cmp(name))
                    .ok()?;
                self.names[*cursor].1
            }
        };
        *cursor += 1;
        Some(usize::from(found))
    }

    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }
}

impl Slot {
    fn new(field: &'static Field) -> Self {
        let tag = field.tag.unwrap_or_default();
        let mut absent = Vec::new();
        if tag.always {
            put_absent(&mut absent, tag.number, &field.shape);
        }
        Self {
            field,
            key: Key::new(tag.number, wire_of(&field.shape)),
            always: tag.always,
            absent: absent.into(),
        }
    }
}

fn at(numbers: &mut Numbers, number: u32) -> &mut Target {
    let number = number as usize;
    if numbers.len() <= number {
        numbers.resize_with(number + 1, || Target::Nothing);
    }
    &mut numbers[number]
}

/// How values of a shape are written.
pub(super) fn wire_of(shape: &Shape) -> u8 {
    match shape {
        Shape::Integer | Shape::Long | Shape::Boolean => VARINT,
        Shape::List(item) => wire_of(item),
        _ => LENGTH,
    }
}

/// Writes a field that has Go's zero value.
pub(super) fn put_absent(out: &mut Vec<u8>, number: u32, shape: &Shape) {
    match shape {
        Shape::Integer | Shape::Long | Shape::Boolean => {
            put_varint(out, key(number, VARINT));
            out.push(0);
        }
        Shape::Text | Shape::Time | Shape::MicroTime => put_field(out, number, b""),
        Shape::IntegerOrText => put_field(out, number, b"\x08\0\x10\0\x1a\0"),
        Shape::Quantity => put_field(out, number, b"\x0a\x010"),
        Shape::Struct(index) => {
            let mut inner = Vec::new();
            put_zero(&mut inner, *index);
            put_field(out, number, &inner);
        }
        Shape::Any | Shape::List(_) | Shape::Map(_) => {}
    }
}

/// Writes the message of Go's zero value of a type. It is made anew, because types are asked for before all are there.
fn put_zero(out: &mut Vec<u8>, index: usize) {
    let mut fields: Vec<&Field> = SCHEMA.structs[index].fields.iter().collect();
    fields.retain(|field| field.tag.is_some());
    fields.sort_by_key(|field| {
        field
            .tag
            .map(|tag| (tag.within.unwrap_or(tag.number), tag.number))
    });
    let mut within: Option<(u32, Vec<u8>)> = None;
    for field in fields {
        let tag = field.tag.unwrap_or_default();
        if let Some((number, inner)) = within.take_if(|(number, _)| Some(*number) != tag.within) {
            put_field(out, number, &inner);
        }
        let out = match tag.within {
            Some(number) => &mut within.get_or_insert_with(|| (number, Vec::new())).1,
            None => &mut *out,
        };
        if tag.always {
            put_absent(out, tag.number, &field.shape);
        }
    }
    if let Some((number, inner)) = within {
        put_field(out, number, &inner);
    }
}
