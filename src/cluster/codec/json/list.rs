//! Splits a list while it arrives: into its items, one by one, and the rest.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr2;

/// Splits the JSON of a list into the elements of its `items` and the rest. It is fed as the list arrives, and holds no
/// more of it than the item that is not complete yet.
///
/// The input should be JSON. If it is not, neither is the output, and the parser behind this reports the error.
#[derive(Debug, Default)]
pub(in crate::cluster::codec) struct ListSplitter {
    /// The incomplete item; outside of items, an incomplete key.
    buffer: BytesMut,
    /// Number of bytes of the buffer that have been scanned.
    scanned: usize,
    /// Number of objects and arrays that are open here.
    depth: u32,
    /// Set within a string: whether its next byte is escaped.
    text: Option<Escaped>,
    /// Start of the last string outside of items.
    key: usize,
    /// Set when the last string outside of items was `"items"`.
    named: bool,
    /// Set within the array of items.
    inside: bool,
    /// Length of the last item.
    last: usize,
    envelope: Vec<u8>,
}

/// True after a backslash that is not itself escaped.
type Escaped = bool;

/// Nesting depth of the list's own fields, and of its items.
const FIELDS: u32 = 1;
const ITEMS: u32 = 2;

impl ListSplitter {
    /// Adds data.
    pub(in crate::cluster::codec) fn feed(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    /// Returns the next item, once it is complete. Before an item is scanned for its end, `parse` gets all data from its
    /// beginning on, if as much has arrived as the last item was long. If the item is whole, it may take it from there,
    /// and returns its length.
    pub(in crate::cluster::codec) fn next_item(
        &mut self,
        mut parse: impl FnMut(&[u8]) -> Option<usize>,
    ) -> Option<Bytes> {
        while let Some(&byte) = self.buffer.get(self.scanned) {
            let at = self.scanned;
            self.scanned += 1;
            if let Some(escaped) = self.text {
                self.text = self.go_on_in_text(at, byte, escaped);
                continue;
            }
            match byte {
                b'"' => {
                    self.text = Some(false);
                    self.key = at;
                }
                b'{' | b'[' => {
                    if self.inside && self.depth == ITEMS {
                        // Drop the separator before the item.
                        self.buffer.advance(at);
                        self.scanned = 1;
                        let enough = self.buffer.len() >= self.last;
                        if let Some(length) = enough.then(|| parse(&self.buffer)).flatten() {
                            self.buffer.advance(length);
                            (self.scanned, self.last) = (0, length);
                            continue;
                        }
                    } else if byte == b'[' && self.depth == FIELDS && self.named {
                        self.inside = true;
                        self.leave_out(at + 1);
                    }
                    self.depth += 1;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.inside && self.depth == ITEMS {
                        let item = self.buffer.split_to(self.scanned).freeze();
                        (self.scanned, self.last) = (0, item.len());
                        return Some(item);
                    }
                    if self.inside && self.depth == FIELDS {
                        self.inside = false;
                        self.named = false;
                        self.buffer.advance(at);
                        self.scanned = 1;
                    }
                }
                b',' if self.depth == FIELDS => self.named = false,
                _ => {}
            }
        }
        if !self.inside {
            self.leave_out(self.buffer.len());
        }
        None
    }

    /// Returns the list without its items, once everything has been fed.
    pub(in crate::cluster::codec) fn into_envelope(mut self) -> Vec<u8> {
        self.envelope.extend_from_slice(&self.buffer);
        self.envelope
    }

    /// Moves the bytes before a position to the envelope.
    fn leave_out(&mut self, end: usize) {
        if self.text.is_some() && end == self.buffer.len() {
            // A key can only be recognized when it is complete.
            return;
        }
        self.envelope.extend_from_slice(&self.buffer[..end]);
        self.buffer.advance(end);
        self.scanned -= end;
    }

    /// Scans a string from a position, to its end or to the end of the buffer.
    fn go_on_in_text(&mut self, at: usize, byte: u8, escaped: Escaped) -> Option<Escaped> {
        match byte {
            _ if escaped => Some(false),
            b'\\' => Some(true),
            b'"' => {
                if !self.inside && self.depth == FIELDS {
                    self.named = self.buffer[self.key..=at] == *b"\"items\"";
                }
                None
            }
            _ => {
                let rest = &self.buffer[self.scanned..];
                self.scanned += memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                Some(false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// Feeds a list in pieces of a size.
    fn split(list: &[u8], size: usize) -> (Vec<Bytes>, Vec<u8>) {
        let mut splitter = ListSplitter::default();
        let mut items = Vec::new();
        for piece in list.chunks(size) {
            splitter.feed(piece);
            while let Some(item) = splitter.next_item(|_| None) {
                items.push(item);
            }
        }
        (items, splitter.into_envelope())
    }

    /// Splits a list in the same way, but takes the items that have arrived whole where they stand.
    fn take(list: &[u8], size: usize) -> (Vec<Bytes>, Vec<u8>) {
        let mut splitter = ListSplitter::default();
        let mut items = Vec::new();
        for piece in list.chunks(size) {
            splitter.feed(piece);
            loop {
                let next = splitter.next_item(|data| {
                    let mut values = serde_json::Deserializer::from_slice(data).into_iter::<Value>();
                    values.next()?.ok()?;
                    items.push(Bytes::copy_from_slice(&data[..values.byte_offset()]));
                    Some(values.byte_offset())
                });
                match next {
                    Some(item) => items.push(item),
                    None => break,
                }
            }
        }
        (items, splitter.into_envelope())
    }

    fn check(items: &[Value], envelope: &Value, pretty: bool) {
        let mut list = envelope.clone();
        list["items"] = json!(items);
        let mut bare = envelope.clone();
        bare["items"] = json!([]);
        let text = if pretty {
            serde_json::to_vec_pretty(&list)
        } else {
            serde_json::to_vec(&list)
        };
        let text = text.unwrap();
        for size in [1, 2, 3, 7, text.len()] {
            for (found, rest) in [split(&text, size), take(&text, size)] {
                let found: Vec<Value> = found
                    .iter()
                    .map(|item| serde_json::from_slice(item).unwrap())
                    .collect();
                assert_eq!(found, items);
                let rest: Value = serde_json::from_slice(&rest).unwrap();
                assert_eq!(rest, bare);
            }
        }
    }

    #[test]
    fn the_items_of_a_list_come_one_by_one() {
        let items = [
            json!({"metadata": {"name": "a", "labels": {"items": "]}"}}, "items": [{"items": []}]}),
            json!({"a": "\\\"}]{[", "b": "\\"}),
            json!({}),
        ];
        for metadata in [
            json!({"resourceVersion": "5"}),
            json!({"items": [1], "x": "items"}),
        ] {
            let envelope = json!({"kind": "items", "apiVersion": "v1", "metadata": metadata, "z": ["items"]});
            check(&items, &envelope, false);
            check(&items, &envelope, true);
            check(&[], &envelope, false);
        }
    }

    #[test]
    fn a_list_without_items_is_all_envelope() {
        let text = br#"{"kind":"PodList","items":null,"metadata":{"resourceVersion":"7"}}"#;
        assert_eq!(split(text, 4), (vec![], text.to_vec()));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            r#"[\\"{}\[\],:a-c é]{0,6}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                object(inner),
            ]
        })
    }

    fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
        let key = prop_oneof![Just("items".to_owned()), r#"[\\"a-c\]]{0,3}"#];
        proptest::collection::btree_map(key, inner, 0..4).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #[test]
        fn whatever_the_items_hold(items in proptest::collection::vec(object(value()), 0..4), pretty: bool) {
            check(&items, &json!({"kind": "PodList", "metadata": {"continue": "x\"y"}}), pretty);
        }
    }
}
