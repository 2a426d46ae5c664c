//! Runs a plan, cell by cell.

use super::audit::Discrepancy;
use super::cell::{Measured, Measurement};
use super::disturbed::Disturbances;
use super::plan::{CellPlan, Plan};
use super::progress::Progress;
use super::site::Site;
use super::until::Watch;
use super::{Options, Simulation, calibrate, cell, interactive, netbench, simulated};
use crate::carrier::{self, CarrierError};
use crate::host::{Disturbance, DisturbanceMeter, frequency};
use crate::recording::{Header, RecordError, Recorded, Recorder, recordable};
use crate::report::detail::MOMENT;
use crate::report::format;
use crate::report::model::{Params, Sample};
use crate::report::moment::Moment;
use crate::report::suite::Suite;
use crate::vm::{CreateError, Outcome};
use kvm_ioctls::Kvm;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
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
}

/// What a cell needs besides its plan.
pub(super) struct Context<'a> {
    pub(super) kvm: &'a Kvm,
    pub(super) options: &'a Options,
    pub(super) loops_per_us: u64,
    interrupted: &'a AtomicBool,
    /// The CPUs' frequency when the latest wait ended: guests ran then.
    mhz: Cell<Option<f64>>,
    /// The longest wait so far under each policy.
    worst: RefCell<Vec<Nanos>>,
    /// Who ran during the cell's longest wait, if that is the longest so far.
    pub(super) moment: RefCell<Option<Moment>>,
}

impl Context<'_> {
    /// Whether a wait is the longest so far under this policy, of which the next one is told otherwise.
    pub(super) fn is_worst(&self, policy: usize, wait: Nanos) -> bool {
        let worst = &mut self.worst.borrow_mut()[policy];
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
                self.mhz.set(frequency(&self.options.pcpus));
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
        let worst = RefCell::new(vec![Nanos::ZERO; options.policies.len()]);
        let (mhz, moment) = (Cell::default(), RefCell::default());
        let source = Source::Guests(Context { kvm, options, loops_per_us, interrupted, mhz, worst, moment });
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
                match self.cell(planned, &mut remarks) {
                    Ok(Some(measured)) => keep(&mut samples, measured),
                    Ok(None) => end = End::Interrupted,
                    Err(error) => end = End::Failed(error),
                }
                if !matches!(end, End::Complete) {
                    break 'rounds;
                }
                done += 1;
                progress.advance(plan.estimate_of(planned));
            }
            if let Some(why) = watch.as_mut().and_then(|watch| watch.enough(options, &samples)) {
                remarks.notes.push(why);
                break;
            }
        }
        let after = format::count(done, "run");
        match &end {
            End::Complete => {}
            End::Interrupted => remarks.notes.push(format!("Ended by the user after {after}.")),
            End::Failed(error) => remarks.notes.push(format!("Failed after {after}: {error}.")),
        }
        Ran { samples, notes: remarks.all(), end }
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
        let found = Disturbance { mhz: context.mhz.take(), ..before.until(&DisturbanceMeter::now(pcpus)) };
        for measurement in &mut measured {
            measurement.detail["host"] = json!(found);
        }
        if let (Some(moment), [first, ..]) = (context.moment.take(), &mut measured[..]) {
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
        let pcpus = planned.case.pcpus(self.options);
        let domain = carrier::domain(policy, &pcpus)?;
        let recorder = self.recorder(planned, params, &*domain)?;
        let (recorder_of, names) = (recorder.as_ref(), RefCell::default());
        let site = Site { context, planned, label, pcpus, domain, recorder: recorder_of, names };
        let measured = match self.options.suite {
            Suite::Netbench => netbench::measure(&site),
            Suite::Interactive => interactive::measure(&site),
            _ => cell::measure(&site),
        };
        // A cell that failed has its recording, too.
        if let Some(recorder) = recorder {
            let Recorded { lost, .. } = recorder.finish()?;
            if lost > 0 {
                notes.push(format!("{lost} events of {} came too fast to be recorded.", self.words(planned)));
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
}
