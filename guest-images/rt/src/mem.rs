//! The memory functions that compiled code calls by name. A hosted target takes them from its C library, which a
//! freestanding image does not link.
//!
//! `rep movsb`/`rep stosb` run at full width on every CPU with ERMS (all that KVM supports today), and need no SIMD
//! state.
#![allow(unsafe_code, reason = "raw memory is the subject")]

use core::arch::asm;

/// # Safety
/// As C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: the caller owns `n` bytes at both places; the direction flag is clear by the ABI.
    unsafe {
        asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _,
             options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As C's `memmove`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= n {
        // SAFETY: a forward copy never overwrites what it still has to read.
        return unsafe { memcpy(to, from, n) };
    }
    // SAFETY: as memcpy, from the last byte down; the flag is set back.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") n => _,
             inout("rdi") to.wrapping_add(n).wrapping_sub(1) => _,
             inout("rsi") from.wrapping_add(n).wrapping_sub(1) => _, options(nostack));
    }
    to
}

/// # Safety
/// As C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    // SAFETY: the caller owns `n` bytes.
    unsafe {
        asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") byte as u8,
             options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// As C's `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    let mut i = 0;
    while i < n {
        // SAFETY: `i < n`, and the caller owns `n` bytes at both places.
        let (x, y) = unsafe { (a.add(i).read(), b.add(i).read()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
        i += 1;
    }
    0
}

/// # Safety
/// As C's `bcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(a, b, n) }
}

/// # Safety
/// As C's `strlen`.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut n = 0;
    // SAFETY: the caller promises a terminating zero.
    while unsafe { text.add(n).read() } != 0 {
        n += 1;
    }
    n
}
