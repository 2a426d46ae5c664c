//! Shows the progress of a comparison, the cell that runs, and the time left: a bar and a line on a terminal, a line
//! for each round elsewhere.
//!
//! Progress is planned time: the bar shows the part of the plan that is done, and the time left is the rest of the plan
//! at the pace so far. A run that goes on until its intervals are narrow has a limit instead of a plan. Its bar shows
//! the part of the limit that has passed, and the time left is the most that the run still takes.

use crate::plan::options::Options;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// The first runs must not more than double or halve the estimate.
const PACE: std::ops::RangeInclusive<f64> = 0.5..=2.0;

/// The display of one or several plans.
pub struct Progress {
    bar: Option<ProgressBar>,
    whole: Duration,
    /// The plan's time.
    done: Duration,
    began: Instant,
    /// What runs: "netbench, round 2 of 5".
    round: String,
    /// Whether the run goes on until intervals are narrow, or its time is over.
    is_open: bool,
}

impl Progress {
    /// A display for this planned time: a bar on standard error, or a line for each round.
    pub fn new(whole: Duration, has_bar: bool) -> Self {
        let bar = has_bar.then(|| {
            let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {elapsed}, {prefix}\n  {wide_msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(whole.as_millis() as u64).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, whole, done: Duration::ZERO, began: Instant::now(), round: String::new(), is_open: false }
    }

    /// The bar, if there is one.
    pub fn bar(&self) -> Option<&ProgressBar> {
        self.bar.as_ref()
    }

    /// Call when a round begins. Reports it if there is no bar.
    pub(super) fn round(&mut self, options: &Options, round: u32) {
        let of = if options.until.is_some() { String::new() } else { format!(" of {}", options.rounds()) };
        self.is_open = options.until.is_some();
        self.round = format!("{}, round {}{of}", options.suite, round + 1);
        if self.bar.is_none() {
            tracing::info!("{}, {}", self.round, self.left());
        }
    }

    /// Call when a cell begins.
    pub(super) fn cell(&self, label: &str, case: &str) {
        if let Some(bar) = &self.bar {
            bar.set_prefix(self.left());
            bar.set_message(format!("{}: {label}, {case}", self.round));
        }
    }

    /// Call when a cell is done that was planned to take this long.
    pub(super) fn advance(&mut self, planned: Duration) {
        self.done += planned;
        let at = if self.is_open { self.began.elapsed() } else { self.done };
        if let Some(bar) = &self.bar {
            bar.set_position(at.min(self.whole).as_millis() as u64);
        }
    }

    /// Call when a plan is done, whether or not all of it was needed. All plans so far were planned to take this long.
    pub fn reached(&mut self, planned: Duration) {
        self.done = planned;
    }

    /// Call when the run is over.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn left(&self) -> String {
        let elapsed = self.began.elapsed();
        match self.is_open {
            true => format!("at most {} left", span(self.whole.saturating_sub(elapsed))),
            false => format!("about {} left", span(left(self.whole, self.done, elapsed))),
        }
    }
}

/// The time left: the rest of the plan at the pace so far.
fn left(whole: Duration, done: Duration, elapsed: Duration) -> Duration {
    let pace = if done.is_zero() { 1.0 } else { elapsed.as_secs_f64() / done.as_secs_f64() };
    whole.saturating_sub(done).mul_f64(pace.clamp(*PACE.start(), *PACE.end()))
}

/// A time in words: "45 s", "12 min".
fn span(time: Duration) -> String {
    match time.as_secs_f64().ceil() as u64 {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_follows_the_pace_so_far_within_bounds() {
        let of =
            |done, elapsed| left(Duration::from_secs(100), Duration::from_secs(done), Duration::from_secs(elapsed));
        assert_eq!([of(0, 0), of(50, 60), of(50, 5)].map(|left| left.as_secs()), [100, 60, 25]);
        assert_eq!([of(100, 130), of(120, 130)], [Duration::ZERO; 2]);
    }

    #[test]
    fn a_run_without_a_plan_has_what_is_left_of_its_limit_however_slow_it_is() {
        let began = Instant::now().checked_sub(Duration::from_secs(40)).expect("the machine runs for longer");
        let slow = Progress { began, is_open: true, ..Progress::new(Duration::from_secs(100), false) };
        // A tick may pass; it changes the result by a hundredth at most.
        assert!(["at most 59 s left", "at most 60 s left"].contains(&slow.left().as_str()), "{}", slow.left());
    }

    #[test]
    fn long_times_are_told_in_minutes() {
        assert_eq!(
            [0, 45, 119, 120, 700].map(|seconds| span(Duration::from_secs(seconds))),
            ["0 s", "45 s", "119 s", "2 min", "12 min"]
        );
    }
}
