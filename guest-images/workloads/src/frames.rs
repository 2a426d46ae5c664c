//! A program that a user watches or listens to. Every `period_us` it has a job that takes `work_us`, which must be done
//! before the next one is due. The recorded response is the time from due to done. Missed deadlines ([`Deadlines`]) are
//! counted in the gauge's first spare word.
//!
//! With `waits=N` a job has N pieces. After each piece the vCPU waits `wait_us` for its graphics device, as programs
//! that draw do: it looks whether the device is done, and yields in between.

use crate::deadline::Deadlines;
use crate::params::Params;
use stile_rt::abi::{HintKind, exit, milestone};
use stile_rt::clock::{self, Ticks};
use stile_rt::{Cpu, doorbell};

/// vCPU 0 does the jobs. Other vCPUs have no work.
pub fn main(cpu: Cpu) -> u32 {
    if cpu.index() != 0 {
        return exit::OK;
    }
    let params = Params::of(cpu);
    let waits = params.number("waits", 0);
    let piece = params.work(params.number("work_us", 1_000) * 1000 / waits.max(1));
    let device = params.clock.ticks(params.number("wait_us", 0) * 1000);
    let mut deadlines = deadlines(&params);
    doorbell::progress(milestone::READY);
    loop {
        sleep_until(cpu, deadlines.due());
        for _ in 0..waits.max(1) {
            piece.run(cpu);
            if waits > 0 {
                let drawn = clock::now() + device;
                params.patience.wait(|| clock::now() >= drawn, || HintKind::Unknown);
            }
        }
        finished(cpu, &params, &mut deadlines);
    }
}

/// The deadlines that the command line names, from now on.
pub(crate) fn deadlines(params: &Params) -> Deadlines {
    let period = params.clock.ticks(params.number("period_us", 20_000) * 1000);
    Deadlines::new(clock::now() + period, period).in_bursts(params.number("burst", 1), params.number("rest", 0))
}

/// Waits until a job is due.
pub(crate) fn sleep_until(cpu: Cpu, due: Ticks) {
    cpu.gauge().begin(due.0);
    while clock::now() < due {
        doorbell::idle(cpu, Some(due));
    }
}

/// Counts the job that was due as done, and the deadlines that were missed.
pub(crate) fn finished(cpu: Cpu, params: &Params, deadlines: &mut Deadlines) {
    let now = clock::now();
    let gauge = cpu.gauge();
    gauge.record(params.clock.ns(now.since(deadlines.due())));
    gauge.add_spare(0, deadlines.done(now));
    cpu.op_done();
}
