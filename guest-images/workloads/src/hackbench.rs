//! hackbench: a group of senders and as many receivers. Every sender writes `loops` messages to each receiver, one to
//! each in turn. Each receiver has one pipe for all senders. It checks and counts the messages that come.
//!
//! The first half of the vCPUs send, the second half receive. An operation is a message received.

use crate::assembly::Assembly;
use crate::message::{self, Check, Message};
use crate::params::{Params, fail, refuse};
use stile_rt::sync::{Notifies, Pipe};
use stile_rt::{Boot, Cpu};

/// Messages that fit into a pipe: about as many of this length as a Unix socket takes by default on Linux.
const ROOM: usize = 256;
/// Most receivers of a group. It has as many senders.
const RECEIVERS: usize = message::SENDERS;

static ASSEMBLY: Assembly = Assembly::new();
static PIPES: [Pipe<{ message::BYTES }, ROOM>; RECEIVERS] = [const { Pipe::new(Notifies::Outside) }; RECEIVERS];

/// One sender or receiver. `loops` (default 100) is the number of messages from each sender to each receiver. With
/// `corrupt=1` the last message of the first sender is damaged on its way.
pub fn main(cpu: Cpu) -> u32 {
    let params = Params::of(cpu);
    let fan = Boot::page().vcpus() / 2;
    if fan == 0 || fan as usize > RECEIVERS || !Boot::page().vcpus().is_multiple_of(2) {
        refuse(cpu, format_args!("hackbench wants an even number of vCPUs, up to {}", 2 * RECEIVERS));
    }
    let loops = params.count("loops", 100);
    if cpu.index() < fan {
        let corrupts = cpu.index() == 0 && params.number("corrupt", 0) != 0;
        ASSEMBLY.begin(cpu);
        send(cpu, &params, fan, loops, corrupts);
    } else {
        let mut check = Check::new(fan);
        ASSEMBLY.begin(cpu);
        receive(cpu, &params, &mut check, fan, loops);
    }
    ASSEMBLY.end(cpu)
}

fn send(cpu: Cpu, params: &Params, fan: u32, loops: u32, corrupts: bool) {
    for number in 0..loops {
        for pipe in &PIPES[..fan as usize] {
            let mut message = message::compose(cpu.index(), number);
            if corrupts && number + 1 == loops {
                message[message::BYTES - 1] ^= 1;
            }
            pipe.write(&cpu, params.patience, &message);
        }
    }
}

fn receive(cpu: Cpu, params: &Params, check: &mut Check, fan: u32, loops: u32) {
    let pipe = &PIPES[(cpu.index() - fan) as usize];
    let mut message: Message = [0; message::BYTES];
    for _ in 0..fan * loops {
        pipe.read(&cpu, params.patience, &mut message);
        if let Err(wrong) = check.accept(&message) {
            fail(cpu, message::CORRUPT, format_args!("receiver {}: {wrong}", cpu.index() - fan));
        }
        cpu.gauge().add_bytes(message::BYTES as u64);
        cpu.op_done();
    }
    if !check.is_complete(|_| true, loops) {
        fail(cpu, message::CORRUPT, format_args!("receiver {}: not every sender was heard", cpu.index() - fan));
    }
}
