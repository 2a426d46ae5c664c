//! `stile compare`: makes a request of the command line, runs it with guests or simulated, and writes its report.

use super::args::CompareArgs;
use super::demands::Demands;
use super::failure::Failure;
use super::interrupt::on_interrupt;
use super::outcome::{self, Outcome};
use super::request::Request;
use super::rounds::{recordings_possible, run_all};
use super::{ext, jail, linux, simulation};
use kvm_ioctls::Kvm;
use serde_json::{Value, json};
use std::path::Path;
use stile_compare::{Options, Plan, Ran, Runner, STEPS};
use stile_host::{AutogroupsOff, HostFacts, open_kvm};
use stile_results::journal::Journal;
use tracing::warn;

pub(super) fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let mut request = Request::of(args)?;
    if request.sim {
        return simulation::compare(request, None);
    }
    let Request { parts, keep, demanded, .. } = &mut request;
    if keep.record {
        parts.iter().try_for_each(recordings_possible)?;
    }
    let kvm = match open_kvm() {
        Ok(kvm) => kvm,
        Err(why) if keep.record || parts.iter().any(|options| options.linux.is_some()) => {
            return Err(Failure::NoKvm(why));
        }
        Err(why) => return simulation::compare(request, Some(why)),
    };
    let demands = Demands::new(demanded, keep.out.as_deref(), parts, false)?;
    parts.iter_mut().for_each(|options| options.reference.clone_from(&demands.reference));
    let out = keep.folder()?;
    // The probes of the host are more than the jail permits.
    let host = serde_json::to_value(HostFacts::gather()).map_err(Failure::run)?;
    let policies = parts.iter().flat_map(|part| part.policies.iter().map(|(_, policy)| policy));
    let ext = ext::for_policies(policies, parts[0].pcpus.len())?;
    jail::of_comparison(args.no_jail, parts, &out, args.junit.as_deref())?;
    let outcome = measure(&kvm, host, parts, &out, keep.record)?;
    ext.tell(args.no_jail);
    outcome::write(&out, parts, outcome, &demands)
}

/// Runs all parts with guests on this host.
fn measure(kvm: &Kvm, mut host: Value, parts: &[Options], out: &Path, record: bool) -> Result<Outcome, Failure> {
    let interrupted = on_interrupt()?;
    let journal = Journal::create(out).map_err(Failure::input)?;
    let (autogroups, notes) = autogroups_off();
    let mut ran: Ran = run_all(parts, Plan::announcement, |options| {
        let runner = Runner::new(kvm, options, &interrupted).keeping(&journal);
        let runner = runner.with_steps_in(out.join(STEPS));
        if record { runner.recording_into(out.join("raw")) } else { runner }
    });
    ran.notes.splice(0..0, notes.into_iter().chain(linux::notes(parts)));
    // Autogroups go back before anything is printed, since printing may end the program.
    drop(autogroups);
    host["pcpus"] = json!(parts[0].pcpus.to_string());
    Ok(Outcome { host, ran, simulated: false })
}

/// Switches autogroups off for the run, and reports that. Dropping the first part of the result undoes it.
fn autogroups_off() -> (Option<AutogroupsOff>, Vec<String>) {
    match AutogroupsOff::hold() {
        Ok(None) => (None, Vec::new()),
        Ok(held) => (held, vec!["The host's autogroups were switched off during the run.".to_owned()]),
        Err(e) => {
            let note = format!(
                "The host's autogroups are on and cannot be switched off ({e}): under host, starts may take seconds."
            );
            warn!(remedy = "sudo sysctl kernel.sched_autogroup_enabled=0", "{note}");
            (None, vec![note])
        }
    }
}
