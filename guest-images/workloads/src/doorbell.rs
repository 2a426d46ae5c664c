//! Rings a doorbell that asks for nothing, over and over: what an exit costs. One operation is one of them.

use stile_rt::{Cpu, doorbell};

/// A milestone the monitor takes note of and forgets.
const NOTHING: u32 = 0x100;

/// Every vCPU rings.
pub fn main(cpu: Cpu) -> u32 {
    loop {
        doorbell::progress(NOTHING);
        cpu.op_done();
    }
}
