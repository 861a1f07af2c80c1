//! Malformed answers: recorded ones of a kube-apiserver, cut, joined and changed at random. Whatever arrives, nothing
//! panics, nothing takes more memory than the answer warrants, and what cannot be decoded is named where it can be.
//!
//! `ENDPOINTD_MALFORMED=10000000` sets how many are tried.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

use endpointd::cluster::codec::{self, Decode, ListReader, NamedNode, Namespaced, Undecodable};
use endpointd::core::facts::{
    EndpointsFacts, EndpointsMeta, MANAGED_BY, PodFacts, ServiceFacts, SliceFacts, SliceMeta,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes that are allocated.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
#[allow(unsafe_code)] // An allocator cannot be written without.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATED.fetch_add(size, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that may be allocated for each byte that arrives. A list that grows is moved several times.
const PER_BYTE: usize = 32;
/// Bytes that may be allocated in any case: errors and their texts.
const FIXED: usize = 16 << 10;

const CAPTURES: [&str; 13] = [
    "pods.list.pb",
    "pods.watch.pb",
    "services.list.pb",
    "nodes.list.pb",
    "endpoints.list.pb",
    "endpointslices.list.pb",
    "endpointslices.metadata.pb",
    "watch.metadata.pb",
    "get.slice.pb",
    "put.slice.metadata.pb",
    "get.not-found.pb",
    // Refusals may be in JSON.
    "get.not-found.json",
    "put.conflict.json",
];

fn capture(name: &str) -> Vec<u8> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/loadtest/apiserver/tests/wire/");
    std::fs::read(format!("{dir}{name}")).unwrap()
}

/// The captures, and all objects in them: small ones are tried more often.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = CAPTURES.map(capture).to_vec();
    for watch in ["pods.watch.pb", "watch.metadata.pb"].map(capture) {
        let events = codec::events(&watch).map(|event| event.unwrap().object.to_vec());
        seeds.extend(events);
    }
    for seed in &mut seeds {
        seed.truncate(8 << 10);
    }
    seeds
}

/// Changes some bytes, cuts, or joins parts of two.
fn mutate(random: &mut fastrand::Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let pick = |random: &mut fastrand::Rng| &seeds[random.usize(..seeds.len())];
    let mut data = pick(random).clone();
    for _ in 0..random.u32(1..=4) {
        if data.is_empty() {
            break;
        }
        // Most damage is done near the beginning, where lengths and tags are.
        let reach = if random.bool() {
            data.len().min(64)
        } else {
            data.len()
        };
        let at = random.usize(..reach);
        match random.u32(..8) {
            0 => data.truncate(at),
            1 => data[at] ^= 1 << random.u32(..8),
            2 => data[at] = random.u8(..),
            3 => data[at] = [0, 0x7f, 0x80, 0xff, b'"', b'{', b'\\'][random.usize(..7)],
            4 => {
                let end = at + random.usize(..=(data.len() - at).min(32));
                data.drain(at..end);
            }
            5 => {
                let bytes: Vec<u8> = (0..random.usize(1..12)).map(|_| random.u8(..)).collect();
                data.splice(at..at, bytes);
            }
            6 => {
                let other = pick(random);
                let from = random.usize(..=other.len());
                data.truncate(at);
                data.extend_from_slice(&other[from..]);
            }
            // A length of many digits.
            _ => {
                data.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0x0f]);
            }
        }
    }
    data
}

fn object<T: Decode>(data: &[u8]) {
    if let Err(error) = codec::object::<T>(data) {
        let error = Undecodable::new(data, error).to_string();
        assert!(error.len() < 2048 && !error.contains('\n'), "{error}");
    }
}

fn list<T: Decode>(data: &[u8], piece: usize) {
    let mut reader = ListReader::<T>::default();
    for piece in data.chunks(piece) {
        reader.feed(piece);
        for error in reader.take().1 {
            let error = error.to_string();
            assert!(error.len() < 2048 && !error.contains('\n'), "{error}");
        }
    }
    let _ = reader.finish();
}

/// Reads some data as everything that it could be taken for.
fn read(data: &[u8], kind: u32, piece: usize) {
    match kind {
        0 => object::<Namespaced<PodFacts>>(data),
        1 => object::<Namespaced<ServiceFacts>>(data),
        2 => object::<NamedNode>(data),
        3 => object::<Namespaced<SliceFacts>>(data),
        4 => object::<Namespaced<EndpointsFacts>>(data),
        5 => object::<Namespaced<SliceMeta>>(data),
        6 => object::<Namespaced<EndpointsMeta>>(data),
        7 => {
            let _ = (
                codec::identity(data),
                codec::is_managed_by(data, &[MANAGED_BY]),
                codec::bookmark(data),
            );
            let _ = (codec::list_version(data), codec::object_version(data));
            let status = codec::status(500, data);
            assert!(
                !status.message.contains('\n') && status.message.len() < 4096,
                "{status}"
            );
        }
        8 => list::<Namespaced<PodFacts>>(data, piece),
        9 => list::<Namespaced<SliceFacts>>(data, piece),
        10 => list::<Namespaced<EndpointsFacts>>(data, piece),
        _ => {
            if let Ok(length) = codec::whole_events(data) {
                for event in codec::events(&data[..length]).flatten() {
                    object::<Namespaced<PodFacts>>(event.object);
                }
            }
        }
    }
}

#[test]
fn malformed_answers_do_no_harm() {
    let count = std::env::var("ENDPOINTD_MALFORMED").map_or(100_000, |count| count.parse().unwrap());
    let (seeds, mut random) = (seeds(), fastrand::Rng::with_seed(7));
    let [mut protobuf, mut worst] = [0; 2];
    for _ in 0..count {
        let data = mutate(&mut random, &seeds);
        let (kind, piece) = (random.u32(..12), random.usize(1..=data.len().max(1)));
        protobuf += usize::from(data.starts_with(b"k8s\0"));
        let before = ALLOCATED.load(Ordering::Relaxed);
        let outcome = std::panic::catch_unwind(|| read(&data, kind, piece));
        let allocated = ALLOCATED.load(Ordering::Relaxed) - before;
        assert!(outcome.is_ok(), "read as {kind} in pieces of {piece}: {data:?}");
        worst = worst.max(allocated.saturating_sub(FIXED) / data.len().max(1));
        assert!(
            allocated <= FIXED + PER_BYTE * data.len(),
            "{allocated} bytes for {}, read as {kind}: {data:?}",
            data.len()
        );
    }
    println!(
        "{count} malformed answers, {protobuf} that begin like objects; at most {worst} bytes allocated for each that arrived"
    );
    assert!(
        count < 1000 || protobuf > count / 10,
        "too few begin like objects"
    );
}
