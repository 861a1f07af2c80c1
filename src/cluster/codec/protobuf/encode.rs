//! Encoding: what messages of all kinds share.
//!
//! A message is preceded by its length. The many small ones, of endpoints and addresses, are measured and then fill their
//! [`Space`]: a slice has up to 1,000 of them and is written whole, so this is the most expensive part of a change. For
//! the few others, one byte is left for the length, and a message that needs more is moved on.

use super::envelope::MAGIC;
use super::message::BYTES;
use crate::cluster::codec::text::IpText;
use crate::core::body::{Metadata, PodReference};
use crate::core::facts::OwnerReference;
use crate::core::ids::Uid;
use std::io::Write as _;

/// Type of numbers on the wire.
const VARINT: u8 = 0;
/// Length of the text of a UUID.
const UUID: usize = 36;

/// Encodes an object: its message, in an envelope that says its type.
pub(in crate::cluster::codec) fn object(
    api_version: &str,
    kind: &str,
    capacity: usize,
    push: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut out = Vec::with_capacity(capacity);
    out.extend_from_slice(MAGIC);
    push_message(&mut out, 1, |out| {
        push_text(out, 1, api_version);
        push_text(out, 2, kind);
    });
    push_message(&mut out, 2, push);
    out
}

pub(in crate::cluster::codec) fn push_metadata(out: &mut Vec<u8>, metadata: &Metadata<'_>) {
    push_text(out, 1, metadata.name);
    push_optional(out, 2, metadata.generate_name().as_deref());
    push_text(out, 3, metadata.namespace);
    if let Some(remote) = metadata.remote {
        push_uid(out, 5, &remote.uid);
        let mut digits = [0; 20];
        let mut rest = &mut digits[..];
        write!(rest, "{}", remote.version).expect("20 digits are enough for 64 bits");
        let left = rest.len();
        push_bytes(out, 6, &digits[..20 - left]);
    }
    for (key, value) in metadata.labels() {
        push_entry(out, 11, key, value);
    }
    for (key, value) in metadata.annotations() {
        push_entry(out, 12, key, &value);
    }
    for owner in metadata.owners() {
        push_message(out, 13, |out| push_owner(out, &owner));
    }
    for finalizer in metadata.finalizers() {
        push_text(out, 14, finalizer);
    }
    if metadata.clears_managed_fields() {
        // An empty message as field 17, whose key takes two bytes.
        out.extend_from_slice(&[0x8a, 0x01, 0]);
    }
}

fn push_owner(out: &mut Vec<u8>, owner: &OwnerReference) {
    push_text(out, 1, &owner.kind);
    push_text(out, 3, &owner.name);
    push_text(out, 4, &owner.uid);
    push_text(out, 5, &owner.api_version);
    for (field, flag) in [(6, owner.controller), (7, owner.block_owner_deletion)] {
        if let Some(flag) = flag {
            push_number(out, field, u64::from(flag));
        }
    }
}

/// Appends an entry of a map of texts.
fn push_entry(out: &mut Vec<u8>, field: u8, key: &str, value: &str) {
    push_message(out, field, |out| {
        push_text(out, 1, key);
        push_text(out, 2, value);
    });
}

/// Returns what all references to pods begin with.
pub(in crate::cluster::codec) fn target_head(namespace: &str) -> Vec<u8> {
    let mut head = Vec::new();
    push_text(&mut head, 1, "Pod");
    push_text(&mut head, 2, namespace);
    head
}

/// Returns the length of a reference to a pod.
pub(in crate::cluster::codec) fn size_of_target(head: &[u8], target: PodReference<'_>) -> usize {
    let uid = match target.uid {
        Uid::Uuid(_) => UUID,
        Uid::Text(text) => text.len(),
    };
    head.len() + size_of(target.name.len()) + size_of(uid)
}

/// Returns the length of a field with so many bytes of content.
#[inline]
pub(in crate::cluster::codec) fn size_of(content: usize) -> usize {
    let digits = match content {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        _ => Varint::new(content as u64).as_bytes().len(),
    };
    1 + digits + content
}

/// Returns the length of a field that may be missing.
#[inline]
pub(in crate::cluster::codec) fn size_of_optional(text: Option<&str>) -> usize {
    text.map_or(0, |text| size_of(text.len()))
}

/// Appends a field with so many bytes of content, which the caller fills in.
pub(in crate::cluster::codec) fn append(out: &mut Vec<u8>, field: u8, content: usize) -> Space<'_> {
    open(out, field, content);
    let start = out.len();
    out.resize(start + content, 0);
    Space {
        bytes: &mut out[start..],
        at: 0,
    }
}

/// Begins a field with so many bytes of content, which the caller appends.
fn open(out: &mut Vec<u8>, field: u8, content: usize) {
    let key = key(field, BYTES);
    match content {
        0..0x80 => out.extend_from_slice(&[key, content as u8]),
        0x80..0x4000 => out.extend_from_slice(&[key, content as u8 | 0x80, (content >> 7) as u8]),
        _ => {
            out.push(key);
            push_varint(out, content as u64);
        }
    }
}

/// The space of a message that has been measured. All of its functions are part of the loop over endpoints: the
/// position stays in a register, and a text of known length is copied without a call.
pub(in crate::cluster::codec) struct Space<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

#[allow(
    clippy::inline_always,
    reason = "without it, each field of an endpoint is a call"
)]
impl Space<'_> {
    /// Fills in bytes, in two pieces that overlap if there are few: a copy of known length is no call.
    #[inline(always)]
    pub(in crate::cluster::codec) fn fill(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        let to = &mut self.bytes[self.at..end];
        self.at = end;
        match bytes.len() {
            8..16 => copy_ends::<8>(to, bytes),
            16..=32 => copy_ends::<16>(to, bytes),
            _ => to.copy_from_slice(bytes),
        }
    }

    /// Fills in bytes whose number is known when this is compiled.
    #[inline(always)]
    pub(in crate::cluster::codec) fn fill_array<const N: usize>(&mut self, bytes: &[u8; N]) {
        let end = self.at + N;
        self.bytes[self.at..end].copy_from_slice(bytes);
        self.at = end;
    }

    /// Fills in the key and the length of a field.
    #[inline(always)]
    pub(in crate::cluster::codec) fn open(&mut self, field: u8, content: usize) {
        let key = key(field, BYTES);
        if content < 0x80 {
            self.fill_array(&[key, content as u8]);
        } else {
            self.open_long(key, content);
        }
    }

    #[cold]
    fn open_long(&mut self, key: u8, content: usize) {
        self.fill_array(&[key]);
        self.fill(Varint::new(content as u64).as_bytes());
    }

    /// Fills in a text.
    #[inline(always)]
    pub(in crate::cluster::codec) fn text(&mut self, field: u8, text: &str) {
        self.open(field, text.len());
        self.fill(text.as_bytes());
    }

    /// Fills in a text that may be missing.
    #[inline(always)]
    pub(in crate::cluster::codec) fn optional(&mut self, field: u8, text: Option<&str>) {
        if let Some(text) = text {
            self.text(field, text);
        }
    }

    /// Fills in an IP.
    #[inline(always)]
    pub(in crate::cluster::codec) fn ip(&mut self, field: u8, ip: &IpText) {
        self.open(field, ip.as_bytes().len());
        self.fill(ip.as_bytes());
    }

    /// Fills in a reference to a pod.
    #[inline(always)]
    pub(in crate::cluster::codec) fn target(&mut self, field: u8, head: &[u8], target: PodReference<'_>) {
        self.open(field, size_of_target(head, target));
        self.fill(head);
        self.text(3, target.name);
        match target.uid {
            Uid::Uuid(bytes) => {
                self.open(4, UUID);
                self.fill_array(&Uid::spelled(bytes));
            }
            Uid::Text(text) => self.text(4, text),
        }
    }
}

/// Copies the first and the last `N` bytes, which are all if there are at most twice as many.
#[inline(always)]
#[allow(clippy::inline_always, reason = "it is a few instructions")]
fn copy_ends<const N: usize>(to: &mut [u8], from: &[u8]) {
    let last = from.len() - N;
    to[..N].copy_from_slice(&from[..N]);
    to[last..].copy_from_slice(&from[last..]);
}

impl Drop for Space<'_> {
    fn drop(&mut self) {
        debug_assert_eq!(self.at, self.bytes.len(), "a message is as long as was measured");
    }
}

fn push_uid(out: &mut Vec<u8>, field: u8, uid: &Uid) {
    match uid {
        Uid::Text(text) => push_text(out, field, text),
        Uid::Uuid(bytes) => push_bytes(out, field, &Uid::spelled(bytes)),
    }
}

pub(in crate::cluster::codec) fn push_optional(out: &mut Vec<u8>, field: u8, text: Option<&str>) {
    if let Some(text) = text {
        push_text(out, field, text);
    }
}

pub(in crate::cluster::codec) fn push_text(out: &mut Vec<u8>, field: u8, text: &str) {
    push_bytes(out, field, text.as_bytes());
}

pub(in crate::cluster::codec) fn push_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    open(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

pub(in crate::cluster::codec) fn push_number(out: &mut Vec<u8>, field: u8, number: u64) {
    out.push(key(field, VARINT));
    push_varint(out, number);
}

/// Appends a message.
pub(in crate::cluster::codec) fn push_message(out: &mut Vec<u8>, field: u8, push: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(&[key(field, BYTES), 0]);
    let start = out.len();
    push(out);
    let length = out.len() - start;
    if length < 0x80 {
        out[start - 1] = length as u8;
        return;
    }
    let digits = Varint::new(length as u64);
    let more = digits.as_bytes().len() - 1;
    out.resize(out.len() + more, 0);
    out.copy_within(start..start + length, start + more);
    out[start - 1..start + more].copy_from_slice(digits.as_bytes());
}

fn push_varint(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(Varint::new(number).as_bytes());
}

/// Returns the key of a field. Fields of 16 or more need a longer one; none that is written has so high a number.
const fn key(field: u8, kind: u8) -> u8 {
    assert!(field < 16, "the key of the field is longer than a byte");
    field << 3 | kind
}

/// A number of variable length, encoded.
struct Varint {
    digits: [u8; 10],
    length: usize,
}

impl Varint {
    fn new(mut number: u64) -> Self {
        let (mut digits, mut length) = ([0; 10], 0);
        loop {
            let rest = number >> 7;
            digits[length] = (number & 0x7f) as u8 | if rest > 0 { 0x80 } else { 0 };
            length += 1;
            if rest == 0 {
                return Self { digits, length };
            }
            number = rest;
        }
    }

    fn as_bytes(&self) -> &[u8] {
        &self.digits[..self.length]
    }
}
