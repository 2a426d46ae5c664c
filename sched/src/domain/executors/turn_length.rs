//! How long an executor runs vCPUs between two questions, learnt from the last ones.
//!
//! A timer that is set for an earlier lease interrupts a guest for nothing, which costs an exit; setting it anew costs
//! a system call. Where vCPUs stop often by themselves, neither is needed: before the timer fires, the executor asks
//! again and again, and can set it later the last time. So it is set anew once it would fire within the next few
//! questions.

use crate::time::Nanos;

/// The mean of the last spans.
#[derive(Debug, Default)]
pub(super) struct TurnLength(Nanos);

impl TurnLength {
    /// Half of a new mean is known after about eleven spans.
    const LEARN: u64 = 16;
    /// Spans in which the executor asks almost surely: of spans that end at random, one in 400 is six times the mean.
    const SURE: u64 = 6;

    /// The executor asked after so long.
    pub(super) fn learn(&mut self, span: Nanos) {
        self.0 = Nanos(self.0.0 - self.0.0 / Self::LEARN + span.0 / Self::LEARN);
    }

    /// A timer that would fire within this span is set anew, if it is too early.
    pub(super) fn window(&self) -> Nanos {
        Nanos(self.0.0 * Self::SURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_the_spans() {
        let mut turns = TurnLength::default();
        (0..100).for_each(|_| turns.learn(Nanos::from_micros(50)));
        assert!((290..=300).contains(&(turns.window().0 / 1000)), "{turns:?}");
        (0..100).for_each(|_| turns.learn(Nanos::from_millis(3)));
        assert!(turns.window() > Nanos::from_millis(17), "then a timer is always set anew");
    }
}
