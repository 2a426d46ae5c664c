//! The request of `stile compare`: its command line, checked, as [`Options`].

use super::args::{CompareArgs, GuestKind, Subject};
use super::demands::Demanded;
use super::failure::Failure;
use super::linux;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stile_compare::{Hint, Options, PCPUS, Until, check_settings, check_sizes, default_policies, labelled, reports};
use stile_host::allowed_cpus;
use stile_report::place::Wanted;
use stile_suites::{Counted, RunKind, Setup, Suite};

/// A requested comparison.
#[derive(Debug)]
pub(super) struct Request {
    /// One part for each suite, in the order in which they are run.
    pub(super) parts: Vec<Options>,
    /// Whether it runs on a simulated machine.
    pub(super) sim: bool,
    /// Whether the user has named setups.
    pub(super) names_setups: bool,
    /// The hints that guests give.
    pub(super) hint: Hint,
    /// Where the report goes, and whether runs are recorded.
    pub(super) keep: Keep,
    /// The demands on the report.
    pub(super) demanded: Demanded,
}

/// Where the report goes, and whether runs are recorded.
#[derive(Debug, Clone)]
pub(super) struct Keep {
    /// The folder that the user named for the report; `None`: a fresh one.
    pub(super) out: Option<PathBuf>,
    /// Whether a report in that folder may be replaced.
    pub(super) force: bool,
    /// Whether each run is recorded.
    pub(super) record: bool,
}

impl Keep {
    /// Returns the folder of the report: the named one, unless it holds a report that may not be replaced, or a fresh
    /// one.
    pub(super) fn folder(&self) -> Result<PathBuf, Failure> {
        Wanted { out: self.out.as_deref(), force: self.force }.folder(Path::new(".")).map_err(Failure::input)
    }
}

impl Request {
    /// Makes the request of this command line.
    pub(super) fn of(args: &CompareArgs) -> Result<Self, Failure> {
        let demanded = Demanded {
            baseline: args.baseline.clone(),
            strict_baseline: args.strict_baseline,
            tolerance: args.tolerance,
            junit: args.junit.clone(),
            reference: args.reference.clone(),
        };
        Ok(Self {
            parts: parts(args)?,
            sim: args.sim,
            names_setups: !args.setups.is_empty(),
            hint: args.hint,
            keep: Keep { out: args.out.clone(), force: args.force, record: args.record },
            demanded,
        })
    }
}

/// Makes the parts of the comparison: one suite, or all that repeat published reports.
fn parts(args: &CompareArgs) -> Result<Vec<Options>, Failure> {
    let suites = if let Subject::One(suite) = args.suite { vec![suite] } else { Suite::from_reports() };
    if args.guest == GuestKind::Builtin {
        let set = args.settings.iter().map(|(key, value)| (key.as_str(), *value));
        check_settings(&suites, set).map_err(|e| Failure::Input(miette::miette!("--set: {e}")))?;
    }
    match args.suite {
        Subject::One(suite) => Ok(vec![of_suite(args, suite)?]),
        Subject::Reports if args.guest != GuestKind::Builtin => Err(Failure::Input(miette::miette!(
            help = linux::suites(),
            "--guest: the suites of the reports have built-in guests"
        ))),
        Subject::Reports
            if args.setups.is_empty() && Counted::ALL.into_iter().all(|kind| given(args, kind).is_empty()) =>
        {
            // The options of each suite replace these.
            Ok(reports(&options(args, Suite::Netbench)?))
        }
        Subject::Reports => Err(Failure::Input(miette::miette!(
            help = "leave out --vcpus, --clients, --vms, --groups, --rooms and --setup, or name one of the suites instead of reports",
            "each of the suites of the reports has sizes of its own"
        ))),
    }
}

/// The options of one suite.
fn of_suite(args: &CompareArgs, suite: Suite) -> Result<Options, Failure> {
    let common = options(args, suite)?;
    let budget = args.full.then_some(f64::INFINITY);
    let (sizes, setups) = (sizes(args, suite)?, setups(args, suite)?);
    let part = Options { sizes, setups, budget, ..common };
    if let Some(with_linux) = linux::guests(args, &part)? {
        return Ok(with_linux);
    }
    check_sizes(&part).map_err(Failure::input)?;
    let default = || labelled(&default_policies(suite, part.kind));
    let policies = if part.policies.is_empty() { default() } else { part.policies };
    Ok(Options { policies, ..part })
}

/// The options that do not depend on the suite. The list of policies is empty if none are named.
fn options(args: &CompareArgs, suite: Suite) -> Result<Options, Failure> {
    let available = allowed_cpus().map_err(Failure::run)?;
    let pcpus = args.pcpus.clone().unwrap_or_else(|| available.clone());
    if args.sim && !PCPUS.contains(&(pcpus.len() as u32)) {
        return Err(Failure::Input(miette::miette!(
            "--pcpus {pcpus}: a simulated machine has {} to {} pCPUs",
            PCPUS.start(),
            PCPUS.end()
        )));
    }
    if let Some(missing) = pcpus.iter().find(|&cpu| !args.sim && !available.contains(cpu)) {
        return Err(Failure::Input(miette::miette!(
            help = format!("this process may use {available}"),
            "--pcpus {pcpus}: there is no CPU {missing} to use"
        )));
    }
    if args.duration.is_some() && suite.has_end() {
        return Err(Failure::Input(miette::miette!(
            help = "choose the amount of work: --set loops=N for hackbench, --set messages=N for volano",
            "--duration has no meaning for the suite {suite}, which ends when its work is done"
        )));
    }
    let kind = match (args.quick, args.full) {
        (true, _) => RunKind::Quick,
        (false, true) => RunKind::Full,
        (false, false) => RunKind::Usual,
    };
    Ok(Options {
        reps: args.reps,
        duration: args.duration,
        hint: args.hint,
        settings: args.settings.clone(),
        kind,
        until: args.until.map(|width| Until { width, limit: Duration::from_secs_f64(args.limit) }),
        seed: args.seed,
        ..Options::new(suite, labelled(&args.policies), pcpus)
    })
}

/// The requested sizes; they must be of the kind that the suite counts.
fn sizes(args: &CompareArgs, suite: Suite) -> Result<Vec<u32>, Failure> {
    let counted = suite.counted();
    if let Some(wrong) = Counted::ALL.into_iter().find(|&kind| kind != counted && !given(args, kind).is_empty()) {
        return Err(Failure::Input(miette::miette!(
            help = format!("use --{}", counted.name()),
            "--{} has no meaning for the suite {}",
            wrong.name(),
            suite
        )));
    }
    Ok(given(args, counted).clone())
}

/// The requested sizes of one kind.
fn given(args: &CompareArgs, kind: Counted) -> &Vec<u32> {
    match kind {
        Counted::Clients => &args.clients,
        Counted::Vcpus => &args.vcpus,
        Counted::Vms => &args.vms,
        Counted::Groups => &args.groups,
        Counted::Rooms => &args.rooms,
    }
}

/// The requested setups; the suite must have them.
fn setups(args: &CompareArgs, suite: Suite) -> Result<Vec<Setup>, Failure> {
    let suits = |setup: &Setup| match args.guest {
        GuestKind::Builtin => suite.has_setup(*setup),
        GuestKind::Linux(_) => matches!(setup, Setup::Each(_)),
    };
    let Some(wrong) = args.setups.iter().find(|setup| !suits(setup)) else { return Ok(args.setups.clone()) };
    let own = suite.setups(RunKind::Full).iter().filter(|setup| **setup != Setup::Usual);
    let has = own.map(ToString::to_string).collect::<Vec<_>>();
    let help = match has.is_empty() {
        _ if args.guest != GuestKind::Builtin => "Linux guests have VCPUSxMEMORY, such as 2x256M".to_owned(),
        true => format!("{} has none to choose", suite),
        false => format!("{} has {}", suite, has.join(", ")),
    };
    Err(Failure::Input(miette::miette!(help = help, "--setup {wrong} has no meaning for the suite {}", suite)))
}
