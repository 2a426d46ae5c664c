//! Probes: wake every `period_us`, work `work_us`, idle. The recorded response is the time from when a wake was due to
//! when its work is done. Due times do not move, so that a late wake cannot hide the next one (as in cyclictest).

use crate::hog;
use crate::params::Params;
use stile_rt::{Boot, Cpu, clock, doorbell};

/// The first half of the vCPUs are probes, the second half hogs.
pub fn main(cpu: Cpu) -> u32 {
    let params = Params::of(cpu);
    if cpu.index() < Boot::page().vcpus().div_ceil(2) { run(cpu, &params) } else { hog::run(cpu, &params) }
}

/// One probe. Probes start spread over a period, so that they do not wake all at once.
pub fn run(cpu: Cpu, params: &Params) -> ! {
    let period_ns = params.number("period_us", 5_000) * 1000;
    let work = params.work(params.number("work_us", 200) * 1000);
    let period = params.clock.ticks(period_ns);
    let probes = u64::from(Boot::page().vcpus().div_ceil(2));
    let mut due = clock::now() + params.clock.ticks(period_ns * u64::from(cpu.index()) / probes);
    loop {
        due = due + period;
        cpu.gauge().begin(due.0);
        while clock::now() < due {
            doorbell::idle(cpu, Some(due));
        }
        work.run(cpu);
        cpu.gauge().record(params.clock.ns(clock::now().since(due)));
        cpu.op_done();
    }
}
