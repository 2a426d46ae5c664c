//! The file of costs, `stile doctor --costs > costs.json`: the figures, and the conditions under which they were
//! measured.
//!
//! A file is checked to its end: one error carries all its mistakes.

use super::{Conditions, HostCosts};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Key of the conditions, which stand among the figures.
const MEASURED: &str = "measured";

/// Costs, and how they were measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MeasuredCosts {
    /// The figures.
    #[serde(flatten)]
    pub costs: HostCosts,
    /// The conditions; `None` if the figures were written by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Conditions>,
}

/// Why a file of costs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CostsError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The file is not JSON.
    #[error("{} is not JSON as `stile doctor --costs` prints it: {source}", file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// The parser's message.
        source: serde_json::Error,
    },
    /// The file holds something else.
    #[error("{} does not hold costs as `stile doctor --costs` prints them: {}", file.display(), wrong.join("; "))]
    Content {
        /// The file.
        file: PathBuf,
        /// All its mistakes.
        wrong: Vec<String>,
    },
}

impl From<HostCosts> for MeasuredCosts {
    fn from(costs: HostCosts) -> Self {
        Self { costs, measured: None }
    }
}

impl MeasuredCosts {
    /// Reads what `stile doctor --costs` printed.
    pub fn read(file: &Path) -> Result<Self, CostsError> {
        let text =
            std::fs::read_to_string(file).map_err(|source| CostsError::Read { file: file.to_owned(), source })?;
        let value = serde_json::from_str(&text).map_err(|source| CostsError::Json { file: file.to_owned(), source })?;
        parse(value).map_err(|wrong| CostsError::Content { file: file.to_owned(), wrong })
    }

    /// Reasons against using the figures, if they were measured on a host that did other work.
    pub fn warning(&self) -> Option<String> {
        let disturbed = &self.measured.as_ref()?.disturbed;
        (!disturbed.is_empty()).then(|| {
            format!(
                "the host was disturbed while these costs were measured ({}); they should not be used",
                disturbed.join("; ")
            )
        })
    }
}

fn parse(value: Value) -> Result<MeasuredCosts, Vec<String>> {
    let Value::Object(mut fields) = value else { return Err(vec!["it is no object".to_owned()]) };
    let mut wrong = Vec::new();
    let measured = fields.remove(MEASURED).and_then(|measured| match Deserialize::deserialize(measured) {
        Ok(measured) => Some(measured),
        Err(error) => {
            wrong.push(format!("{MEASURED}: {error}"));
            None
        }
    });
    wrong.extend(mistakes(&fields));
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let costs = serde_json::from_value(Value::Object(fields)).map_err(|error| vec![error.to_string()])?;
    Ok(MeasuredCosts { costs, measured })
}

/// The mistakes in the figures, checked against their schema.
fn mistakes(fields: &Map<String, Value>) -> Vec<String> {
    let schema = schemars::schema_for!(HostCosts);
    let Some(known) = schema.as_value()["properties"].as_object() else { return Vec::new() };
    let unknown = fields.keys().filter(|name| !known.contains_key(*name)).map(|name| {
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        format!("unknown key `{}`, accepted are {}", name.escape_debug(), stile_text::list(&names))
    });
    let figures = known.iter().filter_map(|(name, schema)| match (fields.get(name), schema["maximum"].as_u64()) {
        (None, _) => Some(format!("`{name}` is missing")),
        (Some(value), Some(max)) if value.as_u64().is_none_or(|value| value > max) => {
            Some(format!("`{name}` is {value}, accepted are whole numbers from 0 to {max}, in ns"))
        }
        _ => None,
    });
    let leave = |name: &str| fields.get(name).and_then(Value::as_u64);
    let longer = leave("leave_ns").zip(leave("exit_ns")).filter(|(leave, exit)| leave > exit);
    let longer = longer.map(|(leave, exit)| format!("`leave_ns` is {leave}, and the whole exit `exit_ns` {exit}"));
    unknown.chain(figures).chain(longer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Disturbance;
    use serde_json::json;

    #[test]
    fn what_is_printed_is_read_back_with_its_conditions() {
        let busy = Disturbance { others: Some(0.5), ..Disturbance::default() };
        let conditions = Conditions::new(&busy, [("exit_ns".to_owned(), 0.125)].into());
        let costs = MeasuredCosts { costs: HostCosts::default(), measured: Some(conditions) };
        assert_eq!(parse(json!(costs)).unwrap(), costs);
        assert!(costs.warning().unwrap().contains("other programs ran for 50 %"));
        let bare = MeasuredCosts::from(HostCosts::default());
        assert_eq!(parse(json!(bare)).unwrap(), bare, "as somebody writes them");
        assert_eq!(bare.warning(), None);
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let mut value = json!(HostCosts::default());
        let fields = value.as_object_mut().unwrap();
        fields.remove("hop_ns");
        fields.insert("hopp_ns".to_owned(), json!(3));
        fields.insert("exit_ns".to_owned(), json!("25 us"));
        fields.insert("kick_ns".to_owned(), json!(-1));
        fields.insert("measured".to_owned(), json!(7));
        let wrong = parse(value).unwrap_err();
        for told in
            ["`hop_ns` is missing", "unknown key `hopp_ns`", "`exit_ns` is \"25 us\"", "`kick_ns` is -1", "measured: "]
        {
            assert!(wrong.iter().any(|wrong| wrong.contains(told)), "{told}: {wrong:?}");
        }
        assert_eq!(wrong.len(), 5, "{wrong:?}");
        assert_eq!(parse(json!([1])).unwrap_err(), ["it is no object"]);
        let longer = json!(HostCosts { leave_ns: 30_000, ..HostCosts::default() });
        assert_eq!(parse(longer).unwrap_err(), ["`leave_ns` is 30000, and the whole exit `exit_ns` 25000"]);
    }
}
