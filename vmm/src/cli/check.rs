//! `stile check`: what a configuration would run, and what its policy promises each VM. Starts nothing.

use super::guests::Guests;
use super::{Failure, output, small};

use std::iter;
use std::path::Path;
use stile_assembly::watch;
use stile_config::{Config, OnStarvation, PolicyConfig, VmConfig};
use stile_sched::attributes::Attributes;

pub(super) fn check(file: &Path) -> Result<(), Failure> {
    let config = small::load(file)?;
    Guests::open(&config, file)?;
    let vms: u32 = config.vms.iter().map(|vm| vm.count).sum();
    let pcpus = &config.host.pcpus;
    output::line(format_args!(
        "{}: {} with {} and {} of memory on pCPUs {pcpus} under {}",
        file.display(),
        stile_text::count(vms as usize, "VM"),
        stile_text::count(vcpus(&config.vms).count(), "vCPU"),
        stile_text::bytes(config.memory() as f64),
        config.policy
    ))?;
    terms(&config).iter().try_for_each(|line| output::line(format_args!("  {line}")))?;
    output::line(format_args!("  on starvation: {}", on_starvation(&config.policy)))
}

/// A line for each entry: who it is, its part of all weights, and how long one of its vCPUs waits at most.
fn terms(config: &Config) -> Vec<String> {
    let policy = &config.policy;
    let all: f64 = vcpus(&config.vms).map(|vcpu| stile_assembly::weight(policy, vcpu.nice)).sum();
    let line = |vm: &VmConfig| {
        let attributes = stile_assembly::attributes(vm);
        let weight = f64::from(vm.vcpus) * stile_assembly::weight(policy, attributes.nice) / all;
        format!(
            "{}: {} with {}, class {}, nice {}{}, {:.1} % of all weights each, wait bound: {}",
            vm.name.as_str(),
            stile_text::count(vm.count as usize, "VM"),
            stile_text::count(vm.vcpus as usize, "vCPU"),
            attributes.class,
            vm.nice,
            cap(vm),
            100.0 * weight,
            wait_bound(config, vm),
        )
    };
    config.vms.iter().map(line).collect()
}

/// What its vCPUs may use together.
fn cap(vm: &VmConfig) -> String {
    vm.cap.map_or(String::new(), |cap| format!(", cap {cap} CPUs each over {}", vm.cap_period))
}

/// How long a vCPU of this VM waits at most, for its cap and for its turn.
fn wait_bound(config: &Config, vm: &VmConfig) -> String {
    let me = stile_assembly::attributes(vm);
    let mut others: Vec<Attributes> = vcpus(&config.vms).collect();
    others.extract_if(.., |other| *other == me).next();
    match stile_assembly::wait_bound(&config.policy, me, &others, config.host.pcpus.iter().count()) {
        Some(bound) => {
            stile_text::time_us((bound + stile_assembly::cap_bound(vm).unwrap_or_default()).0 as f64 / 1000.0)
        }
        None => "none".to_owned(),
    }
}

/// What happens when a vCPU waits too long.
fn on_starvation(policy: &PolicyConfig) -> String {
    if !watch::is_watched(policy) {
        return match policy.algorithm.is_host() {
            true => "nobody watches, the host's scheduler decides".to_owned(),
            false => format!("nobody watches: {policy} promises nothing, and `starvation_bound` is none"),
        };
    }
    let bound = match (policy.algorithm.row().wait_bound, policy.starvation_bound.duration()) {
        (Some(_), Some(_)) => format!("its bound, or {} without one,", policy.starvation_bound),
        (Some(_), None) => "its bound".to_owned(),
        (None, _) => policy.starvation_bound.to_string(),
    };
    let then = match policy.on_starvation {
        OnStarvation::Report => "",
        OnStarvation::Fallback => ", and all vCPUs go over to the host's scheduler",
    };
    format!("a vCPU that waits longer than {bound} is told on stderr{then}")
}

/// Every vCPU of these VMs.
fn vcpus(vms: &[VmConfig]) -> impl Iterator<Item = Attributes> + '_ {
    vms.iter().flat_map(|vm| iter::repeat_n(stile_assembly::attributes(vm), (vm.count * vm.vcpus) as usize))
}
