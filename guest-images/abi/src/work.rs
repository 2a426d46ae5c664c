//! The unit of computing that workloads are made of, the same code on both sides so that the host can calibrate it.

/// Runs a loop of `loops` iterations, about one cycle each, which no compiler can shorten.
#[inline]
#[allow(unsafe_code, reason = "a loop whose length the compiler must not change")]
pub fn spin(loops: u64) {
    if loops == 0 {
        return;
    }
    // SAFETY: touches one register and the flags.
    unsafe { core::arch::asm!("2: dec {0}", "jnz 2b", inout(reg) loops => _, options(nomem, nostack)) }
}
