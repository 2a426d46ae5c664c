//! Outputs of a comparison besides its report: the comparison with a baseline, and the results for a build server.

use super::failure::Failure;
use super::output;
use super::small::report_in;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use stile_compare::{Case, Options};
use stile_config::PolicyConfig;
use stile_report::baseline::{Baseline, BaselineError, Judgement, Wanted};
use stile_report::{junit, writer};
use stile_results::model::Report;
use stile_results::stats::MIN_FOR_INTERVAL;
use tracing::warn;

/// The demands of a command line.
#[derive(Debug)]
pub(super) struct Demanded {
    /// An earlier report, or its folder.
    pub(super) baseline: Option<PathBuf>,
    /// Whether a baseline is refused in which every run of a policy was disturbed.
    pub(super) strict_baseline: bool,
    /// Part by which a figure may be worse than in the baseline.
    pub(super) tolerance: f64,
    /// The JUnit file for a build server.
    pub(super) junit: Option<PathBuf>,
    /// The policy that ratios refer to, as the user named it.
    pub(super) reference: Option<String>,
}

/// The demands of a command line; by default none.
#[derive(Debug, Default)]
pub(super) struct Demands {
    baseline: Option<Baseline>,
    junit: Option<PathBuf>,
    /// The label of the policy that ratios refer to.
    pub(super) reference: Option<String>,
    /// Remarks for the report.
    pub(super) notes: Vec<String>,
}

/// The label, among these, of the policy that the user names as the reference of ratios.
pub(super) fn reference_among(labels: &[&str], named: &str) -> Result<String, Failure> {
    let canonical = named.parse::<PolicyConfig>().map(|policy| policy.to_string());
    let is_named = |label: &&&str| **label == named || canonical.as_ref().is_ok_and(|name| name == **label);
    let found = labels.iter().find(is_named).map(|label| (*label).to_owned());
    found.ok_or_else(|| {
        Failure::Input(miette::miette!(
            help = format!("name one of {}", stile_text::list(labels)),
            "--reference {named}: it is not among the policies"
        ))
    })
}

/// Whether both paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let canonical = |path: &Path| path.canonicalize().ok();
    canonical(one).is_some_and(|one| canonical(other) == Some(one))
}

impl Demands {
    /// Reads the demands of this command line and refuses those that the run cannot meet. `out` is the folder that is
    /// named for the report.
    pub(super) fn new(
        demanded: &Demanded,
        out: Option<&Path>,
        parts: &[Options],
        simulated: bool,
    ) -> Result<Self, Failure> {
        let Demanded { baseline, strict_baseline, tolerance, junit, reference } = demanded;
        junit.as_deref().map_or(Ok(()), writer::check_junit).map_err(Failure::input)?;
        let labels = parts.iter().flat_map(|options| &options.policies).map(|(label, _)| label.as_str());
        // Parts of a comparison may have the same policies.
        let mut seen = BTreeSet::new();
        let policies: Vec<&str> = labels.filter(|label| seen.insert(*label)).collect();
        let reference = reference.as_deref().map(|named| reference_among(&policies, named)).transpose()?;
        let demands = Self { baseline: None, junit: junit.clone(), reference, notes: Vec::new() };
        let Some(path) = baseline.as_deref().map(report_in) else { return Ok(demands) };
        if parts.iter().any(|options| (options.rounds() as usize) < MIN_FOR_INTERVAL) {
            return Err(Failure::Input(miette::miette!(
                help = format!("--reps {MIN_FOR_INTERVAL} or more"),
                "--baseline: with so few rounds a figure has no interval, so that a difference cannot be told from chance"
            )));
        }
        let baseline = Baseline::read(&path, *tolerance).map_err(Failure::input)?;
        if out.is_some_and(|out| is_same(&path, &out.join(writer::REPORT))) {
            return Err(Failure::Input(miette::miette!(
                help = "keep the baseline elsewhere, or name another folder with --out",
                "--baseline {}: the report of this comparison would take its place",
                path.display()
            )));
        }
        let cases = parts.iter().flat_map(|options| Case::all(options).into_iter().map(move |case| (options, case)));
        let settings = cases.map(|(options, case)| (options.suite, case.params(options))).collect();
        let doubt = baseline.doubt(&policies);
        baseline.fits(&Wanted { settings, policies, simulated }).map_err(Failure::input)?;
        match doubt {
            Some(doubt) if *strict_baseline => Err(Failure::input(BaselineError::Disturbed(doubt))),
            Some(doubt) => {
                warn!("{doubt}");
                Ok(Self { baseline: Some(baseline), notes: vec![format!("Warning: {doubt}")], ..demands })
            }
            None => Ok(Self { baseline: Some(baseline), ..demands }),
        }
    }

    /// Compares a report with the baseline and prints the result.
    pub(super) fn meet(&self, report: &Report) -> Result<(), Failure> {
        let judgement = self.baseline.as_ref().map(|baseline| baseline.judge(report));
        self.tell(report, judgement.as_ref())?;
        let Some(judgement) = judgement else { return Ok(()) };
        judgement.told.iter().try_for_each(|line| output::line(format_args!("{line}")))?;
        if judgement.worse.is_empty() { Ok(()) } else { Err(Failure::Worse) }
    }

    /// Writes the JUnit file for a build server, if one was asked for, whether or not the report was compared with a
    /// baseline.
    pub(super) fn tell(&self, report: &Report, judgement: Option<&Judgement<'_>>) -> Result<(), Failure> {
        let Some(path) = &self.junit else { return Ok(()) };
        let xml = junit::xml(report, judgement).map_err(Failure::run)?;
        writer::write_junit(path, &xml).map_err(Failure::run)
    }
}
