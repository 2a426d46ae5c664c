//! Prefetching: asks the memory for what a later decision needs, so that it need not wait then.
//!
//! Changes what a decision costs, never what it is: nothing is read, written or allocated. Does nothing on machines
//! other than x86-64.

#![allow(unsafe_code, reason = "the instruction is only to be had as an unsafe function")]

/// What is fetched at once (unit: bytes); the same on every x86-64.
const LINE: usize = 64;

/// Asks for all lines of a value.
pub(super) fn prefetch<T>(value: &T) {
    let (start, size) = (std::ptr::from_ref(value).cast::<i8>(), size_of::<T>());
    // It may begin within a line, and then end in one more than its size tells.
    for offset in (0..size).step_by(LINE).chain(size.checked_sub(1)) {
        fetch(start.wrapping_add(offset));
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
