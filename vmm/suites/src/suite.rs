//! Questions that a suite's descriptor answers.

use super::Suite;
use super::descriptor::{Builtin, Counted, Length, Model, PerKind, RunKind, Work};
use super::metric::{Better, Kind, Metric};
use super::parameter::Parameter;
use super::parts::{self, Part, Role, Share};
use super::setup::Setup;
use thiserror::Error;

/// A suite name that does not exist.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("no suite is called `{0}`; there are {names}", names = names())]
pub struct UnknownSuite(String);

/// The names of all suites: "netbench, ticket, ... and cyclictest".
fn names() -> String {
    let [others @ .., last] = Suite::ALL.map(Suite::name);
    format!("{} and {last}", others.join(", "))
}

impl Suite {
    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        self.descriptor().name
    }

    /// A sentence for readers who do not know the suite.
    pub fn about(self) -> &'static str {
        self.descriptor().about
    }

    /// Unit of [`Metric::Throughput`].
    pub fn throughput_unit(self) -> &'static str {
        self.descriptor().unit
    }

    /// The unit that its sizes count.
    pub fn counted(self) -> Counted {
        self.descriptor().counted
    }

    /// Whether its guests wait for each other, and so may give hints.
    pub fn waits(self) -> bool {
        self.builtin().is_some_and(|guests| guests.waits)
    }

    /// Its built-in guests; `None` if it has only Linux guests.
    pub fn builtin(self) -> Option<&'static Builtin> {
        self.descriptor().builtin.as_ref()
    }

    /// Whether its guests can be Linux.
    pub fn takes_linux(self) -> bool {
        self.descriptor().linux.is_some()
    }

    /// Whether it has Linux guests only.
    pub fn is_of_linux(self) -> bool {
        self.builtin().is_none()
    }

    /// The model of its guests in a simulation; `None` if it cannot be simulated.
    pub fn model(self) -> Option<Model> {
        self.builtin()?.model
    }

    /// The work of its guests that has an end; `None` if it has a window instead.
    pub fn work(self) -> Option<Work> {
        match self.descriptor().length {
            Length::Work(work) => Some(work),
            Length::Fitting | Length::Rotations(_) => None,
        }
    }

    /// Whether the work of its guests has an end; else there is a window.
    pub fn has_end(self) -> bool {
        self.work().is_some()
    }

    /// The metrics that decide the suite's result, the most important first. Tables show these.
    pub fn headline(self) -> &'static [Metric] {
        self.descriptor().headline
    }

    /// The metrics that get a plot.
    pub fn plotted(self) -> &'static [Metric] {
        self.descriptor().plotted
    }

    /// The parameters of its built-in guests; of its Linux guests, if it has no others.
    pub fn parameters(self) -> &'static [Parameter] {
        self.builtin().map_or_else(|| self.linux_parameters(), |guests| guests.parameters)
    }

    /// The parameters of its Linux guests.
    pub fn linux_parameters(self) -> &'static [Parameter] {
        self.descriptor().linux.as_ref().map_or(&[], |guests| guests.parameters)
    }

    /// Returns the parameter of this name.
    pub fn parameter(self, key: &str) -> Option<&'static Parameter> {
        self.parameters().iter().find(|parameter| parameter.key == key)
    }

    /// The default setups of a run of this kind.
    pub fn setups(self, kind: RunKind) -> &'static [Setup] {
        self.descriptor().setups.of(kind)
    }

    /// Whether it has this setup.
    pub fn has_setup(self, setup: Setup) -> bool {
        let PerKind { usual, quick, full } = self.descriptor().setups;
        setup == Setup::Usual || [usual, quick, full].concat().into_iter().any(|offered| offered.offers(setup))
    }

    /// The roles of the vCPUs of a VM with this number of them.
    pub fn parts(self) -> &'static [Share] {
        self.builtin().map_or(&const { [Share::all(Role::Own)] }, |guests| guests.parts)
    }

    /// The share of the vCPU with this index in a VM.
    fn share(self, vcpu: usize, vcpus: usize) -> Option<&'static Share> {
        parts::share_of(self.parts(), vcpu, vcpus)
    }

    /// The part of the vCPU with this index in the suite's metrics.
    pub fn part(self, vcpu: usize, vcpus: usize) -> Part {
        self.share(vcpu, vcpus).map_or(Part::Odd, |share| share.part)
    }

    /// The work of the vCPU with this index in a VM.
    pub fn role(self, vcpu: usize, vcpus: usize) -> Role {
        self.share(vcpu, vcpus).map_or(Role::Idles, |share| share.role)
    }

    /// Whether vCPUs that share a lock run beside others. Then the CPU time of each part shows how fairly it was
    /// served.
    pub fn has_lockers_beside_others(self) -> bool {
        let locks = |share: &Share| share.part == Part::Main && share.role == Role::Locks;
        self.parts().len() > 1 && self.parts().iter().any(locks)
    }

    /// The suites that repeat published reports, in the order in which they are run and shown.
    pub fn from_reports() -> Vec<Self> {
        let order = |suite: Self| Some((suite.descriptor().source.as_ref()?.order, suite));
        let mut ordered: Vec<(u32, Self)> = Self::ALL.into_iter().filter_map(order).collect();
        ordered.sort_unstable();
        ordered.into_iter().map(|(_, suite)| suite).collect()
    }

    /// The unit of a metric.
    pub fn unit(self, metric: Metric) -> &'static str {
        metric.unit().unwrap_or(self.throughput_unit())
    }

    /// Whether a ratio of this metric to the baseline says that a policy is better or worse.
    pub fn judges(self, metric: Metric) -> bool {
        match metric.kind() {
            Kind::Share | Kind::Activity | Kind::Distance => false,
            Kind::Result | Kind::Work | Kind::Index => !self.descriptor().context.contains(&metric),
        }
    }

    /// How to read a metric: "higher is better".
    pub fn direction(self, metric: Metric) -> &'static str {
        match (metric.kind(), metric.better()) {
            (Kind::Share, _) => "1.0 is fair",
            (Kind::Distance, _) => "0 is fair",
            _ if !self.judges(metric) => "for context",
            (_, Better::Higher) => "higher is better",
            (_, Better::Lower) => "lower is better",
        }
    }
}

impl std::fmt::Display for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Suite {
    type Err = UnknownSuite;

    fn from_str(name: &str) -> Result<Self, UnknownSuite> {
        Self::ALL.into_iter().find(|suite| suite.name() == name).ok_or_else(|| UnknownSuite(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::descriptor::Vms;
    use super::*;

    #[test]
    fn serialized_names_equal_the_table() {
        for suite in Suite::ALL {
            assert_eq!(serde_json::to_value(suite).unwrap(), suite.name());
        }
    }

    #[test]
    fn headlines_begin_with_throughput() {
        assert!(Suite::ALL.iter().all(|suite| suite.headline()[0] == Metric::Throughput));
    }

    #[test]
    fn every_metric_has_a_unit_in_every_suite() {
        for suite in Suite::ALL {
            assert!(Metric::ALL.iter().all(|metric| !suite.unit(*metric).is_empty()));
        }
    }

    #[test]
    fn sentences_have_single_spaces() {
        assert!(Suite::ALL.iter().all(|suite| !suite.about().contains("  ")));
    }

    #[test]
    fn suite_names_parse_back_and_others_are_refused_with_all_names() {
        assert!(Suite::ALL.iter().all(|suite| suite.name().parse() == Ok(*suite)));
        let refused = "tickets".parse::<Suite>().unwrap_err().to_string();
        assert!(refused.contains("`tickets`") && refused.contains("netbench, ticket"), "{refused}");
    }

    #[test]
    fn every_suite_has_guests_and_a_full_run_for_them() {
        for suite in Suite::ALL {
            let descriptor = suite.descriptor();
            assert!(descriptor.builtin.is_some() || descriptor.linux.is_some(), "{suite}");
            assert!(descriptor.linux.iter().all(|linux| !linux.sizes.full.is_empty()), "{suite}");
        }
    }

    #[test]
    fn guests_that_are_told_their_roles_have_words_for_them() {
        for guests in Suite::ALL.into_iter().filter_map(Suite::builtin).filter(|guests| guests.tells_roles) {
            assert!(guests.parts.iter().all(|share| share.role.keyword().is_some()), "{}", guests.image);
        }
    }

    #[test]
    fn defaults_of_parameters_are_within_their_ranges_and_keys_differ() {
        for suite in Suite::ALL {
            for parameter in suite.parameters() {
                let Parameter { key, range, default, .. } = parameter;
                assert!(default.is_none_or(|default| range.contains(&default)), "{suite}: {key}");
                assert_eq!(suite.parameters().iter().filter(|other| other.key == *key).count(), 1, "{suite}: {key}");
            }
            for Parameter { key, range, default, .. } in suite.linux_parameters() {
                assert!(default.is_some_and(|default| range.contains(&default)), "{suite}: {key}");
                // One check of `--set` is for both kinds of guests.
                assert_eq!(suite.parameter(key).map(|other| &other.range), Some(range), "{suite}: {key}");
            }
        }
    }

    #[test]
    fn setups_of_all_suites_parse_back_and_suit_them() {
        for suite in Suite::ALL {
            for &setup in suite.setups(RunKind::Full) {
                assert!(suite.has_setup(setup), "{suite}: {setup}");
                assert!(setup == Setup::Usual || setup.to_string().parse() == Ok(setup), "{suite}: {setup}");
            }
            assert_eq!(suite.has_setup("bare-up".parse().unwrap()), suite == Suite::Entry);
            assert_eq!(suite.has_setup("3x9M".parse().unwrap()), suite == Suite::Boot);
        }
    }

    #[test]
    fn sources_have_places_of_their_own() {
        let mut places: Vec<u32> =
            Suite::ALL.into_iter().filter_map(|suite| Some(suite.descriptor().source.as_ref()?.order)).collect();
        places.sort_unstable();
        assert_eq!(places, (1..=places.len() as u32).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_simulated_by_roles_has_a_model_for_each() {
        for guests in Suite::ALL.into_iter().filter_map(Suite::builtin) {
            let has_own = guests.parts.iter().any(|share| share.role == Role::Own);
            assert!(guests.model != Some(Model::Roles) || !has_own, "{}", guests.image);
        }
    }

    #[test]
    fn a_vm_for_each_nice_value_is_simulated_by_roles() {
        for guests in Suite::ALL.into_iter().filter_map(Suite::builtin) {
            assert!(!matches!(guests.vms, Vms::Nices(_)) || guests.model.is_none_or(|model| model == Model::Roles));
        }
    }

    fn divided(suite: Suite, vcpus: usize) -> Vec<usize> {
        parts::divide(suite.parts(), vcpus)
    }

    #[test]
    fn odd_numbers_of_vcpus_are_divided_as_the_guests_do_it() {
        assert_eq!(divided(Suite::Mixed, 5), [2, 3]);
        assert_eq!(divided(Suite::Probe, 5), [3, 2]);
        assert_eq!(divided(Suite::Pingpong, 5), [4, 1]);
        assert_eq!(divided(Suite::Ticket, 5), [5]);
    }

    #[test]
    fn three_ways_are_thirds_with_whole_pairs() {
        for (vcpus, expected) in [(1, [0, 0, 1]), (4, [2, 1, 1]), (6, [2; 3]), (8, [2, 3, 3]), (16, [6, 5, 5])] {
            assert_eq!(divided(Suite::Threeway, vcpus), expected, "{vcpus} vCPUs");
        }
    }

    #[test]
    fn a_vcpu_has_the_share_that_its_number_falls_into() {
        let parts = |suite: Suite, vcpus| (0..vcpus).map(|vcpu| suite.part(vcpu, vcpus)).collect::<Vec<_>>();
        assert_eq!(parts(Suite::Threeway, 4), [Part::Pair, Part::Pair, Part::Main, Part::Hog]);
        assert_eq!(parts(Suite::Pingpong, 3), [Part::Main, Part::Main, Part::Odd]);
    }

    #[test]
    fn what_does_not_divide_evenly_is_told() {
        let told = |suite: Suite, vcpus| parts::uneven(suite.parts(), vcpus).unwrap_or_default();
        assert_eq!(told(Suite::Pingpong, 5), "4 play in pairs, and 1 idles");
        assert_eq!(told(Suite::Mixed, 5), "2 at the lock, 3 computing");
        assert_eq!(told(Suite::Threeway, 8), "2 in pairs, 3 at the lock, 3 computing");
        for (suite, even) in [(Suite::Pingpong, 4), (Suite::Probe, 6), (Suite::Threeway, 12), (Suite::Ticket, 5)] {
            assert_eq!(told(suite, even), "", "{suite}");
        }
    }
}
