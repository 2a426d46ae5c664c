//! Abuse of what makes a vCPU wait: idling, the gate, and spinning.

use super::attacker::Attacker;
use super::raw::spin;
use stile_rt::clock::{self, Ticks};
use stile_rt::doorbell;

/// Waits in a round.
const ROUND: u64 = 32;
/// Turns of a loop: some 100 us.
const TURNS: u64 = 2000;

/// Idles until moments that have passed, that come at once, and that never come.
pub(super) fn idles(attacker: &mut Attacker) {
    for _ in 0..ROUND {
        let now = clock::now();
        // An event that has come already makes an idle return at once, so that no deadline is too far.
        match attacker.random.below(4) {
            0 => doorbell::idle(attacker.cpu, Some(Ticks(attacker.random.below(now.0)))),
            1 => doorbell::idle(attacker.cpu, Some(now + Ticks(attacker.random.below(20_000)))),
            2 => kicked_idle(attacker, Some(Ticks(u64::MAX - 1 - attacker.random.clone().below(1 << 32)))),
            _ => kicked_idle(attacker, None),
        }
    }
    attacker.made(ROUND);
}

fn kicked_idle(attacker: &Attacker, until: Option<Ticks>) {
    doorbell::kick(attacker.cpu.index());
    doorbell::idle(attacker.cpu, until);
}

/// Goes to the gate, which is open, again and again, with events for itself in between.
pub(super) fn gates(attacker: &mut Attacker) {
    for _ in 0..ROUND {
        doorbell::gate();
        doorbell::kick(attacker.cpu.index());
    }
    attacker.made(2 * ROUND);
}

/// Spins in loops that are hard to read.
pub(super) fn spins(attacker: &mut Attacker) {
    spin(1 + attacker.random.below(TURNS));
    attacker.made(2);
}
