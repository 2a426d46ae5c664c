//! Runs a plan, cell by cell.

use super::audit::Discrepancy;
use super::cell::{Measured, Measurement};
use super::plan::{CellPlan, Plan};
use super::progress::Progress;
use super::site::Site;
use super::step::{self, Step, StepError};
use super::until::Watch;
use super::{Options, Setup, Simulation, bare, boot, calibrate, cell, netbench, partition, simulated};
use crate::carrier::{self, CarrierError};
use crate::host::CpuList;
use crate::recording::{Header, RecordError, Recorded, Recorder, recordable};
use crate::report::format;
use crate::report::journal::Journal;
use crate::report::model::{Params, Sample};
use crate::report::suite::Suite;
use crate::report::writer::WriteError;
use crate::vm::{CreateError, Outcome};
use kvm_ioctls::Kvm;
use std::path::PathBuf;
use std::sync::Arc;
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
    /// A guest did not come to its end, or to where it should be.
    #[error("VM {name} of {label} makes no progress: {progress}")]
    Stuck {
        /// Which.
        name: String,
        /// Policy.
        label: String,
        /// How far it was.
        progress: String,
    },
    /// A recording.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The folder of a step.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The samples.
    #[error(transparent)]
    Keep(#[from] WriteError),
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
    /// The folder for what is kept of each step of a suite that goes by steps.
    steps: Option<PathBuf>,
    /// Where samples are kept as they come.
    journal: Option<&'a Journal>,
}

/// Where a part of a cell runs.
struct Place {
    pcpus: CpuList,
    domain: Arc<dyn Domain>,
    recorder: Option<Recorder>,
}

/// What came of a run; what was measured is there however it ended.
#[derive(Debug)]
pub struct Ran {
    /// Everything measured.
    pub samples: Vec<Sample>,
    /// Remarks for the reader.
    pub notes: Vec<String>,
    /// How it ended.
    pub end: End,
}

/// How a run ended.
#[derive(Debug)]
pub enum End {
    /// As planned.
    Complete,
    /// By the user.
    Interrupted,
    /// By a failure.
    Failed(CompareError),
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
        Self { options, source, recordings: None, steps: None, journal: None }
    }

    /// The same without guests.
    pub fn simulated(simulation: &'a Simulation, options: &'a Options, interrupted: &'a AtomicBool) -> Self {
        let source = Source::Simulation(simulation, interrupted);
        Self { options, source, recordings: None, steps: None, journal: None }
    }

    /// The same, and each cell under a policy of stile's is recorded into a file in this folder.
    pub fn recording_into(self, folder: PathBuf) -> Self {
        Self { recordings: Some(folder), ..self }
    }

    /// The same, and of each step of netbench a folder in this one says what host and guests did meanwhile.
    pub fn with_steps_in(self, folder: PathBuf) -> Self {
        Self { steps: Some(folder), ..self }
    }

    /// The same, and each sample is kept in this journal as soon as it is there.
    pub fn keeping(self, journal: &'a Journal) -> Self {
        Self { journal: Some(journal), ..self }
    }

    /// Runs the plan, round by round.
    pub fn run(self, plan: &Plan, progress: &mut Progress) -> Ran {
        let options = self.options;
        let mut watch = options.until.map(Watch::new);
        let mut ran = Ran { samples: Vec::new(), notes: Vec::new(), end: End::Complete };
        let mut done = 0;
        for round in plan.cells.chunk_by(|a, b| a.round == b.round) {
            progress.round(options, round[0].round);
            for planned in round {
                let (label, _) = &options.policies[planned.policy];
                progress.cell(label, &planned.case.words(options.suite));
                let measured = self.cell(planned, &mut ran.notes);
                let (why, end) = match measured.and_then(|measured| self.keep(measured, &mut ran.samples)) {
                    Ok(true) => {
                        done += 1;
                        progress.advance(plan.estimate_of(planned));
                        continue;
                    }
                    Ok(false) => ("ended by the user", End::Interrupted),
                    Err(error) => ("failed", End::Failed(error)),
                };
                ran.notes.push(format!("{}: {why} after {}.", options.suite, format::count(done, "run")));
                return Ran { end, ..ran };
            }
            if let Some(why) = watch.as_mut().and_then(|watch| watch.enough(options, &ran.samples)) {
                ran.notes.push(why);
                break;
            }
        }
        ran
    }

    /// Adds a cell's samples to the others, and to the journal; false if there are none, because the user ended the run.
    fn keep(&self, measured: Option<Vec<Sample>>, samples: &mut Vec<Sample>) -> Result<bool, CompareError> {
        let Some(measured) = measured else { return Ok(false) };
        let first = samples.len();
        samples.extend(measured);
        let journal = self.journal.iter();
        journal
            .flat_map(|journal| samples[first..].iter().map(|sample| journal.add(sample)))
            .collect::<Result<(), _>>()?;
        Ok(true)
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
        if let Setup::Bare(_) = planned.case.setup {
            return bare::measure(context, planned, policy);
        }
        let parts = planned.case.pcpus(self.options).into_iter();
        let places: Vec<Place> =
            parts.map(|pcpus| self.place(planned, params, pcpus)).collect::<Result<_, CompareError>>()?;
        let sites = places.iter().map(|place| {
            let (pcpus, domain) = (place.pcpus.clone(), Arc::clone(&place.domain));
            Site { context, planned, label, pcpus, domain, recorder: place.recorder.as_ref() }
        });
        let sites: Vec<Site<'_>> = sites.collect();
        let measured = match (self.options.suite, &sites[..]) {
            (Suite::Netbench, sites) => self.step(planned, params, sites),
            (Suite::Partition, [site]) => partition::measure(site),
            (Suite::Boot, [site]) => boot::measure(site),
            (_, [site]) => cell::measure(site),
            _ => unreachable!("only netbench is divided into parts"),
        };
        drop(sites);
        // A cell that failed has its recording, too.
        for recorder in places.into_iter().filter_map(|place| place.recorder) {
            let Recorded { lost, .. } = recorder.finish()?;
            if lost > 0 {
                let (case, round) = (planned.case.words(self.options.suite), planned.round);
                notes.push(format!("{lost} events of {label}, {case}, round {round} came too fast to be recorded."));
            }
        }
        measured
    }

    /// Where a part of a cell runs, on these pCPUs.
    fn place(&self, planned: &CellPlan, params: &Params, pcpus: CpuList) -> Result<Place, CompareError> {
        let (_, policy) = &self.options.policies[planned.policy];
        let domain = carrier::domain(policy, &pcpus)?;
        let recorder = self.recorder(planned, params, &pcpus, &*domain)?;
        Ok(Place { pcpus, domain, recorder })
    }

    /// A cell of netbench, with a folder of its own if there are to be any.
    fn step(&self, planned: &CellPlan, params: &Params, sites: &[Site<'_>]) -> Result<Measured, CompareError> {
        let Some(folder) = &self.steps else { return netbench::measure(sites, None) };
        let (label, policy) = &self.options.policies[planned.policy];
        let size = format!("{}-{}", planned.case.size, self.options.suite.counted().name());
        let names = [planned.case.setup.to_string(), safe(label), size, format!("round-{}", planned.round)];
        let folder = names.iter().fold(folder.clone(), |folder, name| folder.join(name));
        let step = Step::begin(folder, &step::configuration(policy, planned, params, sites))?;
        let measured = netbench::measure(sites, Some(&step));
        step.finish(measured.as_ref().ok().and_then(|measured| measured.as_ref()?.first()))?;
        measured
    }

    /// The recorder of a cell, if it is to be recorded.
    fn recorder(
        &self,
        planned: &CellPlan,
        params: &Params,
        pcpus: &CpuList,
        domain: &dyn Domain,
    ) -> Result<Option<Recorder>, CompareError> {
        let Some(mut path) = self.recording(planned)? else { return Ok(None) };
        if planned.case.pcpus(self.options).len() > 1 {
            path.set_extension(format!("pcpu-{pcpus}.rec"));
        }
        let (_, policy) = &self.options.policies[planned.policy];
        let header = Header::new(policy, pcpus, self.options.suite.name(), params.clone());
        Ok(Some(Recorder::start(&path, header, domain)?))
    }

    /// Where a cell is to be recorded; `None` if it is not, or has no policy.
    fn recording(&self, planned: &CellPlan) -> Result<Option<PathBuf>, RecordError> {
        let (label, policy) = &self.options.policies[planned.policy];
        let (Some(folder), Ok(())) = (&self.recordings, recordable(policy)) else { return Ok(None) };
        let safe = safe(label);
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

/// A policy's label as part of a file's name.
fn safe(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
