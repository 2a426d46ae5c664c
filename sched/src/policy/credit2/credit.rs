//! Credit and weight: what a nanosecond of CPU time costs, and what it leaves.
//!
//! All here is arithmetic. Which vCPU runs, and when a reset is due, is the policy's business.

use crate::ids::Nice;
use crate::time::Nanos;

/// Credit: what a vCPU may still burn before its next reset (unit: ns of the heaviest vCPU of its run queue).
pub(super) type Credit = i64;

/// What a reset adds, and what a new vCPU has. Xen: CSCHED2_CREDIT_INIT.
pub(super) const RESET: Credit = 10_000_000;
/// What a vCPU may keep of its credit over a reset. Xen: CSCHED2_CARRYOVER_MAX.
pub(super) const CARRY_OVER: Credit = 500_000;
/// The most credit: a reset's, and what is kept.
pub(super) const MOST: Credit = RESET + CARRY_OVER;
/// The least credit: deeper debts are forgiven. Xen: CSCHED2_CREDIT_MIN.
pub(super) const LEAST: Credit = -RESET;

/// Weight of nice 0. Xen: CSCHED2_DEFAULT_WEIGHT.
const DEFAULT_WEIGHT_BITS: i8 = 8;
/// 2 to the power of 0, 1/3 and 2/3 (unit: 1/65536).
const THIRDS: [u32; 3] = [65_536, 82_570, 104_032];

/// Weight of a nice value: 256 at nice 0, and twice as much every three steps below it. Range: 3 to 26008.
pub fn weight(nice: Nice) -> u32 {
    let doublings = (-nice.get()).div_euclid(3);
    let third = THIRDS[(-nice.get()).rem_euclid(3) as usize];
    let shift = 16 - DEFAULT_WEIGHT_BITS - doublings;
    (third + (1 << (shift - 1))) >> shift
}

/// What running costs a vCPU beside heavier ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// Its own weight.
    pub(super) weight: u32,
    /// The highest weight of its run queue.
    pub(super) heaviest: u32,
}

impl Rate {
    /// Credit that is burned in this time, and the part that is left of the division: of the time before, then of this.
    pub(super) fn burn(self, ran: Nanos, rest: u32) -> (Credit, u32) {
        let (weight, heaviest) = (u128::from(self.weight), u128::from(self.heaviest));
        let burned = u128::from(ran.0) * heaviest + u128::from(rest);
        let credit = Credit::try_from(burned / weight).unwrap_or(Credit::MAX);
        (credit, (burned % weight) as u32)
    }

    /// How long it takes to burn this much credit; none at all for a debt.
    pub(super) fn time(self, credit: Credit) -> Nanos {
        Nanos(credit.max(0) as u64 * u64::from(self.weight) / u64::from(self.heaviest))
    }
}

/// How many vCPUs of a run queue have which weight.
#[derive(Debug, Clone)]
pub(super) struct Weights {
    /// By nice value.
    counts: [u32; NICES],
    /// Nice values that a vCPU has.
    present: u64,
}

const NICES: usize = 40;

impl Weights {
    pub(super) fn new() -> Self {
        Self { counts: [0; NICES], present: 0 }
    }

    pub(super) fn add(&mut self, nice: Nice) {
        let at = index(nice);
        self.counts[at] += 1;
        self.present |= 1 << at;
    }

    pub(super) fn remove(&mut self, nice: Nice) {
        let at = index(nice);
        self.counts[at] -= 1;
        if self.counts[at] == 0 {
            self.present &= !(1 << at);
        }
    }

    /// The highest weight; that of nice 19 where there is none.
    pub(super) fn heaviest(&self) -> u32 {
        let at = (self.present.trailing_zeros() as usize).min(NICES - 1);
        weight(Nice::new(at as i8 - 20).expect("an index below 40"))
    }
}

fn index(nice: Nice) -> usize {
    (nice.get() + 20) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice(nice: i8) -> Nice {
        Nice::new(nice).unwrap()
    }

    #[test]
    fn a_weight_doubles_every_three_steps_of_nice() {
        for (value, expected) in [(0, 256), (3, 128), (6, 64), (9, 32), (-3, 512), (-20, 26_008), (19, 3)] {
            assert_eq!(weight(nice(value)), expected, "nice {value}");
        }
        for value in -20..19 {
            let step = f64::from(weight(nice(value))) / f64::from(weight(nice(value + 1)));
            assert!((1.2..=1.34).contains(&step), "from nice {value} on: {step}");
        }
    }

    #[test]
    fn the_heaviest_burns_a_credit_a_nanosecond_and_half_its_weight_burns_two() {
        let heavy = Rate { weight: 256, heaviest: 256 };
        let light = Rate { weight: 128, ..heavy };
        assert_eq!((heavy.burn(Nanos(700), 0), light.burn(Nanos(700), 0)), ((700, 0), (1400, 0)));
        assert_eq!((heavy.time(700), light.time(700), light.time(-700)), (Nanos(700), Nanos(350), Nanos(0)));
    }

    #[test]
    fn what_a_division_leaves_is_burned_later() {
        let rate = Rate { weight: 81, heaviest: 256 };
        let (mut credit, mut rest) = (0, 0);
        for _ in 0..81 {
            let (burned, left) = rate.burn(Nanos(7), rest);
            (credit, rest) = (credit + burned, left);
        }
        assert_eq!((credit, rest), (7 * 256, 0));
    }

    #[test]
    fn the_heaviest_is_known_again_when_a_heavier_one_has_left() {
        let mut weights = Weights::new();
        [0, 5, -3, 0].into_iter().for_each(|value| weights.add(nice(value)));
        assert_eq!(weights.heaviest(), 512);
        weights.remove(nice(-3));
        assert_eq!(weights.heaviest(), 256);
        weights.remove(nice(0));
        assert_eq!(weights.heaviest(), 256, "there is another one");
        weights.remove(nice(0));
        assert_eq!(weights.heaviest(), 81);
    }
}
