//! What other threads may see of a vCPU and its thread, found by id without a lock.
//!
//! A record belongs to an id, not to a vCPU: an event that crosses the end of a vCPU finds it still there. It is made
//! anew ([`Records::admit`]) before the id's next vCPU exists.

use crate::domain::counts::{Counts, Tally};
use crate::domain::events::Events;
use crate::domain::executors::MAX_VCPUS;
use crate::domain::parker::Parker;
use crate::ids::{Slot, VcpuId};
use crate::kick;
use crate::sync::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use crate::time::{Nanos, Time};
use std::sync::OnceLock;

/// Records are made this many at a time.
const CHUNK: usize = 64;
const NO_GRANT: u32 = u32::MAX;

/// All records of a domain.
#[derive(Debug)]
pub(super) struct Records(Box<[OnceLock<Box<[Record]>>]>);

/// One vCPU, as others see it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Record {
    pub(super) events: Events,
    pub(super) parker: Parker,
    /// Its thread is not kicked when the vCPU halts inside, so lookouts and the watcher look.
    pub(super) watched: AtomicBool,
    /// The vCPU is to end. Set under the lock, before a wake and a kick; its thread looks after each of them.
    pub(super) retiring: AtomicBool,
    pub(super) account: CpuTime,
    /// What the host took of that (unit: ns). Written by the vCPU's thread.
    pub(super) taken: AtomicU64,
    pub(super) naps: Naps,
    /// Written by the vCPU's thread.
    pub(super) counts: Counts,
    grant: Grant,
    thread: AtomicI32,
}

impl Default for Records {
    fn default() -> Self {
        Self((0..MAX_VCPUS.div_ceil(CHUNK)).map(|_| OnceLock::new()).collect())
    }
}

impl Records {
    /// The record of an id that was admitted at some time.
    pub(super) fn get(&self, vcpu: VcpuId) -> Option<&Record> {
        self.0.get(vcpu.index() / CHUNK)?.get().map(|chunk| &chunk[vcpu.index() % CHUNK])
    }

    /// The record of a vCPU that is known.
    pub(super) fn of(&self, vcpu: VcpuId) -> &Record {
        self.get(vcpu).expect("a known vCPU was admitted")
    }

    /// An id is given out, perhaps again. Gives what its last vCPU had counted.
    pub(super) fn recycle(&self, vcpu: VcpuId) -> Tally {
        let chunk = self.0[vcpu.index() / CHUNK].get_or_init(|| (0..CHUNK).map(|_| Record::default()).collect());
        let counts = &chunk[vcpu.index() % CHUNK].counts;
        let counted = counts.read();
        counts.clear();
        counted
    }

    /// A new vCPU of this id, blocked. Under the lock.
    pub(super) fn admit(&self, vcpu: VcpuId) {
        let record = self.of(vcpu);
        record.retiring.store(false, Ordering::Relaxed);
        record.watched.store(false, Ordering::Relaxed);
        record.account.0.store(0, Ordering::Relaxed);
        record.taken.store(0, Ordering::Relaxed);
        record.naps.clear();
        record.grant.slot.store(NO_GRANT, Ordering::Relaxed);
        record.events.admit();
    }
}

impl Record {
    /// The vCPU's thread, once it has begun.
    pub(super) fn thread(&self) -> kick::ThreadId {
        kick::ThreadId(self.thread.load(Ordering::Relaxed))
    }

    /// The calling thread is the vCPU's.
    pub(super) fn begin(&self) {
        self.thread.store(kick::this_thread().0, Ordering::Relaxed);
    }

    /// The vCPU is about to be handed a slot, with a lease that ends then; so long has it waited. Under the lock.
    pub(super) fn lease(&self, until: Time, now: Time, waited: Nanos) {
        // Relaxed: handing the slot and starting on it synchronise.
        self.grant.until.store(until.0, Ordering::Relaxed);
        self.grant.handed.store(now.0, Ordering::Relaxed);
        self.grant.waited.store(waited.0, Ordering::Relaxed);
    }

    /// When the vCPU was handed its slot, and how long it had waited in all by then, for its thread once it has
    /// started.
    pub(super) fn handed(&self) -> (Time, Nanos) {
        (Time(self.grant.handed.load(Ordering::Relaxed)), Nanos(self.grant.waited.load(Ordering::Relaxed)))
    }

    /// The end of the lease, for the vCPU's thread once it has started on the slot.
    pub(super) fn lease_end(&self) -> Time {
        Time(self.grant.until.load(Ordering::Relaxed))
    }

    /// Tells the thread that a slot was handed to it. After its affinity was set.
    pub(super) fn grant(&self, slot: Slot) {
        // Release pairs with the Acquire of `take_grant`.
        self.grant.slot.store(slot.0.into(), Ordering::Release);
        self.rouse();
    }

    /// Makes the thread look at what there is for it, wherever it waits.
    pub(super) fn rouse(&self) {
        if self.parker.wake() {
            kick::send(self.thread());
        }
    }

    /// Whether the thread has been told of this slot and has not looked yet.
    pub(super) fn is_granted(&self, slot: Slot) -> bool {
        self.grant.slot.load(Ordering::Relaxed) == u32::from(slot.0)
    }

    /// The slot that was handed to this thread, if one was. It may have been stolen meanwhile, and the next one may be
    /// granted at any moment.
    pub(super) fn take_grant(&self) -> Option<Slot> {
        if self.grant.slot.load(Ordering::Relaxed) == NO_GRANT {
            return None;
        }
        let slot = self.grant.slot.swap(NO_GRANT, Ordering::Acquire);
        (slot != NO_GRANT).then_some(Slot(slot as u16))
    }

    /// What its thread knows of its time on slots.
    pub(super) fn times(&self, now: Time) -> OwnTimes {
        let taken = Nanos(self.taken.load(Ordering::Relaxed));
        OwnTimes { run: Nanos(self.account.read(now)) - taken, taken, napped: self.naps.read(now) }
    }
}

/// What a vCPU's thread knows of its time on slots.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnTimes {
    /// It ran.
    pub(super) run: Nanos,
    /// It would have run, had the host not run something else.
    pub(super) taken: Nanos,
    /// It napped without the policy being told.
    pub(super) napped: Nanos,
}

/// A slot on its way to a thread.
#[derive(Debug, Default)]
struct Grant {
    slot: AtomicU32,
    until: AtomicU64,
    handed: AtomicU64,
    waited: AtomicU64,
}

/// CPU time used: twice the nanoseconds, plus one while the vCPU runs; then the time it began is taken off, so that
/// what it has used is the sum with the time it is read. One word, so that it can be read at any moment. Written by the
/// vCPU's thread only.
#[derive(Debug, Default)]
pub(super) struct CpuTime(AtomicU64);

impl CpuTime {
    /// Whether the vCPU runs.
    pub(super) fn runs(&self) -> bool {
        self.0.load(Ordering::Relaxed) & 1 == 1
    }

    /// The vCPU begins to run.
    pub(super) fn start(&self, now: Time) {
        let used = self.0.load(Ordering::Relaxed);
        debug_assert_eq!(used & 1, 0, "runs already");
        self.0.store(used.wrapping_sub(now.0 << 1) | 1, Ordering::Relaxed);
    }

    /// The vCPU stops, if it runs.
    pub(super) fn stop(&self, now: Time) {
        self.0.store(self.read(now) << 1, Ordering::Relaxed);
    }

    /// CPU time used so far (units: ns).
    fn read(&self, now: Time) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        match word & 1 {
            0 => word >> 1,
            // 63 bits of nanoseconds, modulo which the subtraction was done.
            _ => ((word & !1).wrapping_add(now.0 << 1)) >> 1,
        }
    }
}

/// Naps of which the policy does not know. A nap is ended by the vCPU's thread, once it has its slot back, or by the
/// thread that settles it under the lock, once it has taken the slot. Only one of them can.
#[derive(Debug, Default)]
pub(super) struct Naps {
    /// When the nap under way began, 0 while there is none.
    since: AtomicU64,
    /// What those took that the vCPU's thread has ended (unit: ns).
    ended: AtomicU64,
}

impl Naps {
    /// A nap begins. Before the slot is released, which makes the nap known to threads that settle it.
    pub(super) fn begin(&self, now: Time) {
        self.since.store(now.0, Ordering::Relaxed);
    }

    /// The thread has its slot back.
    pub(super) fn end(&self, now: Time) {
        let since = Time(self.since.swap(0, Ordering::Relaxed));
        self.ended.store(self.ended.load(Ordering::Relaxed) + now.since(since).0, Ordering::Relaxed);
    }

    /// The nap is made a block. Gives when it began. Under the lock.
    pub(super) fn settle(&self) -> Time {
        Time(self.since.swap(0, Ordering::Relaxed))
    }

    fn read(&self, now: Time) -> Nanos {
        let since = match self.since.load(Ordering::Relaxed) {
            0 => now,
            since => Time(since),
        };
        Nanos(self.ended.load(Ordering::Relaxed)) + now.since(since)
    }

    fn clear(&self) {
        self.since.store(0, Ordering::Relaxed);
        self.ended.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read_the_same_running_and_stopped() {
        let account = CpuTime::default();
        account.start(Time(1_000));
        assert_eq!(account.read(Time(1_250)), 250);
        account.stop(Time(1_300));
        assert_eq!(account.read(Time(9_999)), 300);
        account.start(Time(5_000));
        assert_eq!(account.read(Time(5_000)), 300);
        account.stop(Time(5_100));
        account.stop(Time(7_000));
        assert_eq!(account.read(Time(8_000)), 400);
    }

    #[test]
    fn a_grant_is_taken_once_and_a_new_vcpu_has_none() {
        let records = Records::default();
        let id = VcpuId(70);
        assert!(records.get(id).is_none());
        let _ = records.recycle(id);
        records.admit(id);
        let record = records.of(id);
        assert_eq!(record.take_grant(), None);
        record.lease(Time(9), Time(4), Nanos(2));
        record.grant(Slot(3));
        assert!(record.is_granted(Slot(3)) && !record.is_granted(Slot(0)));
        assert_eq!((record.take_grant(), record.lease_end()), (Some(Slot(3)), Time(9)));
        assert_eq!(record.handed(), (Time(4), Nanos(2)));
        assert_eq!(record.take_grant(), None);
        assert!(!record.is_granted(Slot(3)));
        record.grant(Slot(3));
        records.admit(id);
        assert_eq!(record.take_grant(), None);
    }
}
