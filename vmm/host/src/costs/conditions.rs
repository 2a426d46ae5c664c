//! The conditions under which costs were measured: whether the figures are the host's, or those of other work on it.

use crate::Disturbance;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Largest parts of the CPUs' time that other work may take.
const OTHERS_MAX: f64 = 0.05;
const STOLEN_MAX: f64 = 0.02;
/// How far the median of a figure's samples may lie above the figure, as a part of the figure.
const SPREAD_MAX: f64 = 0.25;

/// What the host did while costs were measured, and how far the figures show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Part of the CPUs' time in which other programs ran; `None` if the host does not tell.
    pub others: Option<f64>,
    /// Part of the CPUs' time that a host above took.
    pub stolen: Option<f64>,
    /// How far the median of each figure's samples lies above the figure, as a part of it.
    pub spread: BTreeMap<String, f64>,
    /// Reasons against using the figures; empty if there are none.
    pub disturbed: Vec<String>,
}

impl Conditions {
    /// The conditions, from the host's own counts and from the spread of samples.
    pub fn new(disturbance: &Disturbance, spread: BTreeMap<String, f64>) -> Self {
        let (others, stolen) = (disturbance.others, disturbance.stolen);
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let mut disturbed = Vec::new();
        if let Some(part) = others.filter(|&part| part > OTHERS_MAX) {
            disturbed.push(format!("other programs ran for {} of the CPUs' time", percent(part)));
        }
        if let Some(part) = stolen.filter(|&part| part > STOLEN_MAX) {
            disturbed.push(format!("a host above took {} of the CPUs' time", percent(part)));
        }
        let wide = spread.iter().filter(|(_, part)| **part > SPREAD_MAX);
        let wide: Vec<String> = wide.map(|(name, part)| format!("{name} by {}", percent(*part))).collect();
        if !wide.is_empty() {
            disturbed.push(format!("samples spread: the median lies above {}", wide.join(", ")));
        }
        Self { others, stolen, spread, disturbed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disturbed(others: f64, stolen: f64, kick: f64) -> Vec<String> {
        let disturbance = Disturbance { others: Some(others), stolen: Some(stolen), ..Disturbance::default() };
        let spread = [("exit_ns".to_owned(), 0.01), ("kick_ns".to_owned(), kick)].into();
        Conditions::new(&disturbance, spread).disturbed
    }

    #[test]
    fn a_quiet_host_is_not_called_disturbed() {
        assert_eq!(disturbed(0.01, 0.0, 0.1), [""; 0]);
        assert_eq!(Conditions::new(&Disturbance::default(), BTreeMap::new()).disturbed, [""; 0]);
    }

    #[test]
    fn load_steal_and_spread_are_each_told_with_their_figures() {
        assert_eq!(disturbed(0.42, 0.0, 0.1), ["other programs ran for 42 % of the CPUs' time"]);
        assert_eq!(disturbed(0.0, 0.1, 0.1), ["a host above took 10 % of the CPUs' time"]);
        assert_eq!(disturbed(0.0, 0.0, 8.0), ["samples spread: the median lies above kick_ns by 800 %"]);
        assert_eq!(disturbed(0.5, 0.5, 0.5).len(), 3);
    }
}
