//! How long a vCPU spins before it yields, learnt from its yields.

use crate::time::Nanos;

/// What a vCPU runs from the beginning of its spinning until it yields, when it makes no progress (units: ns).
#[derive(Debug, Clone, Copy)]
pub(super) struct Look(Nanos);

impl Look {
    /// So much longer is progress: one part in so many.
    const MARGIN: u64 = 16;
    /// Half of a new length is known after about three looks.
    const LEARN: u64 = 4;
    /// While it makes progress at every look, its estimate grows by one part in so many: spinning may have become
    /// slower.
    const GROW: u64 = 4096;

    /// As good as infinite: the first looks are in vain until the length is known.
    pub(super) fn unknown() -> Self {
        Self(Nanos::from_millis(1))
    }

    /// Whether a vCPU that ran so long made progress; learns from it.
    pub(super) fn got_on(&mut self, ran: Nanos) -> bool {
        let Self(Nanos(look)) = *self;
        let got_on = ran.0 > look + look / Self::MARGIN;
        self.0 = Nanos(if got_on { look + look / Self::GROW } else { look - look / Self::LEARN + ran.0 / Self::LEARN });
        got_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Nanos = Nanos::from_micros;

    #[test]
    fn who_runs_longer_than_it_looks_got_on() {
        let mut look = Look::unknown();
        (0..40).for_each(|_| assert!(!look.got_on(US(35))));
        assert!(look.got_on(US(42)));
        assert!(!look.got_on(US(36)));
    }

    #[test]
    fn spinning_that_has_become_slower_is_learnt_and_faster_at_once() {
        let mut look = Look::unknown();
        (0..40).for_each(|_| _ = look.got_on(US(35)));
        let mistaken = (0..10_000).take_while(|_| look.got_on(US(50))).count();
        assert!(mistaken < 2_000, "{mistaken}");
        let mistaken = (0..100).filter(|_| look.got_on(US(35))).count();
        assert_eq!(mistaken, 0);
        assert!(look.got_on(US(42)));
    }
}
