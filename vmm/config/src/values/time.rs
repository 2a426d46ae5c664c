//! Durations within bounds, some of which can be absent.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::error::ValueError;
use super::pattern::within;
use super::unit::{number_with_unit, write_with_unit};
use crate::bounds;

/// Units of time, in microseconds.
pub(super) const TIME_UNITS: [(&str, u64); 3] = [("s", 1_000_000), ("ms", 1_000), ("us", 1)];

/// Reads a duration between these two, which `accepted` says in words.
pub(super) fn duration_within(
    text: &str,
    example: &str,
    (min, max): (Duration, Duration),
    accepted: &str,
) -> Result<Duration, ValueError> {
    let Some(micros) = number_with_unit(text, &TIME_UNITS) else {
        return Err(ValueError {
            wrong: format!("`{}` is not a duration", text.escape_debug()),
            accepted: format!("a whole number with us, ms or s, such as \"{example}\"; {accepted}"),
        });
    };
    let duration = Duration::from_micros(micros);
    if (min..=max).contains(&duration) {
        Ok(duration)
    } else {
        Err(ValueError { wrong: format!("`{text}` is out of range"), accepted: accepted.to_owned() })
    }
}

/// A time that a policy works with, such as a quota: 100us to 5s, in whole microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PolicyTime(Duration);

impl PolicyTime {
    pub(crate) const fn from_const(duration: Duration) -> Self {
        Self(duration)
    }

    /// As a duration.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for PolicyTime {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (min, max) = (Self(bounds::POLICY_TIME_MIN), Self(bounds::POLICY_TIME_MAX));
        duration_within(text, "6ms", (min.0, max.0), &format!("{min} to {max}")).map(Self)
    }
}

impl fmt::Display for PolicyTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Built from whole microseconds up to 5 s, so nothing is cut off.
        write_with_unit(f, self.0.as_micros() as u64, &TIME_UNITS)
    }
}

/// How long a vCPU may wait if its policy promises no bound: `none`, or 100ms to 3600s, in whole microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StarvationBound(Option<Duration>);

impl StarvationBound {
    pub(crate) const fn from_const(bound: Option<Duration>) -> Self {
        Self(bound)
    }

    /// The bound, if there is one.
    pub fn duration(self) -> Option<Duration> {
        self.0
    }
}

impl FromStr for StarvationBound {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text == "none" {
            return Ok(Self(None));
        }
        let (min, max) = (bounds::STARVATION_BOUND_MIN, bounds::STARVATION_BOUND_MAX);
        let accepted = || format!("none, or {} to {}", Self(Some(min)), Self(Some(max)));
        let Some(micros) = number_with_unit(text, &TIME_UNITS) else {
            return Err(ValueError {
                wrong: format!("`{}` is not a duration", text.escape_debug()),
                accepted: format!("a whole number with us, ms or s, such as \"2s\"; {}", accepted()),
            });
        };
        let bound = Duration::from_micros(micros);
        if (min..=max).contains(&bound) {
            Ok(Self(Some(bound)))
        } else {
            Err(ValueError { wrong: format!("`{text}` is out of range"), accepted: accepted() })
        }
    }
}

impl fmt::Display for StarvationBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // Built from whole microseconds, so nothing is cut off.
            Some(bound) => write_with_unit(f, bound.as_micros() as u64, &TIME_UNITS),
            None => f.write_str("none"),
        }
    }
}

/// A span of time that a request names: 1ms to 86400s, in whole microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(Duration);

impl Span {
    /// As a duration.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for Span {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (min, max) = (Self(bounds::SPAN_MIN), Self(bounds::SPAN_MAX));
        duration_within(text, "30s", (min.0, max.0), &format!("{min} to {max}")).map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Built from whole microseconds up to a day, so nothing is cut off.
        write_with_unit(f, self.0.as_micros() as u64, &TIME_UNITS)
    }
}

/// How long KVM polls for an event after a vCPU has halted: `auto`, or up to 10ms, in whole microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HaltPoll(Option<Duration>);

impl HaltPoll {
    pub(crate) const fn from_const(span: Option<Duration>) -> Self {
        Self(span)
    }

    /// The time, if it is said.
    pub fn duration(self) -> Option<Duration> {
        self.0
    }
}

impl FromStr for HaltPoll {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if text == "auto" {
            return Ok(Self(None));
        }
        let accepted = format!("auto, or 0us to {}", Self(Some(bounds::HALT_POLL_MAX)));
        duration_within(text, "50us", (Duration::ZERO, bounds::HALT_POLL_MAX), &accepted).map(|span| Self(Some(span)))
    }
}

impl fmt::Display for HaltPoll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // Built from whole microseconds, so nothing is cut off.
            Some(span) => write_with_unit(f, span.as_micros() as u64, &TIME_UNITS),
            None => f.write_str("auto"),
        }
    }
}

/// The pattern of a duration between these two, or of one of the words before it.
pub(super) fn pattern(words: &str, min: Duration, max: Duration) -> String {
    format!("^({words}{})$", within(min.as_micros() as u64, max.as_micros() as u64, &TIME_UNITS))
}

text_value!(HaltPoll, "duration-or-auto", {
    "pattern": pattern("auto|", Duration::ZERO, bounds::HALT_POLL_MAX),
    "x-range": format!("auto, or 0us to {}", HaltPoll(Some(bounds::HALT_POLL_MAX)))
});

text_value!(Span, "duration-span", {
    "pattern": pattern("", bounds::SPAN_MIN, bounds::SPAN_MAX),
    "x-range": format!("{} to {}", Span(bounds::SPAN_MIN), Span(bounds::SPAN_MAX))
});

text_value!(PolicyTime, "duration-us", {
    "pattern": pattern("", bounds::POLICY_TIME_MIN, bounds::POLICY_TIME_MAX),
    "x-range": format!("{} to {}", PolicyTime(bounds::POLICY_TIME_MIN), PolicyTime(bounds::POLICY_TIME_MAX))
});

text_value!(StarvationBound, "duration-or-none", {
    "pattern": pattern("none|", bounds::STARVATION_BOUND_MIN, bounds::STARVATION_BOUND_MAX),
    "x-range": format!(
        "none, or {} to {}",
        StarvationBound(Some(bounds::STARVATION_BOUND_MIN)),
        StarvationBound(Some(bounds::STARVATION_BOUND_MAX))
    )
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_is_a_duration_within_its_range_or_none() {
        for (text, millis) in [("none", None), ("2s", Some(2_000)), ("100ms", Some(100)), ("3600s", Some(3_600_000))] {
            let value: StarvationBound = text.parse().unwrap();
            assert_eq!((value.duration(), value.to_string().as_str()), (millis.map(Duration::from_millis), text));
        }
        for wrong in ["", "None", "2", "99ms", "3601s", "-1s"] {
            assert!(
                wrong.parse::<StarvationBound>().unwrap_err().accepted.contains("none, or 100ms to 3600s"),
                "{wrong}"
            );
        }
    }

    #[test]
    fn halt_poll_is_a_short_duration_or_auto() {
        for (text, micros) in [("auto", None), ("0us", Some(0)), ("50us", Some(50)), ("10ms", Some(10_000))] {
            let value: HaltPoll = text.parse().unwrap();
            assert_eq!((value.duration(), value.to_string().as_str()), (micros.map(Duration::from_micros), text));
        }
        for wrong in ["", "none", "50", "11ms", "1s", "-1us"] {
            assert!(wrong.parse::<HaltPoll>().unwrap_err().accepted.contains("auto, or 0us to 10ms"), "{wrong}");
        }
    }

    #[test]
    fn interval_with_each_unit_is_read_and_written_in_the_largest_exact_one() {
        for (text, micros, shown) in
            [("6ms", 6_000, "6ms"), ("1500us", 1_500, "1500us"), ("5s", 5_000_000, "5s"), ("6000us", 6_000, "6ms")]
        {
            let value: PolicyTime = text.parse().unwrap();
            assert_eq!(value.duration(), Duration::from_micros(micros));
            assert_eq!(value.to_string(), shown);
        }
    }

    #[test]
    fn interval_outside_its_range_names_the_range() {
        for text in ["99us", "5001ms", "0s"] {
            assert_eq!(
                text.parse::<PolicyTime>().unwrap_err().to_string(),
                format!("`{text}` is out of range; accepted: 100us to 5s")
            );
        }
    }

    #[test]
    fn interval_that_is_no_duration_names_the_units() {
        for text in ["", "6", "ms", "6 ms", "-6ms", "6min", "1.5ms", "99999999999999999999s", "18446744073709551615s"] {
            assert!(text.parse::<PolicyTime>().unwrap_err().accepted.contains("us, ms or s"), "{text}");
        }
    }
}
