//! What a domain runs: the trait [`Vcpu`], and why a vCPU stops.

use crate::ledger::Account;
use crate::time::{Nanos, Time};
use crate::wait::Yield;

/// A vCPU that can be run until it stops.
///
/// One thread runs it at a time. Under [executors](crate::domain::executors) the thread may change from run to run. A
/// user implements [`run`](Self::run) and [`retired`](Self::retired); the other methods serve guests that halt inside
/// KVM, or that are told their steal time or which vCPUs have a pCPU.
///
/// Any work in steps is a vCPU, such as this closure:
///
/// ```
/// use stile_sched::ledger::Account;
/// use stile_sched::{Stop, Time, Vcpu, Wait, VcpuId, Yield, kick};
///
/// struct Steps<F>(F);
///
/// impl<F: FnMut() -> Stop + Send> Vcpu for Steps<F> {
///     fn run(&mut self) -> Stop {
///         match self.0() {
///             // A lease ends by a kick: a vCPU that never looks for one keeps its pCPU.
///             Stop::Exit if kick::is_pending() => Stop::Kicked,
///             stop => stop,
///         }
///     }
///
///     fn retired(self: Box<Self>, last: &Account) {
///         println!("ran for {} ns in {} turns", last.run.0, last.turns);
///     }
/// }
///
/// let mut step = 0;
/// let mut vcpu = Steps(move || {
///     step += 1;
///     match step {
///         1 => Stop::Exit,
///         2 => Stop::Yield(Yield { wait: Wait::Message(VcpuId(7)), again: false }),
///         3 => Stop::Idle(Time::NEVER),
///         _ => Stop::Done,
///     }
/// });
/// // This is what a domain's thread does. After a yield, an idle or a kick it first asks the policy.
/// kick::block();
/// assert_eq!(vcpu.run(), Stop::Exit);
/// assert!(matches!(vcpu.run(), Stop::Yield(_)));
/// kick::send(kick::this_thread());
/// assert!(kick::is_pending());
/// kick::drain();
/// assert_eq!(vcpu.run(), Stop::Idle(Time::NEVER));
/// assert_eq!(vcpu.run(), Stop::Done);
/// Box::new(vcpu).retired(&Account::default());
/// ```
pub trait Vcpu: Send {
    /// Runs the guest, and does the device work it causes, until there is something for the scheduler to know.
    ///
    /// Returns [`Stop::Kicked`], or [`Stop::Overran`], soon after the running thread gets the kick signal of
    /// [`kick`](crate::kick), also if the signal came before the call.
    fn run(&mut self) -> Stop;

    /// Whether [`run`](Self::run) may wait inside for events that only it sees: KVM does where the interrupt controller
    /// is the kernel's and the guest halts. Such a vCPU returns [`Stop::Halted`] if it is kicked while it waits.
    fn halts_inside(&self) -> bool {
        false
    }

    /// After [`Stop::Halted`]: waits until there is an event, without acting on it, so that no guest code runs. True if
    /// there is one, or may be; false if it was kicked, also if the kick came before the call. The next run acts on the
    /// event, or goes on waiting.
    fn doze(&mut self) -> bool {
        true
    }

    /// The yield that the guest does not say: the loop in which it was kicked does nothing but wait
    /// ([`Wait::Spin`](crate::wait::Wait::Spin)). Asked after [`Stop::Kicked`] and before the next run, at most once.
    fn spins(&mut self) -> Option<Yield> {
        None
    }

    /// For a guest that is told its steal: how long the vCPU has waited for a pCPU in all, and for how long in all the
    /// host has run something else while the vCPU had one. Called before the vCPU runs, whenever one of them may have
    /// changed. The `host` baselines do not know in time, and never call it.
    fn waited(&mut self, _total: Nanos, _taken: Nanos) {}

    /// Whether this vCPU has a pCPU, for a guest that is told: a waiter then spins or yields accordingly. Called by the
    /// thread that carries the vCPU when it is put on a pCPU and when it is taken off, or when that is not known any
    /// more. Between [`Presence::Idle`] and [`Presence::Here`] the vCPU may have been woken and have waited.
    fn presence(&mut self, _presence: Presence) {}

    /// Takes the vCPU back when the domain has let go of it, with its last account; called once, on whichever thread
    /// let go.
    fn retired(self: Box<Self>, last: &Account);
}

/// Whether a vCPU has a pCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Not known: the host's scheduler decides.
    Untold,
    /// It has one.
    Here,
    /// It waits for one.
    Away,
    /// It had nothing to run when it was taken off its pCPU: it waits for an event.
    Idle,
}

/// Why a vCPU stopped running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// An exit was handled; the vCPU would go on at once.
    Exit,
    /// It lets others run.
    Yield(Yield),
    /// It waits for an event, or for this time.
    Idle(Time),
    /// It was kicked.
    Kicked,
    /// It was kicked while its thread worked for it, where a kick does not end the work: what it ran beyond its lease
    /// is its own doing.
    Overran,
    /// It was kicked, and waits inside [`Vcpu::run`] for an event that only that sees.
    Halted,
    /// It is done for good.
    Done,
}

impl Stop {
    /// Whether the vCPU's thread was at work for it when it stopped. If it comes late then, that is its own doing. A
    /// kick that reached it in its guest ended its run at once.
    pub(crate) fn is_of_work(self) -> bool {
        !matches!(self, Self::Kicked | Self::Halted)
    }
}
