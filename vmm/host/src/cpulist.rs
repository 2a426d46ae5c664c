//! A set of host CPUs in the kernel's list notation, such as `0-3,8`.
//!
//! Invariant: the numbers are sorted and no two are equal.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Host CPUs, by number. In a file an array or a text in the kernel's list notation, on a command line that text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Vec<u32>")]
pub struct CpuList(Vec<u32>);

/// As it stands in a file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Numbers(Vec<u32>),
    Text(String),
}

impl TryFrom<Written> for CpuList {
    type Error = CpuListError;

    fn try_from(written: Written) -> Result<Self, CpuListError> {
        match written {
            Written::Numbers(cpus) => Ok(cpus.into()),
            Written::Text(text) => text.parse(),
        }
    }
}

/// A text that is no list of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}; accepted: {}", self.wrong(), CpuList::ACCEPTED)]
pub struct CpuListError(String);

impl CpuListError {
    /// What is wrong, without what would be accepted.
    pub fn wrong(&self) -> String {
        format!("`{}` is not a list of CPUs", self.0.escape_debug())
    }
}

impl CpuList {
    /// Largest CPU number that a text or a file may name; the kernel's own limit is 8192 CPUs.
    pub const CPU_MAX: u32 = 8191;
    /// Name of this kind of text in a schema's `format`.
    pub const FORMAT: &str = "cpu-list";
    /// What a text has to be.
    pub const ACCEPTED: &str = "numbers and ranges separated by commas, such as 0-3,8";

    /// Whether no CPU is in the list.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of CPUs in the list.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether `cpu` is in the list.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// The CPUs, in rising order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.0.iter().copied()
    }
}

impl From<Vec<u32>> for CpuList {
    fn from(mut cpus: Vec<u32>) -> Self {
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }
}

impl From<CpuList> for Vec<u32> {
    fn from(list: CpuList) -> Self {
        list.0
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        cpus.into_iter().collect::<Vec<_>>().into()
    }
}

impl JsonSchema for CpuList {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CpuList".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [
                {
                    "type": "array",
                    "items": { "type": "integer", "minimum": 0, "maximum": Self::CPU_MAX },
                    "minItems": 1,
                    "uniqueItems": true
                },
                { "type": "string", "format": Self::FORMAT }
            ]
        })
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let wrong = || CpuListError(text.to_owned());
        let number = |word: &str| word.parse::<u32>().ok().filter(|cpu| *cpu <= Self::CPU_MAX).ok_or_else(wrong);
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        Ok(cpus.into())
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, run) in self.0.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match run {
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn list_with_ranges_is_read_sorted_and_written_back() {
        let list: CpuList = "8,0-3".parse().unwrap();
        assert_eq!(list.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(list.to_string(), "0-3,8");
        assert!(list.contains(8) && !list.contains(4));
    }

    #[test]
    fn list_that_is_malformed_is_refused() {
        for text in ["", "a", "1-", "3-1", "0,,1", "-1", "0 1", "0-4294967295"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }
}
