//! The folder of one measured step, `SETUP/POLICY/N-clients/round-R`: its setup, its results, and the activity of host
//! and guests.
//!
//! | file | holds |
//! |---|---|
//! | `configuration.json` | policy, pCPUs, sizes, window |
//! | `results.json` | the metrics and the counts behind them; not there if the step failed |
//! | `activity.csv` | the host's CPU, run queue, switches and interrupts, a line every quarter of a second |
//! | `proc/before`, `proc/after` | the kernel's files before and after the step |
//! | `guests` | the output of every guest that printed something |
//! | `dropped_frames.txt` | frames that the switch could not deliver |
//!
//! A run that uses a folder again removes the steps of an earlier run: the files that are named here, and folders that
//! are empty then. Other files there are kept.

use super::Role;
use crate::cells::site::Site;
use crate::measurement::Measurement;
use crate::plan::case::Case;
use crate::plan::{CellPlan, RAMP_DOWN, WARM_UP};
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stile_config::PolicyConfig;
use stile_host::activity::{Activity, Sampler};
use stile_machine::vm::console::{STANDARD_OUTPUT, Sink};
use stile_results::model::Params;
use stile_suites::{Metric, Setup, Suite};

/// The folder of the steps in the folder of a report.
pub const STEPS: &str = "netbench";
/// The first file of each step, and the last one to be removed: a folder without it is not a step's.
const CONFIGURATION: &str = "configuration.json";
const RESULTS: &str = "results.json";
const ACTIVITY: &str = "activity.csv";
const DROPPED: &str = "dropped_frames.txt";
const BEFORE: &str = "proc/before";
const AFTER: &str = "proc/after";
const GUESTS: &str = "guests";
/// The folders within a step, each after those inside it.
const FOLDERS: [&str; 4] = [BEFORE, AFTER, "proc", GUESTS];
/// The text beside the number in the names of a step's innermost two folders.
const CLIENTS: &str = "-clients";
const ROUND: &str = "round-";
/// Files of /proc that are kept.
const PROC: [&str; 7] = ["stat", "interrupts", "softirqs", "loadavg", "meminfo", "vmstat", "schedstat"];

/// A step's folder cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}; make room there or name another directory with --out", path.display())]
pub(crate) struct StepError {
    /// The file or folder.
    path: PathBuf,
    /// Why.
    #[source]
    source: io::Error,
}

/// A step under way.
#[derive(Debug)]
pub(crate) struct Step {
    folder: PathBuf,
    sampler: Sampler,
}

impl Step {
    /// Begins a step in this folder, and replaces an earlier one there.
    pub(crate) fn begin(folder: PathBuf, configuration: &Value) -> Result<Self, StepError> {
        let failed = |source| StepError { path: folder.clone(), source };
        clear(&folder).and_then(|()| fs::create_dir_all(folder.join(GUESTS))).map_err(failed)?;
        write(&folder.join(CONFIGURATION), &pretty(configuration))?;
        keep_proc(&folder.join(BEFORE))?;
        let sampler = Sampler::start().map_err(failed)?;
        Ok(Self { folder, sampler })
    }

    /// Where a guest's lines go: to the terminal, and into a file of the step.
    pub(super) fn console(&self, guest: &str) -> Sink {
        let file = self.folder.join(GUESTS).join(log(guest));
        let place = format!("{STANDARD_OUTPUT} and {}", file.display());
        let show = move |line: &str| {
            // If the terminal is closed or the disk is full, the other of the two still gets the output.
            let shown = writeln!(io::stdout().lock(), "{line}");
            let file = OpenOptions::new().append(true).create(true).open(&file);
            file.and_then(|mut file| writeln!(file, "{line}")).and(shown)
        };
        Sink::Lines { place, show: Arc::new(show) }
    }

    /// Ends the step. Without a measurement it failed or was ended early.
    pub(crate) fn finish(self, measured: Option<&Measurement>) -> Result<(), StepError> {
        let Self { folder, sampler } = self;
        let lines =
            sampler.finish().iter().fold(format!("{}\n", Activity::HEADER), |all, line| format!("{all}{line}\n"));
        write(&folder.join(ACTIVITY), &lines)?;
        keep_proc(&folder.join(AFTER))?;
        let Some(Measurement { values, detail, .. }) = measured else { return Ok(()) };
        let dropped = values.get(&Metric::DroppedFrames).copied().unwrap_or_default();
        write(&folder.join(DROPPED), &format!("{dropped}\n"))?;
        write(&folder.join(RESULTS), &pretty(&json!({ "values": values, "detail": detail })))
    }
}

/// The folder of a cell's step, below the folder of all steps.
pub(crate) fn place(steps: &Path, planned: &CellPlan, policy: &str) -> PathBuf {
    let Case { size, setup } = planned.case;
    steps
        .join(setup.to_string())
        .join(policy)
        .join(format!("{size}{CLIENTS}"))
        .join(format!("{ROUND}{}", planned.round))
}

/// The names that a step's folders can have, from the outermost one on.
const NAMES: [fn(&str) -> bool; 4] = [
    |setup| {
        let setup = if setup == Setup::Usual.to_string() { Ok(Setup::Usual) } else { setup.parse() };
        setup.is_ok_and(|setup: Setup| Suite::Netbench.has_setup(setup))
    },
    |policy| policy.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'),
    |size| size.strip_suffix(CLIENTS).is_some_and(is_number),
    |round| round.strip_prefix(ROUND).is_some_and(is_number),
];

fn is_number(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|number| number.to_string() == text)
}

/// Removes the steps of earlier runs from the folder of all steps, except these.
pub fn remove_steps(steps: &Path, keep: &[PathBuf]) {
    if remove_below(steps, &NAMES, keep) {
        remove_if_empty(steps);
    }
}

/// Removes the steps this many levels below a folder. Returns whether there were any.
fn remove_below(folder: &Path, names: &[fn(&str) -> bool], keep: &[PathBuf]) -> bool {
    let Some((is_name, below)) = names.split_first() else {
        let is_old = folder.join(CONFIGURATION).is_file() && !keep.iter().any(|step| step == folder);
        // A step that cannot be removed does no harm.
        return is_old && clear(folder).is_ok();
    };
    let mut found = false;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_folder && entry.file_name().to_str().is_some_and(is_name) && remove_below(&entry.path(), below, keep) {
            found = true;
            remove_if_empty(&entry.path());
        }
    }
    found
}

/// Removes the files that a step has written into its folder.
fn clear(step: &Path) -> io::Result<()> {
    let remove = |path: PathBuf| match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    for folder in [BEFORE, AFTER] {
        PROC.iter().try_for_each(|name| remove(step.join(folder).join(name)))?;
    }
    for entry in fs::read_dir(step.join(GUESTS)).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_log) {
            remove(entry.path())?;
        }
    }
    [DROPPED, ACTIVITY, RESULTS, CONFIGURATION].iter().try_for_each(|name| remove(step.join(name)))?;
    FOLDERS.iter().for_each(|folder| remove_if_empty(&step.join(folder)));
    Ok(())
}

/// A folder with a user's files is kept.
fn remove_if_empty(folder: &Path) {
    let _ = fs::remove_dir(folder);
}

/// The file of a guest's text.
fn log(guest: &str) -> String {
    format!("{guest}.log")
}

fn is_log(file: &str) -> bool {
    let guest = file.strip_suffix(".log").and_then(|guest| guest.rsplit_once('-'));
    guest.is_some_and(|(role, n)| is_number(n) && Role::ALL.iter().any(|known| known.name() == role))
}

/// The setup of a step.
pub(crate) fn configuration(policy: &PolicyConfig, planned: &CellPlan, params: &Params, sites: &[Site<'_>]) -> Value {
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

/// Copies the kernel's files. Files that this host does not have are left out.
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
    use std::time::Duration;

    #[test]
    fn a_steps_folder_holds_all_that_its_description_names() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("up/rsdl/4-clients/round-0");
        let step = Step::begin(folder.clone(), &json!({ "clients": 4 })).unwrap();
        let Sink::Lines { show, .. } = step.console("client-3") else { panic!("lines go to terminal and file") };
        ["one", "two"].into_iter().for_each(|line| show(line).unwrap());
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

    /// A complete step, with its log and all other files.
    fn ran(steps: &Path, setup: Setup, round: u32) -> PathBuf {
        let planned = CellPlan { round, policy: 0, case: Case { size: 4, setup }, window: Duration::ZERO };
        let folder = place(steps, &planned, "rsdl-3ms");
        let step = Step::begin(folder.clone(), &Value::Null).unwrap();
        let Sink::Lines { show, .. } = step.console(&Role::Newcomer.guest(2)) else {
            panic!("lines go to terminal and file")
        };
        show("one").unwrap();
        let (params, values) = (Params::default(), [(Metric::DroppedFrames, 0.0)].into());
        step.finish(Some(&Measurement { params, values, detail: Value::Null })).unwrap();
        folder
    }

    #[test]
    fn steps_of_earlier_runs_are_removed_with_their_folders_and_nothing_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let steps = dir.path().join(STEPS);
        let old = [ran(&steps, Setup::Usual, 0), ran(&steps, Setup::Affinity, 1)];
        let (new, used) = (ran(&steps, Setup::Usual, 2), ran(&steps, Setup::Usual, 3));
        let foreign = [
            steps.join("notes.txt"),
            steps.join("affinity/rsdl-3ms/of-mine.csv"),
            steps.join("locks/rsdl/4-clients/round-0/configuration.json"),
            steps.join("usual/rsdl/4-clients/round-00/configuration.json"),
            used.join("guests/client.log"),
            used.join("proc/after/cpuinfo"),
        ];
        for file in &foreign {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "mine").unwrap();
        }
        remove_steps(&steps, std::slice::from_ref(&new));
        assert_eq!(old.map(|step| step.exists()), [false; 2]);
        assert!(new.join("results.json").is_file() && new.join("guests/newcomer-2.log").is_file());
        assert!(foreign.iter().all(|file| file.is_file()), "{foreign:?}");
        let left = |folder: &str| fs::read_dir(used.join(folder)).unwrap().count();
        assert_eq!(["", "guests", "proc", "proc/after"].map(left), [2, 1, 1, 1]);
        assert!(!steps.join("affinity/rsdl-3ms/4-clients").exists());
    }

    #[test]
    fn where_all_steps_were_of_earlier_runs_no_folder_stays() {
        let dir = tempfile::tempdir().unwrap();
        let steps = dir.path().join(STEPS);
        ran(&steps, Setup::Usual, 0);
        remove_steps(&steps, &[]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        remove_steps(&steps, &[]);
    }

    #[test]
    fn a_step_in_place_of_an_earlier_one_has_nothing_of_it_and_all_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let folder = ran(dir.path(), Setup::Usual, 0);
        fs::write(folder.join("mine.txt"), "mine").unwrap();
        let step = Step::begin(folder.clone(), &Value::Null).unwrap();
        step.finish(None).unwrap();
        let is_there = |file: &str| folder.join(file).exists();
        assert_eq!(["mine.txt", "activity.csv", "results.json"].map(is_there), [true, true, false]);
        assert!(!is_there("guests/newcomer-2.log"));
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named_with_the_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Step::begin(file.path().join("step"), &Value::Null).unwrap_err().to_string();
        assert!(error.contains("step") && error.contains("--out"), "{error}");
    }
}
