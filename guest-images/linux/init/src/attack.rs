//! Attacks on the monitor by what only a driver does: the registers and rings of the guest's virtio devices, without a
//! driver that would keep the rules (virtio 1.2).
//!
//! The devices are taken from their drivers, and their registers mapped from `/dev/mem`. Rings and buffers lie in
//! memory of this process ([`arena`]). Devices are told to write to that memory alone, so the guest's own kernel is not
//! damaged. The attacks ([`moves`]) follow each other in an order that a seed decides.

mod arena;
mod attacker;
mod device;
mod error;
mod moves;

pub(crate) use error::AttackError;

use attacker::Attacker;
use fastrand::Rng;
use std::time::{Duration, Instant};

/// What to attack, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attack {
    /// For how long.
    pub(crate) time: Duration,
    /// Which sequence of attacks.
    pub(crate) seed: u64,
}

/// Makes the attacks, and says how many inputs the devices got.
pub(crate) fn make(attack: &Attack) -> Result<String, AttackError> {
    if std::process::id() != 1 {
        return Err(AttackError::NoGuest);
    }
    let until = Instant::now() + attack.time;
    let mut random = Rng::with_seed(attack.seed);
    let one = |device| Attacker::new(device, random.fork());
    let mut attackers = device::take_all()?.into_iter().map(one).collect::<Result<Vec<_>, _>>()?;
    let mut choice = random.fork();
    while Instant::now() < until {
        let at = choice.usize(..attackers.len());
        let attacker = &mut attackers[at];
        let moves = moves::of(attacker.device.kind());
        choice.choice(moves).into_iter().for_each(|(_, make)| make(attacker));
    }
    // Nothing of this process is a device's any more when it ends.
    attackers.iter().for_each(|attacker| attacker.device.reset());
    let inputs: u64 = attackers.iter().map(|attacker| attacker.inputs).sum();
    Ok(format!("{inputs} inputs to {} devices", attackers.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_process_attacks() {
        let attack = Attack { time: Duration::ZERO, seed: 1 };
        assert!(matches!(make(&attack), Err(AttackError::NoGuest)));
    }
}
