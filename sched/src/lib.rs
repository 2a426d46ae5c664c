//! A scheduler as a library: it decides which vCPU runs on which host CPU, and can run them.
//!
//! A *vCPU* here is anything that runs until it stops: a virtual CPU that enters KVM, or a closure, a fibre or an
//! interpreter. The crate knows no KVM and no devices. A monitor uses it for its guests. A user-space runtime uses it
//! for its tasks; the example `closures` (`cargo run -p stile-sched --example closures`) is such a program.
//!
//! # Words
//!
//! * **pCPU**: a host CPU that the scheduler may use.
//! * **Slot**: the right to run a vCPU on a pCPU. There is one for each pCPU; [`Slot`] is its number.
//! * **Lease**: the right of one vCPU to a slot until a given time ([`Lease`]).
//! * **Domain**: the pCPUs and the vCPUs that one scheduler serves, with the threads that run them.
//! * **Kick**: a signal that makes a thread leave its vCPU, so that the slot asks the policy. It carries no message.
//! * **Question**: the call [`Policy::next`], by which a slot tells why its vCPU stopped and learns what runs next.
//!
//! # Parts
//!
//! | Part | What it does |
//! |---|---|
//! | [`attributes`] | What a vCPU is to any policy: nice value, class, cap. |
//! | [`policy`] | Decides. Pure state machines: no clock, no thread, no lock, no randomness. |
//! | [`ledger`] | Stands between a driver and its policy. Keeps accounts and records every question with its answer. |
//! | [`shards`] | Divides the slots of a large domain, with a policy object, a ledger and a lock for each part. |
//! | [`domain`] | Carries decisions out with threads, timers and kicks. It never decides. |
//! | [`sim`] | Carries decisions out with a number for a clock, for models of guests. |
//! | [`vcpu`], [`wait`] | The trait [`Vcpu`] that a user implements, and what a vCPU may say when it yields. |
//! | [`slot`], [`lock`], [`kick`] | Parts of mechanisms: the slot's atomic word, the run queue's lock, signals. |
//!
//! A *driver* is what calls a policy: a domain, a [`SimMachine`](sim::SimMachine), or your own loop. Each part uses
//! only those above it, except that `domain` also uses `slot`, `lock` and `kick`.
//!
//! # The life of a vCPU
//!
//! 1. [`Domain::add`] takes it in. It is *idle* (to a policy: blocked) and does not run yet.
//! 2. [`Domain::wake`] makes it runnable. The policy places it on an idle slot, ahead of another vCPU, or in the run
//!    queue.
//! 3. On a slot, a thread of the domain calls [`Vcpu::run`]. Each return gives a reason ([`Stop`]):
//!    * `Exit`: the vCPU would go on. If its slot is not wanted it goes on at once, for the cost of one load.
//!    * `Yield`: it lets others run. The yield may say what the vCPU waits for ([`Wait`]).
//!    * `Kicked`: the thread got a kick, because the lease ended or the policy wants the slot.
//!    * `Idle`: it waits for a wake, or for a time.
//!    * `Done`: it has ended.
//! 4. Whenever it could run and has no slot, it *waits*. Run, wait and idle add up to its life ([`ledger::Account`]).
//! 5. After `Done` or [`Domain::retire`] the domain gives it back by [`Vcpu::retired`], with its last account.
//!
//! # Ordering rules
//!
//! * What a thread writes before [`Domain::wake`] is visible to the woken vCPU when it next runs.
//! * A wake is never lost. A wake for a vCPU that does not idle makes its next idle return at once. Wakes do not add
//!   up.
//! * A kick is never lost: a kick that arrives before [`Vcpu::run`] makes it return [`Stop::Kicked`] soon.
//! * One thread runs a vCPU at a time. What it wrote in one run is visible in the next, on whichever thread.
//! * Times that a policy is told never go back. A ledger hands on strictly increasing times, 1 ns apart at least.
//! * [`Domain::retire`] returns before the vCPU has stopped; `retired` comes later, on any thread. A vCPU's `run` may
//!   call `wake` and `retire`, but must not drop the domain, which waits for its threads.
//!
//! # Running closures
//!
//! A vCPU implements two methods. One that is not inside KVM looks for a kick now and then:
//!
//! ```
//! use std::sync::mpsc;
//! use stile_sched::domain::executors::{Executors, Switches};
//! use stile_sched::ledger::Account;
//! use stile_sched::lock::LockRules;
//! use stile_sched::policy::{Rsdl, rsdl::RsdlConfig};
//! use stile_sched::{Attributes, Domain, Stop, Vcpu, kick};
//!
//! struct Task {
//!     left: u32,
//!     ended: mpsc::Sender<Account>,
//! }
//!
//! impl Vcpu for Task {
//!     fn run(&mut self) -> Stop {
//!         while self.left > 0 {
//!             self.left -= 1; // A step of work.
//!             if kick::is_pending() {
//!                 return Stop::Kicked;
//!             }
//!         }
//!         Stop::Done
//!     }
//!
//!     fn retired(self: Box<Self>, last: &Account) {
//!         self.ended.send(last.clone()).unwrap();
//!     }
//! }
//!
//! let policy = Rsdl::new(RsdlConfig::default(), 1);
//! let cpus = [0]; // Numbers of host CPUs: slot 0 is CPU 0.
//! let domain = Executors::new(&cpus, Box::new(policy), LockRules::default(), Switches::default())?;
//! let (ended, accounts) = mpsc::channel();
//! for _ in 0..2 {
//!     let id = domain.add(Box::new(Task { left: 100, ended: ended.clone() }), Attributes::default())?;
//!     domain.wake(id);
//! }
//! for account in accounts.iter().take(2) {
//!     assert!(account.turns >= 1);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Executors or leases
//!
//! | | [`domain::executors`] | [`domain::leases`] | [`domain::host`] |
//! |---|---|---|---|
//! | Threads | one for each pCPU, bound to it | one for each vCPU | one for each vCPU |
//! | Which vCPU runs | the policy decides | the policy decides | the host's scheduler decides |
//! | A switch | a return from one `run` and a call of another | wakes a thread | the host's |
//! | A vCPU may change threads | yes | no | no |
//! | `run` may block in the kernel | no: its pCPU would stand still | only as a halt that it reports | yes |
//!
//! Take executors unless a vCPU is bound to a thread, or [halts inside](Vcpu::halts_inside) its run as a guest with
//! KVM's interrupt controller does. [`domain::host`] is the baseline to compare with. The vCPUs of a
//! [`Switchable`](domain::switchable::Switchable) domain can go on under another policy, mechanism or set of pCPUs, and
//! a [`Watchdog`](domain::watchdog::Watchdog) reports a vCPU that waits longer than its policy promises.
//!
//! # Policies
//!
//! [`policy`] lists the built-in ones: [`Rsdl`](policy::Rsdl) is stile's own, with a bound on every wait and yields
//! that name what they wait for; the others are peers to compare it with. [`Capped`](policy::Capped) stands around any
//! of them and holds groups of vCPUs to a cap. [`policy::BUILT_IN`] has them all by name.
//!
//! To write one, implement [`Policy`]; the trait's page has a complete one in 40 lines. Run it on the
//! [simulator](sim) first: [`SimMachine::audited`](sim::SimMachine::audited) holds every step against what must be true
//! of any policy. Then give it to a domain, which takes any `Box<dyn Policy>`.
//!
//! # Simulating
//!
//! A simulation is a function of its arguments. Here three vCPUs compute on two slots for a second:
//!
//! ```
//! use stile_sched::policy::{Rsdl, rsdl::RsdlConfig};
//! use stile_sched::sim::{Costs, Guest, SimMachine};
//! use stile_sched::{Attributes, Nanos};
//!
//! let costs = Costs { exit: Nanos(1_500), switch: Nanos(1_000), kick: Nanos(5_000), ..Costs::default() };
//! let mut machine = SimMachine::new(Rsdl::new(RsdlConfig::default(), 2), 2, costs);
//! let vcpus = [0; 3].map(|part| machine.start(Attributes::default(), Guest::Hog, part));
//! machine.run(Nanos::from_millis(1_000));
//! for vcpu in vcpus {
//!     let share = machine.account(vcpu).run.0 as f64 / 1e9;
//!     assert!((0.65..0.68).contains(&share), "two thirds of a CPU each, not {share}");
//! }
//! ```
//!
//! # Recording, and asking why
//!
//! Every question and its answer is an [`Event`](ledger::Event). A domain keeps the latest ones of each slot
//! ([`Domain::trace`]), a machine made by [`SimMachine::traced`](sim::SimMachine::traced) all of them. From events
//! alone follow what each vCPU did from when to when ([`ledger::Spans`]), why it waited ([`ledger::why`]), and whether
//! another policy object decides the same ([`ledger::Replay`]):
//!
//! ```
//! use stile_sched::ledger::{Replay, why::{Cause, Scene, Waits}};
//! use stile_sched::policy::{Rsdl, rsdl::RsdlConfig};
//! use stile_sched::shards::ShardPlan;
//! use stile_sched::sim::{Costs, Guest, SimMachine};
//! use stile_sched::{Attributes, Nanos, VcpuId};
//!
//! let policy = || Rsdl::new(RsdlConfig::default(), 1);
//! let costs = Costs { exit: Nanos(1_500), switch: Nanos(1_000), ..Costs::default() };
//! let mut machine = SimMachine::new(policy(), 1, costs).traced();
//! let [patient, _rival] = [0; 2].map(|part| machine.start(Attributes::default(), Guest::Hog, part));
//! machine.run(Nanos::from_millis(100));
//!
//! // Pass one finds the longest wait, pass two what all vCPUs did during it.
//! let mut waits = Waits::new(1, |vcpu, _time| vcpu.index() == patient);
//! machine.trace().iter().for_each(|event| waits.tell(event));
//! let longest = waits.finish().longest.unwrap();
//! let mut scene = Scene::new(longest, 1);
//! let _ = machine.trace().iter().all(|event| scene.tell(event));
//! let why = scene.explain();
//! assert_eq!(why.cause, Cause::Quota, "it had used up its lease");
//! assert_eq!(why.ran[0].vcpu, VcpuId(1), "and the rival had its turn");
//!
//! // The same questions, put to a new object of the same policy, have the same answers.
//! let mut replay = Replay::new(vec![Box::new(policy())], ShardPlan::one(1));
//! machine.trace().iter().try_for_each(|event| replay.tell(event)).unwrap();
//! ```
//!
//! A domain records only with the crate's feature `trace`, which is on by default ([`ledger::RECORDS`]).
//!
//! # Your own driver
//!
//! A runtime with threads of its own needs no domain. It keeps a [`Ledger`](ledger::Ledger) under its lock and calls it
//! as [`policy`] says: [`wake`](ledger::Ledger::wake) when a task becomes runnable, [`next`](ledger::Ledger::next) when
//! the task on a slot stops, [`tick`](ledger::Ledger::tick) at the [`alarm`](ledger::Ledger::alarm).
//!
//! # Features
//!
//! * `trace` (default): domains record events.
//! * `serde`: switches of policies and locks can be read from a configuration and described by its schema.

pub mod attributes;
mod deadlines;
pub mod domain;
pub mod histogram;
pub mod ids;
pub mod kick;
pub mod ledger;
pub mod lock;
#[cfg(all(test, shuttle))]
mod model;
pub mod policy;
#[cfg(test)]
mod policy_tests;
pub mod shards;
pub mod sim;
pub mod slot;
mod sync;
#[cfg(test)]
#[cfg_attr(any(loom, shuttle), allow(dead_code, reason = "most tests that use it are not modelled"))]
mod testing;
pub mod time;
pub mod topology;
pub mod vcpu;
pub mod wait;

pub use attributes::{Attributes, Class};
pub use domain::Domain;
pub use ids::{Nice, Shard, Slot, VcpuId};
pub use policy::{Lease, Policy};
pub use time::{Nanos, Time};
pub use topology::Topology;
pub use vcpu::{Presence, Stop, Vcpu};
pub use wait::{Wait, Yield};
