//! The suites that repeat published reports, as one comparison after the other.

use super::options::{Options, default_policies};
use stile_suites::{RunKind, Suite};

/// The time budget of all of them together (units: s), with a margin for delays. A full run has none.
const BUDGET: f64 = 840.0;

/// Makes the options of these suites, each with its own policies unless the user has named some. `common` has the
/// options that they share.
pub fn reports(common: &Options) -> Vec<Options> {
    let suites = Suite::from_reports();
    let budget = match common.kind {
        RunKind::Usual => Some(BUDGET / suites.len() as f64),
        RunKind::Full => Some(f64::INFINITY),
        RunKind::Quick => None,
    };
    let of = |suite: Suite| {
        let chosen = !common.policies.is_empty();
        let default =
            || default_policies(suite, common.kind).into_iter().map(|policy| (policy.to_string(), policy)).collect();
        let policies = if chosen { common.policies.clone() } else { default() };
        let own = common.settings.iter().filter(|(key, _)| suite.parameter(key).is_some()).cloned();
        Options { suite, policies, budget, settings: own.collect(), ..common.clone() }
    };
    suites.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    fn options(policies: &[&str]) -> Options {
        let policies = policies.iter().map(|p| ((*p).to_owned(), p.parse().unwrap())).collect();
        Options::new(Suite::Netbench, policies, "0-1".parse().unwrap())
    }

    #[test]
    fn scaled_reports_take_a_quarter_of_an_hour_and_full_ones_all_sizes_with_whole_windows() {
        let common = Options { policies: Vec::new(), ..options(&[]) };
        let whole: f64 = reports(&common).iter().map(|options| Plan::new(options).estimate().as_secs_f64()).sum();
        assert!(whole < 900.0, "{whole}");
        let full = reports(&Options { kind: RunKind::Full, ..common });
        let netbench = full.iter().find(|options| options.suite == Suite::Netbench).unwrap();
        assert_eq!(netbench.sizes().len(), 12);
        assert!(Plan::new(netbench).cells.iter().all(|cell| cell.window.as_secs() == 3));
    }

    #[test]
    fn parameters_are_those_that_a_suite_has() {
        let set = ["spins", "users", "fan"].map(|key| (key.to_owned(), 5));
        let all = reports(&Options { settings: set.to_vec(), ..options(&["host"]) });
        let of = |suite| {
            let options = all.iter().find(|options| options.suite == suite).unwrap();
            options.settings.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(Suite::Volano), ["spins", "users"]);
        assert_eq!(of(Suite::Netbench), [""; 0]);
    }

    #[test]
    fn policies_are_each_suites_own_unless_some_are_named() {
        let common = options(&["host"]);
        assert!(reports(&common).iter().all(|options| options.policies.len() == 1));
        let own = reports(&Options { policies: Vec::new(), ..common });
        assert!(
            own.iter().all(|options| options.policies.len() == default_policies(options.suite, RunKind::Usual).len())
        );
    }
}
