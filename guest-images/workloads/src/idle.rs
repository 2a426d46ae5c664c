//! Sets itself up and then idles. The time until it is ready is measured.
//!
//! vCPU 0 makes a heap, fills some memory and checks the contents. The last vCPU to get this far reports that the VM is
//! ready. Then all idle.

use alloc::vec;
use core::hint::black_box;
use core::sync::atomic::{AtomicU32, Ordering};
use stile_rt::abi::milestone;
use stile_rt::{Boot, Cpu, doorbell, heap};

/// Memory that is filled (units: bytes).
const FILLED: usize = 64 << 10;
const MARK: u8 = 0x5a;
/// The exit code of a guest that finds other bytes in its memory than it wrote.
const CORRUPT: u32 = 1;

static SET_UP: AtomicU32 = AtomicU32::new(0);

/// Every vCPU.
pub fn main(cpu: Cpu) -> u32 {
    let boot = Boot::page();
    if cpu.index() == 0 {
        heap::init(boot);
        if black_box(vec![MARK; FILLED]).iter().any(|byte| *byte != MARK) {
            return CORRUPT;
        }
    }
    // Pairs with itself: the last vCPU knows what all others did before.
    if SET_UP.fetch_add(1, Ordering::AcqRel) + 1 == boot.vcpus() {
        doorbell::progress(milestone::READY);
    }
    loop {
        doorbell::idle(cpu, None);
    }
}
