//! The folder that a report is written into.
//!
//! Without `--out` it is a fresh one in the current folder: `stile-report`, or the first of `stile-report-2`,
//! `stile-report-3`, ... that does not exist or is empty. A folder named with `--out` is refused if it holds a report,
//! unless `--force` says to replace it: minutes of measuring are lost by one keystroke otherwise.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use super::writer::REPORT;
use stile_results::raw::JSON_LINES;

/// Name of the first folder that is tried if none is named.
pub const DEFAULT: &str = "stile-report";
/// Number of folders that are tried. Not configurable: a user who keeps more reports names the folders with `--out`.
const TRIED: usize = 1000;

/// Where the user wants the report.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The folder named with `--out`.
    pub out: Option<&'a Path>,
    /// Whether a report there may be replaced.
    pub force: bool,
}

/// Why there is no folder for the report.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// The folder holds a report.
    #[error(
        "--out {}: there is {holds} in this folder; name another folder, leave out --out for a fresh one, or replace it \
         with --force", path.display()
    )]
    Taken {
        /// The folder.
        path: PathBuf,
        /// The file of the report in it.
        holds: &'static str,
    },
    /// The folder cannot be read.
    #[error("cannot read the folder {}; name another one with --out", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is a report in every folder tried.
    #[error("there are {TRIED} reports in {}; name a folder with --out", path.display())]
    Full {
        /// The folder in which the folders are.
        path: PathBuf,
    },
}

impl Wanted<'_> {
    /// The folder to write into: the one named, or a fresh one in `base`. Makes nothing.
    pub fn folder(self, base: &Path) -> Result<PathBuf, PlaceError> {
        let Some(path) = self.out else { return fresh(base) };
        match held(path) {
            Some(holds) if !self.force => Err(PlaceError::Taken { path: path.to_owned(), holds }),
            _ => Ok(path.to_owned()),
        }
    }
}

/// The first folder of the default name that is not in use.
fn fresh(base: &Path) -> Result<PathBuf, PlaceError> {
    for number in 1..=TRIED {
        let name = if number == 1 { DEFAULT.to_owned() } else { format!("{DEFAULT}-{number}") };
        // The path is shown to the user, so it is as short as possible.
        let path = if base == Path::new(".") { PathBuf::from(name) } else { base.join(name) };
        match fs::read_dir(&path).map(|mut entries| entries.next().is_none()) {
            Ok(true) => return Ok(path),
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
            Err(source) => return Err(PlaceError::Unreadable { path, source }),
        }
    }
    Err(PlaceError::Full { path: base.to_owned() })
}

/// The file of a report in a folder: the report, or the samples of a run that has no report.
fn held(path: &Path) -> Option<&'static str> {
    let report = path.join(REPORT);
    if report.exists() {
        let text = fs::read(report).unwrap_or_default();
        let report: Value = serde_json::from_slice(&text).unwrap_or_default();
        return Some(match report.get("simulated").and_then(Value::as_bool) {
            Some(true) => "a simulated report",
            Some(false) => "a measured report",
            None => "a report",
        });
    }
    let samples = fs::metadata(path.join("raw").join(JSON_LINES));
    samples.is_ok_and(|samples| samples.len() > 0).then_some("a run's samples without a report")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(base: &Path, out: Option<&str>, force: bool) -> Result<String, String> {
        let out = out.map(|name| base.join(name));
        let folder = Wanted { out: out.as_deref(), force }.folder(base).map_err(|error| error.to_string())?;
        Ok(folder.file_name().unwrap().to_str().unwrap().to_owned())
    }

    fn put(base: &Path, file: &str, text: &str) {
        let path = base.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_fresh_folder_is_the_first_that_is_not_there_or_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(chosen(dir.path(), None, false).unwrap(), "stile-report");
        assert!(!dir.path().join("stile-report").exists(), "nothing is made");
        put(dir.path(), "stile-report/anything", "");
        put(dir.path(), "stile-report-2", "a file");
        assert_eq!(chosen(dir.path(), None, false).unwrap(), "stile-report-3");
        fs::create_dir(dir.path().join("stile-report-3")).unwrap();
        assert_eq!(chosen(dir.path(), None, false).unwrap(), "stile-report-3");
        assert_eq!(chosen(dir.path(), None, true).unwrap(), "stile-report-3", "--force is for a folder that is named");
    }

    #[test]
    fn a_named_folder_with_a_report_is_refused_unless_forced() {
        let dir = tempfile::tempdir().unwrap();
        for (file, text, holds) in [
            ("measured/report.json", "{\"simulated\": false}", "a measured report"),
            ("modelled/report.json", "{\"simulated\": true}", "a simulated report"),
            ("torn/report.json", "{", "a report"),
            ("failed/raw/samples.jsonl", "{}", "a run's samples"),
        ] {
            put(dir.path(), file, text);
            let name = file.split('/').next().unwrap();
            let refused = chosen(dir.path(), Some(name), false).unwrap_err();
            assert!([name, holds, "--out", "--force"].iter().all(|told| refused.contains(told)), "{refused}");
            assert_eq!(chosen(dir.path(), Some(name), true).unwrap(), name);
        }
    }

    #[test]
    fn a_named_folder_with_anything_else_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        put(dir.path(), "mine/notes.txt", "");
        assert_eq!(chosen(dir.path(), Some("mine"), false).unwrap(), "mine");
        put(dir.path(), "failed-at-once/raw/samples.jsonl", "");
        assert_eq!(chosen(dir.path(), Some("failed-at-once"), false).unwrap(), "failed-at-once");
        assert_eq!(chosen(dir.path(), Some("new"), false).unwrap(), "new");
    }
}
