//! Runs a plan, cell by cell, and keeps samples, notes, recordings, and how the run ended.

mod dispatch;
mod disturbed;
pub(super) mod progress;

use super::cells::context::Context;
use super::cells::netbench::step::{Step, configuration, place};
use super::cells::site::Site;
use super::cells::{bare, netbench};
use super::error::CompareError;
use super::measurement::{Measured, Measurement};
use super::plan::options::Options;
use super::plan::until::Watch;
use super::plan::{CellPlan, Plan};
use super::simulated;
use super::simulated::stage::Simulation;
use crate::measure::hop;
use disturbed::Disturbances;
use kvm_ioctls::Kvm;
use parking_lot::Mutex;
use progress::Progress;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stile_host::{CpuList, Disturbance, DisturbanceMeter};
use stile_recording::{Header, RecordError, Recorded, Recorder, recordable};
use stile_results::disturbed::Disturbed;
use stile_results::journal::Journal;
use stile_results::model::{Params, Sample};
use stile_results::moment::MOMENT;
use stile_sched::Domain;
use stile_suites::Setup;

/// A note about a run for the report's reader.
#[derive(Default)]
struct Remarks {
    notes: Vec<String>,
    disturbances: Disturbances,
    recordings: Vec<PathBuf>,
    steps: Vec<PathBuf>,
}

/// Runs plans.
pub struct Runner<'a> {
    options: &'a Options,
    source: Source<'a>,
    /// The folder of recordings, if the run is recorded.
    recordings: Option<PathBuf>,
    /// The folder of netbench's steps.
    steps: Option<PathBuf>,
    /// The journal that keeps samples as they come.
    journal: Option<&'a Journal>,
}

/// Where a part of a cell runs.
struct Place {
    pcpus: CpuList,
    domain: Arc<dyn Domain>,
    recorder: Option<Recorder>,
}

/// Adds samples. Of a policy's moments the latest has the longest wait, and only that is kept.
fn keep(samples: &mut Vec<Sample>, measured: Vec<Sample>) {
    for sample in measured.iter().filter(|sample| sample.detail.get(MOMENT).is_some()) {
        let earlier = samples.iter_mut().filter(|other| other.policy == sample.policy);
        earlier.filter_map(|other| other.detail.as_object_mut()).for_each(|detail| drop(detail.remove(MOMENT)));
    }
    samples.extend(measured);
}

/// The results of a run. They are complete up to the end of the run, however it ended.
#[derive(Debug, Default)]
pub struct Ran {
    /// All samples.
    pub samples: Vec<Sample>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The runs that the host disturbed.
    pub disturbed: Disturbed,
    /// Its recordings.
    pub recordings: Vec<PathBuf>,
    /// Folders of its steps.
    pub steps: Vec<PathBuf>,
    /// How it ended.
    pub end: End,
}

/// How a run ended.
#[derive(Debug, Default)]
pub enum End {
    /// As planned.
    #[default]
    Complete,
    /// By the user.
    Interrupted,
    /// By a failure.
    Failed(CompareError),
}

/// The source of samples.
enum Source<'a> {
    Guests(Context<'a>),
    Simulation(&'a Simulation, &'a AtomicBool),
}

impl<'a> Runner<'a> {
    /// Makes a runner for these options, which stops early when `interrupted` is set.
    pub fn new(kvm: &'a Kvm, options: &'a Options, interrupted: &'a AtomicBool) -> Self {
        let source = Source::Guests(Context::new(kvm, options, interrupted));
        Self { options, source, recordings: None, steps: None, journal: None }
    }

    /// Makes a runner that simulates.
    pub fn simulated(simulation: &'a Simulation, options: &'a Options, interrupted: &'a AtomicBool) -> Self {
        let source = Source::Simulation(simulation, interrupted);
        Self { options, source, recordings: None, steps: None, journal: None }
    }

    /// Records each cell under a policy of stile's into a file in this folder.
    pub fn recording_into(self, folder: PathBuf) -> Self {
        Self { recordings: Some(folder), ..self }
    }

    /// Keeps a folder for each step of netbench in this folder.
    pub fn with_steps_in(self, folder: PathBuf) -> Self {
        Self { steps: Some(folder), ..self }
    }

    /// Writes each sample into this journal as soon as it is there.
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
            if let Some(why) = watch.as_mut().and_then(|watch| watch.enough(options.labels(), options.seed, &samples)) {
                remarks.notes.push(why);
                break;
            }
        }
        let (suite, after) = (options.suite, stile_text::count(done, "run"));
        match &end {
            End::Complete => {}
            End::Interrupted => remarks.notes.push(format!("{suite}: ended by the user after {after}.")),
            End::Failed(error) => remarks.notes.push(format!("{suite}: failed after {after}: {error}.")),
        }
        let Remarks { notes, disturbances, recordings, steps } = remarks;
        Ran { samples, notes, disturbed: disturbances.told(), recordings, steps, end }
    }

    /// Adds a cell's samples to the others, and to the journal. Returns false if there are none, because the user ended
    /// the run.
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
                remarks.recordings.extend(path.clone());
                // A recording's name has the size, also where the report goes by pCPUs.
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

    /// Measures a cell with guests, and the host's disturbances meanwhile.
    fn watched(
        &self,
        context: &Context<'_>,
        planned: &CellPlan,
        params: &Params,
        remarks: &mut Remarks,
    ) -> Result<Measured, CompareError> {
        let pcpus = &self.options.pcpus;
        let (before, near) = (DisturbanceMeter::now(pcpus), self.hop());
        let Some(mut measured) = self.guests(context, planned, params, remarks)? else { return Ok(None) };
        let found = before.until(&DisturbanceMeter::now(pcpus));
        let found = Disturbance { mhz: context.mhz.lock().take(), hop_ns: near.max(self.hop()), ..found };
        for measurement in &mut measured {
            measurement.detail["host"] = json!(found);
        }
        if let (Some(moment), [first, ..]) = (context.moment.lock().take(), &mut measured[..]) {
            first.detail[MOMENT] = json!(moment);
        }
        let (label, _) = &self.options.policies[planned.policy];
        remarks.disturbances.add(label.clone(), self.words(planned), found);
        Ok(Some(measured))
    }

    /// The time of a cache line between two of the pCPUs at this moment (units: ns).
    fn hop(&self) -> Option<u64> {
        let (first, last) = (self.options.pcpus.iter().next()?, self.options.pcpus.iter().last()?);
        if first == last { None } else { hop(first, last).ok() }
    }

    /// The cell in words: "rsdl, 4 vCPUs, round 0".
    fn words(&self, planned: &CellPlan) -> String {
        let (label, _) = &self.options.policies[planned.policy];
        format!("{label}, {}, round {}", planned.case.words(self.options.suite), planned.round)
    }

    /// Measures a cell with guests.
    fn guests(
        &self,
        context: &Context<'_>,
        planned: &CellPlan,
        params: &Params,
        remarks: &mut Remarks,
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
        let measured = dispatch::measure(&sites, |sites| self.step(planned, params, sites, remarks));
        drop(sites);
        // A failed cell keeps its recording.
        let recorded = places.iter().filter_map(|place| place.recorder.as_ref());
        remarks.recordings.extend(recorded.map(|recorder| recorder.path().to_owned()));
        for recorder in places.into_iter().filter_map(|place| place.recorder) {
            let Recorded { lost, .. } = recorder.finish()?;
            if lost > 0 {
                remarks.notes.push(format!("{lost} events of {} came too fast to be recorded.", self.words(planned)));
            }
        }
        measured
    }

    /// Where a part of a cell runs, on these pCPUs.
    fn place(&self, planned: &CellPlan, params: &Params, pcpus: CpuList) -> Result<Place, CompareError> {
        let (_, policy) = &self.options.policies[planned.policy];
        let domain = stile_assembly::domain(policy, &pcpus)?;
        let recorder = self.recorder(planned, params, &pcpus, &*domain)?;
        Ok(Place { pcpus, domain, recorder })
    }

    /// Measures a cell of netbench, with a folder of its own if steps are kept.
    fn step(
        &self,
        planned: &CellPlan,
        params: &Params,
        sites: &[Site<'_>],
        remarks: &mut Remarks,
    ) -> Result<Measured, CompareError> {
        let Some(steps) = &self.steps else { return netbench::measure(sites, None) };
        let (label, policy) = &self.options.policies[planned.policy];
        let folder = place(steps, planned, &safe(label));
        // The folder of a failed step belongs to this run as well.
        remarks.steps.push(folder.clone());
        let configuration = configuration(policy, planned, params, sites);
        let step = Step::begin(folder, &configuration).map_err(CompareError::other)?;
        let measured = netbench::measure(sites, Some(&step));
        let first = measured.as_ref().ok().and_then(|measured| measured.as_ref()?.first());
        step.finish(first).map_err(CompareError::other)?;
        measured
    }

    /// The recorder of a cell, if the cell is recorded.
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

    /// The file for a cell's recording; `None` if it is not recorded, or has no policy object.
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

/// A policy's label as part of the name of a file or folder.
fn safe(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
