//! What is running and how long it will take: a bar on a terminal, a line per round elsewhere.

use super::plan::{CellPlan, Plan};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// The display of a run.
pub struct Progress {
    bar: Option<ProgressBar>,
    rounds: u32,
}

impl Progress {
    /// A display for this plan, on standard error.
    pub fn new(plan: &Plan) -> Self {
        let rounds = plan.cells.last().map_or(0, |cell| cell.round + 1);
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs, {elapsed} of about {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(plan.cells.len() as u64).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, rounds }
    }

    /// A cell begins.
    pub fn cell(&self, cell: &CellPlan, label: &str, case: &str, total: Duration) {
        if let Some(bar) = &self.bar {
            let (total, round) = (total.as_secs(), cell.round + 1);
            bar.set_message(format!("{total} s; round {round} of {}: {label}, {case}", self.rounds));
        }
    }

    /// A cell is done.
    pub fn advance(&self) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        }
    }

    /// A round begins; told where there is no bar.
    pub fn round(&self, round: u32) {
        if self.bar.is_none() {
            eprintln!("round {} of {}", round + 1, self.rounds);
        }
    }

    /// The run is over.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
