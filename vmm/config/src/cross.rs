//! Checks that need more than the schema: CPUs of this host, images and devices that exist, names that differ, caps
//! that can be kept.
//!
//! It works on the same document as [`super::check`], so that both kinds of mistakes are reported together. It skips
//! values of a wrong type, which [`super::check`] reports.

mod addresses;
mod devices;
mod linux;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::LoadContext;
use super::algorithm::Algorithm;
use super::bounds;
use super::check::{integer, list, nearest, number};
use super::defaults;
use super::error::{Finding, Misplaced};
use super::keypath::KeyPath;
use super::types::{Mechanism, instance_names};
use super::values::{CapPeriod, CpuCap, ImageRef};
use stile_host::CpuList;
use stile_sched::Nanos;
use stile_sched::attributes::Cap;

/// Returns a finding for each value of `document` that contradicts this host or another value. Relative paths start at
/// `base`.
pub(super) fn check(document: &DeTable<'_>, base: &Path, context: &LoadContext<'_>) -> Vec<Misplaced> {
    let mut found = Vec::new();
    let root = KeyPath::default();
    if let Some(pcpus) = document.get("host").and_then(|host| host.get_ref().get("pcpus")) {
        found.extend(self::pcpus(pcpus, context, &root.key("host").key("pcpus")));
    }
    let policy = |key| document.get("policy").and_then(|policy| policy.get_ref().get(key)?.get_ref().as_str());
    let (algorithm, mechanism) = match &context.policy {
        Some(policy) => (Some(policy.algorithm), (policy.mechanism == Mechanism::Executors).then_some("executors")),
        None => (policy("algorithm").and_then(Algorithm::named), policy("mechanism")),
    };
    let host = algorithm.filter(|algorithm| algorithm.is_host());
    // The host's own threads carry everything.
    let mechanism = mechanism.filter(|_| host.is_none());
    let vms = document.get("vm").and_then(|vms| vms.get_ref().as_array()).into_iter().flat_map(|vms| vms.iter());
    let (mut names, mut taken, mut networks) = (HashMap::new(), HashMap::new(), addresses::Networks::default());
    for (index, vm) in vms.enumerate() {
        let path = root.key("vm").index(index);
        found.extend(linux::check(vm, base, mechanism, &path));
        if let Some(vm) = vm.get_ref().as_table() {
            found.extend(image(vm, base, context, &path));
            found.extend(name(vm, &path, &mut names));
            found.extend(cap(vm, host, &path));
            found.extend(devices::check(vm, base, &path, &mut taken));
            found.extend(networks.check(vm, &path));
        }
    }
    found
}

/// Returns a finding for each CPU of a list that this process may not use; of a text, for the first one.
fn pcpus(value: &Spanned<DeValue<'_>>, context: &LoadContext<'_>, path: &KeyPath) -> Vec<Misplaced> {
    let unusable = |cpu: u32, span: Range<usize>, key: KeyPath| {
        let finding = Finding {
            wrong: format!("this process may not use a CPU {cpu}"),
            label: "no such CPU".to_owned(),
            help: Some(format!("accepted: {}", context.pcpus_available)),
        };
        (!context.pcpus_available.contains(cpu)).then_some(Misplaced { key, span, finding })
    };
    match value.get_ref() {
        DeValue::Array(cpus) => {
            let number = |item: &Spanned<DeValue<'_>>| u32::try_from(integer(item.get_ref())?).ok();
            let item = |(index, item): (usize, &Spanned<DeValue<'_>>)| {
                let cpu = number(item).filter(|cpu| *cpu <= CpuList::CPU_MAX)?;
                unusable(cpu, item.span(), path.index(index))
            };
            cpus.iter().enumerate().filter_map(item).collect()
        }
        DeValue::String(text) => {
            let cpus = text.parse::<CpuList>().unwrap_or_default();
            cpus.iter().find_map(|cpu| unusable(cpu, value.span(), path.clone())).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn image(vm: &DeTable<'_>, base: &Path, context: &LoadContext<'_>, path: &KeyPath) -> Option<Misplaced> {
    let value = vm.get("image")?;
    let finding = match value.get_ref().as_str()?.parse::<ImageRef>().ok()?.relative_to(base) {
        ImageRef::Builtin(name) if !context.builtin_names.contains(&name.as_str()) => {
            let known = context.builtin_names.iter().copied();
            let meant = nearest(&name, known.clone()).map(|name| format!("did you mean `builtin:{name}`? "));
            Finding {
                wrong: format!("there is no built-in image `{}`", name.escape_debug()),
                label: "unknown image".to_owned(),
                help: Some(format!("{}accepted after builtin: {}", meant.unwrap_or_default(), list(known))),
            }
        }
        ImageRef::Path(file) if !file.is_file() => {
            let state = if file.exists() { "is not a file" } else { "does not exist" };
            Finding {
                wrong: format!("the image {} {state}", file.display()),
                label: "no image here".to_owned(),
                help: Some("accepted: builtin:NAME, or the path of an image relative to this file".to_owned()),
            }
        }
        _ => return None,
    };
    Some(Misplaced { key: path.key("image"), span: value.span(), finding })
}

/// Adds the names of `vm`'s copies to `names` (from name to the VM's path). Returns a finding for the first that
/// another VM has.
fn name(vm: &DeTable<'_>, path: &KeyPath, names: &mut HashMap<String, KeyPath>) -> Option<Misplaced> {
    let value = vm.get("name")?;
    let count = vm.get("count").map_or(Some(defaults::COUNT.into()), |count| integer(count.get_ref()))?;
    // An excessive count is a mistake of its own; it must not make this loop long.
    let count = u32::try_from(count).ok().filter(|count| *count <= bounds::COUNT_MAX)?;
    let mut clash = None;
    for name in instance_names(value.get_ref().as_str()?, count) {
        match names.get(&name) {
            Some(other) if clash.is_none() => clash = Some((name, other.clone())),
            Some(_) => {}
            None => drop(names.insert(name, path.clone())),
        }
    }
    let (name, other) = clash?;
    let finding = Finding {
        wrong: format!("the name `{name}` is taken by {other}"),
        label: "taken".to_owned(),
        help: Some("accepted: a name that no other VM has; copies of a VM are called NAME-0, NAME-1 ...".to_owned()),
    };
    Some(Misplaced { key: path.key("name"), span: value.span(), finding })
}

/// Returns a finding for a cap that the algorithm does not keep, or that the vCPUs and the period make impossible.
fn cap(vm: &DeTable<'_>, host: Option<Algorithm>, path: &KeyPath) -> Option<Misplaced> {
    let value = vm.get("cap")?;
    let cap = CpuCap::try_from(number(value.get_ref())?).ok()?;
    let period =
        vm.get("cap_period").map_or(Some(defaults::CAP_PERIOD), |period| period.get_ref().as_str()?.parse().ok())?;
    let vcpus = vm.get("vcpus").map_or(Some(defaults::VCPUS.into()), |vcpus| integer(vcpus.get_ref()))?;
    let vcpus = u32::try_from(vcpus).ok().filter(|vcpus| (1..=bounds::VCPUS_MAX).contains(vcpus))?;
    let shown = number(value.get_ref())?;
    let finding = if let Some(host) = host {
        Finding {
            wrong: format!("the policy `{}` does not keep caps", host.row().name),
            label: "not kept".to_owned(),
            help: Some(
                "leave it out, or take another `algorithm`; to cap all VMs together, use the cgroup's cpu.max"
                    .to_owned(),
            ),
        }
    } else if cap.cpus() > f64::from(vcpus) {
        Finding {
            wrong: format!("a cap of {shown} is more than {vcpus} vCPUs can use"),
            label: "never reached".to_owned(),
            help: Some(format!("accepted: {} to {vcpus}, or more `vcpus`", bounds::CAP_MIN)),
        }
    } else {
        too_short(cap, period, vcpus)?
    };
    Some(Misplaced { key: path.key("cap"), span: value.span(), finding })
}

/// Returns a finding if the cap gives each vCPU a turn that is shorter than a turn may be.
fn too_short(cap: CpuCap, period: CapPeriod, vcpus: u32) -> Option<Finding> {
    let least = 2 * u64::from(vcpus) * Cap::SHORTEST_TURN.0;
    let budget = Nanos::from(cap.of(period.duration())).0;
    if budget >= least {
        return None;
    }
    let millis = (least as f64 / cap.cpus() / 1e6).ceil();
    let cpus = (least as f64 / Nanos::from(period.duration()).0 as f64 * 1000.0).ceil() / 1000.0;
    let longer = if millis <= bounds::CAP_PERIOD_MAX.as_secs_f64() * 1000.0 {
        format!("a `cap_period` of {millis}ms or more, or ")
    } else {
        String::new()
    };
    Some(Finding {
        wrong: format!(
            "a cap of {cap} over {period} leaves each of {vcpus} vCPUs two turns of {} us, and a turn takes {} us",
            budget / (2000 * u64::from(vcpus)),
            Cap::SHORTEST_TURN.0 / 1000
        ),
        label: "too little".to_owned(),
        help: Some(format!("accepted: {longer}a cap of {cpus} or more")),
    })
}
