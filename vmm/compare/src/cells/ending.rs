//! A cell of the suites whose work has an end, `hackbench` and `volano`. Its VMs are made, wait at their gates, begin
//! together, and run until the last one is done. The window is that time.

use super::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::guests;
use crate::plan::work::{PATIENCE, Work};
use crate::window::metrics::{self, activity, detail, ops_of};
use crate::window::{Reading, VcpuCounts, Window, ops};
use crate::workload::{self, spec};
use std::collections::BTreeMap;
use stile_host::memory;
use stile_machine::unikernel::{Spec, Vm};
use stile_sched::time::monotonic;
use stile_suites::Metric;

/// One cell; `None` if the user ended it.
pub(crate) fn measure(site: &Site<'_>) -> Result<Measured, CompareError> {
    let (options, size) = (site.context.options, site.planned.case.size);
    let no_end = CompareError::NoGuests { suite: options.suite, kind: "built-in" };
    let work = Work::of(options, size).ok_or(no_end)?;
    let memory_is_fresh = memory::forget_peak();
    let vms = create(site, work)?;
    vms.iter().for_each(|vm| vm.start());
    let all: Vec<&Vm> = vms.iter().collect();
    if !site.until(&all, PATIENCE, |vm| vm.state().is_at_gate(), |_| "was not at its gate".to_owned())? {
        return Ok(None);
    }
    let before = Reading::take(&all, &*site.domain);
    let begun = monotonic();
    vms.iter().for_each(Vm::open_gate);
    let how_far = |vm: &Vm| format!("had received {} of {} messages", ops([vm]), work.messages);
    if !site.until(&all, work.deadline(), |vm| vm.state().done().is_some(), how_far)? {
        return Ok(None);
    }
    let window = before.until(&Reading::take(&all, &*site.domain));
    site.audit(&window)?;
    let ended = vms.iter().filter_map(|vm| vm.state().done()).max().unwrap_or(begun);
    let window = Window { seconds: ended.since(begun).0 as f64 / 1e9, ..window };
    let mut values = values(&window);
    if memory_is_fresh {
        values.extend(memory::peak().map(|bytes| (Metric::PeakMemory, bytes as f64 / f64::from(1 << 20))));
    }
    Ok(Measurement::only(values, detail(&window)))
}

/// The metrics of a window that ends with the work.
pub(crate) fn values(window: &Window) -> BTreeMap<Metric, f64> {
    let mut values = activity(window);
    let vcpus: Vec<&VcpuCounts> = window.vcpus.iter().collect();
    let (yields, told) = (window.totals.yields, window.totals.told);
    let per_second = |n: u64| n as f64 / window.seconds;
    values.extend(metrics::work(ops_of(&vcpus), window.seconds, &vcpus));
    values.extend([
        (Metric::RunTime, window.seconds * 1e6),
        (Metric::LoneYieldsPerS, per_second(yields.alone + told.map_or(0, |told| told.sole))),
    ]);
    if let Some(told) = told {
        values.insert(Metric::RecalculationsPerS, per_second(told.recalculations));
        values.insert(Metric::ExtraPassesPerS, per_second(told.extra_passes));
    }
    values
}

/// VMs of this cell that do not run yet.
fn create(site: &Site<'_>, work: Work) -> Result<Vec<Vm>, CompareError> {
    let image = guests::image(site.context.options.suite);
    let cmdline = workload::cmdline(site.context.options, work.vcpus, site.context.loops_per_us);
    let create = |n| {
        let memory = workload::memory(work.vcpus);
        site.create(&Spec { vcpus: work.vcpus, ..spec(image, &format!("{image}-{n}"), memory, &cmdline) }, None)
    };
    (0..work.vms).map(create).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_sched::ledger::Totals;
    use stile_sched::policy::YieldCounts;
    use stile_sched::time::Nanos;

    #[test]
    fn a_policy_that_counts_yields_tells_that_there_were_none() {
        let told_by = |told: Option<YieldCounts>| {
            let totals = Totals { told, ..Totals::default() };
            values(&Window { seconds: 1.0, span: Nanos(1_000_000_000), vcpus: Vec::new(), totals, kicks: None })
        };
        assert_eq!(told_by(Some(YieldCounts::default())).get(&Metric::ExtraPassesPerS), Some(&0.0));
        assert_eq!(told_by(None).get(&Metric::ExtraPassesPerS), None);
    }
}
