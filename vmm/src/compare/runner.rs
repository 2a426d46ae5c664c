//! Runs a plan, cell by cell.

use super::audit::Discrepancy;
use super::cell::{Measured, Measurement};
use super::chat::{self, Work};
use super::disturbed::Disturbances;
use super::plan::{CellPlan, Plan};
use super::progress::Progress;
use super::site::Site;
use super::step::{self, Step, StepError};
use super::until::Watch;
use super::{Options, Setup, Simulation, bare, boot, calibrate, cell, interactive, netbench, partition, simulated};
use crate::carrier::{self, CarrierError};
use crate::host::{CpuList, Disturbance, DisturbanceMeter, frequency};
use crate::recording::{Header, RecordError, Recorded, Recorder, recordable};
use crate::report::detail::MOMENT;
use crate::report::format;
use crate::report::journal::Journal;
use crate::report::model::{Params, Sample};
use crate::report::moment::Moment;
use crate::report::suite::Suite;
use crate::report::writer::WriteError;
use crate::vm::{CreateError, Outcome};
use kvm_ioctls::Kvm;
use parking_lot::Mutex;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stile_sched::sim::LateVcpu;
use stile_sched::{Domain, Nanos};

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
    /// A guest that does not get to where it should.
    #[error("VM {name} under {label} {how_far} after {limit:?}")]
    Stuck {
        /// Which.
        name: String,
        /// Policy.
        label: String,
        /// How far it was.
        how_far: String,
        /// It was given so long.
        limit: Duration,
    },
    /// A guest that cannot be measured.
    #[error("VM {name} under {label} {why}")]
    Broken {
        /// Which.
        name: String,
        /// Policy.
        label: String,
        /// What is wrong with it.
        why: String,
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
    /// The CPUs' frequency when the latest wait ended: guests ran then.
    mhz: Mutex<Option<f64>>,
    /// The longest wait so far under each policy.
    worst: Mutex<Vec<Nanos>>,
    /// Who ran during the cell's longest wait, if that is the longest so far.
    pub(super) moment: Mutex<Option<Moment>>,
}

impl Context<'_> {
    /// Whether a wait is the longest so far under this policy, of which the next one is told otherwise.
    pub(super) fn is_worst(&self, policy: usize, wait: Nanos) -> bool {
        let worst = &mut self.worst.lock()[policy];
        let is = wait > *worst;
        *worst = wait.max(*worst);
        is
    }

    /// Waits; false if the user ended the run meanwhile.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return false;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                *self.mhz.lock() = frequency(&self.options.pcpus);
                return true;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }
}

/// What a reader should know of a run.
#[derive(Default)]
struct Remarks {
    notes: Vec<String>,
    disturbances: Disturbances,
}

impl Remarks {
    fn all(self) -> Vec<String> {
        let disturbed = self.disturbances.notes();
        self.notes.into_iter().chain(disturbed).collect()
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

/// Adds samples; of a policy's moments the latest is the worst, and the only one kept.
fn keep(samples: &mut Vec<Sample>, measured: Vec<Sample>) {
    for sample in measured.iter().filter(|sample| sample.detail.get(MOMENT).is_some()) {
        let earlier = samples.iter_mut().filter(|other| other.policy == sample.policy);
        earlier.filter_map(|other| other.detail.as_object_mut()).for_each(|detail| drop(detail.remove(MOMENT)));
    }
    samples.extend(measured);
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
        let worst = Mutex::new(vec![Nanos::ZERO; options.policies.len()]);
        let (mhz, moment) = (Mutex::default(), Mutex::default());
        let source = Source::Guests(Context { kvm, options, loops_per_us, interrupted, mhz, worst, moment });
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
        let (mut samples, mut remarks, mut done) = (Vec::new(), Remarks::default(), 0);
        let mut end = End::Complete;
        'rounds: for round in plan.cells.chunk_by(|a, b| a.round == b.round) {
            progress.round(options, round[0].round);
            for planned in round {
                let (label, _) = &options.policies[planned.policy];
                progress.cell(label, &planned.case.words(options.suite));
                let measured = self.cell(planned, &mut remarks);
                match measured.and_then(|measured| self.kept(measured, &mut samples)) {
                    Ok(true) => {
                        done += 1;
                        progress.advance(plan.estimate_of(planned));
                    }
                    Ok(false) => end = End::Interrupted,
                    Err(error) => end = End::Failed(error),
                }
                if !matches!(end, End::Complete) {
                    break 'rounds;
                }
            }
            if let Some(why) = watch.as_mut().and_then(|watch| watch.enough(options, &samples)) {
                remarks.notes.push(why);
                break;
            }
        }
        let (suite, after) = (options.suite, format::count(done, "run"));
        match &end {
            End::Complete => {}
            End::Interrupted => remarks.notes.push(format!("{suite}: ended by the user after {after}.")),
            End::Failed(error) => remarks.notes.push(format!("{suite}: failed after {after}: {error}.")),
        }
        Ran { samples, notes: remarks.all(), end }
    }

    /// Adds a cell's samples to the others, and to the journal; false if there are none, because the user ended the run.
    fn kept(&self, measured: Option<Vec<Sample>>, samples: &mut Vec<Sample>) -> Result<bool, CompareError> {
        let Some(measured) = measured else { return Ok(false) };
        for (journal, sample) in self.journal.iter().flat_map(|journal| measured.iter().map(move |s| (journal, s))) {
            journal.add(sample)?;
        }
        keep(samples, measured);
        Ok(true)
    }

    /// The samples of one cell; `None` if the user ended it.
    fn cell(&self, planned: &CellPlan, remarks: &mut Remarks) -> Result<Option<Vec<Sample>>, CompareError> {
        let (label, _) = &self.options.policies[planned.policy];
        let params = planned.case.params(self.options);
        let measured = match &self.source {
            Source::Guests(context) => self.watched(context, planned, &params, remarks)?,
            Source::Simulation(simulation, interrupted) => {
                let path = self.recording(planned)?;
                // A recording tells its size, whatever the report goes by.
                let recording = path.as_deref().map(|path| (path, planned.case.params_with_size(self.options)));
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

    /// One cell with guests, and what the host did besides.
    fn watched(
        &self,
        context: &Context<'_>,
        planned: &CellPlan,
        params: &Params,
        remarks: &mut Remarks,
    ) -> Result<Measured, CompareError> {
        let pcpus = &self.options.pcpus;
        let before = DisturbanceMeter::now(pcpus);
        let Some(mut measured) = self.guests(context, planned, params, &mut remarks.notes)? else { return Ok(None) };
        let found = Disturbance { mhz: context.mhz.lock().take(), ..before.until(&DisturbanceMeter::now(pcpus)) };
        for measurement in &mut measured {
            measurement.detail["host"] = json!(found);
        }
        if let (Some(moment), [first, ..]) = (context.moment.lock().take(), &mut measured[..]) {
            first.detail[MOMENT] = json!(moment);
        }
        remarks.disturbances.add(self.words(planned), found);
        Ok(Some(measured))
    }

    /// Which cell it is: "rsdl, 4 vCPUs, round 0".
    fn words(&self, planned: &CellPlan) -> String {
        let (label, _) = &self.options.policies[planned.policy];
        format!("{label}, {}, round {}", planned.case.words(self.options.suite), planned.round)
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
            Site { context, planned, label, pcpus, domain, recorder: place.recorder.as_ref(), names: Mutex::default() }
        });
        let sites: Vec<Site<'_>> = sites.collect();
        let work = Work::of(self.options, planned.case.size);
        let measured = match (self.options.suite, &sites[..]) {
            (Suite::Netbench, sites) => self.step(planned, params, sites),
            (Suite::Interactive, [site]) => interactive::measure(site),
            (Suite::Partition, [site]) => partition::measure(site),
            (Suite::Boot, [site]) => boot::measure(site),
            (_, [site]) => work.map_or_else(|| cell::measure(site), |work| chat::measure(site, work)),
            _ => unreachable!("only netbench is divided into parts"),
        };
        drop(sites);
        // A cell that failed has its recording, too.
        for recorder in places.into_iter().filter_map(|place| place.recorder) {
            let Recorded { lost, .. } = recorder.finish()?;
            if lost > 0 {
                notes.push(format!("{lost} events of {} came too fast to be recorded.", self.words(planned)));
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
}

/// A policy's label as part of a file's name.
fn safe(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
