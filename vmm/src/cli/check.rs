//! `stile check`: what a configuration would run, and what its policy gives and promises each VM. Starts nothing.

mod expected;
mod long_waits;

use super::args::CheckArgs;
use super::failure::Failure;
use super::guests::Guests;
use super::{output, small};
use expected::{Demand, expected};
use serde::Serialize;
use std::iter;
use stile_assembly::watch;
use stile_config::{Config, OnStarvation, PolicyConfig, VmConfig};
use stile_host::CpuList;
use stile_sched::Nanos;
use stile_sched::attributes::Attributes;
use tracing::warn;

pub(super) fn check(args: &CheckArgs) -> Result<(), Failure> {
    let config = small::load(&args.file, args.policy.as_ref())?;
    Guests::open(&config, &args.file)?;
    let terms = Terms::new(&args.file.display().to_string(), &config);
    if args.json {
        let json = serde_json::to_value(&terms).map_err(Failure::run)?;
        return output::line(format_args!("{json:#}"));
    }
    terms.warnings.iter().for_each(|warning| warn!("{warning}"));
    terms.lines().iter().try_for_each(|line| output::line(format_args!("{line}")))
}

/// The result of checking a configuration: what it would run, with the CPU time and the longest wait of each VM.
#[derive(Debug, Serialize)]
struct Terms {
    file: String,
    policy: String,
    pcpus: CpuList,
    /// Figures of all VMs together.
    memory_bytes: u64,
    /// An item for each `[[vm]]`.
    vms: Vec<VmTerms>,
    on_starvation: String,
    warnings: Vec<String>,
}

/// The VMs of an entry: their number, share of CPU time and longest wait.
#[derive(Debug, Serialize)]
struct VmTerms {
    name: String,
    /// VMs that the entry starts.
    count: u32,
    /// vCPUs of each VM.
    vcpus: u32,
    class: String,
    nice: i8,
    /// CPU time of a vCPU beside one of nice 0, while both compute.
    weight: f64,
    cap: Option<CapTerms>,
    /// CPUs that each VM gets while every vCPU of the configuration computes all the time.
    expected_cpus: f64,
    /// The part of that for each vCPU.
    expected_cpus_per_vcpu: f64,
    /// The longest that a vCPU waits; `None`: the policy promises no bound.
    wait_bound_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
struct CapTerms {
    /// CPUs that the vCPUs of a VM may use together.
    cpus: f64,
    period_seconds: f64,
}

impl Terms {
    fn new(file: &str, config: &Config) -> Self {
        let policy = &config.policy;
        let demands: Vec<Demand> = config.vms.iter().map(|vm| demand(policy, vm)).collect();
        let got = expected(&demands, config.host.pcpus.len(), policy.algorithm.row().rt_share);
        let vms = config.vms.iter().enumerate().zip(got).map(|((index, vm), cpus)| VmTerms {
            name: vm.name.to_string(),
            count: vm.count,
            vcpus: vm.vcpus,
            class: stile_assembly::attributes(vm).class.to_string(),
            nice: vm.nice,
            weight: demands[index].weight,
            cap: vm
                .cap
                .map(|cap| CapTerms { cpus: cap.cpus(), period_seconds: vm.cap_period.duration().as_secs_f64() }),
            expected_cpus: cpus,
            expected_cpus_per_vcpu: cpus / f64::from(vm.vcpus),
            wait_bound_seconds: bound(config, index).map(|bound| bound.0 as f64 / 1e9),
        });
        Self {
            file: file.to_owned(),
            policy: policy.to_string(),
            pcpus: config.host.pcpus.clone(),
            memory_bytes: config.memory(),
            vms: vms.collect(),
            on_starvation: on_starvation(policy),
            warnings: (0..config.vms.len()).filter_map(|index| long_waits::warning(config, index)).collect(),
        }
    }

    /// A line about all VMs, a line for each entry, and the meaning of the columns.
    fn lines(&self) -> Vec<String> {
        let vms: u32 = self.vms.iter().map(|vm| vm.count).sum();
        let vcpus: u32 = self.vms.iter().map(|vm| vm.count * vm.vcpus).sum();
        let all = format!(
            "{}: {} with {} and {} of memory on pCPUs {} under {}",
            self.file,
            stile_text::count(vms as usize, "VM"),
            stile_text::count(vcpus as usize, "vCPU"),
            stile_text::bytes(self.memory_bytes as f64),
            self.pcpus,
            self.policy
        );
        let entries = self.vms.iter().map(|vm| format!("  {}", vm.line()));
        let meaning = "  CPUs: the CPU time that a VM gets while every vCPU computes all the time".to_owned();
        let starvation = format!("  on starvation: {}", self.on_starvation);
        iter::once(all).chain(entries).chain([meaning, starvation]).collect()
    }
}

impl VmTerms {
    fn line(&self) -> String {
        let cap = self.cap.as_ref().map_or(String::new(), |cap| {
            let period = stile_text::time_us(cap.period_seconds * 1e6);
            let together = if self.vcpus > 1 { " for all its vCPUs together" } else { "" };
            format!(", cap {} CPUs{together} over {period}", cap.cpus)
        });
        let each = if self.count > 1 { " for each VM" } else { "" };
        let of_vcpu = match self.vcpus {
            1 => String::new(),
            _ => format!(", {} for each vCPU", cpus(self.expected_cpus_per_vcpu)),
        };
        let bound = self.wait_bound_seconds.map_or("none".to_owned(), |bound| stile_text::time_us(bound * 1e6));
        format!(
            "{}: {} with {}, class {}, nice {}{cap}: {} CPUs{each}{of_vcpu}, wait bound: {bound}",
            self.name,
            stile_text::count(self.count as usize, "VM"),
            stile_text::count(self.vcpus as usize, "vCPU"),
            self.class,
            self.nice,
            cpus(self.expected_cpus),
        )
    }
}

/// Formats CPUs with as many decimals as are significant.
fn cpus(cpus: f64) -> String {
    if cpus < 0.1 && cpus > 0.0 { format!("{cpus:.4}") } else { format!("{cpus:.2}") }
}

fn demand(policy: &PolicyConfig, vm: &VmConfig) -> Demand {
    let attributes = stile_assembly::attributes(vm);
    let (class, weight) = (attributes.class, stile_assembly::weight(policy, attributes.nice));
    Demand { count: vm.count, vcpus: vm.vcpus, class, weight, cap: vm.cap.map(|cap| cap.cpus()) }
}

/// The longest that a vCPU of the entry at `index` waits, for its cap and for its turn.
fn bound(config: &Config, index: usize) -> Option<Nanos> {
    let vm = &config.vms[index];
    let others = neighbours(config, index);
    let bound =
        stile_assembly::wait_bound(&config.policy, stile_assembly::attributes(vm), &others, config.host.pcpus.len())?;
    Some(bound + stile_assembly::cap_bound(vm).unwrap_or_default())
}

/// All vCPUs but one of the entry at `index`.
fn neighbours(config: &Config, index: usize) -> Vec<Attributes> {
    let of = |(number, vm): (usize, &VmConfig)| {
        let vcpus = (vm.count * vm.vcpus) as usize - usize::from(number == index);
        iter::repeat_n(stile_assembly::attributes(vm), vcpus)
    };
    config.vms.iter().enumerate().flat_map(of).collect()
}

/// Says what happens when a vCPU waits too long.
fn on_starvation(policy: &PolicyConfig) -> String {
    if !watch::is_watched(policy) {
        return match policy.algorithm.is_host() {
            true => "no watchdog runs, the host's scheduler decides".to_owned(),
            false => format!("no watchdog runs: {policy} promises no bound, and `starvation_bound` is none"),
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
    format!("a vCPU that waits longer than {bound} is reported on stderr{then}")
}
