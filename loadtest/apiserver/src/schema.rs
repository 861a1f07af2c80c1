//! The types of the API: their fields, when these are written, and how lists and maps are merged.

use crate::kinds::Kind;
use serde_json::Value;
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
    pub(crate) merge: Merge,
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
    /// Taken as one where its parts could have owners of their own.
    pub(crate) atomic: bool,
}

/// How a field is merged: with patches, and with what others own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    /// By its shape: structs and maps field by field, all else as one.
    Whole,
    /// A map taken as one.
    Atomic,
    /// A list of texts that each have owners of their own.
    Set,
    /// A list of objects known by keys, each with what it is when absent.
    Keyed {
        keys: Vec<(&'static str, Option<&'static str>)>,
        /// Whether a strategic merge patch goes by the first key too, and may say which fields are to be retained.
        patch: bool,
        retain: bool,
    },
}

/// All types, and where each is.
pub(crate) struct Schema {
    pub(crate) structs: Vec<Struct>,
    /// Each struct as a shape.
    shapes: Vec<Shape>,
    index: BTreeMap<&'static str, usize>,
}

pub(crate) static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| Schema::parse(include_str!("schema.txt"), include_str!("merge.txt")));

/// A place in the objects of a kind: what is there, and how it is merged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    shape: &'a Shape,
    field: Option<&'a Field>,
}

/// How a place is walked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form<'a> {
    /// As one.
    Leaf,
    Struct,
    Map,
    Set,
    Keyed(&'a Field),
}

/// The shape of an unknown field, which is taken as a value of any type.
static UNKNOWN: Shape = Shape::Any;

impl Place<'static> {
    /// The whole object.
    pub(crate) fn root(kind: Kind) -> Self {
        Self {
            shape: &SCHEMA.shapes[SCHEMA.root(kind)],
            field: None,
        }
    }
}

impl<'a> Place<'a> {
    pub(crate) fn form(self) -> Form<'a> {
        match (self.field.map(|field| &field.merge), self.shape) {
            (Some(Merge::Atomic), _) => Form::Leaf,
            (Some(Merge::Set), _) => Form::Set,
            (Some(Merge::Keyed { .. }), _) => self.field.map_or(Form::Leaf, Form::Keyed),
            (_, Shape::Struct(index)) if !SCHEMA.structs[*index].atomic => Form::Struct,
            (_, Shape::Map(_)) => Form::Map,
            _ => Form::Leaf,
        }
    }

    /// The place of a field, or of a map's value.
    pub(crate) fn child(self, name: &str) -> Place<'a> {
        let (shape, field) = match self.shape {
            Shape::Struct(index) => match SCHEMA.structs[*index].field(name) {
                Some(field) => (&field.shape, Some(field)),
                None => (&UNKNOWN, None),
            },
            Shape::Map(item) => (&**item, None),
            _ => (&UNKNOWN, None),
        };
        Place { shape, field }
    }

    /// The place of a list's item.
    pub(crate) fn item(self) -> Place<'a> {
        let shape = match self.shape {
            Shape::List(item) => item,
            _ => &UNKNOWN,
        };
        Place { shape, field: None }
    }
}

impl Struct {
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let at = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        Some(&self.fields[at])
    }
}

impl Field {
    /// The identity of an item of a keyed list; none when a key without a default is missing.
    pub(crate) fn key_of(&self, item: &Value) -> Option<BTreeMap<&'static str, Value>> {
        let Merge::Keyed { keys, .. } = &self.merge else {
            return None;
        };
        keys.iter()
            .map(|(key, default)| {
                let given = item.get(key).filter(|value| !value.is_null()).cloned();
                Some((*key, given.or_else(|| default.map(Value::from))?))
            })
            .collect()
    }
}

/// Reads a line of `merge.txt`.
fn read_merge(line: &'static str, index: &BTreeMap<&str, usize>, structs: &mut [Struct]) {
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return };
    let at = |name: &str| {
        *index
            .get(name)
            .expect("each type the table of merges names is in that of types")
    };
    if first == "atomic" {
        for name in words {
            structs[at(name)].atomic = true;
        }
        return;
    }
    let kind = &mut structs[at(first)];
    for word in words {
        let (name, how) = word
            .split_once(':')
            .expect("each field of the table of merges has a rule");
        let field = kind.fields.iter_mut().find(|field| field.name == name);
        let field = field.expect("each field of the table of merges is in that of types");
        field.merge = match how {
            "set" => Merge::Set,
            "atomic" => Merge::Atomic,
            keyed => {
                let (keys, flags) = keyed.split_once('/').unwrap_or((keyed, ""));
                Merge::Keyed {
                    keys: keys
                        .split(',')
                        .map(|key| {
                            key.split_once('=')
                                .map_or((key, None), |(key, value)| (key, Some(value)))
                        })
                        .collect(),
                    patch: flags != "apply",
                    retain: flags == "retain",
                }
            }
        };
    }
}

/// Two types are called otherwise in the table, because names there are unique.
pub(crate) fn go_name(name: &str) -> &str {
    match name {
        "SlicePort" => "EndpointPort",
        "NewEvent" => "Event",
        "NewEventSeries" => "EventSeries",
        name => name,
    }
}

impl Schema {
    fn parse(text: &'static str, merges: &'static str) -> Self {
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
                merge: Merge::Whole,
            }
        };
        let structs = rows.iter().map(|(name, words)| {
            let mut fields: Vec<Field> = words.iter().map(field).collect();
            fields.sort_by_key(|f| f.name);
            Struct {
                name,
                fields,
                atomic: false,
            }
        });
        let mut structs: Vec<Struct> = structs.collect();
        for line in merges.lines().filter(|l| !l.starts_with('#')) {
            read_merge(line, &index, &mut structs);
        }
        Self {
            shapes: (0..structs.len()).map(Shape::Struct).collect(),
            structs,
            index,
        }
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
