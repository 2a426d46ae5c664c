//! What the list of this crate's policies says of each.

use super::contract::Policy;
use crate::time::Nanos;

/// A policy of this crate with its defaults.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// Its name in configurations and reports.
    pub name: &'static str,
    /// Makes a policy for this many slots (1 to 65,535), all idle, whose pCPUs share no cache.
    pub new: fn(usize) -> Box<dyn Policy>,
    /// No lease of any vCPU is longer, except one without an end.
    pub longest_lease: Nanos,
}

impl BuiltIn {
    /// The policy of this name; `None` if there is none.
    pub fn named(name: &str) -> Option<&'static Self> {
        super::BUILT_IN.iter().find(|policy| policy.name == name)
    }
}
