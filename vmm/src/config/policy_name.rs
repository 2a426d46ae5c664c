//! Policies as command lines and reports write them: an algorithm, for `rsdl` the meaning of a yield, and behind colons
//! what differs from the defaults: a mechanism (`executors`, `leases`), a switch (`strict`, `no-forgive`, `no-affinity`) or
//! a duration for `rr_interval`.
//! `rsdl:no-keep_place:3ms` is the default policy but for two things, so that a comparison can measure each alone.

use std::fmt;
use std::str::FromStr;

use super::check::{list, nearest};
use super::defaults;
use super::types::{Algorithm, Mechanism, PolicyConfig, Variant, YieldRule};
use super::values::ValueError;

/// Every accepted name. `rsdl` and `rsdl+polite` are the same policy.
const NAMES: [(&str, Algorithm, YieldRule); 9] = [
    ("rsdl", Algorithm::Rsdl, YieldRule::Polite),
    ("rsdl+none", Algorithm::Rsdl, YieldRule::None),
    ("rsdl+expire", Algorithm::Rsdl, YieldRule::Expire),
    ("rsdl+polite", Algorithm::Rsdl, YieldRule::Polite),
    ("host", Algorithm::Host, YieldRule::Polite),
    ("host-noyield", Algorithm::HostNoyield, YieldRule::Polite),
    ("freelist", Algorithm::Freelist, YieldRule::Polite),
    ("o1", Algorithm::O1, YieldRule::Polite),
    ("goodness", Algorithm::Goodness, YieldRule::Polite),
];

/// The mechanisms that may follow a name.
const MECHANISMS: [(&str, Mechanism); 2] = [("executors", Mechanism::Executors), ("leases", Mechanism::Leases)];

/// Which policies something behind a colon means something to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// All that stile carries out.
    Carried,
    /// Those with turns of this length, and pCPUs that vCPUs come back to.
    RsdlAndFreelist,
    Rsdl,
    /// `rsdl` where a yield is polite.
    Polite,
    Goodness,
}

impl Whose {
    fn has(self, policy: &PolicyConfig) -> bool {
        match (self, policy.algorithm) {
            (Self::Carried, algorithm) => !matches!(algorithm, Algorithm::Host | Algorithm::HostNoyield),
            (Self::RsdlAndFreelist, algorithm) => matches!(algorithm, Algorithm::Rsdl | Algorithm::Freelist),
            (Self::Rsdl, algorithm) => algorithm == Algorithm::Rsdl,
            (Self::Polite, algorithm) => algorithm == Algorithm::Rsdl && policy.yield_rule == YieldRule::Polite,
            (Self::Goodness, algorithm) => algorithm == Algorithm::Goodness,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Carried => "all policies but `host` and `host-noyield`",
            Self::RsdlAndFreelist => "`rsdl` and `freelist`",
            Self::Rsdl => "`rsdl`",
            Self::Polite => "`rsdl` with polite yields",
            Self::Goodness => "`goodness`",
        }
    }
}

/// A switch, who has it, and where it is kept: its table below `policy`, if it has one of its own, and its field.
struct Switch {
    name: &'static str,
    whose: Whose,
    table: Option<&'static str>,
    at: fn(&mut PolicyConfig) -> &mut bool,
}

/// One of the policy's own keys.
const fn own(name: &'static str, whose: Whose, at: fn(&mut PolicyConfig) -> &mut bool) -> Switch {
    Switch { name, whose, table: None, at }
}

/// A key of a table.
const fn within(
    table: &'static str,
    name: &'static str,
    whose: Whose,
    at: fn(&mut PolicyConfig) -> &mut bool,
) -> Switch {
    Switch { name, whose, table: Some(table), at }
}

/// The switches that may follow a name, as the configuration file calls them.
const SWITCHES: [Switch; 21] = [
    own("rt_boost", Whose::Carried, |p| &mut p.rt_boost),
    own("steal", Whose::Carried, |p| &mut p.steal),
    own("spin_detection", Whose::Carried, |p| &mut p.spin_detection),
    own("affinity", Whose::RsdlAndFreelist, |p| &mut p.affinity),
    own("grain", Whose::Rsdl, |p| &mut p.grain),
    within("polite", "directed", Whose::Polite, |p| &mut p.polite.directed),
    within("polite", "keep_place", Whose::Polite, |p| &mut p.polite.keep_place),
    within("polite", "prefer_computing", Whose::Polite, |p| &mut p.polite.prefer_computing),
    within("polite", "evict_for_peer", Whose::Polite, |p| &mut p.polite.evict_for_peer),
    within("polite", "pair_lockers", Whose::Polite, |p| &mut p.polite.pair_lockers),
    within("polite", "stay_with_running_peer", Whose::Polite, |p| &mut p.polite.stay_with_running_peer),
    within("polite", "break_lockstep", Whose::Polite, |p| &mut p.polite.break_lockstep),
    within("polite", "forgive", Whose::Polite, |p| &mut p.polite.forgive),
    within("polite", "order_by_progress", Whose::Polite, |p| &mut p.polite.order_by_progress),
    within("polite", "guess_peer", Whose::Polite, |p| &mut p.polite.guess_peer),
    within("polite", "tell_presence", Whose::Polite, |p| &mut p.polite.tell_presence),
    within("polite", "strict", Whose::Polite, |p| &mut p.polite.strict),
    within("goodness", "yield_recalculates", Whose::Goodness, |p| &mut p.goodness.yield_recalculates),
    within("goodness", "yield_bounces", Whose::Goodness, |p| &mut p.goodness.yield_bounces),
    within("lock", "lateral", Whose::Carried, |p| &mut p.lock.lateral),
    within("lock", "adaptive", Whose::Carried, |p| &mut p.lock.adaptive),
];

/// The generations of the staircase, as the configuration file calls them.
const VARIANTS: [(&str, Variant); 2] = [("dithered", Variant::Dithered), ("level-quota", Variant::LevelQuota)];

/// A text that names no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyNameError {
    /// Before the first colon.
    #[error("there is no policy `{name}`; {hint}accepted: {}", list(PolicyConfig::names()))]
    Name {
        /// What was given.
        name: String,
        /// The nearest name.
        hint: String,
    },
    /// Behind a colon.
    #[error(
        "`{text}` behind a policy's name is neither a duration from {} to {}, nor {}, nor {}, nor a switch; {hint}accepted, \
         also with `no-`: {}",
        defaults::RR_INTERVAL_MIN,
        defaults::RR_INTERVAL_MAX,
        list(MECHANISMS.iter().map(|(name, _)| *name)),
        list(VARIANTS.iter().map(|(name, _)| *name)),
        list(SWITCHES.iter().map(|switch| switch.name))
    )]
    Option {
        /// What was given.
        text: String,
        /// The nearest switch.
        hint: String,
    },
    /// Behind a colon, of a policy to which it means nothing.
    #[error("`{text}` means nothing to `{policy}`: it is for {whose}; {accepted}")]
    Meaningless {
        /// What was given.
        text: String,
        /// The policy.
        policy: String,
        /// To which policies it means something.
        whose: &'static str,
        /// What the policy accepts.
        accepted: String,
    },
}

/// What may stand behind a policy's name.
fn accepted(policy: &PolicyConfig) -> String {
    let mut names: Vec<&str> = Vec::new();
    if Whose::Carried.has(policy) {
        names.extend(MECHANISMS.iter().map(|(name, _)| *name));
    }
    if Whose::Rsdl.has(policy) {
        names.extend(VARIANTS.iter().map(|(name, _)| *name));
    }
    names.extend(SWITCHES.iter().filter(|switch| switch.whose.has(policy)).map(|switch| switch.name));
    let interval = if Whose::RsdlAndFreelist.has(policy) { ", or a duration" } else { "" };
    if names.is_empty() { "it has no switches".to_owned() } else { format!("accepted: {}{interval}", list(names)) }
}

impl From<PolicyNameError> for ValueError {
    fn from(error: PolicyNameError) -> Self {
        let text = error.to_string();
        let (wrong, accepted) = text.split_once("accepted").unwrap_or((&text, ""));
        Self {
            wrong: wrong.trim_end_matches([' ', ';']).to_owned(),
            accepted: accepted.trim_start_matches([':', ',', ' ']).to_owned(),
        }
    }
}

impl PolicyConfig {
    /// Name of this kind of text in the schema's `format`.
    pub(super) const FORMAT: &str = "policy-name";

    /// The accepted names, for help texts.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, ..)| *name)
    }

    /// Sets what stands behind a colon, and says to whom it means something.
    fn apply(&mut self, part: &str) -> Result<Whose, PolicyNameError> {
        let (on, name) = part.strip_prefix("no-").map_or((true, part), |name| (false, name));
        if let Some(switch) = SWITCHES.iter().find(|switch| switch.name == name) {
            *(switch.at)(self) = on;
            return Ok(switch.whose);
        }
        if let Some((_, mechanism)) = MECHANISMS.iter().find(|(known, _)| *known == part) {
            self.mechanism = *mechanism;
            return Ok(Whose::Carried);
        }
        if let Some((_, variant)) = VARIANTS.iter().find(|(known, _)| *known == part) {
            self.variant = *variant;
            return Ok(Whose::Rsdl);
        }
        self.rr_interval = part.parse().map_err(|_| {
            let hint = nearest(name, SWITCHES.iter().map(|switch| switch.name));
            let hint = hint.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default();
            PolicyNameError::Option { text: part.to_owned(), hint }
        })?;
        Ok(Whose::RsdlAndFreelist)
    }

    /// Keys of the configuration file that are set apart from their defaults and mean nothing to this algorithm, each with
    /// the policies that it is for.
    pub fn meaningless(&self) -> Vec<(String, &'static str)> {
        let (mut own, mut usual) = (self.clone(), Self::default());
        let differs = |switch: &&Switch| *(switch.at)(&mut own) != *(switch.at)(&mut usual);
        let switches = SWITCHES.iter().filter(differs).map(|switch| {
            let table = switch.table.map(|table| format!("{table}.")).unwrap_or_default();
            (format!("policy.{table}{}", switch.name), switch.whose)
        });
        let usual = Self::default();
        let others = [
            ("mechanism", self.mechanism != usual.mechanism, Whose::Carried),
            ("rr_interval", self.rr_interval != usual.rr_interval, Whose::RsdlAndFreelist),
            ("variant", self.variant != usual.variant, Whose::Rsdl),
            ("yield", self.yield_rule != usual.yield_rule, Whose::Rsdl),
        ];
        let others = others.into_iter().filter(|(_, differs, _)| *differs);
        let others = others.map(|(name, _, whose)| (format!("policy.{name}"), whose));
        let all = others.chain(switches).filter(|(_, whose)| !whose.has(self));
        all.map(|(key, whose)| (key, whose.words())).collect()
    }
}

impl FromStr for PolicyConfig {
    type Err = PolicyNameError;

    fn from_str(text: &str) -> Result<Self, PolicyNameError> {
        let mut parts = text.split(':');
        let base = parts.next().unwrap_or_default();
        let Some(&(_, algorithm, yield_rule)) = NAMES.iter().find(|(name, ..)| *name == base) else {
            let hint = nearest(base, Self::names()).map(|name| format!("did you mean `{name}`? "));
            return Err(PolicyNameError::Name { name: base.to_owned(), hint: hint.unwrap_or_default() });
        };
        let mut policy = Self { algorithm, yield_rule, ..Self::default() };
        for part in parts {
            let whose = policy.apply(part)?;
            if !whose.has(&policy) {
                let (text, policy, accepted) = (part.to_owned(), base.to_owned(), accepted(&policy));
                return Err(PolicyNameError::Meaningless { text, policy, whose: whose.words(), accepted });
            }
        }
        Ok(policy)
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
            (Algorithm::O1, _) => "o1",
            (Algorithm::Goodness, _) => "goodness",
        })?;
        if let Some((name, _)) = MECHANISMS.iter().find(|(_, mechanism)| *mechanism == self.mechanism) {
            write!(f, ":{name}")?;
        }
        let (mut own, mut usual) = (self.clone(), Self::default());
        for Switch { name, at, .. } in SWITCHES {
            match (*at(&mut own), *at(&mut usual)) {
                (true, false) => write!(f, ":{name}")?,
                (false, true) => write!(f, ":no-{name}")?,
                _ => {}
            }
        }
        if let Some((name, _)) = VARIANTS.iter().find(|(_, v)| *v == self.variant && *v != usual.variant) {
            write!(f, ":{name}")?;
        }
        if self.rr_interval == usual.rr_interval { Ok(()) } else { write!(f, ":{}", self.rr_interval) }
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
    fn what_differs_from_the_defaults_is_read_and_written_back() {
        let policy: PolicyConfig = "rsdl:no-forgive:level-quota:strict:no-adaptive:3ms".parse().unwrap();
        assert!(!policy.polite.forgive && policy.polite.strict && policy.polite.directed);
        assert_eq!(policy.to_string(), "rsdl:no-forgive:strict:no-adaptive:level-quota:3ms");
        let policy: PolicyConfig = "goodness:yield_bounces:yield_recalculates".parse().unwrap();
        assert_eq!(policy.to_string(), "goodness:yield_recalculates:yield_bounces");
        let policy: PolicyConfig = "freelist:leases:3ms".parse().unwrap();
        assert_eq!((policy.mechanism, policy.to_string().as_str()), (Mechanism::Leases, "freelist:leases:3ms"));
        for wrong in ["rsdl:fast", "rsdl:no-leases", "rsdl:no-", "rsdl:99s", "rsdl:"] {
            let error = wrong.parse::<PolicyConfig>().unwrap_err().to_string();
            assert!(
                error.contains("100us to 5s") && error.contains("`leases`") && error.contains("`keep_place`"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_means_nothing_to_a_policy_is_refused_with_whose_it_is() {
        for (name, told) in [
            ("o1:grain", "`grain` means nothing to `o1`: it is for `rsdl`; accepted: `executors`"),
            ("freelist:yield_bounces", "it is for `goodness`; accepted:"),
            ("goodness:3ms", "it is for `rsdl` and `freelist`"),
            ("rsdl+expire:no-forgive", "it is for `rsdl` with polite yields"),
            ("host:leases", "it is for all policies but `host` and `host-noyield`; it has no switches"),
            ("freelist:level-quota", "`affinity`, `lateral` or `adaptive`, or a duration"),
        ] {
            let error = name.parse::<PolicyConfig>().unwrap_err().to_string();
            assert!(error.contains(told), "{name}: {error}");
        }
        let near = "rsdl:no-keep_places".parse::<PolicyConfig>().unwrap_err().to_string();
        assert!(near.contains("did you mean `keep_place`?"), "{near}");
    }

    #[test]
    fn keys_of_a_file_that_mean_nothing_are_found() {
        let with = |algorithm| PolicyConfig { algorithm, grain: true, ..PolicyConfig::default() };
        assert_eq!(with(Algorithm::O1).meaningless(), [("policy.grain".to_owned(), "`rsdl`")]);
        assert_eq!(with(Algorithm::Rsdl).meaningless(), []);
        let mut polite = with(Algorithm::Rsdl);
        (polite.yield_rule, polite.polite.strict) = (YieldRule::Expire, true);
        assert_eq!(polite.meaningless(), [("policy.polite.strict".to_owned(), "`rsdl` with polite yields")]);
    }

    #[test]
    fn unknown_name_lists_the_accepted_ones_and_the_nearest() {
        let error = "rsdl+expires".parse::<PolicyConfig>().unwrap_err().to_string();
        assert!(error.starts_with("there is no policy `rsdl+expires`; did you mean `rsdl+expire`? accepted: `rsdl`"));
        assert!(error.ends_with("or `goodness`"));
        assert!("".parse::<PolicyConfig>().is_err());
    }
}
