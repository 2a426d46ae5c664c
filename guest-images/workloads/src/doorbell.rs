//! Rings a doorbell that asks for nothing, over and over: what an exit costs. One operation is one of them, and the gauge
//! says when it began.

use stile_rt::{Cpu, clock, doorbell};

/// A milestone the monitor takes note of and forgets.
const NOTHING: u32 = 0x100;

/// Every vCPU rings.
pub fn main(cpu: Cpu) -> u32 {
    loop {
        cpu.gauge().begin(clock::now().0);
        doorbell::progress(NOTHING);
        cpu.op_done();
    }
}
