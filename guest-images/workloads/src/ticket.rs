//! Lockers: take one ticket lock, work with it held, release it, work without it, and start over. Waits for the lock
//! are recorded.

use crate::params::Params;
use stile_rt::Cpu;
use stile_rt::clock;
use stile_rt::sync::TicketLock;

static LOCK: TicketLock = TicketLock::new();

/// Every vCPU is a locker.
pub fn main(cpu: Cpu) -> u32 {
    run(cpu, &Params::of(cpu))
}

/// One locker; all lockers of a VM share one lock.
pub fn run(cpu: Cpu, params: &Params) -> ! {
    let held = params.work(params.number("hold_ns", 2_000));
    let apart = params.work(params.number("gap_ns", 5_000));
    loop {
        let asked = clock::now();
        cpu.gauge().begin(asked.0);
        let guard = LOCK.lock(cpu.index(), params.patience);
        cpu.gauge().record(params.clock.ns(clock::now().since(asked)));
        held.run(cpu);
        drop(guard);
        cpu.op_done();
        apart.run(cpu);
    }
}
