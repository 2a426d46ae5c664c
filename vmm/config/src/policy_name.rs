//! Policies as command lines and reports write them: an algorithm, for `rsdl` what a yield does, and behind colons the
//! keys of `[policy]` that differ from their defaults, as `KEY=VALUE` in the spelling of the configuration file.
//! Shorter forms: a switch's name for `true` and `no-` and its name for `false`; a mechanism, a variant or an interval
//! without its key. `rsdl:no-keep_place:3ms` is the default policy but for two things, so that a comparison can measure
//! each alone.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde_json::Value;

use super::algorithm::Algorithm;
use super::check::{list, nearest};
use super::policy_keys::{applies, applies_to, choices_of, keys, range_of, values, with, with_text};
use super::types::{PolicyConfig, YieldRule};
use super::values::ValueError;

/// What may follow the name of an algorithm that takes [`YIELD`], behind a plus.
const YIELD_RULES: [(&str, YieldRule); 3] =
    [("none", YieldRule::None), ("expire", YieldRule::Expire), ("polite", YieldRule::Polite)];
/// The key that stands behind a plus.
const YIELD: &str = "yield";

/// Keys with values that may stand behind a colon alone: no two of the keys accept the same text.
const MECHANISM: &str = "mechanism";
const VARIANT: &str = "variant";
const INTERVAL: &str = "rr_interval";

/// Every accepted name: an algorithm's, and with a rule for yields. `rsdl` and `rsdl+polite` are the same policy.
static NAMES: LazyLock<Vec<(String, Algorithm, YieldRule)>> = LazyLock::new(|| {
    let usual = PolicyConfig::default().yield_rule;
    let of_row = |row: &super::algorithm::Row| {
        let (algorithm, takes_yield) = (row.algorithm, row.takes.contains(&YIELD));
        let rules = YIELD_RULES.into_iter().filter(move |_| takes_yield);
        let ruled =
            rules.map(move |(rule, yield_rule)| (format!("{}+{rule}", algorithm.row().name), algorithm, yield_rule));
        std::iter::once((row.name.to_owned(), algorithm, usual)).chain(ruled)
    };
    Algorithm::all().flat_map(of_row).collect()
});

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
        "`{text}` behind a policy's name is no option of a policy; {hint}accepted: KEY=VALUE with a key of [policy], {} or \
         {}, a duration from {}, or one of these, also with `no-`: {}",
        choices_of(MECHANISM).iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", "),
        list(choices_of(VARIANT).iter().map(String::as_str)),
        range_of(INTERVAL),
        list(switches(&PolicyConfig::default()).iter().map(|(_, name)| name.as_str()))
    )]
    Option {
        /// What was given.
        text: String,
        /// The nearest key.
        hint: String,
    },
    /// Behind a colon, with a key that takes no such value.
    #[error("`{text}`: {wrong}{help}")]
    Value {
        /// What was given.
        text: String,
        /// What is wrong with the value.
        wrong: String,
        /// What would be accepted.
        help: String,
    },
    /// Behind a colon, of a policy to which it means nothing.
    #[error("`{text}` means nothing to `{policy}`: it is for {applies_to}; {accepted}")]
    Meaningless {
        /// What was given.
        text: String,
        /// The policy.
        policy: String,
        /// The policies to which it means something.
        applies_to: String,
        /// What the policy accepts.
        accepted: String,
    },
}

/// Keys that are switches, each with the name that may stand alone.
fn switches(policy: &PolicyConfig) -> Vec<(String, String)> {
    let switches = values(policy).into_iter().filter(|(_, value)| value.is_boolean());
    switches.map(|(key, _)| (key.clone(), last(&key).to_owned())).collect()
}

/// A key's name without its table.
fn last(key: &str) -> &str {
    key.rsplit('.').next().unwrap_or(key)
}

/// What may stand behind a policy's name.
fn accepted(policy: &PolicyConfig) -> String {
    let mut names = Vec::new();
    for key in [MECHANISM, VARIANT] {
        names.extend(choices_of(key).into_iter().filter(|_| applies(policy, key)));
    }
    names.extend(switches(policy).into_iter().filter(|(key, _)| applies(policy, key)).map(|(_, name)| name));
    let interval = if applies(policy, INTERVAL) { ", or a duration" } else { "" };
    if names.is_empty() {
        return "it has no switches".to_owned();
    }
    format!("accepted: {}{interval}", list(names.iter().map(String::as_str)))
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
        NAMES.iter().map(|(name, ..)| name.as_str())
    }

    /// Sets what stands behind a colon, and says which key that is.
    fn apply(&mut self, part: &str) -> Result<String, PolicyNameError> {
        if let Some((name, text)) = part.split_once('=') {
            return self.assign(part, name, text);
        }
        let (on, name) = part.strip_prefix("no-").map_or((true, part), |name| (false, name));
        let switch = switches(self).into_iter().find(|(_, known)| known == name);
        let switch = switch.and_then(|(key, _)| Some((with(self, &key, on.into())?, key)));
        let alone = |key: &str| Some((with(self, key, Value::from(part))?, key.to_owned()));
        let Some((policy, key)) = switch.or_else(|| [MECHANISM, VARIANT, INTERVAL].into_iter().find_map(alone)) else {
            let known = switches(self);
            let hint = hint(nearest(name, known.iter().map(|(_, name)| name.as_str())));
            return Err(PolicyNameError::Option { text: part.to_owned(), hint });
        };
        *self = policy;
        Ok(key)
    }

    /// Sets the key `name`, with its table or without, to what `text` says, and says which key that is.
    fn assign(&mut self, part: &str, name: &str, text: &str) -> Result<String, PolicyNameError> {
        let keys = keys();
        let mut named = keys.iter().filter(|key| *key == name || last(key) == name);
        let (Some(key), None) = (named.next(), named.next()) else {
            let hint = hint(nearest(name, keys.iter().map(String::as_str)));
            return Err(PolicyNameError::Option { text: part.to_owned(), hint });
        };
        *self = with_text(self, key, text).map_err(|finding| PolicyNameError::Value {
            text: part.to_owned(),
            wrong: finding.wrong,
            help: finding.help.map(|help| format!("; {help}")).unwrap_or_default(),
        })?;
        Ok(key.clone())
    }

    /// Keys of the configuration file that are set apart from their defaults and mean nothing to this algorithm, each
    /// with the policies that it is for.
    pub fn meaningless(&self) -> Vec<(String, String)> {
        let differing = self.differing().into_iter().filter(|(key, _)| !applies(self, key));
        differing.map(|(key, _)| (format!("policy.{key}"), applies_to(&key))).collect()
    }

    /// Keys that are set apart from their defaults, with what they are set to.
    fn differing(&self) -> Vec<(String, Value)> {
        let both = values(self).into_iter().zip(values(&Self::default()));
        both.filter(|((_, own), (_, usual))| own != usual).map(|(own, _)| own).collect()
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("did you mean `{name}`? ")).unwrap_or_default()
}

impl FromStr for PolicyConfig {
    type Err = PolicyNameError;

    fn from_str(text: &str) -> Result<Self, PolicyNameError> {
        let mut parts = text.split(':');
        let base = parts.next().unwrap_or_default();
        let Some((_, algorithm, yield_rule)) = NAMES.iter().find(|(name, ..)| name == base) else {
            let hint = hint(nearest(base, Self::names()));
            return Err(PolicyNameError::Name { name: base.to_owned(), hint });
        };
        let mut policy = Self { algorithm: *algorithm, yield_rule: *yield_rule, ..Self::default() };
        for part in parts {
            let key = policy.apply(part)?;
            if !applies(&policy, &key) {
                let (text, policy, accepted) = (part.to_owned(), base.to_owned(), accepted(&policy));
                return Err(PolicyNameError::Meaningless { text, policy, applies_to: applies_to(&key), accepted });
            }
        }
        Ok(policy)
    }
}

impl fmt::Display for PolicyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.algorithm.row().name)?;
        let differing = self.differing();
        let set = |wanted: &str| differing.iter().find(|(key, _)| key == wanted).and_then(|(_, value)| value.as_str());
        if let Some(rule) = set(YIELD).filter(|_| self.algorithm.row().takes.contains(&YIELD)) {
            write!(f, "+{rule}")?;
        }
        if let Some(mechanism) = set(MECHANISM) {
            write!(f, ":{mechanism}")?;
        }
        for (key, value) in &differing {
            match value.as_bool() {
                Some(true) => write!(f, ":{}", last(key))?,
                Some(false) => write!(f, ":no-{}", last(key))?,
                None => {}
            }
        }
        for text in [VARIANT, INTERVAL].into_iter().filter_map(set) {
            write!(f, ":{text}")?;
        }
        for (key, value) in &differing {
            let is_written = value.is_boolean() || [YIELD, MECHANISM, VARIANT, INTERVAL].contains(&key.as_str());
            match value.as_str() {
                _ if is_written => {}
                Some(text) => write!(f, ":{key}={text}")?,
                None => write!(f, ":{key}={value}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Mechanism;

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
            ("goodness:3ms", "`3ms` means nothing to `goodness`: it is for `rsdl`"),
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
        assert_eq!(with(Algorithm::O1).meaningless(), [("policy.grain".to_owned(), "`rsdl`".to_owned())]);
        assert_eq!(with(Algorithm::Rsdl).meaningless(), []);
        let mut polite = with(Algorithm::Rsdl);
        (polite.yield_rule, polite.polite.strict) = (YieldRule::Expire, true);
        assert_eq!(polite.meaningless(), [("policy.polite.strict".to_owned(), "`rsdl` with polite yields".to_owned())]);
    }

    #[test]
    fn unknown_name_lists_the_accepted_ones_and_the_nearest() {
        let error = "rsdl+expires".parse::<PolicyConfig>().unwrap_err().to_string();
        assert!(error.starts_with("there is no policy `rsdl+expires`; did you mean `rsdl+expire`? accepted: `rsdl`"));
        for row in Algorithm::all() {
            assert!(error.contains(&format!("`{}`", row.name)), "{error}");
        }
        let last = Algorithm::all().last().unwrap().name;
        assert!(error.ends_with(&format!("or `{last}`")), "{error}");
        assert!("".parse::<PolicyConfig>().is_err());
    }

    #[test]
    fn a_key_of_the_file_is_read_with_its_value_and_written_back_in_the_shorter_form_if_it_has_one() {
        for (given, told) in [
            ("rsdl:rr_interval=3ms", "rsdl:3ms"),
            ("rsdl:yield=expire", "rsdl+expire"),
            ("rsdl+none:yield=polite", "rsdl"),
            ("rsdl:mechanism=leases", "rsdl:leases"),
            ("rsdl:strict=true:polite.forgive=false", "rsdl:no-forgive:strict"),
            ("o1:starvation_bound=2s", "o1:starvation_bound=2s"),
            ("rsdl:on_starvation=fallback", "rsdl:on_starvation=fallback"),
        ] {
            let policy: PolicyConfig = given.parse().unwrap();
            assert_eq!(policy.to_string(), told);
            assert_eq!(told.parse::<PolicyConfig>().unwrap(), policy);
        }
    }

    #[test]
    fn a_key_that_there_is_not_or_that_takes_no_such_value_is_refused_with_what_is_accepted() {
        for (name, told) in [
            ("rsdl:rr_interval=99s", "`rr_interval=99s`: `99s` is out of range; accepted: 100us to 5s"),
            ("rsdl:yield=expires", "did you mean `expire`? accepted: `polite`, `expire` or `none`"),
            ("rsdl:strict=yes", "expected true or false, found a string; accepted: true or false"),
            ("rsdl:strict=1", "expected true or false, found an integer"),
            ("rsdl:polite={}", "is no option of a policy"),
            ("rsdl:polite.strict=\nlock.lateral = 1", "expected true or false"),
            ("rsdl:rr_intervals=3ms", "did you mean `rr_interval`?"),
            ("rsdl:algorithm=o1", "is no option of a policy"),
            ("o1:rr_interval=3ms", "`rr_interval=3ms` means nothing to `o1`: it is for `rsdl`"),
        ] {
            let error = name.parse::<PolicyConfig>().unwrap_err().to_string();
            assert!(error.contains(told), "{name}: {error}");
        }
    }

    #[test]
    fn no_two_switches_share_the_name_that_stands_alone() {
        let mut names: Vec<String> = switches(&PolicyConfig::default()).into_iter().map(|(_, name)| name).collect();
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
