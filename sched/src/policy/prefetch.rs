//! Prefetching: asks for memory that a later decision needs, so that it need not wait.
//!
//! Changes what a decision costs, never what it is. Does nothing where the instruction is not known.

#![allow(unsafe_code, reason = "the instruction is only to be had as an unsafe function")]

/// Unit in which memory is fetched (unit: bytes), on all x86-64; elsewhere it does not matter.
const LINE: usize = 64;

/// Asks for a value's lines.
pub(super) fn prefetch<T>(value: &T) {
    let lines = std::ptr::from_ref(value).cast::<i8>();
    for offset in (0..size_of::<T>()).step_by(LINE) {
        fetch(lines.wrapping_add(offset));
    }
    if align_of::<T>() < LINE {
        // It may end in a line more than its size tells.
        fetch(lines.wrapping_add(size_of::<T>() - 1));
    }
}

#[cfg(target_arch = "x86_64")]
fn fetch(line: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint that accesses nothing the program can see and never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line) }
}

#[cfg(not(target_arch = "x86_64"))]
fn fetch(_line: *const i8) {}
