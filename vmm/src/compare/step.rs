//! The folder of one measured step: how it was set up, what it gave, and what host and guests did meanwhile.
//!
//! | file | holds |
//! |---|---|
//! | `configuration.json` | policy, pCPUs, sizes, window |
//! | `results.json` | the metrics and the counts behind them; not there if the step failed |
//! | `activity.csv` | the host's CPU, run queue, switches and interrupts, a line every quarter of a second |
//! | `proc/before`, `proc/after` | what the kernel's files said then |
//! | `guests` | the text of every guest that said something |
//! | `dropped_frames.txt` | frames that the switch could not deliver |

use super::cell::Measurement;
use super::plan::{CellPlan, RAMP_DOWN, WARM_UP};
use super::site::Site;
use crate::config::PolicyConfig;
use crate::host::activity::{Activity, Sampler};
use crate::report::metric::Metric;
use crate::report::model::Params;
use crate::vm::console::Sink;
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files of /proc that are kept.
const PROC: [&str; 7] = ["stat", "interrupts", "softirqs", "loadavg", "meminfo", "vmstat", "schedstat"];

/// A step's folder cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}; make room there or name another directory with --out", path.display())]
pub struct StepError {
    /// The file or folder.
    path: PathBuf,
    /// Why.
    #[source]
    source: io::Error,
}

/// A step under way.
#[derive(Debug)]
pub(super) struct Step {
    folder: PathBuf,
    sampler: Sampler,
}

impl Step {
    /// Begins a step in this folder, in place of an earlier one there.
    pub(super) fn begin(folder: PathBuf, configuration: &Value) -> Result<Self, StepError> {
        let failed = |source| StepError { path: folder.clone(), source };
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => fs::create_dir_all(folder.join("guests")).map_err(failed)?,
        }
        write(&folder.join("configuration.json"), &pretty(configuration))?;
        keep_proc(&folder.join("proc/before"))?;
        let sampler = Sampler::start().map_err(failed)?;
        Ok(Self { folder, sampler })
    }

    /// Where a guest's lines go: to the terminal, and into a file of its own.
    pub(super) fn console(&self, guest: &str) -> Sink {
        let file = self.folder.join("guests").join(format!("{guest}.log"));
        Sink::Lines(Arc::new(move |line| {
            // Neither a closed terminal nor a full disk must end the guest; what it has to say is in one of the two.
            let _ = writeln!(io::stdout().lock(), "{line}");
            let file = OpenOptions::new().append(true).create(true).open(&file);
            let _ = file.and_then(|mut file| writeln!(file, "{line}"));
        }))
    }

    /// Ends the step; without a measurement it failed or was ended.
    pub(super) fn finish(self, measured: Option<&Measurement>) -> Result<(), StepError> {
        let Self { folder, sampler } = self;
        let lines =
            sampler.finish().iter().fold(format!("{}\n", Activity::HEADER), |all, line| format!("{all}{line}\n"));
        write(&folder.join("activity.csv"), &lines)?;
        keep_proc(&folder.join("proc/after"))?;
        let Some(Measurement { values, detail, .. }) = measured else { return Ok(()) };
        let dropped = values.get(&Metric::DroppedFrames).copied().unwrap_or_default();
        write(&folder.join("dropped_frames.txt"), &format!("{dropped}\n"))?;
        write(&folder.join("results.json"), &pretty(&json!({ "values": values, "detail": detail })))
    }
}

/// How a step is set up.
pub(super) fn configuration(policy: &PolicyConfig, planned: &CellPlan, params: &Params, sites: &[Site<'_>]) -> Value {
    json!({
        "policy": policy,
        "params": params,
        "round": planned.round,
        "pcpus_of_each_domain": sites.iter().map(|site| site.pcpus.to_string()).collect::<Vec<_>>(),
        "warm_up_seconds": WARM_UP.as_secs_f64(),
        "window_seconds": planned.window.as_secs_f64(),
        "ramp_down_seconds": RAMP_DOWN.as_secs_f64(),
    })
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Copies the kernel's files; one that this host does not have is left out.
fn keep_proc(into: &Path) -> Result<(), StepError> {
    fs::create_dir_all(into).map_err(|source| StepError { path: into.to_owned(), source })?;
    let texts = PROC.iter().filter_map(|name| Some((name, fs::read_to_string(Path::new("/proc").join(name)).ok()?)));
    texts.into_iter().try_for_each(|(name, text)| write(&into.join(name), &text))
}

fn write(path: &Path, text: &str) -> Result<(), StepError> {
    fs::write(path, text).map_err(|source| StepError { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steps_folder_holds_all_that_its_description_names() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("up/rsdl/4-clients/round-0");
        let step = Step::begin(folder.clone(), &json!({ "clients": 4 })).unwrap();
        let Sink::Lines(show) = step.console("client-3") else { panic!("lines go to terminal and file") };
        ["one", "two"].into_iter().for_each(|line| show(line));
        let values = [(Metric::Throughput, 7.0), (Metric::DroppedFrames, 2.0)].into();
        step.finish(Some(&Measurement { params: Params::default(), values, detail: Value::Null })).unwrap();
        let text = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
        assert_eq!(text("guests/client-3.log"), "one\ntwo\n");
        assert_eq!(text("dropped_frames.txt"), "2\n");
        assert!(text("activity.csv").starts_with(Activity::HEADER));
        assert!(text("results.json").contains("\"throughput\": 7.0"));
        assert!(text("configuration.json").contains("\"clients\": 4"));
        assert!(text("proc/before/stat").starts_with("cpu ") && text("proc/after/stat").starts_with("cpu "));
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named_with_the_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Step::begin(file.path().join("step"), &Value::Null).unwrap_err().to_string();
        assert!(error.contains("step") && error.contains("--out"), "{error}");
    }
}
