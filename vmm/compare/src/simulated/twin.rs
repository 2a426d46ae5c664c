//! The twin of a recorded run: a simulation of the same suite, size, policy, pCPUs and length, recorded as well.
//!
//! Where the two differ, the simulator's model is incomplete.

use super::measure;
use super::stage::Simulation;
use crate::error::CompareError;
use crate::plan::case::Case;
use crate::plan::options::{Hint, Options};
use crate::plan::{CellPlan, WARM_UP};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use stile_host::HostCosts;
use stile_recording::{Header, Recording};
use stile_results::model::ParamValue;
use stile_suites::Suite;

/// A window of a twin is at least this long.
const SHORTEST: Duration = Duration::from_millis(10);

/// Why a recording has no twin.
#[derive(Debug, thiserror::Error)]
pub enum TwinError {
    /// The recording is not of a suite.
    #[error(
        "{} is a recording of {workload}, and only runs of suites can be simulated; record one with `stile compare --record`",
        path.display()
    )]
    NoSuite {
        /// The recording.
        path: PathBuf,
        /// What the recording is of.
        workload: String,
    },
    /// There is no model of the suite's guests.
    #[error("{}: there is no model of the guests of {suite}", path.display())]
    NoModel {
        /// The recording.
        path: PathBuf,
        /// Its suite.
        suite: Suite,
    },
    /// The recorded guests have no models.
    #[error("{}: guests that never yield cannot be simulated, since that takes a look at their code", path.display())]
    Silent {
        /// The recording.
        path: PathBuf,
    },
    /// The simulation failed.
    #[error(transparent)]
    Compare(#[from] CompareError),
}

/// Simulates the run of a recording, and records it into a file. `length`: the length of the recording.
pub fn simulate_twin(
    recording: &Recording,
    length: Duration,
    costs: HostCosts,
    into: &Path,
    interrupted: &AtomicBool,
) -> Result<(), TwinError> {
    let header = recording.header();
    let options = options(header, recording.path())?;
    let size = *options.sizes.first().unwrap_or(&1);
    let window = length.saturating_sub(WARM_UP).max(SHORTEST);
    let simulation = Simulation { neighbours: header.neighbours.clone(), costs };
    let cell = CellPlan { round: 0, policy: 0, case: Case::of_size(size), window };
    measure(&options, &simulation, &cell, Some((into, header.params.clone())), interrupted)?;
    Ok(())
}

/// The options of the recorded run.
fn options(header: &Header, path: &Path) -> Result<Options, TwinError> {
    let (path, workload) = (path.to_owned(), header.workload.clone());
    let Ok(suite) = workload.parse::<Suite>() else { return Err(TwinError::NoSuite { path, workload }) };
    if suite.model().is_none() {
        return Err(TwinError::NoModel { path, suite });
    }
    let number = |value: &ParamValue| match value {
        ParamValue::Integer(number) => Some(*number),
        ParamValue::Text(_) => None,
    };
    let is_size = |name: &str| name == suite.counted().name();
    let said = header.params.get("hint").map(ToString::to_string);
    let hint = match said.as_deref() {
        Some("none") => Hint::None,
        Some("silent") => return Err(TwinError::Silent { path }),
        _ => Hint::Full,
    };
    let numbers = || header.params.iter().filter_map(|(name, value)| Some((name, number(value)?)));
    let each = numbers().find_map(|(name, each)| Some((name.strip_suffix("_per_pcpu")?, each)));
    let sizes = match each {
        Some((_, each)) => vec![each as u32 * header.pcpus.len() as u32],
        None => numbers().filter(|(name, _)| is_size(name)).map(|(_, size)| size as u32).collect(),
    };
    let is_setting = |name: &str| !is_size(name) && name != "pcpus" && !name.ends_with("_per_pcpu");
    let policies = vec![(header.policy.to_string(), header.policy.clone())];
    Ok(Options {
        sizes,
        reps: Some(1),
        hint,
        settings: numbers().filter(|(name, _)| is_setting(name)).map(|(name, n)| (name.to_owned(), n)).collect(),
        ..Options::new(suite, policies, header.pcpus.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_recording::figures::figures;
    use stile_results::model::Params;

    #[test]
    fn the_twin_of_a_twin_is_the_same_to_the_last_decision() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first.rec"), folder.path().join("second.rec"));
        let params = Params::default().with("vcpus", 4).with("hint", "none").with("hold_ns", 3000);
        let header =
            Header::simulated(&"rsdl".parse().unwrap(), &"0-1".parse().unwrap(), Default::default(), "ticket", params);
        stile_recording::write(&first, header, &[]).unwrap();
        let twin = |of: &Path, into: &Path| {
            let of = Recording::open(of).unwrap();
            simulate_twin(&of, Duration::from_millis(400), HostCosts::default(), into, &AtomicBool::new(false))
                .unwrap();
        };
        twin(&first, &second);
        let figures = figures(&Recording::open(&second).unwrap()).unwrap();
        assert_eq!(figures.vcpus.len(), 4);
        assert!(figures.yields.unknown.switched > 100 && figures.yields.lock.switched == 0, "{:?}", figures.yields);
        twin(&second, &first);
        assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
    }

    #[test]
    fn a_suite_without_a_model_has_no_twin() {
        let (policy, cpus) = ("rsdl".parse().unwrap(), "0".parse().unwrap());
        let header = Header::simulated(&policy, &cpus, Default::default(), "entry", Params::default());
        let refused = options(&header, Path::new("run.rec")).unwrap_err().to_string();
        assert_eq!(refused, "run.rec: there is no model of the guests of entry");
    }

    #[test]
    fn what_is_no_suite_has_no_twin() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.rec");
        let (policy, cpus) = ("rsdl".parse().unwrap(), "0".parse().unwrap());
        let header = Header::simulated(&policy, &cpus, Default::default(), "stile.toml", Params::default());
        stile_recording::write(&path, header, &[]).unwrap();
        let refused = options(Recording::open(&path).unwrap().header(), &path).unwrap_err().to_string();
        assert!(refused.contains("run.rec") && refused.contains("stile.toml"), "{refused}");
    }
}
