//! A measured window: two readings of the guests' gauges and the domain's counts, and their difference.

use super::audit::Steal;
use crate::vm::{Vm, VmState};
use std::mem::offset_of;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use stile_abi::gauge::BUCKETS;
use stile_sched::domain::{Totals, Usage};
use stile_sched::histogram::Histogram;
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
    /// Its waits for a turn; none where the host decides.
    pub(super) waits: Histogram,
    /// What the guest knows of its steal; `None` where it is not told.
    pub(super) steal: Option<Steal>,
    /// When its account was asked for and read; or how long it was between two readings, at least and at most.
    pub(super) wall: Wall,
    /// How long its wait under way has lasted (unit: ns).
    pub(super) waiting_ns: u64,
    /// Its waits or responses by length; empty if others' histogram holds them.
    pub(super) latency: Box<[u32]>,
}

/// A time that is known to lie between two.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wall {
    pub(super) least: Nanos,
    pub(super) most: Nanos,
}

/// Everything at one moment.
pub(super) struct Reading {
    at: Time,
    vcpus: Vec<VcpuCounts>,
    totals: Totals,
    kicks: Option<Histogram>,
}

/// What happened between two readings.
#[derive(Debug)]
pub(super) struct Window {
    pub(super) seconds: f64,
    pub(super) vcpus: Vec<VcpuCounts>,
    pub(super) totals: Totals,
    /// `None` where they are not known: the host knows neither kicks nor waits for a turn.
    pub(super) kicks: Option<Histogram>,
}

impl Reading {
    /// Reads the vCPUs of these VMs, in order.
    pub(super) fn take(vms: &[&Vm], domain: &dyn Domain) -> Self {
        let at = monotonic();
        let vcpus = vms.iter().flat_map(|vm| read_vm(vm, domain)).collect();
        Self { at, vcpus, totals: domain.totals(), kicks: domain.has_policy().then(|| domain.kicks()) }
    }

    /// Operations of all of them.
    pub(super) fn ops(&self) -> u64 {
        self.vcpus.iter().map(|vcpu| vcpu.ops).sum()
    }

    /// The window from `self` to `later`.
    pub(super) fn until(&self, later: &Self) -> Window {
        let vcpus = self.vcpus.iter().zip(&later.vcpus).map(|(a, b)| b.since(a)).collect();
        let seconds = later.at.since(self.at).0 as f64 / 1e9;
        let kicks = later.kicks.as_ref().zip(self.kicks.as_ref()).map(|(later, earlier)| later.since(earlier));
        Window { seconds, vcpus, totals: later.totals.since(&self.totals), kicks }
    }
}

impl VcpuCounts {
    fn since(&self, earlier: &Self) -> Self {
        let latency = self.latency.iter().zip(&earlier.latency).map(|(b, a)| b.wrapping_sub(*a)).collect();
        Self {
            ops: self.ops.wrapping_sub(earlier.ops),
            bytes: self.bytes.wrapping_sub(earlier.bytes),
            errors: self.errors.wrapping_sub(earlier.errors),
            usage: self.usage.since(&earlier.usage),
            waits: self.waits.since(&earlier.waits),
            steal: self.steal.zip(earlier.steal).map(|(now, then)| Steal { before: then.after, ..now }),
            wall: Wall { least: self.wall.least - earlier.wall.most, most: self.wall.most - earlier.wall.least },
            waiting_ns: self.waiting_ns,
            latency,
        }
    }
}

fn read_vm(vm: &Vm, domain: &dyn Domain) -> Vec<VcpuCounts> {
    let state = vm.state();
    let read = |(gauge, id): (u64, VcpuId)| {
        let counts = read_gauge(state, gauge);
        let asked = monotonic();
        let account = domain.account(id).unwrap_or_default();
        let wall = Wall { least: Nanos(asked.0), most: Nanos(monotonic().0) };
        let usage = Usage::of(&account);
        let after = Duration::from_nanos(usage.wait_ns);
        let steal = counts.steal.map(|steal| Steal { after, ..steal });
        VcpuCounts { usage, waits: account.waits, steal, wall, ..counts }
    };
    (0..state.vcpus()).map(|vcpu| state.layout().gauge(vcpu)).zip(vm.ids()).map(read).collect()
}

fn read_gauge(state: &VmState, gauge: u64) -> VcpuCounts {
    let memory = state.memory();
    let word = |offset: usize| {
        memory.load::<u64>(GuestAddress(gauge + offset as u64), Relaxed).expect("gauges lie inside memory")
    };
    let mut bytes = vec![0; 4 * BUCKETS];
    let histogram = gauge + offset_of!(stile_abi::Gauge, latency) as u64;
    memory.read_slice(&mut bytes, GuestAddress(histogram)).expect("gauges lie inside memory");
    let latency = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let waiting_ns = match word(offset_of!(stile_abi::Gauge, waits_since)) {
        0 => 0,
        tsc => state.clock().since(tsc).0,
    };
    let seen = word(offset_of!(stile_abi::Gauge, steal_seen)).checked_sub(1).map(Duration::from_nanos);
    VcpuCounts {
        ops: word(offset_of!(stile_abi::Gauge, ops)),
        bytes: word(offset_of!(stile_abi::Gauge, bytes)),
        errors: word(offset_of!(stile_abi::Gauge, errors)),
        steal: seen.map(|seen| Steal { seen, ..Steal::default() }),
        waiting_ns,
        latency,
        ..VcpuCounts::default()
    }
}
