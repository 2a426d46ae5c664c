//! The columns of the table: headings, widths, meanings, and how each value is sorted and shown.
//!
//! Shares are of the time of all vCPUs of a VM, as in the tables of `stile run --stats`. A value that is not known is
//! `-`, never 0.

use stile_api::{Figures, Spans, VmFigures};
use stile_text::{si, time_us};

/// What is shown for a value that is not known.
const UNKNOWN: &str = "-";

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// Name.
    Name,
    /// State of a VM; the pCPU of a vCPU.
    State,
    /// Nice value.
    Nice,
    /// Scheduling class.
    Class,
    /// Most CPUs.
    Cap,
    /// Share of time on a pCPU.
    Run,
    /// Share of time in which it waited for a pCPU.
    Ready,
    /// Share of time in which a cap held it back.
    Capped,
    /// Share of time that the host took.
    Taken,
    /// Steal time as a share.
    Steal,
    /// Median wait.
    WaitP50,
    /// 99th percentile of waits.
    WaitP99,
    /// Longest wait.
    WaitMax,
    /// Rate of exits.
    Exits,
    /// Rate of turns.
    Turns,
    /// Rate of migrations.
    Moves,
}

/// How a column looks.
pub(crate) struct Look {
    /// First line of the heading.
    pub(crate) top: &'static str,
    /// Second line of it.
    pub(crate) bottom: &'static str,
    /// Cells of the screen.
    pub(crate) width: u16,
    /// Its rank when the screen is too narrow: the largest number goes first.
    pub(crate) rank: u8,
    /// What it says, for the help.
    pub(crate) meaning: &'static str,
}

/// A value by which rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    /// Sorted upwards at first.
    Text(&'a str),
    /// Sorted downwards at first.
    Number(f64),
}

/// What a row is about.
#[derive(Clone, Copy)]
pub(crate) struct Subject<'a> {
    /// The VM; absent for a vCPU, which has no attributes of its own.
    pub(crate) vm: Option<&'a VmFigures>,
    /// Its figures.
    pub(crate) figures: &'a Figures,
    /// The length of the interval (unit: s); absent if the figures are since the start.
    pub(crate) seconds: Option<f64>,
}

const fn look(top: &'static str, bottom: &'static str, width: u16, rank: u8, meaning: &'static str) -> Look {
    Look { top, bottom, width, rank, meaning }
}

impl Column {
    /// All, in order.
    pub(crate) const ALL: [Self; 16] = [
        Self::Name,
        Self::State,
        Self::Nice,
        Self::Class,
        Self::Cap,
        Self::Run,
        Self::Ready,
        Self::Capped,
        Self::Taken,
        Self::Steal,
        Self::WaitP50,
        Self::WaitP99,
        Self::WaitMax,
        Self::Exits,
        Self::Turns,
        Self::Moves,
    ];

    /// How it looks. The name's width is the least.
    pub(crate) fn look(self) -> Look {
        match self {
            Self::Name => look("name", "", 12, 0, "the VM, after its letter in the strip of pCPUs"),
            Self::State => look("state", "", 7, 3, "of a VM; for a vCPU, the pCPU that it has now"),
            Self::Nice => look("nice", "", 5, 4, "weight of its vCPUs: the lower, the more CPU time"),
            Self::Class => look("class", "", 6, 14, "scheduling class"),
            Self::Cap => look("cap", "CPUs", 5, 6, "CPUs that it may use at most"),
            Self::Run => look("run", "%", 6, 0, "time on a pCPU"),
            Self::Ready => look("ready", "%", 6, 1, "time in which it could run and had no pCPU"),
            Self::Capped => look("capped", "%", 7, 12, "part of ready for which its cap held it back"),
            Self::Taken => look("taken", "%", 6, 7, "time in which the host ran something else on its pCPU"),
            Self::Steal => look("steal", "told %", 6, 10, "steal time that the guest can read"),
            Self::WaitP50 => look("wait", "p50", 7, 11, "its waits for a pCPU, one by one: the median"),
            Self::WaitP99 => look("wait", "p99", 7, 2, "its waits for a pCPU, one by one: 99th percentile"),
            Self::WaitMax => look("wait", "max", 7, 9, "its waits for a pCPU, one by one: the longest"),
            Self::Exits => look("exits", "/s", 6, 6, "exits from the guest to the monitor"),
            Self::Turns => look("turns", "/s", 6, 8, "times that it was put on a pCPU"),
            Self::Moves => look("moves", "/s", 6, 13, "turns on another pCPU than the one before"),
        }
    }

    /// Its name in texts.
    pub(crate) fn name(self) -> String {
        let Look { top, bottom, .. } = self.look();
        format!("{top} {bottom}").trim_end().to_owned()
    }

    /// What a row is sorted by; `None` if it is not known.
    pub(crate) fn value<'a>(self, subject: &Subject<'a>) -> Option<Value<'a>> {
        let figures = subject.figures;
        let text = match self {
            Self::Name => subject.vm.map(|vm| vm.name.as_str()),
            Self::State => subject.vm.map(|vm| vm.state.name()),
            Self::Class => subject.vm.map(|vm| vm.class.as_str()),
            _ => None,
        };
        let number = match self {
            Self::Name | Self::State | Self::Class => None,
            Self::Nice => subject.vm.map(|vm| f64::from(vm.nice)),
            Self::Cap => subject.vm.and_then(|vm| vm.cap),
            Self::Run => share(figures, Some(figures.run_seconds)),
            Self::Ready => share(figures, Some(figures.wait_seconds)),
            Self::Capped => share(figures, figures.throttled_seconds),
            Self::Taken => share(figures, figures.taken_seconds),
            Self::Steal => share(figures, figures.steal_seconds),
            Self::WaitP50 => span(figures, |waits| waits.p50),
            Self::WaitP99 => span(figures, |waits| waits.p99),
            Self::WaitMax => span(figures, |waits| waits.max),
            Self::Exits => rate(figures.exits, subject.seconds),
            Self::Turns => rate(figures.turns, subject.seconds),
            Self::Moves => rate(figures.migrations, subject.seconds),
        };
        text.map(Value::Text).or(number.map(Value::Number))
    }

    /// The value as it is shown.
    pub(crate) fn text(self, subject: &Subject<'_>) -> String {
        let value = match self.value(subject) {
            None if self.is_of_vms() && subject.vm.is_none() => return String::new(),
            None => return UNKNOWN.to_owned(),
            Some(Value::Text(text)) => return text.to_owned(),
            Some(Value::Number(value)) => value,
        };
        match self {
            Self::Run | Self::Ready | Self::Capped | Self::Taken | Self::Steal => format!("{:.1}", 100.0 * value),
            Self::WaitP50 | Self::WaitP99 | Self::WaitMax => time_text(value),
            Self::Exits | Self::Turns | Self::Moves => si(value.round()),
            _ => value.to_string(),
        }
    }

    /// Whether it stands at the left edge of its cells.
    pub(crate) fn is_text(self) -> bool {
        matches!(self, Self::Name | Self::State | Self::Class)
    }

    fn is_of_vms(self) -> bool {
        self.is_text() || matches!(self, Self::Nice | Self::Cap)
    }
}

/// The part that `part` is of all time of its vCPUs.
pub(crate) fn share(figures: &Figures, part: Option<f64>) -> Option<f64> {
    let taken = figures.taken_seconds.unwrap_or_default();
    let all = figures.run_seconds + figures.wait_seconds + figures.idle_seconds + taken;
    part.filter(|_| all > 0.0).map(|part| part / all)
}

/// Times each second.
pub(crate) fn rate(count: u64, seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|seconds| *seconds > 0.0).map(|seconds| count as f64 / seconds)
}

/// A time given in seconds.
pub(crate) fn time_text(seconds: f64) -> String {
    time_us(seconds * 1e6)
}

fn span(figures: &Figures, of: impl Fn(&Spans) -> Option<f64>) -> Option<f64> {
    figures.waits.as_ref().and_then(of)
}
