//! Checks of schemas, for the tests of those that read files by them.

use crate::formats;
use serde_json::Value;

/// What the checker or the reference page reads, or what only informs the reader of the schema.
const UNDERSTOOD: [&str; 25] = [
    "$schema",
    "title",
    "description",
    "default",
    "x-default",
    "type",
    "format",
    "pattern",
    "x-range",
    "x-also-called",
    "minimum",
    "maximum",
    "minItems",
    "uniqueItems",
    "items",
    "minLength",
    "maxLength",
    "properties",
    "required",
    "additionalProperties",
    "oneOf",
    "enum",
    "anyOf",
    "$ref",
    "$defs",
];

/// Asserts that all that this schema demands is checked when a file is read.
///
/// # Panics
/// If it holds a keyword that is not checked.
pub fn assert_checked(schema: &Value) {
    for (keyword, inner) in schema.as_object().expect("a schema is made of objects and arrays") {
        assert!(UNDERSTOOD.contains(&keyword.as_str()), "{keyword} is not checked: {schema}");
        match keyword.as_str() {
            "properties" | "$defs" => {
                inner.as_object().expect("a schema is made of objects and arrays").values().for_each(assert_checked)
            }
            "items" => assert_checked(inner),
            "anyOf" => {
                inner.as_array().expect("a schema is made of objects and arrays").iter().for_each(assert_checked)
            }
            "additionalProperties" if inner.is_object() => assert_checked(inner),
            "additionalProperties" => assert_eq!(*inner, false),
            _ => {}
        }
    }
    if let (Some("string"), Some(format)) = (schema["type"].as_str(), schema["format"].as_str()) {
        assert!(formats::check_format(format, "").is_some(), "{format} has no value type");
    }
}
