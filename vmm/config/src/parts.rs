//! Parts of a configuration by themselves, for a program that makes VMs and changes the policy while it runs.
//!
//! A part comes as JSON with the keys of the configuration file. It is written as a file of its own and checked as one,
//! so that both have the same rules and the same messages.

use std::path::Path;

use serde_json::{Map, Value, json};
use toml::de::DeTable;

use super::LoadContext;
use super::cross;
use super::error::{ConfigError, FileKind, Finding, Misplaced};
use super::keypath::KeyPath;
use super::reference::schema_of_node;
use super::types::{Config, PolicyConfig, VmConfig};

/// The name of the text that a part is checked as.
const REQUEST: &str = "request";

impl Config {
    /// Like [`Config::parse`], but there may be no VM.
    pub fn parse_node(file: &str, text: &str, context: &LoadContext<'_>) -> Result<Self, ConfigError> {
        let base = Path::new(file).parent().unwrap_or(Path::new(""));
        let cross = |document: &DeTable<'_>| cross::check(document, base, context);
        let config: Self = super::read(FileKind::Configuration, (file, text), schema_of_node().as_value(), cross)?;
        Ok(config.settle(base, context))
    }
}

/// The VM that a table of the keys of `[[vm]]` describes. Relative paths start at the folder of the process.
pub fn vm_of(table: &Map<String, Value>, context: &LoadContext<'_>) -> Result<VmConfig, ConfigError> {
    let mut config = part("vm", json!([table]), context)?;
    Ok(config.vms.remove(0))
}

/// The policy that `base` becomes with these keys of `[policy]`.
pub fn policy_with(
    base: &PolicyConfig,
    keys: &Map<String, Value>,
    context: &LoadContext<'_>,
) -> Result<PolicyConfig, ConfigError> {
    let mut all = serde_json::to_value(base).expect("a policy's keys are texts, numbers and switches");
    for (key, value) in keys {
        match (all.get_mut(key), value) {
            (Some(Value::Object(table)), Value::Object(part)) => {
                table.extend(part.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
            _ => all[key] = value.clone(),
        }
    }
    let context = LoadContext { policy: None, ..context.clone() };
    Ok(part("policy", all, &context)?.policy)
}

fn part(name: &str, value: Value, context: &LoadContext<'_>) -> Result<Config, ConfigError> {
    let refused = |key, wrong: String, help: Option<&str>| {
        let finding = Finding { wrong, label: "here".to_owned(), help: help.map(ToOwned::to_owned) };
        let misplaced = Misplaced { key, span: 0..0, finding };
        ConfigError::invalid(FileKind::Configuration, REQUEST, "", vec![misplaced], true)
    };
    let top = KeyPath::default().key(name);
    if let Some(key) = null(&value, &top) {
        return Err(refused(key, "null is not accepted".to_owned(), Some("leave the key out")));
    }
    let document = Value::Object(Map::from_iter([(name.to_owned(), value)]));
    let text = toml::to_string(&document).map_err(|error| refused(top, error.to_string(), None))?;
    Config::parse_node(REQUEST, &text, context)
}

/// The first key that is null, which TOML has not.
fn null(value: &Value, path: &KeyPath) -> Option<KeyPath> {
    match value {
        Value::Null => Some(path.clone()),
        Value::Object(table) => table.iter().find_map(|(key, value)| null(value, &path.key(key))),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| null(item, &path.index(index))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_host::CpuList;

    fn context() -> LoadContext<'static> {
        let pcpus_available: CpuList = "0-1".parse().unwrap();
        LoadContext { pcpus_available, builtin_names: &["hello"], policy: None }
    }

    fn table(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_vm_is_checked_as_the_same_table_of_a_file() {
        let vm = vm_of(&table(json!({"name": "a", "image": "builtin:hello", "nice": 5})), &context());
        let vm = vm.unwrap();
        assert_eq!((vm.name.as_str(), vm.nice, vm.cap, vm.count), ("a", 5, None, 1));
        let wrong = vm_of(&table(json!({"name": "a", "image": "builtin:hello", "nice": 50, "vcpu": 2})), &context());
        let error = wrong.unwrap_err();
        let keys: Vec<&str> = error.problems().iter().map(|problem| problem.key()).collect();
        assert_eq!(keys, ["vm[0].nice", "vm[0].vcpu"]);
    }

    #[test]
    fn a_key_that_is_null_is_named() {
        let wrong = json!({"name": "a", "disk": {"path": null}, "image": "builtin:hello"});
        let error = vm_of(&table(wrong), &context()).unwrap_err();
        assert_eq!(error.problems()[0].key(), "vm[0].disk.path");
        assert!(error.is_by_schema());
    }

    #[test]
    fn keys_of_a_policy_change_those_and_keep_the_others() {
        let base: PolicyConfig = "rsdl:rr_interval=3ms:strict".parse().unwrap();
        let changed = policy_with(&base, &table(json!({"target_latency": "30ms"})), &context()).unwrap();
        let expected: PolicyConfig = "rsdl:rr_interval=3ms:strict:target_latency=30ms".parse().unwrap();
        assert_eq!(changed, expected);
        let changed = policy_with(&base, &table(json!({"polite": {"strict": false}})), &context()).unwrap();
        assert_eq!(changed, "rsdl:rr_interval=3ms".parse().unwrap());
        let wrong = policy_with(&base, &table(json!({"rr_intervall": "3ms"})), &context()).unwrap_err();
        assert!(wrong.problems()[0].accepted().unwrap().contains("did you mean `rr_interval`"), "{wrong:?}");
    }

    #[test]
    fn a_node_needs_no_vm() {
        let config = Config::parse_node("node.toml", "[policy]\nalgorithm = \"o1\"\n", &context()).unwrap();
        assert!(config.vms.is_empty() && !config.host.pcpus.is_empty());
        assert!(Config::parse("node.toml", "[policy]\nalgorithm = \"o1\"\n", &context()).is_err());
    }
}
