//! Sets itself up and waits for nothing: the guest whose way to being ready is timed.
//!
//! Every vCPU fills some memory and sees that it holds what was written; the last one to have done so says that the VM is
//! ready. Then all idle.

use alloc::vec;
use core::sync::atomic::{AtomicU32, Ordering};
use stile_rt::abi::milestone;
use stile_rt::{Boot, Cpu, doorbell};

/// Memory of a vCPU (units: bytes).
const OWN: usize = 64 << 10;
/// The exit code of a vCPU that finds other bytes in its memory than it wrote.
const CORRUPT: u32 = 1;

static SET_UP: AtomicU32 = AtomicU32::new(0);

/// Every vCPU.
pub fn main(cpu: Cpu) -> u32 {
    let mark = cpu.index() as u8 ^ 0x5a;
    let own = vec![mark; OWN];
    if core::hint::black_box(&own).iter().any(|byte| *byte != mark) {
        return CORRUPT;
    }
    // Release pairs with the Acquire of the last one: what all have set up is seen by whoever knows that it is ready.
    if SET_UP.fetch_add(1, Ordering::AcqRel) + 1 == Boot::page().vcpus() {
        doorbell::progress(milestone::READY);
    }
    loop {
        doorbell::idle(cpu, None);
    }
}
