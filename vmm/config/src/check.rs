//! Checks a parsed file against the schema.
//!
//! The schema is derived from the configuration's types, so this module knows no key: it walks the document beside the
//! schema and notes every unknown or missing key, wrong type and value out of range, each with its span. Where a text
//! has a `format`, the value type of that format checks it. Mistakes that show only beside another value or beside the
//! host (duplicates, CPUs, images) are found by [`super::cross`].
//!
//! It understands the part of JSON Schema that the configuration's types produce; a test walks the whole schema to see
//! that nothing in it goes unchecked.

use std::ops::Range;

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeArray, DeInteger, DeTable, DeValue};

use super::error::{Finding, Misplaced};
use super::formats;
use super::keypath::KeyPath;

/// A known name at least this similar (Jaro-Winkler) to an unknown one is suggested.
const SIMILAR: f64 = 0.8;

/// Checks all of `document`, made from `text`, against `schema`. If it finds nothing, serde accepts the document.
pub(super) fn check(schema: &Value, document: &DeTable<'_>, text: &str) -> Vec<Misplaced> {
    let mut checker = Checker { root: schema, found: Vec::new() };
    // A key that is missing from the whole file is missing at its end, not all over it.
    let end = text.trim_end().len();
    checker.table(schema, document, end..end, &KeyPath::default());
    checker.found
}

/// The choices of a schema that lists constants.
pub(super) fn choices(schema: &Value) -> Vec<&str> {
    let constants = schema["oneOf"].as_array().into_iter().flatten().filter_map(|choice| choice["const"].as_str());
    constants.chain(schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str)).collect()
}

/// `schema` itself, or the schema that its `$ref` points to.
pub(super) fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|reference| root.pointer(reference.trim_start_matches('#')));
    target.unwrap_or(schema)
}

/// The name in `known` that is most similar to `word`, if one is similar enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(word, name), name))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// Names in a message: `a`, `b` or `c`.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.pop() {
        None => "nothing".to_owned(),
        Some(last) if names.is_empty() => last,
        Some(last) => format!("{} or {last}", names.join(", ")),
    }
}

struct Checker<'a> {
    root: &'a Value,
    found: Vec<Misplaced>,
}

impl<'a> Checker<'a> {
    fn note(&mut self, key: &KeyPath, span: Range<usize>, wrong: String, label: &str, help: Option<String>) {
        let finding = Finding { wrong, label: label.to_owned(), help };
        self.found.push(Misplaced { key: key.clone(), span, finding });
    }

    fn value(&mut self, schema: &'a Value, value: &Spanned<DeValue<'_>>, path: &KeyPath) {
        let schema = self.alternative(resolve(self.root, schema), value.get_ref());
        let span = value.span();
        match (expected_type(schema), value.get_ref()) {
            ("object", DeValue::Table(table)) => self.table(schema, table, span, path),
            ("array", DeValue::Array(array)) => self.array(schema, array, span, path),
            ("integer", DeValue::Integer(integer)) => self.integer(schema, integer, span, path),
            ("number", DeValue::Float(_) | DeValue::Integer(_)) => self.number(schema, value.get_ref(), span, path),
            ("string", DeValue::String(text)) => self.text(schema, text, span, path),
            ("boolean", DeValue::Boolean(_)) => {}
            (expected, other) => self.wrong_type(schema, expected, other, span, path),
        }
    }

    /// The alternative of `schema` for the type of `value`, or `schema` itself if it has none.
    fn alternative(&self, schema: &'a Value, value: &DeValue<'_>) -> &'a Value {
        let fits = |choice: &&Value| match expected_type(choice) {
            "object" => matches!(value, DeValue::Table(_)),
            "array" => matches!(value, DeValue::Array(_)),
            "integer" => matches!(value, DeValue::Integer(_)),
            "string" => matches!(value, DeValue::String(_)),
            _ => false,
        };
        let choices = schema["anyOf"].as_array().into_iter().flatten();
        choices.map(|choice| resolve(self.root, choice)).find(fits).unwrap_or(schema)
    }

    fn wrong_type(&mut self, schema: &Value, expected: &str, got: &DeValue<'_>, span: Range<usize>, path: &KeyPath) {
        let choices = schema["anyOf"].as_array().into_iter().flatten();
        let choices: Vec<&str> = choices.map(|choice| noun(expected_type(resolve(self.root, choice)))).collect();
        let nouns = if choices.is_empty() { noun(expected).to_owned() } else { choices.join(" or ") };
        let wrong = format!("expected {nouns}, found {}", article(got.type_str()));
        let help = match (expected, got) {
            ("array", DeValue::Table(_)) if schema["items"]["type"].is_null() => {
                Some(format!("write [[{path}]] in place of [{path}]"))
            }
            ("object", DeValue::Array(_)) => Some(format!("write [{path}], once")),
            _ => accepted(schema).map(|accepted| format!("accepted: {accepted}")),
        };
        self.note(path, span, wrong, "wrong type", help);
    }

    fn table(&mut self, schema: &'a Value, table: &DeTable<'_>, span: Range<usize>, path: &KeyPath) {
        let others = &schema["additionalProperties"];
        if others.is_object() {
            // Any key, with a value of one kind.
            table.iter().for_each(|(key, value)| self.value(others, value, &path.key(key.get_ref())));
            return;
        }
        let Some(properties) = schema["properties"].as_object() else { return };
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match properties.get(name) {
                Some(property) => self.value(property, value, &path.key(name)),
                None => {
                    let known = properties.keys().map(String::as_str);
                    let also = properties.iter().find(|(_, key)| is_called(key, name)).map(|(key, _)| key.as_str());
                    let meant = also.or_else(|| nearest(name, known.clone()));
                    let meant = meant.map(|name| format!("did you mean `{name}`? "));
                    let help = format!("{}accepted here: {}", meant.unwrap_or_default(), list(known));
                    self.note(
                        &path.key(name),
                        key.span(),
                        format!("unknown key `{}`", name.escape_debug()),
                        "unknown key",
                        Some(help),
                    );
                }
            }
        }
        for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !table.contains_key(required) {
                let property = resolve(self.root, &properties[required]);
                let (noun, help) = match expected_type(property) {
                    "array" if property["items"]["type"].is_null() => {
                        ("table", format!("add at least one [[{required}]]"))
                    }
                    _ => ("key", format!("accepted: {}", accepted(property).unwrap_or_default())),
                };
                let wrong = format!("the {noun} `{required}` is missing");
                self.note(&path.key(required), span.clone(), wrong, &format!("needs `{required}`"), Some(help));
            }
        }
    }

    fn array(&mut self, schema: &'a Value, array: &DeArray<'_>, span: Range<usize>, path: &KeyPath) {
        if array.is_empty() && schema["minItems"].as_u64().is_some_and(|min| min > 0) {
            let help = Some("give at least one item".to_owned());
            self.note(path, span, "the list is empty".to_owned(), "empty", help);
        }
        let unique = schema["uniqueItems"] == true;
        let mut seen = Vec::new();
        for (index, item) in array.iter().enumerate() {
            let path = path.index(index);
            self.value(&schema["items"], item, &path);
            let number = integer(item.get_ref());
            if unique && number.is_some() && seen.contains(&number) {
                let help = Some("name each one once".to_owned());
                let wrong = format!("{} is listed twice", number.unwrap_or_default());
                self.note(&path, item.span(), wrong, "listed before", help);
            }
            seen.push(number);
        }
    }

    fn integer(&mut self, schema: &Value, value: &DeInteger<'_>, span: Range<usize>, path: &KeyPath) {
        let above = |number: i64| schema["minimum"].as_i64().is_none_or(|min| number >= min);
        let below = |number: i64| schema["maximum"].as_i64().is_none_or(|max| number <= max);
        // A number that does not even fit into 64 bits is out of every range.
        let number = i64::from_str_radix(value.as_str(), value.radix()).ok();
        if !number.is_some_and(|number| above(number) && below(number)) {
            let help = range(schema).map(|range| format!("accepted: {range}"));
            self.note(path, span, format!("{value} is out of range"), "out of range", help);
        }
    }

    fn number(&mut self, schema: &Value, value: &DeValue<'_>, span: Range<usize>, path: &KeyPath) {
        let bound = |name: &str| schema[name].as_f64();
        let within = |number: &f64| {
            bound("minimum").is_none_or(|min| *number >= min) && bound("maximum").is_none_or(|max| *number <= max)
        };
        if number(value).filter(within).is_none() {
            let help = range(schema).map(|range| format!("accepted: {range}"));
            let shown =
                value.as_float().map(|float| float.as_str()).or(value.as_integer().map(|integer| integer.as_str()));
            self.note(path, span, format!("{} is out of range", shown.unwrap_or_default()), "out of range", help);
        }
    }

    fn text(&mut self, schema: &Value, text: &str, span: Range<usize>, path: &KeyPath) {
        let choices = choices(schema);
        if !choices.is_empty() {
            if !choices.contains(&text) {
                let meant = nearest(text, choices.iter().copied()).map(|name| format!("did you mean `{name}`? "));
                let help = format!("{}accepted: {}", meant.unwrap_or_default(), list(choices));
                self.note(
                    path,
                    span,
                    format!("`{}` is not one of the choices", text.escape_debug()),
                    "not a choice",
                    Some(help),
                );
            }
            return;
        }
        if let Some(Err(error)) = schema["format"].as_str().and_then(|format| formats::check_format(format, text)) {
            self.note(path, span, error.wrong, "not accepted", Some(format!("accepted: {}", error.accepted)));
            return;
        }
        // Bytes, not characters: stricter than the schema where a text is not ASCII, because guests count bytes.
        if let Some(max) = schema["maxLength"].as_u64().filter(|max| text.len() as u64 > *max) {
            let wrong = format!("the text has {} bytes", text.len());
            self.note(path, span, wrong, "too long", Some(format!("accepted: at most {max} bytes")));
        }
    }
}

/// Whether the key with this schema has `name` in other programs.
fn is_called(schema: &Value, name: &str) -> bool {
    schema["x-also-called"].as_array().into_iter().flatten().any(|also| also == name)
}

/// The name of a type in a message.
fn noun(kind: &str) -> &'static str {
    match kind {
        "object" => "a table",
        "array" => "an array",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a string in quotes",
        _ => "true or false",
    }
}

/// The JSON type that `schema` asks for. Lists of constants are always texts here.
fn expected_type(schema: &Value) -> &str {
    schema["type"].as_str().unwrap_or(if choices(schema).is_empty() { "any" } else { "string" })
}

/// The value of a TOML integer, if it is one and fits.
pub fn integer(value: &DeValue<'_>) -> Option<i64> {
    value.as_integer().and_then(|integer| i64::from_str_radix(integer.as_str(), integer.radix()).ok())
}

/// The value of a TOML number, whole or not.
pub(super) fn number(value: &DeValue<'_>) -> Option<f64> {
    let float = value.as_float().and_then(|float| float.as_str().parse::<f64>().ok());
    float.or_else(|| integer(value).map(|integer| integer as f64))
}

/// The bounds of a number or the `x-range` of a text, in words.
pub(super) fn range(schema: &Value) -> Option<String> {
    let bounds = (schema["minimum"].as_f64(), schema["maximum"].as_f64(), schema["x-range"].as_str());
    match bounds {
        (_, _, Some(text)) => Some(text.to_owned()),
        (Some(min), Some(max), _) => Some(format!("{min} to {max}")),
        (Some(min), None, _) => Some(format!("{min} or more")),
        (None, Some(max), _) => Some(format!("at most {max}")),
        (None, None, None) => schema["maxLength"].as_u64().map(|max| format!("at most {max} bytes")),
    }
}

/// All that `schema` accepts, in words; `None` if that takes more than a list or a range.
pub(super) fn accepted(schema: &Value) -> Option<String> {
    let choices = choices(schema);
    if !choices.is_empty() {
        return Some(list(choices));
    }
    match expected_type(schema) {
        "boolean" => Some("true or false".to_owned()),
        "array" => range(schema).or_else(|| range(&schema["items"])).map(|range| format!("a list of {range}")),
        _ => range(schema),
    }
}

fn article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {noun}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_of_the_configuration_holds_only_keywords_that_are_checked() {
        crate::testing::assert_checked(crate::schema().as_value());
    }

    #[test]
    fn name_that_resembles_nothing_has_no_suggestion() {
        assert_eq!(nearest("vcpu", ["name", "vcpus", "memory"]), Some("vcpus"));
        assert_eq!(nearest("colour", ["name", "vcpus", "memory"]), None);
    }
}
