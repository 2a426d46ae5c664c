//! The two values of a cap: CPUs, and the period over which they are counted.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::error::ValueError;
use super::time::{TIME_UNITS, duration_within, pattern};
use super::unit::write_with_unit;
use crate::bounds;

const MILLION: f64 = 1e6;

/// CPUs that a VM may use at most, on average over a period: 0.01 to 1024, kept in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct CpuCap(u32);

impl CpuCap {
    /// The number of CPUs.
    pub fn cpus(self) -> f64 {
        f64::from(self.0) / MILLION
    }

    /// The CPU time that the cap allows in `span`.
    pub fn of(self, span: Duration) -> Duration {
        let nanos = span.as_nanos() * u128::from(self.0) / 1_000_000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl TryFrom<f64> for CpuCap {
    type Error = ValueError;

    fn try_from(cpus: f64) -> Result<Self, ValueError> {
        let (min, max) = (bounds::CAP_MIN, bounds::CAP_MAX);
        if (min..=max).contains(&cpus) {
            return Ok(Self((cpus * MILLION).round() as u32));
        }
        Err(ValueError { wrong: format!("{cpus} is out of range"), accepted: format!("{min} to {max}") })
    }
}

impl From<CpuCap> for f64 {
    fn from(cap: CpuCap) -> f64 {
        cap.cpus()
    }
}

impl JsonSchema for CpuCap {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CpuCap".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "minimum": bounds::CAP_MIN, "maximum": bounds::CAP_MAX })
    }
}

impl fmt::Display for CpuCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cpus().fmt(f)
    }
}

/// Time over which a cap is counted: 10ms to 1s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CapPeriod(Duration);

impl CapPeriod {
    pub(crate) const fn from_const(duration: Duration) -> Self {
        Self(duration)
    }

    /// The period as a duration.
    pub fn duration(self) -> Duration {
        self.0
    }
}

impl FromStr for CapPeriod {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (min, max) = (Self(bounds::CAP_PERIOD_MIN), Self(bounds::CAP_PERIOD_MAX));
        duration_within(text, "100ms", (min.0, max.0), &format!("{min} to {max}")).map(Self)
    }
}

impl fmt::Display for CapPeriod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Built from whole microseconds up to 1 s, so nothing is cut off.
        write_with_unit(f, self.0.as_micros() as u64, &TIME_UNITS)
    }
}

text_value!(CapPeriod, "duration-cap", {
    "pattern": pattern("", bounds::CAP_PERIOD_MIN, bounds::CAP_PERIOD_MAX),
    "x-range": format!("{} to {}", CapPeriod(bounds::CAP_PERIOD_MIN), CapPeriod(bounds::CAP_PERIOD_MAX))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cap_is_a_part_of_a_cpu_or_several() {
        let cap = |cpus: f64| CpuCap::try_from(cpus);
        assert_eq!(cap(0.5).unwrap().of(Duration::from_millis(100)), Duration::from_millis(50));
        assert_eq!(cap(2.25).unwrap().of(Duration::from_secs(1)), Duration::from_millis(2250));
        assert_eq!(cap(0.333).unwrap().to_string(), "0.333");
        for wrong in [0.0, -1.0, 0.0099, 1024.1, f64::NAN, f64::INFINITY] {
            assert!(cap(wrong).unwrap_err().accepted.contains("0.01 to 1024"), "{wrong}");
        }
    }

    #[test]
    fn period_outside_its_range_names_the_range() {
        assert_eq!("100ms".parse::<CapPeriod>().unwrap().to_string(), "100ms");
        for text in ["9ms", "1001ms", "0s"] {
            assert!(text.parse::<CapPeriod>().unwrap_err().accepted.contains("10ms to 1s"), "{text}");
        }
        assert!("100".parse::<CapPeriod>().unwrap_err().accepted.contains("such as \"100ms\""));
    }
}
