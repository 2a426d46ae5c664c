//! The schema, and the reference page made from it.
//!
//! The texts are the field comments of the configuration's types and the names in the rows of the algorithms.

use std::sync::LazyLock;

use schemars::Schema;
use serde_json::{Value, json};

use super::check::{accepted, resolve};
use super::policy_keys;
use super::types::Config;

/// The words around the tables of the reference page.
const INTRODUCTION: &str = "\
# Configuration

One TOML file says which host CPUs stile may use, how it schedules, and which virtual machines to run. `stile check FILE`
checks it, `stile run FILE` runs it, `stile schema` prints its JSON Schema. A mistake is reported with file, line, column
and key, with what would be accepted, and with exit code 2; nothing is started.

This page is generated from the field comments of the configuration's types. To write it anew after a change:
`STILE_BLESS=1 cargo test -p stile-config configuration_page`.

```toml
";

/// The example of the reference page: a configuration with the keys that are needed most.
pub(super) const EXAMPLE: &str = include_str!("example.toml");

/// JSON Schema of the configuration file.
///
/// `x-range` and `x-default` say in words what the standard keywords cannot.
pub fn schema() -> Schema {
    let mut schema = schema_of_node().clone();
    schema.insert("required".to_owned(), json!(["vm"]));
    schema
}

/// The schema of a file in which there may be no VM. It is made once: that costs more than all else that a node does to
/// check a VM.
pub(super) fn schema_of_node() -> &'static Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
        let mut schema = schemars::schema_for!(Config);
        policy_keys::describe(&mut schema);
        schema
    });
    &SCHEMA
}

/// The reference page, `docs/configuration.md`.
pub fn reference_markdown() -> String {
    let schema = schema();
    let root = schema.as_value();
    let mut page = introduced(INTRODUCTION, EXAMPLE);
    for (key, property) in properties(root) {
        let (heading, table) = match property["items"].as_object() {
            Some(_) => (format!("[[{key}]]"), &property["items"]),
            None => (format!("[{key}]"), property),
        };
        section(root, &heading, key, table, &mut page);
    }
    page
}

/// The page of a file: an introduction, an example, and all keys. The keys at the top of the file come first, then
/// those of tables.
pub fn page(introduction: &str, example: &str, schema: &Schema) -> String {
    let root = schema.as_value();
    let mut page = introduced(introduction, example);
    table("Keys", root, root, &mut page);
    for (key, property) in properties(root) {
        let choices = property["anyOf"].as_array().into_iter().flatten();
        choices
            .map(|choice| resolve(root, choice))
            .filter(|choice| choice["properties"].is_object())
            .for_each(|choice| section(root, &format!("[{key}]"), key, choice, &mut page));
    }
    page
}

fn introduced(introduction: &str, example: &str) -> String {
    format!("{introduction}{example}```\n")
}

/// Writes the table `schema`, found under `heading`, then the tables within it. `path` leads to it in a file.
fn section(root: &Value, heading: &str, path: &str, schema: &Value, page: &mut String) {
    for (key, property) in table(&format!("`{heading}`"), root, resolve(root, schema), page) {
        let path = format!("{path}.{key}");
        section(root, &format!("[{path}]"), &path, property, page);
    }
}

/// Writes the keys of the table `schema`, but for those that are tables themselves, which it returns.
fn table<'a>(heading: &str, root: &'a Value, schema: &'a Value, page: &mut String) -> Vec<(&'a str, &'a Value)> {
    let description = schema["description"].as_str().unwrap_or_default();
    page.push_str(&format!("\n## {heading}\n\n{description}\n\n"));
    page.push_str("| key | type | default | accepted | meaning |\n|---|---|---|---|---|\n");
    let (tables, values): (Vec<_>, Vec<_>) =
        properties(schema).partition(|(_, property)| resolve(root, property)["properties"].is_object());
    for (key, property) in values {
        page.push_str(&row(root, key, property, required(schema, key)));
    }
    tables
}

/// One line of a table.
fn row(root: &Value, key: &str, property: &Value, required: bool) -> String {
    let target = resolve(root, property);
    let choices = target["anyOf"].as_array().into_iter().flatten();
    let kinds: Vec<&str> = choices.map(|choice| kind(resolve(root, choice))).collect();
    let kind = if kinds.is_empty() { kind(target).to_owned() } else { kinds.join(" or ") };
    let default = match (required, property["x-default"].as_str()) {
        (true, _) => "required".to_owned(),
        (false, Some(words)) => words.to_owned(),
        (false, None) => format!("`{}`", property["default"]),
    };
    let mut meaning = property["description"].as_str().unwrap_or_default().to_owned();
    for choice in target["oneOf"].as_array().into_iter().flatten() {
        let (name, text) = (choice["const"].as_str(), choice["description"].as_str());
        meaning.push_str(&format!("<br>`{}`: {}", name.unwrap_or_default(), text.unwrap_or_default()));
    }
    let accepted = accepted(target).unwrap_or_default();
    let cells = [format!("`{key}`"), kind, default, accepted, meaning];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|").replace('\n', " ")).join(" | "))
}

/// The type of a value, for readers.
fn kind(schema: &Value) -> &str {
    match schema["type"].as_str() {
        Some("array") if schema["items"]["type"] == "string" => "list of strings",
        Some("array") => "list of integers",
        Some("object") => "table",
        Some(kind) => kind,
        None => "string",
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> {
    schema["properties"].as_object().into_iter().flatten().map(|(key, property)| (key.as_str(), property))
}

fn required(schema: &Value, key: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key))
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    /// Every key, as the path that leads to its schema.
    fn keys<'a>(root: &'a Value, schema: &'a Value, found: &mut Vec<(&'a str, &'a Value)>) {
        for (key, property) in properties(schema) {
            found.push((key, property));
            keys(root, resolve(root, property), found);
            keys(root, resolve(root, &property["items"]), found);
        }
    }

    #[test]
    fn configuration_page_is_what_the_types_say() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
        if env::var_os("STILE_BLESS").is_some() {
            fs::write(&path, reference_markdown()).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == reference_markdown(),
            "docs/configuration.md is out of date; STILE_BLESS=1 writes it anew"
        );
    }

    #[test]
    fn schema_describes_every_key_and_gives_each_a_default_or_requires_it() {
        let schema = schema();
        let mut found = Vec::new();
        keys(schema.as_value(), schema.as_value(), &mut found);
        assert!(found.len() > 20);
        for (key, property) in found {
            let described = property["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(described, "{key} has no description");
            let optional = property.get("default").is_some() || property.get("x-default").is_some();
            assert!(optional || ["vm", "name"].contains(&key), "{key} has no default");
        }
    }
}
