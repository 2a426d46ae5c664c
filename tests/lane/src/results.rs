//! Reads the outer system's second serial line: a line for the begin, a new try and the end of a test, for a CPU that
//! is alive, and for the end of all.
//!
//! The serial line is a file that grows. A last line without a line end is not complete yet.

use std::fmt;
use std::time::Duration;

/// A line. Times are the machine's own, since it booted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// A test begins.
    Begin(String, Duration),
    /// A test failed in a way that may be the emulator's, and begins once more.
    Again(String, Duration),
    /// A test ended, with this exit code.
    End(String, i32, Duration),
    /// This CPU is alive.
    Alive(usize),
    /// All were run.
    Done,
}

/// The exit code of a program that was killed by SIGKILL, which only its limit sends: that of the shell.
const KILLED: i32 = 128 + 9;

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It passed, after this time of the machine.
    Passed(Duration),
    /// It passed, after this time and with this try.
    PassedAfterAll(Duration, u32),
    /// It failed with this exit code.
    Failed(i32),
    /// It was killed after its limit.
    OverLimit(Duration),
    /// The machine ended during the test.
    Ended,
    /// A CPU of the machine hung during the test.
    Hung,
    /// The test did not end, and the machine did not end it.
    Lost,
    /// The machine never began it.
    NotRun,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(time) => write!(f, "passed after {:.1} s", time.as_secs_f64()),
            Self::PassedAfterAll(time, tries) => write!(
                f,
                "passed after {:.1} s, by try {tries}: before, a guest or the machine ended or hung as the emulator lets them at times",
                time.as_secs_f64()
            ),
            Self::Failed(code) => write!(f, "FAILED with exit code {code}"),
            Self::OverLimit(limit) => write!(f, "FAILED: killed after its limit of {} s", limit.as_secs()),
            Self::Ended => f.write_str("FAILED: the machine it ran on ended"),
            Self::Hung => f.write_str("FAILED: the machine it ran on hung"),
            Self::Lost => f.write_str("FAILED: it did not end, nor could it be killed"),
            Self::NotRun => f.write_str("FAILED: not run, for the machine ended or hung before"),
        }
    }
}

impl Verdict {
    /// The verdict on a test that began on this many machines.
    pub(crate) fn on_machine(self, number: u32) -> Self {
        match self {
            Self::Passed(time) if number > 1 => Self::PassedAfterAll(time, number),
            other => other,
        }
    }

    /// Whether the test passed.
    pub(crate) fn is_well(&self) -> bool {
        matches!(self, Self::Passed(_) | Self::PassedAfterAll(..))
    }

    /// The verdict if the last of this many tries ended with this exit code.
    pub(crate) fn of(code: i32, time: Duration, limit: Duration, tries: u32) -> Self {
        match code {
            0 if tries > 1 => Self::PassedAfterAll(time, tries),
            0 => Self::Passed(time),
            KILLED if time >= limit => Self::OverLimit(limit),
            code => Self::Failed(code),
        }
    }
}

/// The events received so far.
pub(crate) fn events(text: &str) -> Vec<Event> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().filter_map(event).collect()
}

fn event(line: &str) -> Option<Event> {
    let at = |seconds: &str| Duration::try_from_secs_f64(seconds.parse().ok()?).ok();
    match *line.split_whitespace().collect::<Vec<_>>() {
        ["begin", name, seconds] => Some(Event::Begin(name.to_owned(), at(seconds)?)),
        ["again", name, seconds] => Some(Event::Again(name.to_owned(), at(seconds)?)),
        ["end", name, code, seconds] => Some(Event::End(name.to_owned(), code.parse().ok()?, at(seconds)?)),
        ["alive", cpu] => Some(Event::Alive(cpu.parse().ok()?)),
        ["done"] => Some(Event::Done),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events_once_they_are_whole() {
        let at = Duration::from_millis;
        let begin = Event::Begin("unikernel".into(), at(5250));
        assert_eq!(events("begin unikernel 5.25\r\nend unikernel 1 7.00"), std::slice::from_ref(&begin));
        let text = "begin unikernel 5.25\r\nnoise\nalive 1\nagain unikernel 6.5\nend unikernel 1 7.00\r\ndone\r\n";
        let (again, end) = (Event::Again("unikernel".into(), at(6500)), Event::End("unikernel".into(), 1, at(7000)));
        assert_eq!(events(text), [begin, Event::Alive(1), again, end, Event::Done]);
        assert_eq!(events(""), []);
    }

    #[test]
    fn a_test_passes_only_by_exit_code_zero() {
        let (limit, short) = (Duration::from_secs(5), Duration::from_secs(1));
        assert_eq!(Verdict::of(0, short, limit, 1), Verdict::Passed(short));
        assert_eq!(Verdict::of(0, short, limit, 2), Verdict::PassedAfterAll(short, 2));
        assert_eq!(Verdict::of(1, short, limit, 3), Verdict::Failed(1));
        assert_eq!(Verdict::of(KILLED, limit, limit, 1), Verdict::OverLimit(limit));
        assert_eq!(Verdict::of(KILLED, short, limit, 1), Verdict::Failed(KILLED));
    }
}
