//! Rings a doorbell that asks for nothing, over and over, to measure the cost of an exit. One operation is one ring.
//! The time from ringing to going on is recorded.

use crate::params::Params;
use stile_rt::{Cpu, clock, doorbell};

/// A milestone that the monitor ignores.
const NOTHING: u32 = 0x100;

/// Every vCPU rings.
pub fn main(cpu: Cpu) -> u32 {
    let clock = Params::of(cpu).clock;
    loop {
        let rung = clock::now();
        cpu.gauge().begin(rung.0);
        doorbell::progress(NOTHING);
        cpu.gauge().record(clock.ns(clock::now().since(rung)));
        cpu.op_done();
    }
}
