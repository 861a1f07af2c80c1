//! Hashes for values that others choose: names, labels, ports, addresses, UIDs.
//!
//! A user who may create a pod can choose text by the megabyte. If the hash could be computed in advance, the user
//! could choose texts that collide, and a table would have to walk over all of them for each: minutes for one object.
//! So all text from outside is hashed by SipHash-1-3 under a random 128-bit key, which resists exactly that as long as
//! the key and the hashes stay secret. Hashes appear in no log, no metric and no object.
//!
//! The key belongs to the process. It is a global and not a part of each table, since many tables are small: one for
//! each Service and family. The program sets it before it does anything else ([`set_key`]); if it is not set, as in
//! tests, a fixed key is used, so that seeded runs replay. Behaviour must not depend on the key either way: no code
//! iterates over a table where the order could be observed.

use siphasher::sip::SipHasher13;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher};
use std::ops::Deref;
use std::sync::OnceLock;

/// The secret key of the hashes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashKey([u8; 16]);

impl HashKey {
    /// The key for runs that must be reproducible.
    const FIXED: Self = Self(*b"endpointd, fixed");

    /// Creates a key from 128 random bits.
    pub const fn new(bits: u128) -> Self {
        Self(bits.to_le_bytes())
    }
}

impl fmt::Debug for HashKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey")
    }
}

/// The key was set before, or something has already been hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the key of the process's hashes has been used already")]
pub struct KeyInUse;

static KEY: OnceLock<HashKey> = OnceLock::new();

/// Sets the key of this process, which must happen before anything is hashed.
pub fn set_key(key: HashKey) -> Result<(), KeyInUse> {
    KEY.set(key).map_err(|_| KeyInUse)
}

/// Creates hashers with the key of this process.
#[derive(Clone, Copy, Default, Debug)]
pub struct KeyedState;

impl BuildHasher for KeyedState {
    type Hasher = KeyedHasher;

    fn build_hasher(&self) -> KeyedHasher {
        let HashKey(key) = KEY.get_or_init(|| HashKey::FIXED);
        KeyedHasher(SipHasher13::new_with_key(key))
    }
}

/// A hash being computed.
#[derive(Clone, Copy, Debug)]
pub struct KeyedHasher(SipHasher13);

impl Hasher for KeyedHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    fn write_u8(&mut self, number: u8) {
        self.0.write_u8(number);
    }

    fn write_u32(&mut self, number: u32) {
        self.0.write_u32(number);
    }

    fn write_u64(&mut self, number: u64) {
        self.0.write_u64(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.0.write_usize(number);
    }

    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// A map whose keys others choose.
pub type KeyedMap<K, V> = HashMap<K, V, KeyedState>;
/// A set of values that others choose.
pub type KeyedSet<T> = HashSet<T, KeyedState>;
/// A map whose keys are small numbers assigned by this process, such as indices into its tables. No client can choose
/// them, so a fast hash without a key is enough.
pub type IdMap<K, V> = rustc_hash::FxHashMap<K, V>;

/// A key of several tables, with its hash: it is hashed once, and not once for each table and look-up. It cannot be
/// changed.
#[derive(Clone, Copy)]
pub struct Hashed<K> {
    hash: u64,
    key: K,
}

impl<K: Hash> Hashed<K> {
    /// Hashes a key.
    pub fn new(key: K) -> Self {
        Self {
            hash: hash_of(&key),
            key,
        }
    }
}

impl<K> Hashed<K> {
    /// Creates a key whose hash is known. It must be the same wherever this key is created.
    pub(super) fn with_hash(key: K, hash: u64) -> Self {
        Self { hash, key }
    }

    /// Returns the hash.
    pub(super) fn known_hash(&self) -> u64 {
        self.hash
    }
}

impl<K> Deref for Hashed<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.key
    }
}

impl<K> Hash for Hashed<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl<K: PartialEq> PartialEq for Hashed<K> {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.key == other.key
    }
}

impl<K: Eq> Eq for Hashed<K> {}

impl<K: Ord> PartialOrd for Hashed<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K: Ord> Ord for Hashed<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

impl<K: fmt::Debug> fmt::Debug for Hashed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

impl<K: fmt::Display> fmt::Display for Hashed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.key.fmt(f)
    }
}

/// Takes the hashes of [`Hashed`] as they are.
#[derive(Clone, Copy, Default, Debug)]
pub struct KnownHash(u64);

impl Hasher for KnownHash {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a key that carries its hash writes nothing but that")
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Creates [`KnownHash`]es.
pub type KnownState = BuildHasherDefault<KnownHash>;
/// A map whose keys others choose and carry their hash.
pub type HashedMap<K, V> = HashMap<Hashed<K>, V, KnownState>;
/// A set of values that others choose and that carry their hash.
pub type HashedSet<T> = HashSet<Hashed<T>, KnownState>;

/// Returns the hash of a value in the tables of this process.
pub(crate) fn hash_of<T: Hash + ?Sized>(value: &T) -> u64 {
    KeyedState.hash_one(value)
}

/// Returns the hash of a text, which is another than [`hash_of`] returns: at once, where that one takes it in two pieces.
pub(crate) fn hash_of_text(text: &str) -> u64 {
    let KeyedHasher(hasher) = KeyedState.build_hasher();
    hasher.hash(text.as_bytes())
}

/// The number of bytes of a long text that are condensed at a time.
const BLOCK: usize = 1024;

/// One part of the key for each 8 bytes of a block.
static BLOCK_KEY: OnceLock<[u64; BLOCK / 8]> = OnceLock::new();

/// Hashes long values, such as the addresses of an object, at a fraction of the cost of `SipHash` alone.
///
/// Each block is condensed to 16 bytes by the function NH (Black, Halevi, Krawczyk, Krovetz and Rogaway, *UMAC: fast
/// and secure message authentication*, 1999), and the results are hashed. For any two texts chosen without knowledge of
/// the key, two blocks that differ are condensed to the same value with a probability of 2^-64.
#[derive(Clone)]
pub(crate) struct LongHasher {
    block: [u8; BLOCK],
    /// The part of the block that is in use.
    filled: usize,
    blocks: u64,
    condensed: KeyedHasher,
}

impl Default for LongHasher {
    fn default() -> Self {
        Self {
            block: [0; BLOCK],
            filled: 0,
            blocks: 0,
            condensed: KeyedState.build_hasher(),
        }
    }
}

impl Hasher for LongHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        // In line, a value of known length is copied by a few instructions.
        match self.block.get_mut(self.filled..self.filled + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.filled += bytes.len();
            }
            None => self.write_across(bytes),
        }
    }

    fn finish(&self) -> u64 {
        let mut hasher = self.condensed;
        condense_block(&self.block[..self.filled], &mut hasher);
        // The padding of the last block is not part of the text.
        hasher.write_u64(self.blocks);
        hasher.write_usize(self.filled);
        hasher.finish()
    }
}

impl LongHasher {
    /// Adds bytes that end in another block than the present one.
    fn write_across(&mut self, mut bytes: &[u8]) {
        while self.filled + bytes.len() > BLOCK {
            let (now, later) = bytes.split_at(BLOCK - self.filled);
            self.block[self.filled..].copy_from_slice(now);
            condense_block(&self.block, &mut self.condensed);
            (self.filled, bytes) = (0, later);
            self.blocks += 1;
        }
        self.block[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }
}

fn condense_block(block: &[u8], hasher: &mut KeyedHasher) {
    let key = BLOCK_KEY.get_or_init(|| std::array::from_fn(|at| hash_of(&("a part of the key of NH", at))));
    let (keys, _) = key.as_chunks::<2>();
    let (pairs, rest) = block.as_chunks::<16>();
    let mut sum = 0u128;
    for (pair, key) in pairs.iter().zip(keys) {
        sum = sum.wrapping_add(condense(*pair, *key));
    }
    if !rest.is_empty() {
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        sum = sum.wrapping_add(condense(last, keys[pairs.len()]));
    }
    hasher.write_u64(sum as u64);
    hasher.write_u64((sum >> 64) as u64);
}

/// Multiplies the two halves, each combined with its part of the key.
fn condense(pair: [u8; 16], key: [u64; 2]) -> u128 {
    let pair = u128::from_le_bytes(pair);
    let (low, high) = (pair as u64, (pair >> 64) as u64);
    u128::from(low.wrapping_add(key[0])) * u128::from(high.wrapping_add(key[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::object::{ObjectKey, ObjectName};

    fn long(text: &[u8]) -> u64 {
        let mut whole = LongHasher::default();
        whole.write(text);
        let mut pieces = LongHasher::default();
        text.chunks(7).for_each(|piece| pieces.write(piece));
        assert_eq!(whole.finish(), pieces.finish());
        whole.finish()
    }

    #[test]
    fn every_byte_of_a_long_text_counts_and_so_does_its_length() {
        for length in [0, 1, 15, 16, 17, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5] {
            let text: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let hash = long(&text);
            assert_eq!(hash, long(&text));
            for at in (0..length).step_by(7).chain(length.checked_sub(1)) {
                let mut other = text.clone();
                other[at] ^= 1;
                assert_ne!(hash, long(&other), "byte {at} of {length}");
            }
            let mut longer = text.clone();
            longer.push(0);
            assert_ne!(hash, long(&longer), "{length} bytes and a zero");
        }
        let mut swapped = vec![1; BLOCK];
        swapped.extend([2; BLOCK]);
        let hash = long(&swapped);
        swapped.rotate_left(BLOCK);
        assert_ne!(hash, long(&swapped), "the order of blocks");
    }

    #[test]
    fn both_parts_of_a_key_count_in_its_hash() {
        let hashes: HashSet<u64> = (0..100)
            .flat_map(|namespace| (0..100).map(move |name| (namespace.to_string(), name.to_string())))
            .map(|(namespace, name)| {
                let object = ObjectName::slice(name.as_str().into());
                ObjectKey::hashed(namespace.as_str(), object).known_hash()
            })
            .collect();
        assert_eq!(hashes.len(), 100 * 100);
        // A table of this size takes the lowest bits.
        let places: HashSet<u64> = hashes.iter().map(|hash| hash % (1 << 14)).collect();
        // Random numbers take 7,485 of the 16,384 places.
        assert!((7_200..7_800).contains(&places.len()), "{}", places.len());
    }

    #[test]
    fn a_key_that_is_in_use_cannot_be_changed() {
        let before = hash_of("a");
        assert_eq!(set_key(HashKey::new(1)), Err(KeyInUse));
        assert_eq!(hash_of("a"), before);
    }

    #[test]
    fn the_key_is_not_shown() {
        assert_eq!(format!("{:?}", HashKey::new(7)), "HashKey");
    }
}
