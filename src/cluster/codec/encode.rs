//! Encoding: what messages of all kinds share.
//!
//! A message is preceded by its length. For the length of the many small ones, of endpoints and addresses, as much room is
//! left as the one before needed, and their fields fill a [`Space`] that is surely large enough: a slice has up to 1,000
//! of them and is written whole, so this is the most expensive part of a change. For the few others, one byte is left for
//! the length, and a message that needs more is moved on.

use super::envelope::MAGIC;
use super::message::BYTES;
use super::text::{self, IpText};
use crate::core::body::{Metadata, PodReference};
use crate::core::facts::OwnerReference;
use crate::core::ids::Uid;
use std::io::Write as _;
use std::mem;
use std::net::IpAddr;

/// Type of numbers on the wire.
const VARINT: u8 = 0;
/// Length of the text of a UUID.
const UUID: usize = 36;
/// More than the keys and lengths of an endpoint's fields take, its conditions, and an IP.
const FIELDS: usize = 16 * 11;
/// How many bytes are zeroed at once: that much is cleared by a loop over vectors; more would take an instruction for each
/// byte on some processors.
const ZEROED: usize = 1024;

/// Encodes an object: its message, in an envelope that says its type.
pub(super) fn object(
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

pub(super) fn push_metadata(out: &mut Vec<u8>, metadata: &Metadata<'_>) {
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
pub(super) fn target_head(namespace: &str) -> Vec<u8> {
    let mut head = Vec::with_capacity(16 + namespace.len());
    push_text(&mut head, 1, "Pod");
    push_text(&mut head, 2, namespace);
    head
}

/// Returns how many bytes of text a reference to a pod has at most.
#[inline]
pub(super) fn text_of_target(head: &[u8], target: PodReference<'_>) -> usize {
    let uid = match target.uid {
        Uid::Uuid(_) => UUID,
        Uid::Text(text) => text.len(),
    };
    head.len() + target.name.len() + uid
}

/// Returns the length of a text that may be missing.
#[inline]
pub(super) fn length(text: Option<&str>) -> usize {
    text.map_or(0, str::len)
}

/// Returns the length of a field with so many bytes of content.
#[inline]
pub(super) fn size_of(content: usize) -> usize {
    let digits = match content {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        _ => Varint::new(content as u64).as_bytes().len(),
    };
    1 + digits + content
}

/// Messages of one kind, which are appended to an object that is being encoded. Memory is made ready for several of them
/// at once.
pub(super) struct Messages<'a> {
    /// The object, and memory for more of it.
    out: &'a mut Vec<u8>,
    /// Where the object ends.
    end: usize,
    /// Whether the last message's length took two bytes.
    long: bool,
}

impl<'a> Messages<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>) -> Self {
        let end = out.len();
        Self {
            out,
            end,
            long: false,
        }
    }

    /// Appends a message as a field, with at most so many bytes of text in fields of its own and of its messages.
    #[inline(always)]
    #[allow(
        clippy::inline_always,
        reason = "it is called for each endpoint, from one place"
    )]
    pub(super) fn append(&mut self, field: u8, text: usize, fill: impl FnOnce(&mut Space<'_>)) {
        let head = 2 + usize::from(self.long);
        let bound = head + FIELDS + text;
        if bound > self.out.len() - self.end {
            self.grow(bound);
        }
        let (start, size) = (self.end + head, self.out.len());
        let mut space = Space(&mut self.out[start..]);
        fill(&mut space);
        let end = size - space.0.len();
        self.close(key(field, BYTES), start, end);
    }

    fn close(&mut self, key: u8, start: usize, end: usize) {
        let length = end - start;
        match (self.long, length) {
            (false, 0..0x80) => self.out[start - 2..start].copy_from_slice(&[key, length as u8]),
            (true, 0x80..0x4000) => {
                let head = [key, length as u8 | 0x80, (length >> 7) as u8];
                self.out[start - 3..start].copy_from_slice(&head);
            }
            _ => return self.close_moved(key, start, length),
        }
        self.end = end;
    }

    /// Closes a message whose length does not take as many bytes as were left for it.
    #[cold]
    fn close_moved(&mut self, key: u8, start: usize, length: usize) {
        let digits = Varint::new(length as u64);
        let digits = digits.as_bytes();
        let content = self.end + 1 + digits.len();
        let to = content + length;
        if to > self.out.len() {
            self.out.resize(to, 0);
        }
        self.out.copy_within(start..start + length, content);
        self.out[self.end] = key;
        self.out[self.end + 1..content].copy_from_slice(digits);
        self.end = to;
        self.long = digits.len() == 2;
    }

    /// Makes room for so many bytes, and for more if that needs no more memory.
    #[cold]
    fn grow(&mut self, bytes: usize) {
        let room = (self.out.capacity() - self.end).min(ZEROED);
        self.out.resize(self.end + bytes.max(room), 0);
    }
}

impl Drop for Messages<'_> {
    fn drop(&mut self) {
        self.out.truncate(self.end);
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

/// The space that is left for a message. All of its functions are part of the loop over endpoints: a field takes one
/// check of the length, and a text of usual length is copied without a call.
pub(super) struct Space<'a>(&'a mut [u8]);

#[allow(
    clippy::inline_always,
    reason = "without it, each field of an endpoint is a call"
)]
impl<'a> Space<'a> {
    /// Takes the next bytes, to be filled in.
    #[inline(always)]
    fn take(&mut self, length: usize) -> &'a mut [u8] {
        let (taken, rest) = mem::take(&mut self.0).split_at_mut(length);
        self.0 = rest;
        taken
    }

    /// Fills in bytes.
    #[inline(always)]
    fn fill(&mut self, bytes: &[u8]) {
        copy(self.take(bytes.len()), bytes);
    }

    /// Fills in bytes whose number is known when this is compiled.
    #[inline(always)]
    pub(super) fn fill_array<const N: usize>(&mut self, bytes: &[u8; N]) {
        self.take(N).copy_from_slice(bytes);
    }

    /// Fills in the key and the length of a field.
    #[inline(always)]
    pub(super) fn open(&mut self, field: u8, content: usize) {
        let key = key(field, BYTES);
        if content < 0x80 {
            self.fill_array(&[key, content as u8]);
        } else {
            self.0 = open_long(mem::take(&mut self.0), key, content);
        }
    }

    /// Fills in a text.
    #[inline(always)]
    pub(super) fn text(&mut self, field: u8, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    #[inline(always)]
    fn bytes(&mut self, field: u8, bytes: &[u8]) {
        if bytes.len() < 0x80 {
            let (head, content) = self.take(2 + bytes.len()).split_at_mut(2);
            head.copy_from_slice(&[key(field, BYTES), bytes.len() as u8]);
            copy(content, bytes);
        } else {
            self.open(field, bytes.len());
            self.fill(bytes);
        }
    }

    /// Fills in a text that may be missing.
    #[inline(always)]
    pub(super) fn optional(&mut self, field: u8, text: Option<&str>) {
        if let Some(text) = text {
            self.text(field, text);
        }
    }

    /// Fills in an IP.
    #[inline(always)]
    pub(super) fn ip(&mut self, field: u8, ip: IpAddr) {
        let IpAddr::V4(ip) = ip else {
            return self.bytes(field, IpText::new(ip).as_bytes());
        };
        let (head, space) = self.0.split_at_mut(2);
        // The text may be shorter than this space; the next fields follow it directly.
        let space = space.first_chunk_mut().expect("there is room for all fields");
        let length = text::spell_v4(ip, space);
        head.copy_from_slice(&[key(field, BYTES), length as u8]);
        self.take(2 + length);
    }

    /// Fills in a reference to a pod, after what all of the namespace's begin with.
    #[inline(always)]
    pub(super) fn target(&mut self, field: u8, head: &[u8], target: PodReference<'_>) {
        let name = size_of(target.name.len());
        match target.uid {
            Uid::Uuid(bytes) => {
                self.open(field, head.len() + name + 2 + UUID);
                self.fill(head);
                self.text(3, target.name);
                self.open(4, UUID);
                let space = self.take(UUID).first_chunk_mut();
                Uid::spell(bytes, space.expect("it has this length"));
            }
            Uid::Text(text) => {
                self.open(field, head.len() + name + size_of(text.len()));
                self.fill(head);
                self.text(3, target.name);
                self.text(4, text);
            }
        }
    }
}

/// Fills in the key and the length of a field, and returns the space after them. It takes the space by value so that the
/// caller's copy can stay in registers.
#[cold]
fn open_long(space: &mut [u8], key: u8, content: usize) -> &mut [u8] {
    let digits = Varint::new(content as u64);
    let digits = digits.as_bytes();
    let (head, rest) = space.split_at_mut(1 + digits.len());
    head[0] = key;
    head[1..].copy_from_slice(digits);
    rest
}

/// Copies bytes into as many, in two pieces that overlap: a copy of known length is no call.
#[inline(always)]
#[allow(clippy::inline_always, reason = "it is a few instructions")]
fn copy(to: &mut [u8], from: &[u8]) {
    match from.len() {
        16..=32 => copy_ends::<16>(to, from),
        8..16 => copy_ends::<8>(to, from),
        4..8 => copy_ends::<4>(to, from),
        33..=64 => copy_ends::<32>(to, from),
        _ => to.copy_from_slice(from),
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

fn push_uid(out: &mut Vec<u8>, field: u8, uid: &Uid) {
    match uid {
        Uid::Text(text) => push_text(out, field, text),
        Uid::Uuid(bytes) => push_bytes(out, field, &Uid::spelled(bytes)),
    }
}

pub(super) fn push_optional(out: &mut Vec<u8>, field: u8, text: Option<&str>) {
    if let Some(text) = text {
        push_text(out, field, text);
    }
}

pub(super) fn push_text(out: &mut Vec<u8>, field: u8, text: &str) {
    push_bytes(out, field, text.as_bytes());
}

pub(super) fn push_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    open(out, field, bytes.len());
    out.extend_from_slice(bytes);
}

pub(super) fn push_number(out: &mut Vec<u8>, field: u8, number: u64) {
    out.push(key(field, VARINT));
    push_varint(out, number);
}

/// Appends a message.
pub(super) fn push_message(out: &mut Vec<u8>, field: u8, push: impl FnOnce(&mut Vec<u8>)) {
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
#[inline(always)]
#[allow(clippy::inline_always, reason = "it is computed when this is compiled")]
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
