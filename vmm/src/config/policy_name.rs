//! Policies as command lines and reports write them: an algorithm, and for `rsdl` the meaning of a yield.
//!
//! A name stands for the defaults with that algorithm and yield; it does not carry the other keys of `[policy]`.

use std::fmt;
use std::str::FromStr;

use super::check::{list, nearest};
use super::types::{Algorithm, PolicyConfig, YieldRule};

/// Every accepted name. `rsdl` and `rsdl+polite` are the same policy.
const NAMES: [(&str, Algorithm, YieldRule); 7] = [
    ("rsdl", Algorithm::Rsdl, YieldRule::Polite),
    ("rsdl+none", Algorithm::Rsdl, YieldRule::None),
    ("rsdl+expire", Algorithm::Rsdl, YieldRule::Expire),
    ("rsdl+polite", Algorithm::Rsdl, YieldRule::Polite),
    ("host", Algorithm::Host, YieldRule::Polite),
    ("host-noyield", Algorithm::HostNoyield, YieldRule::Polite),
    ("freelist", Algorithm::Freelist, YieldRule::Polite),
];

/// A text that names no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no policy `{name}`; {hint}accepted: {}", list(PolicyConfig::names()))]
pub struct PolicyNameError {
    name: String,
    hint: String,
}

impl PolicyConfig {
    /// The accepted names, for help texts.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, ..)| *name)
    }
}

impl FromStr for PolicyConfig {
    type Err = PolicyNameError;

    fn from_str(text: &str) -> Result<Self, PolicyNameError> {
        match NAMES.iter().find(|(name, ..)| *name == text) {
            Some(&(_, algorithm, yield_rule)) => Ok(Self { algorithm, yield_rule, ..Self::default() }),
            None => {
                let hint = nearest(text, Self::names()).map(|name| format!("did you mean `{name}`? "));
                Err(PolicyNameError { name: text.to_owned(), hint: hint.unwrap_or_default() })
            }
        }
    }
}

impl fmt::Display for PolicyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.algorithm, self.yield_rule) {
            (Algorithm::Rsdl, YieldRule::Polite) => "rsdl",
            (Algorithm::Rsdl, YieldRule::None) => "rsdl+none",
            (Algorithm::Rsdl, YieldRule::Expire) => "rsdl+expire",
            (Algorithm::Host, _) => "host",
            (Algorithm::HostNoyield, _) => "host-noyield",
            (Algorithm::Freelist, _) => "freelist",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_and_written_back_as_the_same_policy() {
        for name in PolicyConfig::names() {
            let policy: PolicyConfig = name.parse().unwrap();
            assert_eq!(policy.to_string().parse::<PolicyConfig>().unwrap(), policy);
            assert_eq!(policy.to_string(), name.replace("+polite", ""));
        }
    }

    #[test]
    fn plain_rsdl_is_the_default_policy() {
        assert_eq!("rsdl".parse::<PolicyConfig>().unwrap(), PolicyConfig::default());
    }

    #[test]
    fn unknown_name_lists_the_accepted_ones_and_the_nearest() {
        let error = "rsdl+expires".parse::<PolicyConfig>().unwrap_err().to_string();
        assert!(error.starts_with("there is no policy `rsdl+expires`; did you mean `rsdl+expire`? accepted: `rsdl`"));
        assert!(error.ends_with("or `freelist`"));
        assert!("".parse::<PolicyConfig>().is_err());
    }
}
