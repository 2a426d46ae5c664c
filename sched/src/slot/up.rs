//! Slot words for a domain of one pCPU: the same operations without a bus lock.
//!
//! After the rump kernel's uniprocessor locks. Every thread that touches such a word is bound to the one pCPU, so
//! threads interleave only between instructions, and one instruction is one step to all of them. `xchg` with memory
//! locks the bus whatever one writes, so a swap is a `cmpxchg` too.
//!
//! If a thread is moved to another CPU from outside, the words stay memory like any other. What is lost is the promise
//! that a slot has one vCPU at a time.
#![allow(unsafe_code, reason = "instructions without a lock prefix")]

use super::word::Word;
use std::arch::asm;
use std::cell::UnsafeCell;

/// For threads bound to one CPU.
#[derive(Debug)]
#[repr(transparent)]
pub struct Up(UnsafeCell<u32>);

// SAFETY: each access is one instruction of assembly, which no compiler splits, merges or reasons about.
unsafe impl Send for Up {}
// SAFETY: as above.
unsafe impl Sync for Up {}

impl Word for Up {
    const ANY_CPU: bool = false;

    #[inline]
    fn new(value: u32) -> Self {
        Self(UnsafeCell::new(value))
    }

    #[inline]
    fn load(&self) -> u32 {
        let value: u32;
        // SAFETY: reads a word that lives as long as `self`.
        unsafe {
            asm!("mov {v:e}, dword ptr [{p}]", v = out(reg) value, p = in(reg) self.0.get(), options(nostack, readonly, preserves_flags))
        };
        value
    }

    #[inline]
    fn swap(&self, value: u32) -> u32 {
        loop {
            let old = self.load();
            if self.replace(old, value) {
                return old;
            }
        }
    }

    #[inline]
    fn replace(&self, expected: u32, value: u32) -> bool {
        let found: u32;
        // SAFETY: writes a word that lives as long as `self` and is only touched this way. Without `nomem` the compiler
        // moves no access to memory across it; on one CPU that is all the order there is.
        unsafe {
            asm!(
                "cmpxchg dword ptr [{p}], {v:e}",
                p = in(reg) self.0.get(), v = in(reg) value,
                inout("eax") expected => found, options(nostack)
            );
        }
        found == expected
    }
}
