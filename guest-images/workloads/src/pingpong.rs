//! Pairs of vCPUs that send each other one message at a time. An operation is a message received. The vCPU that asked
//! records the time from its message to the answer.

use crate::params::Params;
use stile_rt::sync::Mailbox;
use stile_rt::{Boot, Cpu, clock, doorbell};

/// Most vCPUs that can play.
const SEATS: usize = 1024;

static MAILBOXES: [Mailbox; SEATS] = [const { Mailbox::new() }; SEATS];

/// vCPUs 2k and 2k+1 are a pair; an odd one out idles.
pub fn main(cpu: Cpu) -> u32 {
    let params = Params::of(cpu);
    if cpu.index() ^ 1 >= Boot::page().vcpus() {
        loop {
            doorbell::idle(cpu, None);
        }
    }
    run(cpu, &params, cpu.index() ^ 1, cpu.index() & 1 == 0)
}

/// One player; exactly one of a pair `serves`. Works `work_ns` (default 0) before each message.
pub fn run(cpu: Cpu, params: &Params, peer: u32, serves: bool) -> ! {
    let mine = &MAILBOXES[cpu.index() as usize % SEATS];
    let theirs = &MAILBOXES[peer as usize % SEATS];
    let work = params.work(params.number("work_ns", 0));
    if !serves {
        // The first message comes unasked.
        mine.receive(peer, params.patience);
        cpu.op_done();
    }
    loop {
        work.run(cpu);
        let asked = clock::now();
        cpu.gauge().begin(asked.0);
        theirs.send(1);
        mine.receive(peer, params.patience);
        cpu.gauge().record(params.clock.ns(clock::now().since(asked)));
        cpu.op_done();
    }
}
