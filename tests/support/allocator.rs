//! An allocator that counts, for each thread, so that tests which run side by side do not count each other's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

#[derive(Clone, Copy)]
struct Counts {
    live: isize,
    peak: isize,
    allocated: usize,
    largest: usize,
}

thread_local! {
    static COUNTS: Cell<Counts> = const { Cell::new(Counts { live: 0, peak: 0, allocated: 0, largest: 0 }) };
}

fn count(freed: usize, allocated: usize) {
    // Threads that end may still free.
    let _ = COUNTS.try_with(|counts| {
        let mut now = counts.get();
        now.live += allocated.cast_signed() - freed.cast_signed();
        now.peak = now.peak.max(now.live);
        now.allocated += allocated;
        now.largest = now.largest.max(allocated);
        counts.set(now);
    });
}

// SAFETY: everything is passed on to the system's allocator.
#[allow(unsafe_code)] // An allocator cannot be written without.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), size);
        // SAFETY: the caller keeps the contract.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The memory of this thread since it was measured.
pub(crate) struct Memory(Counts);

impl Memory {
    /// Begins to measure, and forgets the peak and the largest piece so far.
    pub(crate) fn measure() -> Self {
        let now = COUNTS.get();
        COUNTS.set(Counts {
            peak: now.live,
            largest: 0,
            ..now
        });
        Self(now)
    }

    /// Returns the bytes in use now, beyond those in use at the beginning.
    pub(crate) fn live(&self) -> usize {
        (COUNTS.get().live - self.0.live).max(0).cast_unsigned()
    }

    /// Returns the bytes of the largest piece that was allocated since. To make a piece larger is to copy it.
    #[allow(dead_code, reason = "shared with tests that use other parts of it")]
    pub(crate) fn largest() -> usize {
        COUNTS.get().largest
    }

    /// Returns the most bytes that were in use at once since, beyond those in use at the beginning.
    pub(crate) fn peak(&self) -> usize {
        (COUNTS.get().peak - self.0.live).max(0).cast_unsigned()
    }
}

/// Returns the bytes that this thread has ever allocated, whether or not they are in use.
pub(crate) fn allocated() -> usize {
    COUNTS.get().allocated
}
