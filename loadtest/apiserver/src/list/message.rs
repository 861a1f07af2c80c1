//! Lists in protobuf: a message says how long it is before it begins, so that a list is measured before it is written.

use super::List;
use crate::body::ResponseBody;
use crate::object::Object;
use crate::protobuf::{self, Encoder, Type, field_len, put_field, put_field_head};
use crate::schema::SCHEMA;
use bytes::{Bytes, BytesMut};
use futures::stream;
use std::sync::Arc;

/// Lists of up to so many bytes of JSON are written at once.
const SHORT: usize = 1024 * 1024;
/// How much of a longer one is made at a time.
const CHUNK: usize = 128 * 1024;
/// How many objects are measured before others have their turn.
const BATCH: usize = 256;

/// The fields of a list.
const METADATA: u32 = 1;
const ITEMS: u32 = 2;

/// A long list on its way: measured, then written.
struct Writer {
    items: Vec<Arc<Object>>,
    metadata_only: bool,
    encoder: Encoder,
    /// The bytes of the list before its items.
    head: Bytes,
    of: (String, &'static str),
    measured: usize,
    /// The length of the items so far measured.
    len: usize,
    written: usize,
}

pub(super) fn body(list: List, metadata: &str, metadata_only: bool) -> ResponseBody {
    let mut head = BytesMut::new();
    let metadata = protobuf::encode(SCHEMA.named("ListMeta"), metadata.as_bytes());
    put_field(&mut head, METADATA, &metadata);
    let short = list.items.iter().map(|item| item.bytes.len()).sum::<usize>() <= SHORT;
    let mut writer = Writer {
        of: if metadata_only {
            (
                Type::METADATA_LIST.kind.to_owned(),
                Type::METADATA_LIST.api_version,
            )
        } else {
            (list.kind.list(), list.kind.api_version)
        },
        items: list.items,
        metadata_only,
        encoder: Encoder::default(),
        head: head.freeze(),
        measured: 0,
        len: 0,
        written: 0,
    };
    if short {
        return ResponseBody::whole(writer.at_once());
    }
    ResponseBody::stream(stream::unfold(writer, |mut writer| async move {
        let piece = writer.next().await?;
        Some((piece, writer))
    }))
}

impl Writer {
    fn of(&self) -> Type<'_> {
        Type {
            kind: &self.of.0,
            api_version: self.of.1,
        }
    }

    fn at_once(&mut self) -> Bytes {
        let mut items = BytesMut::new();
        while self.written < self.items.len() {
            self.write_item(&mut items);
        }
        let mut out = BytesMut::with_capacity(self.head.len() + items.len() + 128);
        self.of().begin(&mut out, self.head.len() + items.len());
        out.extend_from_slice(&self.head);
        out.extend_from_slice(&items);
        Type::end(&mut out);
        out.freeze()
    }

    /// The next piece; none when the list is written.
    async fn next(&mut self) -> Option<Bytes> {
        let mut out = BytesMut::new();
        if self.measured < self.items.len() {
            self.measure().await;
            self.of().begin(&mut out, self.head.len() + self.len);
            out.extend_from_slice(&self.head);
        } else if self.written == self.items.len() {
            return None;
        }
        while self.written < self.items.len() && out.len() < CHUNK {
            self.write_item(&mut out);
        }
        if self.written == self.items.len() {
            Type::end(&mut out);
        }
        Some(out.freeze())
    }

    async fn measure(&mut self) {
        for item in &self.items {
            let len = if self.metadata_only {
                item.metadata_message().len()
            } else {
                item.message_len(&mut self.encoder)
            };
            self.len += field_len(ITEMS, len);
            self.measured += 1;
            if self.measured.is_multiple_of(BATCH) {
                tokio::task::yield_now().await;
            }
        }
    }

    fn write_item(&mut self, out: &mut BytesMut) {
        let item = &self.items[self.written];
        if self.metadata_only {
            put_field(out, ITEMS, &item.metadata_message());
        } else {
            let message = item.message_in(&mut self.encoder);
            put_field_head(out, ITEMS, message.len());
            out.extend_from_slice(message);
        }
        self.written += 1;
    }
}
