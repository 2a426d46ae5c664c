//! What a turn of a device costs, for the fuzz targets: counted where the work is done, on the thread that does it.
//!
//! Descriptors, bytes and wake-ups are counted by the code that they stand for, in builds for tests alone. Allocations
//! are counted by the allocator of the tests.
#![allow(unsafe_code, reason = "an allocator that counts")]

use super::budget::DESCRIPTORS;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The cost of a turn, or the most that one may cost.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cost {
    /// Descriptors read.
    pub(crate) descriptors: usize,
    /// Bytes copied between guest memory and the monitor.
    pub(crate) bytes: usize,
    /// Allocations, also those that grow an old one.
    pub(crate) allocations: usize,
    /// Threads woken: interrupts of the guest, and peers on a switch.
    pub(crate) wakes: usize,
}

const NOTHING: Cost = Cost { descriptors: 0, bytes: 0, allocations: 0, wakes: 0 };

thread_local! {
    static SPENT: Cell<Cost> = const { Cell::new(NOTHING) };
    static MOST: Cell<Option<Cost>> = const { Cell::new(None) };
}

pub(crate) fn descriptor() {
    add(Cost { descriptors: 1, ..NOTHING });
}

pub(crate) fn bytes(bytes: usize) {
    add(Cost { bytes, ..NOTHING });
}

pub(crate) fn wake() {
    add(Cost { wakes: 1, ..NOTHING });
}

fn add(more: Cost) {
    // A thread that ends frees and allocates after its locals are gone.
    let _ = SPENT.try_with(|spent| spent.set(spent.get().plus(more)));
}

/// Most descriptors that a turn reads of a queue of this size: its budget, and the chain that uses it up.
pub(crate) const fn descriptors(queue: u16) -> usize {
    DESCRIPTORS + queue as usize
}

/// From now on a turn on this thread may cost no more than this.
pub(crate) fn limit(most: Option<Cost>) {
    MOST.set(most);
}

/// Carries out a turn, or the writing of a register. Panics if it costs more than the thread's limit.
pub(crate) fn of<R>(turn: impl FnOnce() -> R) -> R {
    let before = SPENT.replace(NOTHING);
    let result = turn();
    let spent = SPENT.replace(before);
    if let Some(most) = MOST.get() {
        assert!(spent.is_within(most), "a turn cost {spent:?}, and may cost {most:?}");
    }
    result
}

impl Cost {
    fn plus(self, other: Self) -> Self {
        Self {
            descriptors: self.descriptors + other.descriptors,
            bytes: self.bytes + other.bytes,
            allocations: self.allocations + other.allocations,
            wakes: self.wakes + other.wakes,
        }
    }

    fn is_within(self, most: Self) -> bool {
        self.descriptors <= most.descriptors
            && self.bytes <= most.bytes
            && self.allocations <= most.allocations
            && self.wakes <= most.wakes
    }
}

/// The system's allocator, which counts.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(Cost { allocations: 1, ..NOTHING });
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(Cost { allocations: 1, ..NOTHING });
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a turn cost Cost { descriptors: 2, bytes: 7, allocations: 1, wakes: 0 }")]
    fn a_turn_that_costs_more_than_it_may_is_told_with_what_it_cost() {
        limit(Some(Cost { descriptors: 1, bytes: 7, allocations: 1, wakes: 0 }));
        descriptor();
        of(|| {
            descriptor();
            bytes(7);
            descriptor();
            drop(std::hint::black_box(Box::new(7)));
        });
    }
}
