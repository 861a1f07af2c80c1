//! From protobuf to JSON: what the same object would be if Go had decoded the message and encoded it as JSON.

use super::table::{MESSAGES, Message, Numbers, Target, wire_of};
use super::wire::{Fault, LENGTH, Raw, Reader};
use crate::schema::{Field, Rule, Shape};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// The JSON of a message of this type. Fields that the type does not have are dropped.
pub(crate) fn decode(index: usize, bytes: &[u8]) -> Result<Value, Fault> {
    let mut fields = Map::new();
    read(index, bytes, &mut fields)?;
    Ok(fields.into())
}

/// Reads a message into fields of it that may be there already: a message may come in several parts.
fn read(index: usize, bytes: &[u8], fields: &mut Map<String, Value>) -> Result<(), Fault> {
    let message = &MESSAGES[index];
    read_numbers(message, message.numbers(), bytes, fields)?;
    for slot in message.slots.iter().filter(|slot| slot.always) {
        if !fields.contains_key(slot.field.name)
            && let Some(value) = zero(&slot.field.shape)
        {
            fields.insert(slot.field.name.to_owned(), value);
        }
    }
    Ok(())
}

/// A value that Go writes as JSON though it is empty.
fn zero(shape: &Shape) -> Option<Value> {
    match shape {
        Shape::Struct(index) => decode(*index, &[]).ok(),
        Shape::Quantity => Some("0".into()),
        _ => None,
    }
}

fn read_numbers(
    message: &'static Message,
    numbers: &Numbers,
    bytes: &[u8],
    fields: &mut Map<String, Value>,
) -> Result<(), Fault> {
    let mut reader = Reader::new(bytes);
    while let Some((number, raw)) = reader.field()? {
        match numbers.get(number as usize) {
            Some(Target::Slot(slot)) => read_field(message.slots[*slot].field, raw, fields)?,
            Some(Target::Within(numbers)) => {
                let Raw::Bytes(bytes) = raw else {
                    return Err(Fault::WrongWireType {
                        found: raw.wire(),
                        field: message.name.to_owned(),
                    });
                };
                read_numbers(message, numbers, bytes, fields)?;
            }
            Some(Target::Nothing) | None => {}
        }
    }
    Ok(())
}

fn read_field(field: &Field, raw: Raw<'_>, fields: &mut Map<String, Value>) -> Result<(), Fault> {
    let wrong = || Fault::WrongWireType {
        found: raw.wire(),
        field: field.name.to_owned(),
    };
    match (&field.shape, raw) {
        (Shape::List(item), Raw::Bytes(bytes)) if wire_of(item) != LENGTH => {
            // Several numbers in one field.
            let list = list_at(fields, field.name);
            let mut reader = Reader::new(bytes);
            while !reader.is_empty() {
                let number = Raw::Number(reader.varint()?);
                list.extend(value(item, number)?);
            }
        }
        (Shape::List(item), raw) => {
            if raw.wire() != wire_of(item) {
                return Err(wrong());
            }
            let value = value(item, raw)?.unwrap_or_default();
            list_at(fields, field.name).push(value);
        }
        (Shape::Map(item), Raw::Bytes(bytes)) => {
            let (key, value) = entry(item, bytes, wrong)?;
            if let Value::Object(map) = there(fields, field.name, || Map::new().into()) {
                map.insert(key, value);
            }
        }
        (Shape::Struct(index), Raw::Bytes(bytes)) => {
            if let Value::Object(fields) = there(fields, field.name, || Map::new().into()) {
                read(*index, bytes, fields)?;
            }
        }
        (shape, raw) => {
            if raw.wire() != wire_of(shape) || matches!(shape, Shape::Map(_) | Shape::Struct(_)) {
                return Err(wrong());
            }
            match value(shape, raw)? {
                Some(value) if field.rule != Rule::UnlessEmpty || !is_zero(&value) => {
                    fields.insert(field.name.to_owned(), value);
                }
                // If a field occurs twice, the last occurrence counts.
                _ => {
                    fields.remove(field.name);
                }
            }
        }
    }
    Ok(())
}

fn list_at<'f>(fields: &'f mut Map<String, Value>, name: &str) -> &'f mut Vec<Value> {
    there(fields, name, || Vec::<Value>::new().into())
        .as_array_mut()
        .expect("only this function fills fields that are lists")
}

/// A field's value, which is made if it is not there. The name becomes a text of its own only then.
fn there<'f>(fields: &'f mut Map<String, Value>, name: &str, make: impl FnOnce() -> Value) -> &'f mut Value {
    if !fields.contains_key(name) {
        fields.insert(name.to_owned(), make());
    }
    fields.get_mut(name).expect("it was put there if it was missing")
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(set) => !set,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// An entry of a map.
fn entry(item: &Shape, bytes: &[u8], wrong: impl Fn() -> Fault) -> Result<(String, Value), Fault> {
    let (mut key, mut found) = (String::new(), None);
    let mut reader = Reader::new(bytes);
    while let Some((number, raw)) = reader.field()? {
        match (number, raw) {
            (1, Raw::Bytes(bytes)) => key = text(bytes),
            (2, raw) => {
                found = match (item, raw) {
                    (Shape::List(item), Raw::Bytes(bytes)) => Some(list(item, bytes)?),
                    (item, raw) if raw.wire() == wire_of(item) => value(item, raw)?,
                    _ => return Err(wrong()),
                }
            }
            (1, _) => return Err(wrong()),
            _ => {}
        }
    }
    let empty = || match item {
        Shape::Text => "".into(),
        Shape::Integer | Shape::Long => 0.into(),
        Shape::Boolean => false.into(),
        item => zero(item).unwrap_or_default(),
    };
    Ok((key, found.unwrap_or_else(empty)))
}

/// A list in a message of its own.
fn list(item: &Shape, bytes: &[u8]) -> Result<Value, Fault> {
    let (mut reader, mut items) = (Reader::new(bytes), Vec::new());
    while let Some((number, raw)) = reader.field()? {
        if number == 1 && raw.wire() == wire_of(item) {
            items.extend(value(item, raw)?);
        }
    }
    Ok(items.into())
}

/// One value, already known to be written as its shape is; none where Go writes null.
fn value(shape: &Shape, raw: Raw<'_>) -> Result<Option<Value>, Fault> {
    Ok(Some(match (shape, raw) {
        (Shape::Integer, Raw::Number(number)) => i64::from(number as i32).into(),
        (Shape::Long, Raw::Number(number)) => number.cast_signed().into(),
        (Shape::Boolean, Raw::Number(number)) => (number != 0).into(),
        (Shape::Text, Raw::Bytes(bytes)) => text(bytes).into(),
        (Shape::IntegerOrText, Raw::Bytes(bytes)) => return integer_or_text(bytes).map(Some),
        (Shape::Quantity, Raw::Bytes(bytes)) => {
            let text = text(single(bytes)?);
            if text.is_empty() { "0".into() } else { text.into() }
        }
        (Shape::Time | Shape::MicroTime, Raw::Bytes(bytes)) => {
            return time(bytes, matches!(shape, Shape::MicroTime));
        }
        (Shape::Any, Raw::Bytes(bytes)) => {
            let json = single(bytes)?;
            if json.is_empty() {
                return Ok(None);
            }
            serde_json::from_slice(json).map_err(|error| Fault::Json(error.to_string()))?
        }
        (Shape::Struct(index), Raw::Bytes(bytes)) => decode(*index, bytes)?,
        _ => return Ok(None),
    }))
}

/// Go's strings are any bytes, and are put right when they become JSON.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes of a message that has nothing else.
fn single(bytes: &[u8]) -> Result<&[u8], Fault> {
    let (mut reader, mut found) = (Reader::new(bytes), &[][..]);
    while let Some((number, raw)) = reader.field()? {
        if let (1, Raw::Bytes(bytes)) = (number, raw) {
            found = bytes;
        }
    }
    Ok(found)
}

fn integer_or_text(bytes: &[u8]) -> Result<Value, Fault> {
    let (mut kind, mut number, mut string) = (0, 0, &[][..]);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field()? {
        match field {
            (1, Raw::Number(given)) => kind = given,
            (2, Raw::Number(given)) => number = given as i32,
            (3, Raw::Bytes(given)) => string = given,
            _ => {}
        }
    }
    Ok(if kind == 0 {
        number.into()
    } else {
        text(string).into()
    })
}

/// A time as Go writes it in JSON; none for the zero time.
fn time(bytes: &[u8], micros: bool) -> Result<Option<Value>, Fault> {
    let (mut seconds, mut nanos) = (0i64, 0i32);
    let mut reader = Reader::new(bytes);
    while let Some(field) = reader.field()? {
        match field {
            (1, Raw::Number(given)) => seconds = given.cast_signed(),
            (2, Raw::Number(given)) => nanos = given as i32,
            _ => {}
        }
    }
    // A Time has whole seconds alone. A time that no calendar has is left out.
    let nanos = if micros { nanos / 1000 * 1000 } else { 0 };
    let at = Timestamp::new(seconds, nanos).ok().filter(|_| !bytes.is_empty());
    Ok(at.map(|at| {
        if micros {
            format!("{at:.6}")
        } else {
            at.to_string()
        }
        .into()
    }))
}
