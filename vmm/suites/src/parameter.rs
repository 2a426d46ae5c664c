//! Parameters of the suites' guests: `--set KEY=N`.

use std::ops::RangeInclusive;

/// A parameter of a suite's guests.
#[derive(Debug)]
pub struct Parameter {
    /// Its name.
    pub key: &'static str,
    /// The accepted range.
    pub range: RangeInclusive<u64>,
    /// The default; `None` if it follows from the length of the window.
    pub default: Option<u64>,
    /// The unit and meaning: "ns of work with the lock held".
    pub unit: &'static str,
}

/// Longest piece of work: a second, during which the guest's vCPU does nothing else.
pub(super) const WORK_NS: RangeInclusive<u64> = 0..=1_000_000_000;
/// The longest piece of work, in microseconds.
pub(super) const WORK_US: RangeInclusive<u64> = 0..=1_000_000;
/// Messages are numbered in 32 bits, and there are a few dozen of each.
pub(super) const COUNT: RangeInclusive<u64> = 1..=1_000_000;

/// For guests whose vCPUs wait for each other. The largest number takes about a tenth of a second.
pub(super) const SPINS: Parameter =
    Parameter { key: "spins", range: 0..=1_000_000, default: Some(200), unit: "PAUSEs before a yield" };
/// For guests with a lock.
pub(super) const HOLD_NS: Parameter =
    Parameter { key: "hold_ns", range: WORK_NS, default: Some(2_000), unit: "ns of work with the lock held" };
/// For guests with a lock.
pub(super) const GAP_NS: Parameter =
    Parameter { key: "gap_ns", range: WORK_NS, default: Some(5_000), unit: "ns of work without the lock" };
/// For guests that pass messages in pairs.
pub(super) const WORK_BEFORE_MESSAGE: Parameter =
    Parameter { key: "work_ns", range: WORK_NS, default: Some(0), unit: "ns of work before each message" };
/// For guests that check their messages.
pub(super) const CORRUPT: Parameter = Parameter {
    key: "corrupt",
    range: 0..=1,
    default: Some(0),
    unit: "(1 damages a message, which the run must notice)",
};
