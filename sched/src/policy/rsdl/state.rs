//! What the policy knows of vCPUs and slots.

use super::clock::FreeTime;
use super::config::RsdlConfig;
use super::look::Look;
use super::matrix::{Row, Stair};
use super::peer::Peer;
use super::rt::RtBudget;
use super::run_queue::{RunQueue, RunQueues};
use super::scale::{Crowd, Scale};
use crate::attributes::Class;
use crate::ids::{Slot, VcpuId};
use crate::policy::queue::Nodes;
use crate::policy::slotset::SlotSet;
use crate::time::{Nanos, Time};
use crate::topology::Topology;

/// A vCPU, as the policy knows it.
#[derive(Debug, Clone)]
pub(super) struct VcpuState {
    pub(super) class: Class,
    pub(super) row: Row,
    /// The stair its next quota counts on.
    pub(super) stair: Stair,
    /// Used of that quota.
    pub(super) used: Nanos,
    /// The slot in whose queue it waits: the one it is on, or ran on last.
    pub(super) home: Slot,
    pub(super) on: Option<Slot>,
    /// The stair it was last queued on.
    pub(super) queued_on: Stair,
    /// When it was last queued.
    pub(super) queued_at: Time,
    /// The clock of free time when it went to sleep.
    pub(super) slept_at: Nanos,
    /// It has slept since it got its quota.
    pub(super) slept: bool,
    /// The stair on which it is counted among the sleepers, while it sleeps.
    pub(super) asleep_on: Option<Stair>,
    /// Its last yield was a wait, and it has not computed since.
    pub(super) waits: bool,
    /// The vCPU that it last waited for.
    pub(super) waited_for: Option<VcpuId>,
    /// Yields that let it go on although others waited, since it last worked.
    pub(super) stays: u32,
    /// How often it may yet go on after a yield without a hint.
    pub(super) patience: u32,
    /// How long it runs until it yields if it makes no progress.
    pub(super) look: Look,
    /// The vCPU beside which it makes progress.
    pub(super) peer: Peer,
    /// The vCPU that wakes it.
    pub(super) waker: Peer,
    /// Was evicted for a pair, and is not again before it has had its turn.
    pub(super) protected: bool,
    /// It came from another shard and has not run since.
    pub(super) came: bool,
}

/// A slot, as the policy knows it.
#[derive(Debug, Clone)]
pub(super) struct SlotState {
    pub(super) current: Option<VcpuId>,
    /// Charged up to here.
    pub(super) charged: Time,
    /// Running without a break since.
    pub(super) since: Time,
    pub(super) lease_end: Time,
    /// The driver was told to run without end; the lease starts anew once a vCPU waits.
    pub(super) endless: bool,
    /// Its vCPU and one on another slot wait for each other.
    pub(super) paired: bool,
    /// The vCPU that takes the slot over when the slot next asks, and until when.
    pub(super) reserved: Option<(VcpuId, Time)>,
    /// The vCPU that woke up on a better stair; the next check gives way to it.
    pub(super) contested: Option<VcpuId>,
    /// The vCPU that let the slot's vCPU of class idle through, and is charged for it: else two could run on that for
    /// ever.
    pub(super) lender: Option<VcpuId>,
    pub(super) rt_budget: RtBudget,
    /// Its vCPU ran on beyond its lease by its own doing.
    pub(super) overran: bool,
}

/// The policy.
#[derive(Debug)]
pub struct Rsdl {
    pub(super) config: RsdlConfig,
    pub(super) topology: Topology,
    /// In boxes, since a shard's table has room for all vCPUs of the domain.
    pub(super) vcpus: Vec<Option<Box<VcpuState>>>,
    pub(super) nodes: Nodes,
    pub(super) slots: Vec<SlotState>,
    pub(super) queues: RunQueues,
    pub(super) idle: SlotSet,
    /// Slots in whose queues vCPUs wait.
    pub(super) waiting: SlotSet,
    /// Slots whose queue holds a vCPU of class rt.
    pub(super) rt_waiting: SlotSet,
    /// Busy slots whose vCPU has no limit.
    pub(super) unlimited: SlotSet,
    /// Slots that are reserved for a vCPU, which is neither queued nor running.
    pub(super) reserving: SlotSet,
    pub(super) reserved: usize,
    /// vCPUs in all queues.
    pub(super) queued: usize,
    pub(super) runnable: usize,
    /// Sleeping vCPUs that have not been passed yet.
    pub(super) asleep: usize,
    pub(super) crowd: Crowd,
    pub(super) scale: Scale,
    /// How long a quota is in all shards of the domain, if it is divided.
    pub(super) quota: Option<Nanos>,
    /// vCPUs wait in some shard of the domain, if it is divided.
    pub(super) others_wait: bool,
    pub(super) time: FreeTime,
    /// How often a vCPU that waits has made progress.
    pub(super) progress: u64,
    /// The vCPU that is woken next, and the one that wakes it.
    pub(super) wakes_next: Option<(VcpuId, VcpuId)>,
    /// The home of the next vCPU that is added.
    pub(super) next_home: usize,
    /// The next slot to look at, where one of them is enough.
    pub(super) probe: usize,
}

impl Rsdl {
    /// A policy for this many slots, all idle.
    pub fn new(config: RsdlConfig, slots: usize) -> Self {
        // vCPUs drift apart between queues; with one slot there is one.
        let config = RsdlConfig { per_pcpu_queues: config.per_pcpu_queues && slots > 1, ..config };
        let mut idle = SlotSet::new(slots);
        (0..slots).for_each(|slot| idle.insert(Slot(slot as u16)));
        let slot = SlotState {
            current: None,
            charged: Time(0),
            since: Time(0),
            lease_end: Time::NEVER,
            endless: false,
            paired: false,
            reserved: None,
            contested: None,
            lender: None,
            rt_budget: RtBudget::new(),
            overran: false,
        };
        Self {
            config,
            topology: Topology::default(),
            vcpus: Vec::new(),
            nodes: Nodes::default(),
            slots: vec![slot; slots],
            queues: RunQueues::new(&config, slots),
            idle,
            waiting: SlotSet::new(slots),
            rt_waiting: SlotSet::new(slots),
            unlimited: SlotSet::new(slots),
            reserving: SlotSet::new(slots),
            reserved: 0,
            queued: 0,
            runnable: 0,
            asleep: 0,
            crowd: Crowd::default(),
            scale: Scale::new(&config, 0, slots),
            quota: None,
            others_wait: false,
            time: FreeTime::new(),
            progress: 0,
            wakes_next: None,
            next_home: 0,
            probe: 0,
        }
    }

    /// This policy on slots that are this near to each other.
    pub fn with_topology(self, topology: Topology) -> Self {
        Self { topology, ..self }
    }

    pub(super) fn vcpu(&mut self, vcpu: VcpuId) -> &mut VcpuState {
        self.vcpus[vcpu.index()].as_mut().expect("the driver names only vCPUs it added")
    }

    /// A vCPU's stair and what it has used of its quota there.
    #[cfg(test)]
    pub(crate) fn position(&self, vcpu: VcpuId) -> (Stair, Nanos) {
        let v = self.vcpus[vcpu.index()].as_ref().expect("a test asks for vCPUs it added");
        (v.stair, v.used)
    }

    /// The queue of a slot.
    pub(super) fn queue(&mut self, slot: Slot) -> &mut RunQueue {
        &mut self.queues[slot]
    }

    pub(super) fn home(&mut self, vcpu: VcpuId) -> Slot {
        self.vcpu(vcpu).home
    }

    /// A vCPU that neither runs nor waits is no more.
    pub(super) fn forgets(&mut self, vcpu: VcpuId) {
        let home = self.home(vcpu);
        self.queue(home).residents -= 1;
        self.vcpus[vcpu.index()] = None;
    }

    /// Whether vCPUs wait for the slots of this object.
    pub(super) fn contended(&self) -> bool {
        self.runnable > self.slots.len()
    }

    /// Whether time on a slot is worth something: vCPUs wait, for these slots or for those of other shards.
    pub(super) fn is_charged(&self) -> bool {
        self.contended() || self.others_wait
    }
}
