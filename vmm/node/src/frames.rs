//! Readings of a node, and the frames that are made of them.

use crate::bus::now;
use crate::node::Node;
use crate::vm::NodeVm;
use std::collections::HashMap;
use std::sync::Arc;
use stile_api::{DomainFigures, Frame, PcpuView};
use stile_metrics::{DomainSample, Reading, Sample, VmReading};
use stile_sched::Domain;
use stile_sched::time::monotonic;

/// Frames of a node, each over the time since the one before.
pub struct Frames {
    node: Arc<Node>,
    last: Option<Taken>,
}

/// A reading, with the VMs that it is of.
struct Taken {
    vms: Vec<(Arc<NodeVm>, u64)>,
    reading: Reading,
}

impl Node {
    /// All figures: since the start of each VM, or since its last one if it has ended.
    pub fn frame(&self) -> Frame {
        let taken = self.take();
        self.frame_of(&taken.vms, &taken.reading, None)
    }

    /// A reading of all VMs that were started.
    pub fn reading(&self) -> Reading {
        self.take().reading
    }

    /// A reading as counters, none of which goes back from one such reading to the next while a VM runs.
    pub fn counters(&self) -> Reading {
        let by_policy = self.as_domain.has_policy();
        let count = |vm: Arc<NodeVm>| vm.count(by_policy).unwrap_or_else(|| untouched(&vm));
        Reading {
            at: monotonic(),
            vms: self.vms().into_iter().map(count).collect(),
            domain: self.domain_sample(by_policy),
        }
    }

    fn domain_sample(&self, by_policy: bool) -> DomainSample {
        DomainSample { kicks: self.domain.kicks(), switches: self.domain.totals().switches, by_policy }
    }

    fn take(&self) -> Taken {
        let by_policy = self.as_domain.has_policy();
        let (mut vms, mut readings) = (Vec::new(), Vec::new());
        for vm in self.vms() {
            let read = vm.read(by_policy);
            let (start, reading) = read.map_or_else(|| (0, untouched(&vm)), |read| (read.start, read.reading));
            vms.push((vm, start));
            readings.push(reading);
        }
        Taken { vms, reading: Reading { at: monotonic(), vms: readings, domain: self.domain_sample(by_policy) } }
    }

    fn frame_of(&self, vms: &[(Arc<NodeVm>, u64)], reading: &Reading, seconds: Option<f64>) -> Frame {
        let scheduling = self.scheduling.read();
        let (placed, names) = (self.domain.placed(), self.names());
        let pcpu = |(slot, cpu): (usize, u32)| {
            let vcpu = placed.get(slot).copied().flatten();
            PcpuView { cpu, vcpu: vcpu.map(|id| names.get(&id).cloned().unwrap_or_else(|| id.to_string())) }
        };
        Frame {
            at: now(),
            seconds,
            policy: scheduling.policy.to_string(),
            pcpus: scheduling.pcpus.iter().enumerate().map(pcpu).collect(),
            domain: DomainFigures::of(reading),
            vms: vms.iter().zip(&reading.vms).map(|((vm, _), reading)| vm.figures(reading)).collect(),
        }
    }
}

impl Frames {
    /// Frames from now on.
    pub fn of(node: Arc<Node>) -> Self {
        let last = Some(node.take());
        Self { node, last }
    }

    /// The frame since the last one.
    pub fn take(&mut self) -> Frame {
        let now = self.node.take();
        let frame = match &self.last {
            Some(last) => {
                let earlier = aligned(last, &now);
                let seconds = now.reading.at.since(last.reading.at).0 as f64 / 1e9;
                self.node.frame_of(&now.vms, &now.reading.since(&earlier), Some(seconds))
            }
            None => self.node.frame_of(&now.vms, &now.reading, None),
        };
        self.last = Some(now);
        frame
    }
}

/// The earlier reading, of the VMs of the later one and in their order. A start that it does not know began at nothing.
fn aligned(earlier: &Taken, later: &Taken) -> Reading {
    let known: HashMap<(*const NodeVm, u64), &VmReading> = earlier
        .vms
        .iter()
        .zip(&earlier.reading.vms)
        .map(|((vm, start), reading)| ((Arc::as_ptr(vm), *start), reading))
        .collect();
    let of = |((vm, start), reading): (&(Arc<NodeVm>, u64), &VmReading)| match known.get(&(Arc::as_ptr(vm), *start)) {
        Some(earlier) => VmReading::clone(earlier),
        None => VmReading { vcpus: vec![Sample::default(); reading.vcpus.len()], ..reading.clone() },
    };
    let vms = later.vms.iter().zip(&later.reading.vms).map(of).collect();
    Reading { at: earlier.reading.at, vms, domain: earlier.reading.domain.clone() }
}

/// The figures of a VM that was never started.
fn untouched(vm: &NodeVm) -> VmReading {
    let vcpus = vm.config().vcpus as usize;
    VmReading { name: vm.name().to_owned(), ended: false, vcpus: vec![Sample::default(); vcpus] }
}
