//! Checks that a `report.json` is valid: that the file has the format of [`stile_results::model`] and that its numbers
//! fit together.
//!
//! It does not judge the numbers: a slow policy is a result, not an error.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use super::view;
use stile_results::model::{Cell, OLDEST_SCHEMA, Report, SCHEMA};
use stile_results::stats::Interval;
use stile_suites::Suite;

/// Relative tolerance of a comparison of numbers: files hold decimal digits, not the bits that were computed with.
const SLACK: f64 = 1e-9;

/// What a valid report contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of cells.
    pub cells: usize,
    /// Number of rounds.
    pub rounds: u32,
    /// Suites that were measured.
    pub suites: Vec<Suite>,
    /// Policies that were measured.
    pub policies: Vec<String>,
    /// Whether the run was ended early.
    pub interrupted: bool,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let suites: Vec<&str> = self.suites.iter().map(|suite| suite.name()).collect();
        let (cells, rounds) = (stile_text::count(self.cells, "cell"), stile_text::count(self.rounds as usize, "round"));
        write!(f, "{cells} from {rounds} of {} under {}", stile_text::list(&suites), stile_text::list(&self.policies))?;
        if self.interrupted { f.write_str(", interrupted") } else { Ok(()) }
    }
}

/// Why a file is no valid report.
#[derive(Debug, Error)]
pub enum CheckError {
    /// The file cannot be read.
    #[error("cannot read {}; `stile compare` writes it into the directory given with --out", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not JSON.
    #[error("{} is not JSON", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The file is of another version of the format.
    #[error("{} {}", path.display(), other_schema(found))]
    Schema {
        /// The file.
        path: PathBuf,
        /// The value in place of the version.
        found: Value,
    },
    /// A field is missing or of the wrong type.
    #[error("{} at `{field}`", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field.
        field: String,
        /// The mistake.
        #[source]
        source: serde_json::Error,
    },
    /// The report has no cells.
    #[error("{} has no cells: nothing was measured", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A cell's numbers do not fit together.
    #[error("{} at `cells[{index}]` ({name}): {problem}", path.display())]
    Cell {
        /// The file.
        path: PathBuf,
        /// The cell.
        index: usize,
        /// Its suite, size, policy and metric.
        name: String,
        /// The contradiction.
        problem: CellProblem,
    },
}

fn other_schema(found: &Value) -> String {
    match found {
        Value::Null => "is no report: it has no `schema`".to_owned(),
        found => format!("has schema {found}; this program reads schemas {OLDEST_SCHEMA} to {SCHEMA}"),
    }
}

/// A contradiction in a cell.
#[derive(Debug, Error, PartialEq)]
pub enum CellProblem {
    /// No samples.
    #[error("it has no samples")]
    NoSamples,
    /// More samples than rounds.
    #[error("it has {samples} samples from {rounds} rounds")]
    TooManySamples {
        /// Number of samples.
        samples: usize,
        /// Number of rounds.
        rounds: u32,
    },
    /// Unit or direction is not the metric's.
    #[error("unit `{unit}` or its direction differs from the metric's")]
    Unit {
        /// The cell's unit.
        unit: String,
    },
    /// The median lies outside the samples' range.
    #[error("median {median} lies outside its samples")]
    Median {
        /// The cell's median.
        median: f64,
    },
    /// An interval does not contain the value it is for.
    #[error("{value} lies outside its interval [{}, {}]", interval.lo, interval.hi)]
    Interval {
        /// The median or ratio.
        value: f64,
        /// Its interval.
        interval: Interval,
    },
    /// An interval without the ratio it is for.
    #[error("ratio_ci95 stands without ratio")]
    IntervalWithoutRatio,
    /// The same cell twice.
    #[error("an earlier cell is for the same suite, policy, parameters and metric")]
    Duplicate,
    /// The reference has a ratio to itself other than 1.
    #[error("the reference's ratio to itself is {0}")]
    ReferenceRatio(f64),
    /// The rounds of the samples are not one for each sample, in ascending order.
    #[error("its rounds are not one for each sample in ascending order")]
    Rounds,
}

/// Checks a report, and describes its content.
pub fn check_report(path: &Path) -> Result<Summary, CheckError> {
    let report = read_report(path)?;
    Ok(Summary {
        cells: report.cells.len(),
        rounds: report.rounds,
        suites: view::suites(&report),
        policies: view::policies(&report).into_iter().map(str::to_owned).collect(),
        interrupted: report.interrupted,
    })
}

/// Reads a report that is whole and consistent.
pub fn read_report(path: &Path) -> Result<Report, CheckError> {
    let path = || path.to_owned();
    let text = std::fs::read_to_string(path()).map_err(|source| CheckError::Read { path: path(), source })?;
    let json: Value = serde_json::from_str(&text).map_err(|source| CheckError::Json { path: path(), source })?;
    // The version is checked first, so that a newer file is not reported as lacking some field.
    let schemas = u64::from(OLDEST_SCHEMA)..=u64::from(SCHEMA);
    if !json.get("schema").and_then(Value::as_u64).is_some_and(|schema| schemas.contains(&schema)) {
        let found = json.get("schema").cloned().unwrap_or_default();
        return Err(CheckError::Schema { path: path(), found });
    }
    let report: Report = serde_path_to_error::deserialize(json).map_err(|error| CheckError::Field {
        path: path(),
        field: error.path().to_string(),
        source: error.into_inner(),
    })?;
    if report.cells.is_empty() {
        return Err(CheckError::Empty { path: path() });
    }
    let mut seen = BTreeSet::new();
    for (index, cell) in report.cells.iter().enumerate() {
        let known = !seen.insert((cell.suite, &cell.policy, &cell.params, cell.metric));
        let checked = if known { Err(CellProblem::Duplicate) } else { check_cell(cell, &report) };
        checked.map_err(|problem| {
            let name = format!("{} {} {} {}", cell.suite, cell.params.size_label(), cell.policy, cell.metric.name());
            CheckError::Cell { path: path(), index, name, problem }
        })?;
    }
    Ok(report)
}

fn check_cell(cell: &Cell, report: &Report) -> Result<(), CellProblem> {
    let (samples, rounds) = (&cell.samples, report.rounds);
    let lo = samples.iter().copied().reduce(f64::min).ok_or(CellProblem::NoSamples)?;
    let hi = samples.iter().copied().fold(lo, f64::max);
    if samples.len() > rounds as usize {
        return Err(CellProblem::TooManySamples { samples: samples.len(), rounds });
    }
    let is_of_samples = |rounds: &Vec<u32>| rounds.len() == samples.len() && rounds.is_sorted_by(|a, b| a < b);
    if !cell.rounds.as_ref().is_none_or(is_of_samples) {
        return Err(CellProblem::Rounds);
    }
    if cell.unit != cell.suite.unit(cell.metric) || cell.better != cell.metric.better() {
        return Err(CellProblem::Unit { unit: cell.unit.clone() });
    }
    if !holds(Interval { lo, hi }, cell.median) {
        return Err(CellProblem::Median { median: cell.median });
    }
    check_interval(cell.median, cell.ci95)?;
    let Some(ratio) = cell.ratio else {
        return if cell.ratio_ci95.is_none() { Ok(()) } else { Err(CellProblem::IntervalWithoutRatio) };
    };
    if cell.is_of(&report.reference) && ratio != 1.0 {
        return Err(CellProblem::ReferenceRatio(ratio));
    }
    check_interval(ratio, cell.ratio_ci95)
}

fn check_interval(value: f64, interval: Option<Interval>) -> Result<(), CellProblem> {
    match interval {
        Some(interval) if !holds(interval, value) => Err(CellProblem::Interval { value, interval }),
        _ => Ok(()),
    }
}

fn holds(interval: Interval, value: f64) -> bool {
    let slack = SLACK * interval.lo.abs().max(interval.hi.abs());
    interval.lo - slack <= value && value <= interval.hi + slack
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use stile_results::model::RunContext;
    use stile_results::testing::ticket;
    use stile_suites::Metric;

    fn valid() -> Value {
        let host = ticket("host", Metric::Throughput, &[1.1, 2.3, 3.7]);
        let rsdl = ticket("rsdl", Metric::Throughput, &[2.9, 2.7, 4.1]);
        serde_json::to_value(Report::from_samples(&[host, rsdl].concat(), RunContext::default())).unwrap()
    }

    fn check(report: &Value) -> Result<Summary, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), report.to_string()).unwrap();
        check_report(file.path()).map_err(|error| error.to_string())
    }

    fn refused(change: impl FnOnce(&mut Value)) -> String {
        let mut report = valid();
        change(&mut report);
        check(&report).unwrap_err()
    }

    #[test]
    fn a_fresh_report_passes() {
        let summary = check(&valid()).unwrap();
        assert_eq!(summary.to_string(), "2 cells from 3 rounds of ticket under host and rsdl");
    }

    #[test]
    fn another_schema_is_named_before_anything_else() {
        assert!(
            refused(|report| *report = json!({"schema": 3}))
                .contains("has schema 3; this program reads schemas 1 to 2")
        );
        assert!(refused(|report| *report = json!([])).contains("is no report"));
    }

    #[test]
    fn a_report_of_version_1_is_read_with_its_ratios_to_host() {
        let mut old = valid();
        let report = old.as_object_mut().unwrap();
        report.insert("schema".into(), json!(1));
        ["reference", "disturbed"].iter().for_each(|field| drop(report.remove(*field)));
        for cell in report["cells"].as_array_mut().unwrap() {
            let cell = cell.as_object_mut().unwrap();
            let ratio = cell.remove("ratio").unwrap();
            cell.insert("ratio_to_host".into(), ratio);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), old.to_string()).unwrap();
        let read = read_report(file.path()).unwrap();
        let new: Report = serde_json::from_str(&valid().to_string()).unwrap();
        assert_eq!((read.reference.as_str(), &read.cells), ("host", &new.cells));
    }

    #[test]
    fn a_missing_field_is_named_with_its_place() {
        let error = refused(|report| drop(report["cells"][1].as_object_mut().unwrap().remove("median")));
        assert!(error.contains("`cells[1]"), "{error}");
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert!(refused(|report| report["cells"][0]["median"] = json!(99.0)).contains("outside its samples"));
        assert!(refused(|report| report["cells"][1]["ratio"] = json!(9.0)).contains("outside its interval"));
        assert!(refused(|report| report["cells"][1]["ratio"] = Value::Null).contains("stands without"));
        assert!(refused(|report| report["cells"][0]["samples"] = json!([])).contains("no samples"));
        assert!(refused(|report| report["cells"][0]["unit"] = json!("us")).contains("unit `us`"));
        assert!(refused(|report| report["cells"][0]["rounds"] = json!([0, 2, 1])).contains("ascending order"));
        assert!(refused(|report| report["rounds"] = json!(1)).contains("3 samples from 1 rounds"));
        assert!(refused(|report| report["cells"][1] = report["cells"][0].clone()).contains("earlier cell"));
    }

    #[test]
    fn nothing_measured_is_refused() {
        assert!(refused(|report| report["cells"] = json!([])).contains("nothing was measured"));
    }

    #[test]
    fn a_file_that_is_not_there_or_torn_is_named() {
        let missing = check_report(Path::new("/nonexistent/report.json")).unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/report.json"));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "{\"schema\": 1, ").unwrap();
        assert!(matches!(check_report(file.path()), Err(CheckError::Json { .. })));
    }
}
