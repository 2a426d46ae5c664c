//! Makes the models of a suite's vCPUs, with the roles that the measured suite's guests have.

use crate::cells::netbench;
use crate::plan::guests;
use crate::plan::options::{Hint, Options};
use crate::plan::work::Work;
use stile_host::HostCosts;
use stile_sched::attributes::Attributes;
use stile_sched::sim::Guest;
use stile_sched::sim::guest::{Chatter, Manners, Patience, Phase};
use stile_sched::{Nanos, Time};
use stile_suites::{Model, Part, Role};

/// Work of an operation of a hog, as the guest program counts them.
pub(super) const HOG_STEP: Nanos = Nanos::from_micros(10);
/// The part of VMs that are started in the window. Their waits are recorded apart.
pub(super) const NEWCOMERS: u8 = 15;
/// Work besides an operation, such as reading the clock and writing the gauge.
const BOOKKEEPING: Nanos = Nanos(20);

/// A vCPU of a suite.
#[derive(Debug, Clone)]
pub(super) struct Actor {
    pub(super) attributes: Attributes,
    pub(super) guest: Guest,
    /// The part whose histogram records its waits.
    pub(super) part: u8,
    /// Whether a first message is in its mailbox.
    pub(super) posts: bool,
}

/// All vCPUs of a cell, in the order in which they start.
#[derive(Debug, Clone)]
pub(super) struct Cast {
    pub(super) actors: Vec<Actor>,
    /// All vCPUs of a cell, in the order of a window.
    pub(super) order: Vec<usize>,
    /// Number of VMs to start during the window.
    pub(super) newcomers: u32,
}

impl Cast {
    pub(super) fn new(options: &Options, model: Model, size: u32, costs: &HostCosts) -> Self {
        let params = Params { options, costs };
        match model {
            Model::FileServer => Self::netbench(size as usize),
            Model::ChatRooms => {
                let work = Work::of(options, size).expect("the work of chat rooms has an end");
                Self::volano(work, params.manners())
            }
            Model::Roles => Self::of_roles(&params, size),
        }
    }

    /// Makes each vCPU with the model of its role.
    fn of_roles(params: &Params<'_>, size: u32) -> Self {
        let mut actors = Vec::new();
        for guest in guests::guests(params.options.suite, size) {
            let attributes = Attributes { nice: guest.nice, ..Attributes::default() };
            for vcpu in 0..guest.vcpus as usize {
                actors.push(params.actor(attributes, vcpu, guest.vcpus as usize));
            }
        }
        Self { order: (0..actors.len()).collect(), actors, newcomers: 0 }
    }

    /// Makes all threads of all rooms, room by room.
    fn volano(work: Work, manners: Manners) -> Self {
        let all = (0..work.vms as usize).flat_map(|room| (0..work.vcpus as usize).map(move |n| (room, n)));
        let actor = |(room, n)| {
            let guest = Guest::chatter(Chatter::new(room, n, manners));
            Actor { attributes: Attributes::default(), guest, part: Part::Main as u8, posts: false }
        };
        let actors: Vec<Actor> = all.map(actor).collect();
        Self { order: (0..actors.len()).collect(), actors, newcomers: 0 }
    }

    /// Makes a server and a client for each pair, the server first. In the window all clients come first.
    fn netbench(clients: usize) -> Self {
        let actor = |guest, part| Actor { attributes: Attributes::default(), guest, part, posts: false };
        let pair = |n: usize| {
            // Every client begins at another place of the sequence.
            let exchange = (n * 7919) as u32;
            [actor(Guest::server(), Part::Odd as u8), actor(Guest::requester(2 * n, exchange), Part::Main as u8)]
        };
        Self {
            actors: (0..clients).flat_map(pair).collect(),
            order: (0..clients).map(|n| 2 * n + 1).chain((0..clients).map(|n| 2 * n)).collect(),
            newcomers: netbench::STARTS,
        }
    }
}

/// The parameters that guests get on their command lines.
struct Params<'a> {
    options: &'a Options,
    costs: &'a HostCosts,
}

impl Params<'_> {
    /// Makes the vCPU with this index in a VM.
    fn actor(&self, attributes: Attributes, vcpu: usize, vcpus: usize) -> Actor {
        let suite = self.options.suite;
        let part = suite.part(vcpu, vcpus);
        let guest = match suite.role(vcpu, vcpus) {
            Role::Computes => Guest::Hog,
            Role::Idles => Guest::newcomer(Nanos::ZERO),
            Role::Talks => self.pinger(vcpu),
            Role::Wakes => self.prober(vcpu, vcpus),
            Role::Locks => self.locker(),
            Role::Own => unreachable!("a suite that is simulated by roles has none of its own"),
        };
        let posts = matches!(guest, Guest::Pinger { .. }) && vcpu.is_multiple_of(2);
        Actor { attributes, guest, part: part as u8, posts }
    }

    fn manners(&self) -> Manners {
        let patience = if self.options.hint == Hint::Full { Patience::Hints } else { Patience::Mute };
        Manners { spin: Nanos(self.options.number("spins").saturating_mul(self.costs.pause_ns)), patience }
    }

    fn locker(&self) -> Guest {
        let (hold, gap) = (Nanos(self.options.number("hold_ns")), Nanos(self.options.number("gap_ns")));
        let (manners, phase) = (self.manners(), Phase::Apart);
        Guest::Locker { lock: 0, hold: hold + BOOKKEEPING, gap: gap + BOOKKEEPING, manners, phase }
    }

    fn pinger(&self, vcpu: usize) -> Guest {
        let work = Nanos(self.options.number("work_ns")) + BOOKKEEPING;
        Guest::Pinger { peer: vcpu ^ 1, work, manners: self.manners(), phase: Phase::Apart }
    }

    /// Probes start spread over a period.
    fn prober(&self, vcpu: usize, vcpus: usize) -> Guest {
        let period = Nanos::from_micros(self.options.number("period_us"));
        let work = Nanos::from_micros(self.options.number("work_us"));
        let due = Time(period.0 * vcpu as u64 / vcpus.div_ceil(2) as u64);
        Guest::Prober { period, work, due, phase: Phase::Apart }
    }
}
