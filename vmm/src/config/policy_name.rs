//! Policies as command lines and reports write them: an algorithm, for `rsdl` the meaning of a yield, and behind colons
//! what differs from the defaults: a mechanism (`executors`, `leases`), a switch (`strict`, `no-forgive`, `no-affinity`) or
//! a duration for `rr_interval`.
//! `rsdl:no-keep_place:3ms` is the default policy but for two things, so that a comparison can measure each alone.

use std::fmt;
use std::str::FromStr;

use super::check::{list, nearest};
use super::defaults;
use super::types::{Algorithm, Mechanism, PolicyConfig, Variant, YieldRule};

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

/// A switch and where it is kept.
type Switch = (&'static str, fn(&mut PolicyConfig) -> &mut bool);

/// The switches that may follow a name, as the configuration file calls them.
const SWITCHES: [Switch; 20] = [
    ("ride", |p| &mut p.ride),
    ("steal", |p| &mut p.steal),
    ("spin_detection", |p| &mut p.spin_detection),
    ("affinity", |p| &mut p.affinity),
    ("grain", |p| &mut p.grain),
    ("directed", |p| &mut p.polite.directed),
    ("keep_place", |p| &mut p.polite.keep_place),
    ("prefer_computing", |p| &mut p.polite.prefer_computing),
    ("evict_for_peer", |p| &mut p.polite.evict_for_peer),
    ("pair_lockers", |p| &mut p.polite.pair_lockers),
    ("stay_with_running_peer", |p| &mut p.polite.stay_with_running_peer),
    ("break_lockstep", |p| &mut p.polite.break_lockstep),
    ("forgive", |p| &mut p.polite.forgive),
    ("order_by_progress", |p| &mut p.polite.order_by_progress),
    ("guess_peer", |p| &mut p.polite.guess_peer),
    ("strict", |p| &mut p.polite.strict),
    ("yield_recalculates", |p| &mut p.goodness.yield_recalculates),
    ("yield_bounces", |p| &mut p.goodness.yield_bounces),
    ("lateral", |p| &mut p.lock.lateral),
    ("adaptive", |p| &mut p.lock.adaptive),
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
        "`{text}` behind a policy's name is neither a duration from {} to {}, nor {}, nor {}, nor a switch; accepted, also with \
         `no-`: {}",
        defaults::RR_INTERVAL_MIN,
        defaults::RR_INTERVAL_MAX,
        list(MECHANISMS.iter().map(|(name, _)| *name)),
        list(VARIANTS.iter().map(|(name, _)| *name)),
        list(SWITCHES.iter().map(|(name, _)| *name))
    )]
    Option {
        /// What was given.
        text: String,
    },
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
        let mut parts = text.split(':');
        let base = parts.next().unwrap_or_default();
        let Some(&(_, algorithm, yield_rule)) = NAMES.iter().find(|(name, ..)| *name == base) else {
            let hint = nearest(base, Self::names()).map(|name| format!("did you mean `{name}`? "));
            return Err(PolicyNameError::Name { name: base.to_owned(), hint: hint.unwrap_or_default() });
        };
        let mut policy = Self { algorithm, yield_rule, ..Self::default() };
        for part in parts {
            let (on, name) = part.strip_prefix("no-").map_or((true, part), |name| (false, name));
            if let Some((_, switch)) = SWITCHES.iter().find(|(known, _)| *known == name) {
                *switch(&mut policy) = on;
            } else if let Some((_, mechanism)) = MECHANISMS.iter().find(|(known, _)| *known == part) {
                policy.mechanism = *mechanism;
            } else if let Some((_, variant)) = VARIANTS.iter().find(|(known, _)| *known == part) {
                policy.variant = *variant;
            } else {
                policy.rr_interval = part.parse().map_err(|_| PolicyNameError::Option { text: part.to_owned() })?;
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
        for (name, switch) in SWITCHES {
            match (*switch(&mut own), *switch(&mut usual)) {
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
    fn unknown_name_lists_the_accepted_ones_and_the_nearest() {
        let error = "rsdl+expires".parse::<PolicyConfig>().unwrap_err().to_string();
        assert!(error.starts_with("there is no policy `rsdl+expires`; did you mean `rsdl+expire`? accepted: `rsdl`"));
        assert!(error.ends_with("or `goodness`"));
        assert!("".parse::<PolicyConfig>().is_err());
    }
}
