//! The one list of attacks, for the guest and for those who start it.

use super::attacker::Attacker;
use super::device::Device;
use super::{altered, chains, deadly, doorbells, frames, registers, resets, waits};
use core::fmt;
use stile_rt::Boot;

/// What an attack needs of its VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// A network device.
    Network,
    /// That the monitor has opened the gate, else the attack waits there. `gate=open` says so to `mode=random`.
    Gate,
}

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "nothing",
            Self::Network => "a network device",
            Self::Gate => "an open gate",
        })
    }
}

/// One round of an attack.
#[derive(Debug, Clone, Copy)]
enum Round {
    Plain(fn(&mut Attacker)),
    On(fn(&mut Attacker, Device)),
}

/// An attack.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// Its name, for `mode`.
    pub name: &'static str,
    /// What it needs.
    pub needs: Needs,
    /// Why it ends its VM, as the monitor says it; `None` if the VM has to live.
    pub end: Option<&'static str>,
    /// Other vCPUs must not make other attacks meanwhile, or they would have the device write into the program.
    alone: bool,
    round: Round,
}

impl Attack {
    const fn plain(name: &'static str, round: fn(&mut Attacker)) -> Self {
        Self { name, needs: Needs::Nothing, end: None, alone: false, round: Round::Plain(round) }
    }

    const fn on_device(name: &'static str, round: fn(&mut Attacker, Device)) -> Self {
        Self { name, needs: Needs::Network, end: None, alone: false, round: Round::On(round) }
    }

    const fn behind_gate(self) -> Self {
        Self { needs: Needs::Gate, ..self }
    }

    const fn alone(self) -> Self {
        Self { alone: true, ..self }
    }

    const fn ends(self, why: &'static str) -> Self {
        Self { end: Some(why), ..self }
    }

    /// Whether this VM has what the attack needs. Whether a gate is open is not known.
    pub(super) fn is_possible(&self, attacker: &Attacker) -> bool {
        self.needs != Needs::Network || attacker.device.is_some()
    }

    /// Makes one round. Without the device that it needs it does nothing.
    pub(super) fn make(&self, attacker: &mut Attacker) {
        match (self.round, attacker.device) {
            (Round::Plain(round), _) => round(attacker),
            (Round::On(round), Some(device)) => round(attacker, device),
            (Round::On(_), None) => {}
        }
    }
}

/// All attacks.
pub const ATTACKS: &[Attack] = &[
    Attack::plain("doorbells", doorbells::storm),
    Attack::plain("kicks", doorbells::kicks),
    Attack::plain("hints", doorbells::hints),
    Attack::plain("prints", doorbells::prints),
    Attack::plain("escapes", doorbells::escapes),
    Attack::plain("serial", doorbells::serial),
    Attack::plain("idles", waits::idles),
    Attack::plain("gates", waits::gates).behind_gate(),
    Attack::plain("spins", waits::spins),
    Attack::on_device("altered-spins", altered::spins).alone(),
    Attack::on_device("registers", registers::noise),
    Attack::on_device("disorder", registers::disorder),
    Attack::on_device("resets", resets::resets),
    Attack::on_device("stolen-macs", frames::stolen_macs),
    Attack::on_device("group-floods", frames::group_floods),
    Attack::on_device("peer-floods", frames::peer_floods),
    Attack::on_device("wrong-sizes", frames::wrong_sizes),
    Attack::on_device("giant-chains", chains::giants),
    Attack::on_device("looping-chains", chains::loops),
    Attack::on_device("tables", chains::tables),
    Attack::on_device("buffers-nowhere", chains::nowhere),
    Attack::on_device("crumbs", chains::crumbs),
    Attack::on_device("claims", chains::claims),
    Attack::plain("unknown-port", deadly::unknown_port).ends("4-byte access to port 0x123, which is no doorbell"),
    Attack::plain("far-port", deadly::far_port).ends("exception 13 (general protection), error code 0x0"),
    Attack::plain("narrow-doorbell", deadly::narrow_doorbell).ends("2-byte access to port 0x50c, which is no doorbell"),
    Attack::plain("crooked-doorbell", deadly::crooked_doorbell)
        .ends("4-byte access to port 0x50d, which is no doorbell"),
    Attack::plain("read-doorbell", deadly::read_doorbell).ends("4-byte access to port 0x508, which is no doorbell"),
    Attack::plain("serial-string", deadly::serial_string).ends("2-byte access to port 0x3f8, which is no doorbell"),
    Attack::plain("forged-exception", deadly::forged_exception)
        .ends("1-byte access to port 0x2e, which is no doorbell"),
    Attack::plain("hint-of-a-stranger", deadly::hint_of_a_stranger)
        .ends("breaks the ABI at doorbell yield: Lock { holder: 1024 } names a vCPU the VM does not have"),
    Attack::plain("hint-of-nothing", deadly::hint_of_nothing)
        .ends("breaks the ABI at doorbell yield: value 0xffffffff is no hint"),
    Attack::plain("kick-of-a-stranger", deadly::kick_of_a_stranger)
        .ends("breaks the ABI at doorbell kick: the VM has no vCPU 1024"),
    Attack::plain("long-print", deadly::long_print)
        .ends("breaks the ABI at doorbell console: 4097 bytes, more than 4096"),
    Attack::plain("print-of-no-memory", deadly::print_of_no_memory)
        .ends("breaks the ABI at doorbell console: 16 bytes at 0xfffffffffffffff8 are not all memory"),
    Attack::plain("long-name", deadly::long_name)
        .ends("breaks the ABI at doorbell result: a name of 65 bytes, more than 64"),
    Attack::plain("name-of-no-memory", deadly::name_of_no_memory)
        .ends("breaks the ABI at doorbell result: the name at 0xd0000000 is not memory"),
    Attack::plain("name-of-no-text", deadly::name_of_no_text)
        .ends("breaks the ABI at doorbell result: the name is not UTF-8"),
    Attack::plain("results", deadly::results).ends("breaks the ABI at doorbell result: more than 4096 results"),
    Attack::plain("boot-page", deadly::boot_page).ends("exception 14 (page fault), error code 0x7, touching 0x1000"),
    Attack::plain("own-text", deadly::own_text).ends("exception 14 (page fault), error code 0x7, touching 0x200000"),
    Attack::plain("segments", deadly::segments).ends("exception 14 (page fault), error code 0x7, touching 0x2000"),
    Attack::plain("no-memory", deadly::no_memory)
        .ends("exception 14 (page fault), error code 0x4, touching 0xcffff000"),
    Attack::plain("halt", deadly::halts).ends("exception 13 (general protection), error code 0x0"),
    Attack::on_device("behind-registers", deadly::behind_registers)
        .ends("exception 14 (page fault), error code 0x6, touching 0xd0001000"),
    Attack::on_device("overwritten-segments", deadly::overwritten_segments).ends("triple fault"),
];

/// Survivable attacks, which come first.
const SURVIVABLE: usize = {
    let mut count = 0;
    while ATTACKS[count].end.is_none() {
        count += 1;
    }
    count
};

/// The attack of this name.
pub(super) fn named(name: &str) -> Option<&'static Attack> {
    ATTACKS.iter().find(|attack| attack.name == name)
}

/// Any survivable attack that this VM can make. Some need nothing.
pub(super) fn any(attacker: &mut Attacker, gate_is_open: bool) -> &'static Attack {
    loop {
        let attack = &ATTACKS[attacker.random.below(SURVIVABLE as u64) as usize];
        let is_alone = Boot::page().vcpus() == 1;
        let may = (is_alone || !attack.alone) && (gate_is_open || attack.needs != Needs::Gate);
        if may && attack.is_possible(attacker) {
            return attack;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_survivable_attacks_come_first() {
        for (at, attack) in ATTACKS.iter().enumerate() {
            assert!(ATTACKS[..at].iter().all(|other| other.name != attack.name), "{}", attack.name);
        }
        assert!(ATTACKS.is_sorted_by_key(|attack| attack.end.is_some()));
        assert!(named("kicks").is_some_and(|attack| attack.end.is_none()) && named("random").is_none());
    }
}
