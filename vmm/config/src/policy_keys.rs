//! The keys of `[policy]`: where each stands, what it is set to, and which policies take it.
//!
//! Nothing here lists keys: they are those of [`PolicyConfig`] as serde writes it, in the order of its fields. Which
//! policies take a key is said by the [rows](super::algorithm::Row) of the algorithms.

use schemars::Schema;
use serde_json::Value;
use toml::de::DeTable;

use super::algorithm::{Algorithm, Row};
use super::check::{check, range};
use super::error::Finding;
use super::types::{PolicyConfig, YieldRule};

/// The key that stands before the first colon of a policy's name, not behind it.
const ALGORITHM: &str = "algorithm";
/// The table that counts only with `yield = "polite"`.
const POLITE: &str = "polite";

/// Every key below `[policy]` but `algorithm`, as the path that leads to it there: `grain`, `polite.strict`.
pub(super) fn keys() -> Vec<String> {
    values(&PolicyConfig::default()).into_iter().map(|(key, _)| key).collect()
}

/// What the keys are set to, in the order of [`keys`].
pub(super) fn values(policy: &PolicyConfig) -> Vec<(String, Value)> {
    let of_table = |table: String, value: Value| match value {
        Value::Object(keys) => keys.into_iter().map(|(key, value)| (format!("{table}.{key}"), value)).collect(),
        value => vec![(table, value)],
    };
    let Value::Object(all) = written(policy) else { return Vec::new() };
    all.into_iter().filter(|(key, _)| key != ALGORITHM).flat_map(|(key, value)| of_table(key, value)).collect()
}

fn written(policy: &PolicyConfig) -> Value {
    serde_json::to_value(policy).expect("a policy's keys are texts, numbers and switches")
}

/// This policy with `key` set to `value`, if the key takes it.
pub(super) fn with(policy: &PolicyConfig, key: &str, value: Value) -> Option<PolicyConfig> {
    let mut all = written(policy);
    *all.pointer_mut(&pointer(key))? = value;
    serde_json::from_value(all).ok()
}

/// This policy with `key` set to what `text` says, in the spelling of the configuration file but for the quotes.
pub(super) fn with_text(policy: &PolicyConfig, key: &str, text: &str) -> Result<PolicyConfig, Finding> {
    // A number or a switch as it is, everything else in quotes; what is neither gives the type that is missing.
    let is_text = values(policy).iter().any(|(name, value)| name == key && value.is_string());
    let bare = format!("{key} = {text}");
    let line = match DeTable::parse(&bare) {
        Ok(_) if !is_text => bare,
        _ => format!("{key} = {}", toml::Value::String(text.to_owned())),
    };
    let not_accepted = || Finding {
        wrong: format!("`{}` is not accepted", text.escape_debug()),
        label: "not accepted".to_owned(),
        help: None,
    };
    let document = DeTable::parse(&line).map_err(|_| not_accepted())?;
    let schema = schemars::schema_for!(PolicyConfig);
    if let Some(misplaced) = check(schema.as_value(), document.get_ref(), &line).into_iter().next() {
        return Err(misplaced.finding);
    }
    let table: Value = toml::from_str(&line).map_err(|_| not_accepted())?;
    let value = table.pointer(&pointer(key)).cloned().unwrap_or_default();
    with(policy, key, value).ok_or_else(not_accepted)
}

fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
}

/// What `key` accepts in words, for a text that has a range.
pub(super) fn range_of(key: &str) -> String {
    let schema = schemars::schema_for!(PolicyConfig);
    range(&schema.as_value()["properties"][key]).unwrap_or_default()
}

/// The choices of `key` other than its default.
pub(super) fn choices_of(key: &str) -> Vec<String> {
    let schema = schemars::schema_for!(PolicyConfig);
    let (root, usual) = (schema.as_value(), written(&PolicyConfig::default()));
    let choices = super::check::choices(super::check::resolve(root, &root["properties"][key]));
    choices.into_iter().filter(|choice| usual[key] != *choice).map(str::to_owned).collect()
}

/// The rows that take `key`; none where it is for all algorithms that stile carries out.
fn takers(key: &str) -> Vec<&'static Row> {
    let table = key.split('.').next().unwrap_or(key);
    Algorithm::all().filter(|row| row.takes.contains(&table)).collect()
}

/// Whether `key` means something to this policy.
pub(super) fn applies(policy: &PolicyConfig, key: &str) -> bool {
    let takers = takers(key);
    let is_taker = takers.iter().any(|row| row.algorithm == policy.algorithm);
    let is_off = key.starts_with(POLITE) && policy.yield_rule != YieldRule::Polite;
    if takers.is_empty() { !policy.algorithm.is_host() } else { is_taker && !is_off }
}

/// The policies that `key` means something to, in words.
pub(super) fn applies_to(key: &str) -> String {
    let takers = takers(key);
    let polite = if key.starts_with(POLITE) { " with polite yields" } else { "" };
    match takers.is_empty() {
        true => all_but(|row| row.algorithm.is_host()),
        false => format!("{}{polite}", both(takers.iter().map(|row| row.name))),
    }
}

/// All policies but those of these rows, in words.
fn all_but(which: impl FnMut(&&'static Row) -> bool) -> String {
    format!("all policies but {}", both(Algorithm::all().filter(which).map(|row| row.name)))
}

/// Names as they stand in a sentence: `a`, `b` and `c`.
fn both<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match (names.pop(), names.is_empty()) {
        (Some(last), true) => last,
        (last, _) => format!("{} and {}", names.join(", "), last.unwrap_or_default()),
    }
}

/// Completes the descriptions in the schema of a configuration: which policies take which key.
pub(super) fn describe(schema: &mut Schema) {
    let Some(types) = schema.get_mut("$defs").and_then(Value::as_object_mut) else { return };
    let described = |schema: Option<&mut Value>, describe: fn(&mut Schema)| {
        if let Some(Ok(schema)) = schema.map(<&mut Schema>::try_from) {
            describe(schema);
        }
    };
    described(types.get_mut("PolicyConfig"), describe_policy);
    described(types.get_mut("VmConfig").and_then(|vm| vm.pointer_mut("/properties/nice")), describe_nice);
}

/// Adds to each description of a key of `[policy]` which policies take it, and to that of the table how a command line
/// names a policy.
fn describe_policy(schema: &mut Schema) {
    let names = super::check::list(PolicyConfig::names());
    append(
        schema,
        &format!(
            "\n\nOn a command line a policy is {names}. Behind colons stand the keys of this table that differ from their \
             defaults, as in `rsdl:rr_interval=3ms`; a switch may be written by its name alone, as `strict` or `no-affinity`, \
             and so may a mechanism, a variant and an interval, as in `rsdl:leases:3ms`."
        ),
    );
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for key in keys() {
        if let Some(description) = properties.get_mut(&key).and_then(|property| property.get_mut("description")) {
            *description = format!("{} For {}.", description.as_str().unwrap_or_default(), applies_to(&key)).into();
        }
    }
}

/// Adds to the description of `nice` which policies look at it.
fn describe_nice(schema: &mut Schema) {
    append(schema, &format!(" For {}.", all_but(|row| row.weight.is_none())));
}

fn append(schema: &mut Schema, text: &str) {
    let description = schema.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = format!("{description}{text}");
    schema.insert("description".to_owned(), description.into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_table_and_of_the_tables_in_it() {
        let keys = keys();
        for key in ["mechanism", "rr_interval", "yield", "polite.strict", "goodness.yield_bounces", "lock.lateral"] {
            assert!(keys.iter().any(|known| known == key), "{key}");
        }
        assert!(!keys.iter().any(|key| key == "algorithm" || key == "polite"));
    }

    #[test]
    fn a_key_is_for_the_policies_whose_rows_take_it_or_for_all_that_stile_carries_out() {
        let interval = applies_to("rr_interval");
        assert!(interval.starts_with("`rsdl`") && interval.contains("`freelist`") && !interval.contains("`o1`"));
        assert_eq!(both(["a", "b", "c"].into_iter()), "`a`, `b` and `c`");
        assert_eq!(applies_to("variant"), "`rsdl`");
        assert_eq!(applies_to("polite.strict"), "`rsdl` with polite yields");
        assert_eq!(applies_to("lock.lateral"), "all policies but `host` and `host-noyield`");
    }

    #[test]
    fn schema_says_for_each_key_which_policies_take_it() {
        let mut schema = schemars::schema_for!(PolicyConfig);
        describe_policy(&mut schema);
        let of = |key: &str| schema.as_value()["properties"][key]["description"].as_str().unwrap().to_owned();
        assert!(of("affinity").ends_with(&format!("For {}.", applies_to("affinity"))), "{}", of("affinity"));
        assert!(of("spin_detection").ends_with("For all policies but `host` and `host-noyield`."));
        assert!(schema.as_value()["description"].as_str().unwrap().contains("`rsdl+expire`"));
    }
}
