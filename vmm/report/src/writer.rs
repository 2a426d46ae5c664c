//! Writes a comparison's directory: report.json, report.html, host.json, raw/samples.csv, raw/samples.jsonl.
//!
//! Each file appears whole or not at all: it is written under a temporary name beside its place, synced, then renamed.
//! The raw samples are written first: if a later file fails, they are kept.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::html;
use super::plot::PlotError;
use stile_results::model::{Report, Sample};
use stile_results::raw;
use stile_results::storage::StorageError;
use stile_suites::Suite;

/// Name of the report for programs, in a comparison's directory.
pub const REPORT: &str = "report.json";

/// Where a comparison was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The report for programs.
    pub json: PathBuf,
    /// The report for readers.
    pub html: PathBuf,
    /// Facts about the host and the policies' full configurations.
    pub host: PathBuf,
    /// The directory with every sample.
    pub raw: PathBuf,
}

/// Why a comparison could not be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// A folder or file of the report cannot be written.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The JUnit form cannot be written; the report does not depend on it.
    #[error("cannot write {}; name a file in a folder that exists and has room with --junit", path.display())]
    Junit {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A figure cannot be written.
    #[error("cannot write {}; name a file in a folder that exists and has room with --svg", path.display())]
    Figure {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The page cannot be drawn; the other files are there.
    #[error("cannot draw {}; report.json beside it holds the same figures", path.display())]
    Page {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: PlotError,
    },
}

/// Writes all files of a comparison into `dir`, which is made if need be. Files of an earlier run are replaced.
pub fn write_all(dir: &Path, report: &Report, samples: &[Sample]) -> Result<Written, WriteError> {
    let raw_dir = dir.join("raw");
    fs::create_dir_all(&raw_dir).map_err(|source| StorageError::Directory { path: raw_dir.clone(), source })?;
    write_file(&raw_dir.join("samples.csv"), |out| raw::write_csv(out, samples))?;
    write_file(&raw_dir.join(raw::JSON_LINES), |out| raw::write_json_lines(out, samples))?;
    let written =
        Written { json: dir.join(REPORT), html: dir.join("report.html"), host: dir.join("host.json"), raw: raw_dir };
    write_file(&written.host, |out| write_json(out, &report.host))?;
    write_file(&written.json, |out| write_json(out, report))?;
    let page = html::page(report, samples).map_err(|source| WriteError::Page { path: written.html.clone(), source })?;
    write_file(&written.html, |out| out.write_all(page.as_bytes()))?;
    Ok(written)
}

/// Removes the recordings of earlier runs from a report's raw samples, except these. Files with other names are kept.
pub fn remove_recordings(raw: &Path, keep: &[PathBuf]) {
    for entry in fs::read_dir(raw).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_one = name.to_str().is_some_and(|name| {
            let suite = Suite::ALL.into_iter().any(|suite| name.starts_with(&format!("{suite}-")));
            suite && name.contains("-round-") && name.ends_with(".rec")
        });
        if is_one && path.is_file() && !keep.contains(&path) {
            // A recording that cannot be removed does no harm.
            let _ = fs::remove_file(path);
        }
    }
}

/// Whether a report's JUnit form can be written there, as far as that can be checked beforehand. An existing file is
/// kept.
pub fn check_junit(path: &Path) -> Result<(), WriteError> {
    let cannot = |source| WriteError::Junit { path: path.to_owned(), source };
    if path.is_dir() {
        return Err(cannot(io::ErrorKind::IsADirectory.into()));
    }
    let temporary = temporary(path);
    File::create(&temporary).and_then(|_| fs::remove_file(&temporary)).map_err(cannot)
}

/// Writes a report's JUnit form.
pub fn write_junit(path: &Path, xml: &str) -> Result<(), WriteError> {
    write_file(path, |out| out.write_all(xml.as_bytes())).map_err(|error| match error {
        StorageError::File { path, source } => WriteError::Junit { path, source },
        folder => folder.into(),
    })
}

/// Writes a figure of a report.
pub fn write_figure(path: &Path, svg: &str) -> Result<(), WriteError> {
    write_file(path, |out| out.write_all(svg.as_bytes())).map_err(|error| match error {
        StorageError::File { path, source } => WriteError::Figure { path, source },
        folder => folder.into(),
    })
}

/// The name of a file until it is complete.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    name.into()
}

fn write_json(out: &mut impl Write, value: &impl serde::Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    out.write_all(b"\n")
}

fn write_file(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), StorageError> {
    let temporary = temporary(path);
    let result = (|| {
        let mut out = BufWriter::new(File::create(&temporary)?);
        fill(&mut out)?;
        // Before the rename: otherwise a crash of the machine may leave the new name on an empty file.
        out.into_inner()?.sync_all()?;
        fs::rename(&temporary, path)
    })();
    result.map_err(|source| {
        // The first failure is reported. A left-over file does no harm.
        let _ = fs::remove_file(&temporary);
        StorageError::File { path: path.to_owned(), source }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::check_report;
    use stile_results::model::RunContext;
    use stile_results::testing::ticket;
    use stile_suites::Metric;

    fn fixture() -> (Report, Vec<Sample>) {
        let samples = ticket("host", Metric::Throughput, &[1.0, 2.0, 3.0]);
        let context = RunContext { host: json!({"kernel": "6.12"}), ..RunContext::default() };
        (Report::from_samples(&samples, context), samples)
    }

    #[test]
    fn all_files_appear_and_no_temporary_one_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (report, samples) = fixture();
        let written = write_all(&dir.path().join("new"), &report, &samples).unwrap();
        check_report(&written.json).unwrap();
        let mut names: Vec<String> = [dir.path().join("new"), written.raw]
            .iter()
            .flat_map(|dir| fs::read_dir(dir).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["host.json", "raw", "report.html", "report.json", "samples.csv", "samples.jsonl"]);
    }

    #[test]
    fn recordings_of_earlier_runs_are_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (new, old, other) = ("ticket-rsdl-4-round-0.rec", "hogs-rsdl-4-round-1.pcpu-0.rec", "mine.rec");
        [new, old, other, "samples.csv"].iter().for_each(|name| fs::write(path(name), "").unwrap());
        remove_recordings(dir.path(), &[path(new)]);
        let left = [new, old, other, "samples.csv"].map(|name| path(name).exists());
        assert_eq!(left, [true, false, true, true]);
    }

    #[test]
    fn the_json_reads_back_as_the_same_report() {
        let dir = tempfile::tempdir().unwrap();
        let (report, samples) = fixture();
        let written = write_all(dir.path(), &report, &samples).unwrap();
        let back: Report = serde_json::from_str(&fs::read_to_string(written.json).unwrap()).unwrap();
        assert_eq!(back, report);
    }

    #[test]
    fn a_directory_that_is_a_file_is_named_with_the_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (report, samples) = fixture();
        let error = write_all(file.path(), &report, &samples).unwrap_err().to_string();
        assert!(error.contains(file.path().to_str().unwrap()) && error.contains("--out"), "{error}");
    }

    #[test]
    fn a_junit_file_that_cannot_be_written_is_found_beforehand_with_its_own_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cells.xml");
        check_junit(&path).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        fs::write(&path, "earlier").unwrap();
        check_junit(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
        for wrong in [dir.path(), &path.join("cells.xml"), &dir.path().join("none/cells.xml")] {
            let errors = [check_junit(wrong).unwrap_err(), write_junit(wrong, "").unwrap_err()];
            assert!(errors.iter().all(|error| error.to_string().contains("--junit")), "{errors:?}");
        }
    }

    #[test]
    fn a_failed_write_keeps_the_earlier_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        fs::write(&path, "earlier").unwrap();
        let result = write_file(&path, |_| Err(io::Error::other("disk full")));
        assert!(result.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "earlier");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
