//! A measured window: two readings of the guests' gauges and the domain's counts, and their difference.
//!
//! Modules that use a window: `audit` checks its accounts, `gaps` tells for how long vCPUs did not run, `metrics` and
//! `weights` compute a suite's metrics, `jitter` measures how evenly work was spread over it, and `moment` finds the
//! vCPUs that ran during its longest wait.

pub(super) mod audit;
mod gaps;
pub(super) mod jitter;
pub(super) mod metrics;
pub(super) mod moment;
pub(super) mod weights;

use audit::Steal;
use std::mem::offset_of;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stile_abi::gauge::BUCKETS;
use stile_machine::unikernel::{Vm, VmState};
use stile_sched::histogram::Histogram;
use stile_sched::ledger::{Totals, Usage};
use stile_sched::time::monotonic;
use stile_sched::{Domain, Nanos, Time, VcpuId};
use vm_memory::{Bytes, GuestAddress};

/// One vCPU's counters: a reading, or the difference of two.
#[derive(Debug, Clone, Default)]
pub(super) struct VcpuCounts {
    pub(super) ops: u64,
    pub(super) bytes: u64,
    pub(super) errors: u64,
    pub(super) usage: Usage,
    /// Its waits for a turn; empty under `host`.
    pub(super) waits: Histogram,
    /// The steal time that the guest reads; `None` if the guest gets none.
    pub(super) steal: Option<Steal>,
    /// When its account was asked for and read. In a difference: the least and the most time between the two readings.
    pub(super) wall: Wall,
    /// How long its current wait has lasted (unit: ns).
    pub(super) waiting_ns: u64,
    /// Words of the gauge that the workload uses for itself.
    pub(super) spare: [u64; 3],
    /// Its waits or responses by length; empty if another histogram holds them.
    pub(super) latency: Box<[u32]>,
    /// Its gaps by length, as the guest tells them; empty if it does not.
    pub(super) gaps: Box<[u32]>,
    /// How long its present gap has lasted (unit: ns).
    pub(super) gap_ns: u64,
}

/// A time that lies between two bounds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wall {
    pub(super) least: Nanos,
    pub(super) most: Nanos,
}

/// The state at one moment.
pub(super) struct Reading {
    at: Time,
    /// When the reading was complete.
    read: Time,
    vcpus: Vec<VcpuCounts>,
    totals: Totals,
    kicks: Option<Histogram>,
}

/// The difference of two readings.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) seconds: f64,
    /// From the beginning of the first reading to the end of the last one. vCPUs are read one after the other, so each
    /// has a time of its own within this.
    pub(super) span: Nanos,
    pub(super) vcpus: Vec<VcpuCounts>,
    pub(super) totals: Totals,
    /// `None` under `host`, which reports neither kicks nor waits for a turn.
    pub(super) kicks: Option<Histogram>,
}

impl Reading {
    /// Reads the vCPUs of these VMs, in order.
    pub(super) fn take(vms: &[&Vm], domain: &dyn Domain) -> Self {
        let at = monotonic();
        let vcpus = vms.iter().flat_map(|vm| read_vm(vm, domain)).collect();
        let (totals, kicks) = (domain.totals(), domain.has_policy().then(|| domain.kicks()));
        Self { at, read: monotonic(), vcpus, totals, kicks }
    }

    /// Reads the accounts of these vCPUs, without counts of their work.
    pub(super) fn of_accounts(vcpus: &[VcpuId], domain: &dyn Domain) -> Self {
        let at = monotonic();
        let vcpus = vcpus.iter().map(|&id| read_account(id, domain, VcpuCounts::default())).collect();
        let (totals, kicks) = (domain.totals(), domain.has_policy().then(|| domain.kicks()));
        Self { at, read: monotonic(), vcpus, totals, kicks }
    }

    /// The reading of vCPUs at the moment when they were made, which lies between two times.
    pub(super) fn of_new(made: &[(Time, Time)]) -> Self {
        let new = |&(least, most): &(Time, Time)| {
            let wall = Wall { least: Nanos(least.0), most: Nanos(most.0) };
            VcpuCounts { wall, ..VcpuCounts::default() }
        };
        let at = made.iter().map(|(least, _)| *least).min().unwrap_or_default();
        Self { at, read: at, vcpus: made.iter().map(new).collect(), totals: Totals::default(), kicks: None }
    }

    /// How long the current wait of a vCPU had lasted at this time (unit: ns).
    pub(super) fn waiting_ns(&self, vcpu: usize) -> u64 {
        self.vcpus[vcpu].waiting_ns
    }

    /// The window from `self` to `later`.
    pub(super) fn until(&self, later: &Self) -> Window {
        let vcpus = self.vcpus.iter().zip(&later.vcpus).map(|(a, b)| b.since(a)).collect();
        let seconds = later.at.since(self.at).0 as f64 / 1e9;
        let kicks = later.kicks.as_ref().zip(self.kicks.as_ref()).map(|(later, earlier)| later.since(earlier));
        let (span, totals) = (later.read.since(self.at), later.totals.since(&self.totals));
        Window { seconds, span, vcpus, totals, kicks }
    }
}

impl Window {
    /// Several windows of one time as one.
    pub(super) fn join(windows: Vec<Self>) -> Self {
        let mut all =
            Self { seconds: 0.0, span: Nanos::ZERO, vcpus: Vec::new(), totals: Totals::default(), kicks: None };
        for window in windows {
            all.seconds = all.seconds.max(window.seconds);
            all.span = all.span.max(window.span);
            all.vcpus.extend(window.vcpus);
            all.totals = all.totals.plus(&window.totals);
            if let Some(kicks) = window.kicks {
                all.kicks.get_or_insert_default().merge(&kicks);
            }
        }
        all
    }
}

/// Operations so far, of all vCPUs of these VMs.
pub(super) fn ops<'a>(vms: impl IntoIterator<Item = &'a Vm>) -> u64 {
    sum_of(offset_of!(stile_abi::Gauge, ops), vms)
}

/// Errors so far, of all vCPUs of these VMs.
pub(super) fn errors<'a>(vms: impl IntoIterator<Item = &'a Vm>) -> u64 {
    sum_of(offset_of!(stile_abi::Gauge, errors), vms)
}

/// The sum of a word of all gauges of these VMs.
fn sum_of<'a>(word: usize, vms: impl IntoIterator<Item = &'a Vm>) -> u64 {
    let of_vm = |vm: &Vm| {
        let (state, word) = (vm.state(), word as u64);
        let of = |vcpu| state.memory().load::<u64>(GuestAddress(state.layout().gauge(vcpu) + word), Relaxed);
        (0..state.vcpus()).map(|vcpu| of(vcpu).expect("gauges lie inside memory")).sum::<u64>()
    };
    vms.into_iter().map(of_vm).sum()
}

impl VcpuCounts {
    fn since(&self, earlier: &Self) -> Self {
        let counted = |now: &[u32], then: &[u32]| now.iter().zip(then).map(|(b, a)| b.wrapping_sub(*a)).collect();
        Self {
            ops: self.ops.wrapping_sub(earlier.ops),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            errors: self.errors.wrapping_sub(earlier.errors),
            usage: self.usage.since(&earlier.usage),
            waits: self.waits.since(&earlier.waits),
            steal: self.steal.zip(earlier.steal).map(|(now, then)| Steal { before: then.after, ..now }),
            wall: Wall { least: self.wall.least - earlier.wall.most, most: self.wall.most - earlier.wall.least },
            waiting_ns: self.waiting_ns,
            spare: std::array::from_fn(|word| self.spare[word].wrapping_sub(earlier.spare[word])),
            latency: counted(&self.latency, &earlier.latency),
            gaps: counted(&self.gaps, &earlier.gaps),
            gap_ns: self.gap_ns,
        }
    }
}

fn read_vm(vm: &Vm, domain: &dyn Domain) -> Vec<VcpuCounts> {
    let state = vm.state();
    let read = |(gauge, id): (u64, VcpuId)| read_account(id, domain, read_gauge(state, gauge));
    (0..state.vcpus()).map(|vcpu| state.layout().gauge(vcpu)).zip(vm.ids()).map(read).collect()
}

/// Reads a vCPU's gauge and its account.
fn read_account(id: VcpuId, domain: &dyn Domain, counts: VcpuCounts) -> VcpuCounts {
    let asked = monotonic();
    let account = domain.account(id).unwrap_or_default();
    let wall = Wall { least: Nanos(asked.0), most: Nanos(monotonic().0) };
    let usage = Usage::of(&account);
    let after = Duration::from_nanos(usage.wait_ns);
    let steal = counts.steal.map(|steal| Steal { after, ..steal });
    VcpuCounts { usage, waits: account.waits, steal, wall, ..counts }
}

/// The words of a vCPU's gauge that the workload uses for itself.
pub(super) fn spare(state: &VmState, vcpu: u32) -> [u64; 3] {
    spare_of(state, state.layout().gauge(vcpu))
}

fn spare_of(state: &VmState, gauge: u64) -> [u64; 3] {
    let first = gauge + offset_of!(stile_abi::Gauge, spare) as u64;
    std::array::from_fn(|n| word(state, first + (n * size_of::<u64>()) as u64))
}

fn word(state: &VmState, at: u64) -> u64 {
    state.memory().load::<u64>(GuestAddress(at), Relaxed).expect("gauges lie inside memory")
}

fn read_gauge(state: &VmState, gauge: u64) -> VcpuCounts {
    let memory = state.memory();
    let word = |offset: usize| word(state, gauge + offset as u64);
    let histogram = |offset: usize| {
        let mut bytes = vec![0; 4 * BUCKETS];
        memory.read_slice(&mut bytes, GuestAddress(gauge + offset as u64)).expect("gauges lie inside memory");
        bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    };
    let since = |offset: usize| match word(offset) {
        0 => 0,
        tsc => state.clock().since(tsc).0,
    };
    let seen = word(offset_of!(stile_abi::Gauge, steal_seen)).checked_sub(1).map(Duration::from_nanos);
    VcpuCounts {
        ops: word(offset_of!(stile_abi::Gauge, ops)),
        bytes: word(offset_of!(stile_abi::Gauge, bytes)),
        errors: word(offset_of!(stile_abi::Gauge, errors)),
        steal: seen.map(|seen| Steal { seen, ..Steal::default() }),
        waiting_ns: since(offset_of!(stile_abi::Gauge, waits_since)),
        spare: spare_of(state, gauge),
        latency: histogram(offset_of!(stile_abi::Gauge, latency)),
        gaps: histogram(offset_of!(stile_abi::Gauge, gaps)),
        gap_ns: since(offset_of!(stile_abi::Gauge, looked)),
        ..VcpuCounts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::audit::audit;
    use super::*;

    const MS: u64 = 1_000_000;

    fn ms(n: u64) -> Time {
        Time(n * MS)
    }

    #[test]
    fn accounts_of_vcpus_that_were_made_one_after_the_other_are_held_against_the_time_since() {
        let before = Reading::of_new(&[(ms(1000), ms(1010)), (ms(1500), ms(1502))]);
        let sound = |idle: [u64; 2]| {
            let vcpu = |idle| VcpuCounts {
                usage: Usage { run_ns: 100 * MS, idle_ns: idle * MS, ..Usage::default() },
                wall: Wall { least: Nanos(2000 * MS), most: Nanos(2001 * MS) },
                ..VcpuCounts::default()
            };
            let (vcpus, totals) = (idle.map(vcpu).into(), Totals::default());
            let window = before.until(&Reading { at: ms(2000), read: ms(2001), vcpus, totals, kicks: None });
            assert_eq!((window.span, window.vcpus.len()), (Nanos(1001 * MS), 2));
            audit(&window, 1).is_ok()
        };
        assert!(sound([890, 399]) && sound([900, 400]));
        assert!(!sound([850, 399]) && !sound([930, 399]) && !sound([890, 380]) && !sound([890, 420]));
    }
}
