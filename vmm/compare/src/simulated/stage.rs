//! A simulated machine with the vCPUs of a cell on it.

use super::cast::{self, Actor, Cast, HOG_STEP};
use super::traffic;
use crate::error::CompareError;
use crate::plan::CellPlan;
use crate::plan::options::Options;
use crate::window::{VcpuCounts, Wall, Window};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use stile_abi::gauge::{BUCKETS, bucket_of};
use stile_assembly::{self, Simulated};
use stile_host::{HostCosts, Neighbours};
use stile_recording::{Header, RecordError};
use stile_results::model::Params;
use stile_sched::attributes::Attributes;
use stile_sched::histogram::Histogram;
use stile_sched::ledger::{Account, Totals, Usage};
use stile_sched::policy::Policy;
use stile_sched::sim::{Costs, Draw, Guest, SimMachine};
use stile_sched::{Nanos, Time};
use stile_suites::Model;

/// Steps of guests and exits are up to this many thousandths shorter or longer.
const NOISE: u64 = 50;
/// All VMs of a cell are started within this time.
const STARTS_WITHIN: Nanos = Nanos::from_millis(2);
/// The longest that a run goes on after the user has ended it, in simulated time.
const END_NOTICED_WITHIN: Nanos = Nanos::from_millis(20);
/// From asking for a VM until its vCPU can run. The wait for a pCPU, which the policy decides, comes on top.
const CREATE: Nanos = Nanos::from_millis(1);
/// The work of a new VM.
const NEWCOMER: Nanos = Nanos::from_micros(100);
/// The part of a bound that switches may add, which no vCPU is charged for; as in the policies' own tests.
const SWITCHING: u64 = 50;
/// The number of kicks and switches that may be in progress.
const UNDER_WAY: u64 = 10;

/// A simulated machine.
#[derive(Debug)]
pub struct Simulation {
    /// Its topology; its pCPUs are those of the options' list.
    pub neighbours: Neighbours,
    /// Its costs.
    pub costs: HostCosts,
}

/// A cell that runs.
pub(super) struct Stage<'a> {
    pub(super) options: &'a Options,
    simulation: &'a Simulation,
    pub(super) planned: &'a CellPlan,
    interrupted: &'a AtomicBool,
    pub(super) machine: SimMachine<Box<dyn Policy>>,
    costs: Costs,
    cast: Cast,
}

/// The state at one moment.
pub(super) struct Readings {
    vcpus: Vec<Reading>,
    totals: Totals,
    kicks: Histogram,
}

/// The counts of a vCPU so far.
struct Reading {
    account: Account,
    ops: u64,
    bytes: u64,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        options: &'a Options,
        simulation: &'a Simulation,
        planned: &'a CellPlan,
        model: Model,
        interrupted: &'a AtomicBool,
    ) -> Self {
        let (_, policy) = &options.policies[planned.policy];
        // All policies of a round have the same random draws.
        let seed = Draw::new(options.seed).number() ^ u64::from(planned.round);
        let Simulated { decides, threads, locks } = stile_assembly::simulated(
            policy,
            options.pcpus.len(),
            &simulation.neighbours.topology(&options.pcpus),
            seed,
        );
        let costs = simulation.costs.simulated(threads, locks);
        let cast = Cast::new(options, model, planned.case.size, &simulation.costs);
        let mut machine = SimMachine::in_shards(decides.policies, decides.plan, costs).with_noise(seed, NOISE);
        match model {
            Model::FileServer => machine = machine.with_traffic(traffic::draw(seed)),
            Model::Roles | Model::ChatRooms => {}
        }
        Self { options, simulation, planned, interrupted, machine, costs, cast }
    }

    /// Starts all vCPUs, each with the longest wait that the policy promises it.
    pub(super) fn start(&mut self) {
        let apart = Nanos(STARTS_WITHIN.0 / self.cast.actors.len().max(1) as u64);
        let mut bounds: Vec<(Attributes, Nanos)> = Vec::new();
        for n in 0..self.cast.actors.len() {
            let Actor { attributes, guest, part, posts } = self.cast.actors[n].clone();
            let v = self.machine.start(attributes, guest, part);
            if posts {
                self.machine.world.post(v);
            }
            let known = bounds.iter().find(|(of, _)| *of == attributes).map(|(_, bound)| *bound);
            let bound = known.unwrap_or_else(|| self.bound(attributes));
            if known.is_none() {
                bounds.push((attributes, bound));
            }
            self.machine.bound(v, bound);
            self.machine.run(apart);
        }
    }

    /// The longest that a vCPU with these attributes may wait beside all others.
    fn bound(&self, me: Attributes) -> Nanos {
        let (_, policy) = &self.options.policies[self.planned.policy];
        let newcomers = vec![Attributes::default(); self.cast.newcomers as usize];
        let mut others: Vec<Attributes> = self.cast.actors.iter().map(|actor| actor.attributes).collect();
        others.swap_remove(others.iter().position(|other| *other == me).unwrap_or(0));
        others.extend(newcomers);
        let bound = stile_assembly::wait_bound(policy, me, &others, self.options.pcpus.len());
        let Costs { exit, switch, kick, wake, .. } = self.costs;
        let under_way = UNDER_WAY * (exit + switch + kick + wake).0;
        bound.map_or(Nanos(u64::MAX), |bound| Nanos(bound.0 + bound.0 / SWITCHING + under_way))
    }

    /// Lets simulated time pass. Returns false if the user ended the run meanwhile.
    pub(super) fn run(&mut self, span: Nanos) -> bool {
        let mut left = span;
        while left > Nanos::ZERO {
            if self.interrupted.load(Ordering::Relaxed) {
                return false;
            }
            let part = left.min(END_NOTICED_WITHIN);
            self.machine.run(part);
            left = left - part;
        }
        true
    }

    /// Lets a window pass. New VMs are started at the beginning of each of its parts. `None` if the user ended the run
    /// meanwhile.
    pub(super) fn pass(&mut self, window: Nanos) -> Option<Vec<(usize, Time)>> {
        let parts = self.cast.newcomers.max(1);
        let begin = |part: u32| window.0 * u64::from(part) / u64::from(parts);
        let mut newcomers = Vec::new();
        for part in 0..parts {
            if self.cast.newcomers > 0 {
                newcomers.push(self.newcomer());
            }
            if !self.run(Nanos(begin(part + 1) - begin(part))) {
                return None;
            }
        }
        Some(newcomers)
    }

    /// Starts a VM that has almost no work.
    fn newcomer(&mut self) -> (usize, Time) {
        let now = self.machine.now();
        (self.machine.start(Attributes::default(), Guest::newcomer(NEWCOMER), cast::NEWCOMERS), now)
    }

    /// From asking for a VM until it ran (units: us).
    pub(super) fn start_latency(&self, (newcomer, asked): (usize, Time)) -> f64 {
        let ran = self.machine.first_ran(newcomer).unwrap_or(self.machine.now());
        (CREATE + ran.since(asked)).0 as f64 / 1000.0
    }

    pub(super) fn read(&self) -> Readings {
        let read = |v: usize| {
            let (record, gauge) = (self.machine.record(v), self.machine.world.gauges[v]);
            let hog = matches!(self.cast.actors[v].guest, Guest::Hog);
            let ops = if hog { record.worked.0 / HOG_STEP.0 } else { gauge.ops };
            Reading { account: self.machine.account(v), ops, bytes: gauge.bytes }
        };
        Readings {
            vcpus: (0..self.cast.actors.len()).map(read).collect(),
            totals: self.machine.totals(),
            kicks: self.machine.kicks().clone(),
        }
    }

    pub(super) fn window(&self, before: &Readings, after: &Readings, span: Nanos) -> Window {
        let mut told = [false; u8::MAX as usize + 1];
        let vcpu = |&v: &usize| {
            let (a, b, part) = (&before.vcpus[v], &after.vcpus[v], self.cast.actors[v].part);
            let first = !std::mem::replace(&mut told[usize::from(part)], true);
            VcpuCounts {
                ops: b.ops - a.ops,
                bytes: b.bytes - a.bytes,
                usage: Usage::of(&b.account).since(&Usage::of(&a.account)),
                waits: b.account.waits.since(&a.account.waits),
                wall: Wall { least: span, most: span },
                waiting_ns: self.machine.world.gauges[v].waits_since.map_or(0, |at| self.machine.now().since(at).0),
                latency: if first { self.histogram(part) } else { Box::default() },
                ..VcpuCounts::default()
            }
        };
        let vcpus = self.cast.order.iter().map(vcpu).collect();
        Window {
            seconds: span.0 as f64 / 1e9,
            span,
            vcpus,
            totals: after.totals.since(&before.totals),
            kicks: Some(after.kicks.since(&before.kicks)),
        }
    }

    /// Waits of a part, in the buckets of the guests' gauges.
    fn histogram(&self, part: u8) -> Box<[u32]> {
        let mut buckets = vec![0_u32; BUCKETS];
        for (wait, count) in self.machine.world.waits_of(part) {
            let bucket = &mut buckets[bucket_of(wait.0)];
            *bucket = bucket.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        }
        buckets.into()
    }

    pub(super) fn record(&self, path: &Path, params: Params) -> Result<(), RecordError> {
        let (_, policy) = &self.options.policies[self.planned.policy];
        let (pcpus, neighbours) = (&self.options.pcpus, self.simulation.neighbours.clone());
        let header = Header::simulated(policy, pcpus, neighbours, self.options.suite.name(), params);
        stile_recording::write(path, header, &self.machine.trace())
    }

    pub(super) fn judge(&self) -> Result<(), CompareError> {
        let (late, count) = self.machine.late();
        let Some(first) = late.first() else { return Ok(()) };
        Err(CompareError::Late { label: self.label(), size: self.planned.case.size, count, first: *first })
    }

    /// The policy's label.
    pub(super) fn label(&self) -> String {
        self.options.policies[self.planned.policy].0.clone()
    }
}
