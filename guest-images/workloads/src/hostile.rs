//! A guest that attacks the monitor and its neighbours by everything that it is allowed to do, and by what it is not.
//!
//! `mode` names an attack of [`ATTACKS`]. A *survivable* one is repeated without end, and its VM has to live. A
//! *deadly* one has to end the attacker's own VM for the reason that the table states, and nothing else. `mode=random`
//! makes survivable attacks in an order that follows from `seed`. Every vCPU attacks, with memory of its own and the
//! one device of the VM.
//!
//! A vCPU counts the inputs that it makes as operations: doorbells, accesses to registers, frames, and descriptors.
//! Each time that their number has doubled it reports the result `inputs`, so that results stay few.

mod altered;
mod attacker;
mod chains;
mod deadly;
mod device;
mod doorbells;
mod frames;
mod queue;
mod random;
mod raw;
mod registers;
mod resets;
mod table;
mod waits;

pub use table::{ATTACKS, Attack, Needs};

use crate::params::{Params, refuse};
use attacker::Attacker;
use stile_rt::abi::milestone;
use stile_rt::{Cpu, doorbell};

/// The exit code of a VM that lives after a deadly attack.
pub const LIVES: u32 = 2;

/// Every vCPU attacks.
pub fn main(cpu: Cpu) -> u32 {
    let params = Params::of(cpu);
    let mode = params.text("mode").unwrap_or("random");
    let peers = u64::from(u16::MAX).min(params.number("peers", 8)) as u16;
    let attacker = Attacker::new(cpu, params.number("seed", 1), peers);
    let mut attacker = attacker.unwrap_or_else(|| refuse(cpu, format_args!("the memory is too small to attack from")));
    doorbell::progress(milestone::READY);
    if mode == "random" {
        let gate_is_open = params.text("gate") == Some("open");
        loop {
            table::any(&mut attacker, gate_is_open).make(&mut attacker);
        }
    }
    let attack = table::named(mode).unwrap_or_else(|| refuse(cpu, format_args!("mode={mode} is no attack")));
    if !attack.is_possible(&attacker) {
        refuse(cpu, format_args!("mode={mode} needs {}", attack.needs));
    }
    loop {
        attack.make(&mut attacker);
        if attack.end.is_some() {
            return LIVES;
        }
    }
}
