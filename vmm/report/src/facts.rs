//! Turns host facts into rows of name and value. The report shows all facts and depends on none of their names but
//! [`POLICIES`].

use serde_json::Value;

/// The key under which the policies' full configurations are; too long for a row.
pub const POLICIES: &str = "policies";

/// The facts as (name, value), nested objects with dotted names. A value that is null is "unknown".
pub fn rows(host: &Value) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    if let Value::Object(fields) = host {
        for (name, value) in fields.iter().filter(|(name, _)| *name != POLICIES) {
            collect(name, value, &mut rows);
        }
    }
    rows
}

fn collect(name: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                collect(&format!("{name}.{field}"), value, rows);
            }
        }
        other => rows.push((name.replace('_', " "), scalar(other))),
    }
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(fields) => fields.values().map(scalar).collect::<Vec<_>>().join(" "),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(scalar).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_facts_get_dotted_names_and_policies_are_left_out() {
        let host = json!({"kvm": {"halt_poll_ns": 0, "nested": true}, "pcpus": [0, 1], "load": null, "caps": [{"name": "A", "value": 1}],
                "policies": {"a": 1}});
        let rows: Vec<String> = rows(&host).into_iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(rows, ["kvm.halt poll ns=0", "kvm.nested=yes", "pcpus=0, 1", "load=unknown", "caps=A 1"]);
    }

    #[test]
    fn no_object_has_no_rows() {
        assert!(rows(&Value::Null).is_empty());
    }
}
