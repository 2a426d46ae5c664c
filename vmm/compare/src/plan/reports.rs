//! The suites of the reports that this project grew from, as one comparison after the other.

use super::{Options, default_policies, settings};
use stile_results::suite::Suite;

/// The suites, in the order of their running.
pub const SUITES: [Suite; 5] = [Suite::Interactive, Suite::Volano, Suite::Hackbench, Suite::Netbench, Suite::Entry];
/// What all of them may take together where they are scaled (units: s), with some room for what cannot be foreseen.
const BUDGET: f64 = 840.0;

/// What the reports' suites are asked to do, each with its own policies unless the user has named some. `common` has
/// what they share.
pub fn reports(common: &Options) -> Vec<Options> {
    let of = |suite: Suite| {
        let chosen = !common.policies.is_empty();
        let default =
            || default_policies(suite, common.full).into_iter().map(|policy| (policy.to_string(), policy)).collect();
        let policies = if chosen { common.policies.clone() } else { default() };
        let budget = if common.full { f64::INFINITY } else { BUDGET / SUITES.len() as f64 };
        let budget = (!common.quick).then_some(budget);
        let own = common.settings.iter().filter(|(key, _)| settings::has(suite, key)).cloned();
        Options { suite, policies, budget, settings: own.collect(), ..common.clone() }
    };
    SUITES.map(of).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::plan::tests::options;

    #[test]
    fn scaled_reports_take_a_quarter_of_an_hour_and_full_ones_all_sizes_with_whole_windows() {
        let common = Options { policies: Vec::new(), ..options(Suite::Netbench, &[], false) };
        let whole: f64 = reports(&common).iter().map(|options| Plan::new(options).estimate().as_secs_f64()).sum();
        assert!(whole < 900.0, "{whole}");
        let full = reports(&Options { full: true, ..common });
        let netbench = full.iter().find(|options| options.suite == Suite::Netbench).unwrap();
        assert_eq!(netbench.sizes().len(), 12);
        assert!(Plan::new(netbench).cells.iter().all(|cell| cell.window.as_secs() == 3));
    }

    #[test]
    fn parameters_are_those_that_a_suite_has() {
        let set = ["spins", "users", "fan"].map(|key| (key.to_owned(), 5));
        let all = reports(&Options { settings: set.to_vec(), ..options(Suite::Netbench, &["host"], false) });
        let of = |suite| {
            let options = all.iter().find(|options| options.suite == suite).unwrap();
            options.settings.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(Suite::Volano), ["spins", "users"]);
        assert_eq!(of(Suite::Netbench), [""; 0]);
    }

    #[test]
    fn policies_are_each_suites_own_unless_some_are_named() {
        let common = options(Suite::Netbench, &["host"], false);
        assert!(reports(&common).iter().all(|options| options.policies.len() == 1));
        let own = reports(&Options { policies: Vec::new(), ..common });
        assert!(own.iter().all(|options| options.policies.len() == default_policies(options.suite, false).len()));
    }
}
