//! vCPUs that halt inside [`Vcpu::run`], where no exit tells of it, and only what is inside sees the event that ends
//! it.
//!
//! * *A vCPU that halts while it holds a slot* is made to come out: its thread leaves the CPU by halting, and that
//!   kicks it ([`kick::Departure`]). Where the kernel refuses this, the pCPU's
//!   [lookout](super::super::lookout) does. It then blocks or naps as any vCPU that waits.
//! * *Without a slot* its thread dozes: it waits inside, but in a way that ends with the event and runs no guest code
//!   ([`Vcpu::doze`]). So there is nothing to bound and nothing to charge between waking and the lease, and the thread
//!   may be boosted ([`rt_boost`](super::super::rt_boost)). An event then is what a deadline is to others: the thread
//!   takes its slot back, or asks for one.
//! * *A sender that has something for such a thread* finds it away from its parker, and kicks it.
//!
//! Invariant: while the thread is away, no guest code runs.

use super::Thread;
use crate::domain::leases::record::Record;
use crate::domain::leases::shared::{Shared, SlotShared};
use crate::kick;
use crate::slot::Word;
use crate::sync::Ordering;
use crate::time::{Time, monotonic};
use crate::vcpu::Vcpu;
use std::io;
use std::sync::Arc;

/// How a thread learns that its vCPU has halted.
pub(super) struct Halts {
    /// `None`: a lookout or the watcher kicks it.
    departure: Option<kick::Departure>,
    armed: bool,
}

impl Halts {
    /// For this vCPU of the calling thread, if it halts inside at all.
    pub(super) fn of<W: Word>(vcpu: &dyn Vcpu, shared: &Arc<Shared<W>>, me: &Record) -> io::Result<Option<Self>> {
        if !vcpu.halts_inside() {
            return Ok(None);
        }
        let departure = if shared.departures { kick::Departure::for_this_thread().ok() } else { None };
        if departure.is_none() {
            shared.watch_halts()?;
            shared.slots.iter().try_for_each(|slot| slot.lookout.start(slot.cpu))?;
            me.watched.store(true, Ordering::Relaxed);
        }
        Ok(Some(Self { departure, armed: false }))
    }

    /// The vCPU has a slot from now on.
    pub(super) fn begins<W>(&self, shared: &Shared<W>) {
        if self.departure.is_none() {
            shared.watcher.begins();
        }
    }

    /// Whether leaving the CPU kicks the thread, or has kicked it and the kick was not taken out.
    pub(super) fn is_armed(&self) -> bool {
        self.armed
    }

    /// The vCPU is about to run on its slot.
    pub(super) fn watch<W>(&mut self, slot: &SlotShared<W>) {
        match &self.departure {
            None => slot.lookout.watch(),
            Some(departure) => {
                if !std::mem::replace(&mut self.armed, true) {
                    departure.arm();
                }
            }
        }
    }

    /// The vCPU gives its slot up.
    pub(super) fn ends<W>(&self, slot: &SlotShared<W>) {
        if self.departure.is_none() {
            slot.lookout.leave();
        }
    }
}

impl<W: Word> Thread<'_, W> {
    /// Takes a kick out, which may have been the timer's, or for leaving the CPU. Gives the time.
    pub(super) fn drain(&mut self) -> Time {
        let left = kick::drain();
        // Not before: the timer may have fired in between.
        let now = monotonic();
        if self.armed <= now {
            self.armed = Time::NEVER;
        }
        if let Some(halts) = &mut self.halts {
            halts.armed &= !left;
        }
        now
    }

    /// Waits for the event that only the vCPU sees. True: it did not come, but there is something for the thread.
    pub(super) fn doze(&mut self) -> bool {
        if !self.me.parker.leave() {
            return true;
        }
        let event = self.vcpu.doze();
        let woken = self.me.parker.back();
        // Of another thread, of the vCPU's own timer, or for leaving the CPU. The next turn would end with it at once.
        self.drain();
        woken || !event
    }
}
