//! The types of the API: their fields, and when these are written.

use crate::kinds::Kind;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// When a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    UnlessEmpty,
    WhenGiven,
    Always,
}

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Text,
    /// A whole number of 32 bits.
    Integer,
    /// A whole number of 64 bits.
    Long,
    Boolean,
    IntegerOrText,
    Quantity,
    Time,
    MicroTime,
    /// Taken as one.
    Any,
    List(Box<Shape>),
    Map(Box<Shape>),
    Struct(usize),
}

#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) rule: Rule,
    /// None for what protobuf does not have.
    pub(crate) tag: Option<Tag>,
}

/// A field's place in the protobuf message of its type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) number: u32,
    /// The number of the message that the field is in, where Go embeds one whose fields JSON shows as the type's own.
    pub(crate) within: Option<u32>,
    /// Whether the field is written when it is absent or empty: Go has a value for it and no pointer.
    pub(crate) always: bool,
}

#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) name: &'static str,
    /// Sorted by name.
    pub(crate) fields: Vec<Field>,
}

/// All types, and where each is.
pub(crate) struct Schema {
    pub(crate) structs: Vec<Struct>,
    index: BTreeMap<&'static str, usize>,
}

pub(crate) static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(include_str!("schema.txt")));

impl Struct {
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let at = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        Some(&self.fields[at])
    }
}

impl Schema {
    fn parse(text: &'static str) -> Self {
        let mut rows: Vec<(&'static str, Vec<&'static str>)> = Vec::new();
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let mut words = line.split_whitespace();
            if !line.starts_with(' ')
                && let Some(name) = words.next()
            {
                rows.push((name, Vec::new()));
            }
            if let Some(row) = rows.last_mut() {
                row.1.extend(words);
            }
        }
        let index: BTreeMap<&'static str, usize> = rows.iter().enumerate().map(|(i, r)| (r.0, i)).collect();
        let field = |word: &&'static str| {
            let (name, shape) = word.split_once(':').expect("each field of the table has a shape");
            let (shape, tag) = shape.split_once('=').unwrap_or((shape, ""));
            let (shape, rule) = match shape.as_bytes().last() {
                Some(b'!') => (&shape[..shape.len() - 1], Rule::Always),
                Some(b'*') => (&shape[..shape.len() - 1], Rule::WhenGiven),
                _ => (shape, Rule::UnlessEmpty),
            };
            let shape = parse_shape(shape, &index);
            Field {
                name,
                tag: (!tag.is_empty()).then(|| parse_tag(tag, &shape, rule)),
                shape,
                rule,
            }
        };
        let structs = rows.iter().map(|(name, words)| {
            let mut fields: Vec<Field> = words.iter().map(field).collect();
            fields.sort_by_key(|f| f.name);
            Struct { name, fields }
        });
        let structs = structs.collect();
        Self { structs, index }
    }

    /// The type of a kind's objects.
    pub(crate) fn root(&self, kind: Kind) -> usize {
        self.named(kind.schema)
    }

    /// The type of this name, if the table has it.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The type of this name, which must be in the table.
    pub(crate) fn named(&self, name: &str) -> usize {
        *self
            .index
            .get(name)
            .expect("the table of types has every type that is asked for")
    }
}

/// Reads a field's number. Without a mark, texts and numbers are written always unless empty differs from absent, all else
/// when it is given; `!` and `?` say otherwise.
fn parse_tag(tag: &str, shape: &Shape, rule: Rule) -> Tag {
    let number = tag.trim_end_matches(['!', '?']);
    let read = |number: &str| {
        number
            .parse()
            .expect("each number of a field in the table is a number")
    };
    let (within, number) = match number.split_once('.') {
        Some((within, number)) => (Some(read(within)), read(number)),
        None => (None, read(number)),
    };
    let scalar = matches!(shape, Shape::Text | Shape::Integer | Shape::Long | Shape::Boolean);
    let always = match &tag[tag.len() - 1..] {
        "!" => true,
        "?" => false,
        _ => scalar && rule != Rule::WhenGiven,
    };
    Tag {
        number,
        within,
        always,
    }
}

fn parse_shape(shape: &str, index: &BTreeMap<&str, usize>) -> Shape {
    let inner = |shape: &str| Box::new(parse_shape(&shape[1..shape.len() - 1], index));
    match shape {
        "s" => Shape::Text,
        "i" => Shape::Integer,
        "i64" => Shape::Long,
        "b" => Shape::Boolean,
        "x" => Shape::IntegerOrText,
        "q" => Shape::Quantity,
        "t" => Shape::Time,
        "m" => Shape::MicroTime,
        "any" => Shape::Any,
        list if list.starts_with('[') => Shape::List(inner(list)),
        map if map.starts_with('{') => Shape::Map(inner(map)),
        name => Shape::Struct(*index.get(name).expect("each type the table names is in it")),
    }
}
