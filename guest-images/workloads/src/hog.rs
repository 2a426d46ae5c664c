//! Computes without end. One operation is [`STEP_NS`] of work.

use crate::params::Params;
use stile_rt::Cpu;

/// Work per operation (units: ns).
pub const STEP_NS: u64 = 10_000;

/// Every vCPU is a hog.
pub fn main(cpu: Cpu) -> u32 {
    run(cpu, &Params::of(cpu))
}

/// One hog.
pub fn run(cpu: Cpu, params: &Params) -> ! {
    let step = params.work(STEP_NS);
    loop {
        step.run(cpu);
        cpu.op_done();
    }
}
