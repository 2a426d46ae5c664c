//! Runs a plan, cell by cell.

use super::audit::Discrepancy;
use super::cell::{Measured, Measurement};
use super::chat::{self, Work};
use super::plan::{CellPlan, Plan};
use super::progress::Progress;
use super::site::Site;
use super::{Options, Simulation, calibrate, cell, netbench, simulated};
use crate::carrier::{self, CarrierError};
use crate::recording::{Header, RecordError, Recorded, Recorder, recordable};
use crate::report::model::{Params, Sample};
use crate::report::suite::Suite;
use crate::vm::{CreateError, Outcome};
use kvm_ioctls::Kvm;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stile_sched::Domain;
use stile_sched::sim::LateVcpu;

/// How often a wait looks whether the user has ended the run.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Why a comparison cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A domain.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// A VM.
    #[error("VM {name} of {label} cannot be made")]
    Create {
        /// Which.
        name: String,
        /// Policy.
        label: String,
        /// Cause.
        #[source]
        source: CreateError,
    },
    /// A guest ended while it was measured.
    #[error("VM {name} ended under {label}: {outcome}")]
    Ended {
        /// Which.
        name: String,
        /// Policy.
        label: String,
        /// How.
        outcome: Outcome,
    },
    /// A guest's work did not come to its end.
    #[error("VM {name} under {label} is not done after {after:?}: {done} of {due} messages were received")]
    Unfinished {
        /// Which.
        name: String,
        /// Policy.
        label: String,
        /// How long it was waited for.
        after: Duration,
        /// Messages that came.
        done: u64,
        /// Messages that should have.
        due: u64,
    },
    /// The scheduler's accounts of a window contradict each other.
    #[error("the accounts of {label} are unsound, which is a bug of stile")]
    Unsound {
        /// Policy.
        label: String,
        /// How.
        #[source]
        source: Discrepancy,
    },
    /// A simulated vCPU waited longer than its policy promises.
    #[error(
        "{label}, size {size}: {count} simulated waits longer than the policy promises, the first one of {}: {} ms at \
         {} ms, where {} ms are promised",
        first.vcpu, first.waited.0 / 1_000_000, first.at.0 / 1_000_000, first.bound.0 / 1_000_000
    )]
    Late {
        /// Policy.
        label: String,
        /// vCPUs or clients.
        size: u32,
        /// How many such waits.
        count: u64,
        /// The first of them.
        first: LateVcpu,
    },
    /// A recording.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// What a cell needs besides its plan.
pub(super) struct Context<'a> {
    pub(super) kvm: &'a Kvm,
    pub(super) options: &'a Options,
    pub(super) loops_per_us: u64,
    interrupted: &'a AtomicBool,
}

impl Context<'_> {
    /// Waits; false if the user ended the run meanwhile.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return false;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }
}

/// Runs plans.
pub struct Runner<'a> {
    options: &'a Options,
    source: Source<'a>,
    /// The folder of recordings, if there are to be any.
    recordings: Option<PathBuf>,
}

/// Where samples come from.
enum Source<'a> {
    Guests(Context<'a>),
    Simulation(&'a Simulation, &'a AtomicBool),
}

impl<'a> Runner<'a> {
    /// A runner for these options, which stops early when `interrupted` is set.
    pub fn new(kvm: &'a Kvm, options: &'a Options, interrupted: &'a AtomicBool) -> Self {
        let loops_per_us = calibrate::loops_per_us();
        let source = Source::Guests(Context { kvm, options, loops_per_us, interrupted });
        Self { options, source, recordings: None }
    }

    /// The same without guests.
    pub fn simulated(simulation: &'a Simulation, options: &'a Options, interrupted: &'a AtomicBool) -> Self {
        Self { options, source: Source::Simulation(simulation, interrupted), recordings: None }
    }

    /// The same, and each cell under a policy of stile's is recorded into a file in this folder.
    pub fn recording_into(self, folder: PathBuf) -> Self {
        Self { recordings: Some(folder), ..self }
    }

    /// Runs the plan: the samples, remarks for the reader, and whether it came to its end.
    pub fn run(self, plan: &Plan, progress: &Progress) -> Result<(Vec<Sample>, Vec<String>, bool), CompareError> {
        let options = self.options;
        let mut samples = Vec::with_capacity(plan.cells.len());
        let mut notes = Vec::new();
        let mut round = None;
        for (done, planned) in plan.cells.iter().enumerate() {
            if round.replace(planned.round) != Some(planned.round) {
                progress.round(planned.round);
            }
            let (label, _) = &options.policies[planned.policy];
            progress.cell(planned, label, &planned.case.words(options.suite), plan.estimate());
            match self.cell(planned, &mut notes)? {
                Some(measured) => samples.extend(measured),
                None => {
                    notes.push(format!("Ended by the user after {done} of {} runs.", plan.cells.len()));
                    return Ok((samples, notes, false));
                }
            }
            progress.advance();
        }
        Ok((samples, notes, true))
    }

    /// The samples of one cell; `None` if the user ended it.
    fn cell(&self, planned: &CellPlan, notes: &mut Vec<String>) -> Result<Option<Vec<Sample>>, CompareError> {
        let (label, _) = &self.options.policies[planned.policy];
        let params = self.params(planned);
        let measured = match &self.source {
            Source::Guests(context) => self.guests(context, planned, &params, notes)?,
            Source::Simulation(simulation, interrupted) => {
                let path = self.recording(planned)?;
                // A recording tells its size, whatever the report goes by.
                let recording = path.as_deref().map(|path| (path, self.described(self.size(planned))));
                simulated::measure(self.options, simulation, planned, recording, interrupted)?
            }
        };
        let sample = |Measurement { params: own, values, detail }| Sample {
            suite: self.options.suite,
            policy: label.clone(),
            params: params.clone().and(own),
            round: planned.round,
            values,
            detail,
        };
        Ok(measured.map(|measured| measured.into_iter().map(sample).collect()))
    }

    /// One cell with guests.
    fn guests(
        &self,
        context: &Context<'_>,
        planned: &CellPlan,
        params: &Params,
        notes: &mut Vec<String>,
    ) -> Result<Measured, CompareError> {
        let (label, policy) = &self.options.policies[planned.policy];
        let pcpus = planned.case.pcpus(self.options);
        let domain = carrier::domain(policy, &pcpus)?;
        let recorder = self.recorder(planned, params, &*domain)?;
        let site = Site { context, planned, label, pcpus, domain, recorder: recorder.as_ref() };
        let measured = match self.options.suite {
            Suite::Netbench => netbench::measure(&site),
            _ => match Work::of(self.options, planned.case.size) {
                Some(work) => chat::measure(&site, work),
                None => cell::measure(&site),
            },
        };
        // A cell that failed has its recording, too.
        if let Some(recorder) = recorder {
            let Recorded { lost, .. } = recorder.finish()?;
            if lost > 0 {
                let (case, round) = (planned.case.words(self.options.suite), planned.round);
                notes.push(format!("{lost} events of {label}, {case}, round {round} came too fast to be recorded."));
            }
        }
        measured
    }

    /// The recorder of a cell, if it is to be recorded.
    fn recorder(
        &self,
        planned: &CellPlan,
        params: &Params,
        domain: &dyn Domain,
    ) -> Result<Option<Recorder>, CompareError> {
        let Some(path) = self.recording(planned)? else { return Ok(None) };
        let (_, policy) = &self.options.policies[planned.policy];
        let pcpus = planned.case.pcpus(self.options);
        let header = Header::new(policy, &pcpus, self.options.suite.name(), params.clone());
        Ok(Some(Recorder::start(&path, header, domain)?))
    }

    /// Where a cell is to be recorded; `None` if it is not, or has no policy.
    fn recording(&self, planned: &CellPlan) -> Result<Option<PathBuf>, RecordError> {
        let (label, policy) = &self.options.policies[planned.policy];
        let (Some(folder), Ok(())) = (&self.recordings, recordable(policy)) else { return Ok(None) };
        let safe: String = label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let setup: String =
            planned.case.setup_params(Params::default()).iter().map(|(_, value)| format!("{value}-")).collect();
        let (suite, size, round) = (self.options.suite, planned.case.size, planned.round);
        let name = format!("{suite}-{safe}-{setup}{size}-round-{round}.rec");
        let path = folder.join(name);
        match std::fs::create_dir_all(folder) {
            Ok(()) => Ok(Some(path)),
            Err(source) => Err(RecordError::File { path, source }),
        }
    }

    fn params(&self, planned: &CellPlan) -> Params {
        let Some(each) = self.options.per_pcpu else { return self.described(self.size(planned)) };
        let pcpus = Params::default().with("pcpus", self.options.pcpus.len() as u64);
        self.described(pcpus.with(&format!("{}_per_pcpu", self.options.suite.counted().name()), u64::from(each)))
    }

    fn size(&self, planned: &CellPlan) -> Params {
        let size = Params::default().with(self.options.suite.counted().name(), u64::from(planned.case.size));
        planned.case.setup_params(size)
    }

    /// These parameters, and those that all cells have.
    fn described(&self, mut params: Params) -> Params {
        let options = self.options;
        if options.suite.waits() {
            params = params.with("hint", options.hint.name());
        }
        for (key, value) in &options.settings {
            params = params.with(key, *value);
        }
        params
    }
}
