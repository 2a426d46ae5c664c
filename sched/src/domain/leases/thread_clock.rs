//! The CPU clock of another thread of this process.
#![allow(unsafe_code, reason = "rustix names no such clock")]

use crate::kick::ThreadId;
use crate::time::Nanos;
use std::mem::MaybeUninit;

/// CPU time of a thread of this process; `None` if it has ended.
pub(super) fn cpu_time(thread: ThreadId) -> Option<Nanos> {
    // As the C library makes the clock of a thread: its number inverted, and the bits for "one thread" and "scheduled".
    let clock = (!thread.0 << 3) | 6;
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: room for the time; a clock that does not exist is refused.
    if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded and has filled it in.
    let time = unsafe { time.assume_init() };
    Some(Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::kick;

    #[test]
    fn a_thread_uses_cpu_time_while_it_computes_and_an_unknown_one_has_none() {
        let me = kick::this_thread();
        let before = cpu_time(me).unwrap();
        crate::testing::wait_for(|| cpu_time(me).unwrap() > before);
        assert_eq!(cpu_time(kick::ThreadId(i32::MAX >> 4)), None);
    }
}
