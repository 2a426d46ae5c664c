//! The schema of a simulation file, as far as it does not follow from the types, and the page made of it.

use super::{PCPUS, Scenario, Shape};
use schemars::{Schema, SchemaGenerator, json_schema};
use stile_config::page;
use stile_host::HostCosts;
use stile_suites::Suite;

/// The text around the tables of the page.
const INTRODUCTION: &str = "\
# The file of `stile sim`

One TOML file describes a simulation for `stile sim FILE`: a suite, the policies to compare, the sizes, and the machine.
A mistake is reported with file, line, column, key and the accepted values. Then nothing is simulated, and the exit code
is 2. [How far to trust the results](simulator.md). [Examples](examples) has the files of published figures.

This page is generated from the field comments of the file's types. To write it anew after a change:
`STILE_BLESS=1 cargo test -p stile-compare simulation_page`. `stile schema --sim` prints its JSON Schema.

```toml
";
/// Part of the page.
const EXAMPLE: &str = include_str!("example.toml");

/// JSON Schema of a simulation file.
pub fn scenario_schema() -> Schema {
    schemars::schema_for!(Scenario)
}

/// The page `docs/simulation-file.md`.
pub fn scenario_markdown() -> String {
    page(INTRODUCTION, EXAMPLE, &scenario_schema())
}

/// The suites that can be simulated.
pub(super) fn suite(_: &mut SchemaGenerator) -> Schema {
    let names: Vec<&str> = Suite::ALL.into_iter().filter(|suite| suite.model().is_some()).map(Suite::name).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// A list of policies.
pub(super) fn policies(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "minItems": 1,
        "items": { "type": "string", "format": "policy-name", "x-range": "names of policies such as \"rsdl\"" }
    })
}

/// The number of pCPUs, of one machine or of several.
pub(super) fn counts(_: &mut SchemaGenerator) -> Schema {
    let (min, max) = (PCPUS.start(), PCPUS.end());
    let count = json_schema!({ "type": "integer", "minimum": min, "maximum": max });
    json_schema!({
        "anyOf": [count, { "type": "array", "items": count, "minItems": 1 }],
        "x-range": format!("{min} to {max}")
    })
}

/// The number of pCPUs, or a machine's shape.
pub(super) fn pcpus(generator: &mut SchemaGenerator) -> Schema {
    with_alternative(counts(generator), generator.subschema_for::<Shape>())
}

/// A file of costs, or the costs.
pub(super) fn costs(generator: &mut SchemaGenerator) -> Schema {
    let file = json_schema!({
        "anyOf": [{ "type": "string", "minLength": 1 }],
        "x-range": "a path, or all figures",
        "x-default": "those of machine A in docs/results.md"
    });
    with_alternative(file, generator.subschema_for::<HostCosts>())
}

fn with_alternative(mut schema: Schema, alternative: Schema) -> Schema {
    if let Some(choices) = schema.get_mut("anyOf").and_then(|choices| choices.as_array_mut()) {
        choices.push(alternative.to_value());
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::super::check::tests::mistakes;
    use super::*;
    use std::path::Path;
    use std::{env, fs};

    #[test]
    fn simulation_page_is_what_the_types_say() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/simulation-file.md");
        let page = scenario_markdown();
        if env::var_os("STILE_BLESS").is_some() {
            fs::write(&path, &page).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == page,
            "docs/simulation-file.md is out of date; STILE_BLESS=1 writes it anew"
        );
    }

    #[test]
    fn every_key_is_described_and_has_a_default_or_is_required() {
        let schema = scenario_schema();
        let root = schema.as_value();
        let tables = [root, &root["$defs"]["Shape"], &root["$defs"]["HostCosts"]];
        for (table, name) in tables.into_iter().flat_map(|table| {
            let names = table["properties"].as_object().unwrap().keys();
            names.map(move |name| (table, name))
        }) {
            let property = &table["properties"][name];
            assert!(property["description"].as_str().is_some_and(|text| !text.is_empty()), "{name}");
            let required = table["required"].as_array().is_some_and(|names| names.contains(&name.as_str().into()));
            let default = property.get("default").is_some() || property.get("x-default").is_some();
            assert!(required || default, "{name} has no default");
        }
    }

    #[test]
    fn the_schema_holds_only_keywords_that_are_checked() {
        stile_config::testing::assert_checked(scenario_schema().as_value());
    }

    #[test]
    fn the_example_and_the_files_in_docs_are_without_mistakes() {
        assert_eq!(mistakes(EXAMPLE), [""; 0]);
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples");
        let files = fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path());
        let scaling: Vec<_> = files.filter(|path| path.to_string_lossy().contains("scaling-")).collect();
        assert!(scaling.len() >= 3);
        for file in scaling {
            assert!(Scenario::load(&file).is_ok(), "{}", file.display());
        }
    }
}
