//! The baseline: a thread per vCPU, and the host's own scheduler decides.
//!
//! All threads may use all pCPUs of the domain. A yield is sched_yield, or nothing. What the host did is read from its
//! accounts, not counted here. vCPUs that have a cap are held to it (`host/caps.rs`). A vCPU that halts inside its run
//! is left to wait there. It also goes on with the vCPUs of another domain (`host/handover.rs`). Threads that get no
//! CPU from the host are given one when their vCPUs are to stop (`host/rescue.rs`).

mod caps;
mod handover;
mod host_times;
mod raised;
mod record;
mod rescue;
mod sums;
mod table;

use super::carrier_thread::{STACK_BYTES, enter_thread, set_nice};
use super::contract::Domain;
use super::error::DomainError;
use super::executors::MAX_VCPUS;
use super::host_class;
use super::id_allocator::IdAllocator;
use crate::attributes::{Attributes, Class};
use crate::ids::VcpuId;
use crate::kick;
use crate::ledger::{Account, Totals};
use crate::sync::{
    AtomicBool, Mutex,
    Ordering::{AcqRel, Relaxed},
    mpsc, thread as threads,
};
use crate::time::{Nanos, Time, monotonic};
use crate::vcpu::{Presence, Stop, Vcpu};
use caps::{Groups, Slices};
use raised::Rescuable;
use record::Record;
use rescue::Rescue;
use rustix::thread::CpuSet;
use std::io;
use std::sync::Arc;
use sums::Ended;
use table::{Records, Table};

/// What the baseline does with a yield.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostYield {
    /// sched_yield.
    Sched,
    /// Returns at once.
    Ignore,
    /// sched_yield; the threads are in the class SCHED_EXT, so a scheduler of sched_ext decides if one is loaded.
    Ext,
}

/// The baseline domain.
#[derive(Debug)]
pub struct HostThreads {
    cpus: CpuSet,
    yields: HostYield,
    vcpus: Table,
    ids: Mutex<IdAllocator>,
    groups: Groups,
    shared: Arc<Shared>,
}

/// What its threads share.
#[derive(Debug, Default)]
struct Shared {
    /// The threads are to put their vCPUs down. Set while nobody changes `vcpus`.
    ending: AtomicBool,
    rescue: Rescue,
    ended: Ended,
    left: Mutex<Vec<Left>>,
}

/// A vCPU whose thread has put it down.
struct Left {
    id: VcpuId,
    vcpu: Box<dyn Vcpu>,
    /// It waits for an event or until then.
    rests: Option<Time>,
    account: Account,
    at: Time,
}

impl std::fmt::Debug for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Left").field("id", &self.id).finish_non_exhaustive()
    }
}

impl HostThreads {
    /// A domain on these host CPUs.
    pub fn new(cpus: &[usize], yields: HostYield) -> Self {
        let mut set = CpuSet::new();
        cpus.iter().for_each(|&cpu| set.set(cpu));
        Self {
            cpus: set,
            yields,
            vcpus: Table::default(),
            ids: Mutex::default(),
            groups: Groups::default(),
            shared: Arc::default(),
        }
    }
}

impl Domain for HostThreads {
    fn add(&self, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> Result<VcpuId, DomainError> {
        let cap = attributes.group.map(|group| self.groups.join(group));
        let record = Arc::new(Record::new(monotonic(), attributes, vcpu.halts_inside(), cap));
        let id = self.ids.lock().take(MAX_VCPUS).ok_or(DomainError::Full(MAX_VCPUS))?;
        self.vcpus.enter([(id, Arc::clone(&record))]);
        let (cpus, yields, shared) = (self.cpus, self.yields, Arc::clone(&self.shared));
        let mine = Arc::clone(&record);
        let (entered, answer) = mpsc::sync_channel(1);
        let started = threads::Builder::new()
            .name(format!("vcpu {id}"))
            .stack_size(STACK_BYTES)
            .spawn(move || {
                enter_thread(&cpus);
                let carrier = Carrier { id, vcpu, record: mine, yields, shared };
                let permitted = carrier.enter();
                let refused = permitted.is_err();
                // Not every answer is waited for.
                let _ = entered.send(permitted);
                if !refused {
                    carrier.carry(Some(Time::NEVER));
                }
            })
            .map_err(DomainError::Thread);
        // Only a class can be refused, and any thread may become SCHED_IDLE: then it may be long before it runs again.
        let started = started.map(|handle| *record.handle.lock() = Some(handle));
        let started = started.and_then(|()| match attributes.class {
            Class::Idle => Ok(()),
            Class::Normal if yields != HostYield::Ext => Ok(()),
            class => {
                let ended = |_| Err(io::Error::other("the thread ended while it started"));
                answer.recv().unwrap_or_else(ended).map_err(|source| DomainError::Class { class, source })
            }
        });
        if started.is_err() {
            self.vcpus.change(|records| records[id.index()] = None);
            self.ids.lock().give_back(id);
        }
        started.map(|()| id)
    }

    fn wake(&self, vcpu: VcpuId) {
        self.vcpus.with(vcpu, |record| record.wake());
    }

    fn retire(&self, vcpu: VcpuId) {
        let takes = |records: &mut Records| {
            let entry = records.get_mut(vcpu.index())?;
            if self.shared.ending.load(Relaxed) {
                entry.iter().for_each(|record| record.ends_elsewhere.store(true, Relaxed));
                return None;
            }
            entry.take()
        };
        let Some(record) = self.shared.ended.leaves(|| self.vcpus.change(takes)) else { return };
        // The host frees the stack of a thread that has ended only if nobody may wait for it.
        record.handle.lock().take();
        record.retiring.store(true, Relaxed);
        self.ids.lock().give_back(vcpu);
        record.parker.wake();
        if let Some(thread) = record.thread.get() {
            kick::send(*thread);
        }
    }

    fn interrupt(&self, vcpu: VcpuId) {
        let thread = self.vcpus.with(vcpu, |record| record.thread.get().copied()).flatten();
        thread.into_iter().for_each(kick::send);
    }

    fn rescue(&self, hold: Nanos) {
        self.rescue_starved(hold);
    }

    fn charge(&self, vcpu: VcpuId, time: Nanos) -> Time {
        let Some(record) = self.vcpus.get(vcpu) else { return Time(0) };
        record.devices.fetch_add(time.0, Relaxed);
        record.cap.as_ref().map_or(Time(0), |cap| cap.charge(time, monotonic()))
    }

    fn account(&self, vcpu: VcpuId) -> Option<Account> {
        let record = self.vcpus.get(vcpu)?;
        Some(account_of(&record))
    }

    fn totals(&self) -> Totals {
        self.shared.ended.totals(&self.vcpus)
    }
}

/// A vCPU on its thread.
struct Carrier {
    id: VcpuId,
    vcpu: Box<dyn Vcpu>,
    record: Arc<Record>,
    yields: HostYield,
    shared: Arc<Shared>,
}

impl Carrier {
    /// Makes the calling thread the vCPU's. It can be kicked from then on, and rescued, since as one of a low class it
    /// may not run again for long.
    fn enter(&self) -> io::Result<()> {
        // A kick sent before this is not lost: what it was for was set first, and the wake is remembered.
        let _ = self.record.thread.set(kick::this_thread());
        self.enter_attributes()
    }

    /// Gives the calling thread its vCPU's nice value and class.
    fn enter_attributes(&self) -> io::Result<()> {
        set_nice(self.record.attributes.nice);
        match self.record.attributes.class {
            Class::Normal if self.yields == HostYield::Ext => host_class::enter_ext(),
            Class::Normal => Ok(()),
            class => host_class::enter(class),
        }
    }

    /// The life of the thread. The vCPU idles first, if a deadline is given.
    fn carry(mut self, mut rests: Option<Time>) {
        let record = Arc::clone(&self.record);
        let _rescuable = Rescuable(&record.raised);
        self.vcpu.presence(Presence::Untold);
        // A host that has no timer left does not hold a vCPU to its cap.
        let mut slices = record.cap.clone().and_then(|cap| Slices::new(cap).ok());
        let mut asks = true;
        let is_done = loop {
            if let Some(until) = rests
                && self.idle(until)
            {
                rests = None;
            }
            if self.stops() {
                break false;
            }
            if asks {
                self.held_back(slices.as_mut());
                if record.raised.take() {
                    let _ = self.enter_attributes();
                }
            }
            let stop = self.vcpu.run();
            record.counts.exit();
            asks = !matches!(stop, Stop::Exit);
            match stop {
                Stop::Exit => {}
                Stop::Kicked | Stop::Overran | Stop::Halted => {
                    kick::drain();
                }
                Stop::Idle(until) => rests = Some(until),
                Stop::Yield(y) => {
                    record.counts.yielded(y.wait);
                    if self.yields != HostYield::Ignore {
                        threads::yield_now();
                    }
                }
                Stop::Done => break true,
            }
        };
        self.shared.ended.ends(&record);
        let account = account_of(&record);
        if is_done || record.retiring.load(Relaxed) {
            self.vcpu.retired(&account);
        } else {
            self.shared.left.lock().push(Left { id: self.id, vcpu: self.vcpu, rests, account, at: monotonic() });
        }
    }

    /// Whether the thread is to put its vCPU down.
    fn stops(&self) -> bool {
        self.record.retiring.load(Relaxed) || self.shared.ending.load(Relaxed)
    }

    /// Waits for an event or until then. False: the wait goes on in another domain.
    fn idle(&self, until: Time) -> bool {
        let record = &self.record;
        record.idle.begin(monotonic());
        record.parker.wait(until);
        let now = monotonic();
        record.idle.end(until, now);
        record.event.swap(false, AcqRel) || until <= now || !self.shared.ending.load(Relaxed)
    }

    /// Returns once the vCPU may run, or its thread is to put it down. An event that comes meanwhile ends its next
    /// idleness.
    fn held_back(&self, mut slices: Option<&mut Slices>) {
        let mut woken = false;
        while !self.stops()
            && let Some(until) = self.waits_until(slices.as_deref_mut())
        {
            woken |= self.record.parker.wait(until);
        }
        if woken {
            self.record.parker.wake();
        }
    }

    /// Until when a hold or the vCPU's cap keeps it from running.
    fn waits_until(&self, slices: Option<&mut Slices>) -> Option<Time> {
        self.shared.rescue.holds_until().or_else(|| slices?.waits_until(monotonic()))
    }
}

/// A vCPU's account, by what the host says of its thread.
fn account_of(record: &Record) -> Account {
    let (times, host) = record.times.now(record);
    let mut account = Account {
        run: times.run,
        wait: times.wait,
        idle: times.idle,
        // Each switch ended a turn, and there is one that none has ended yet.
        turns: host.switches + u64::from(record.thread.get().is_some()),
        migrations: host.migrations,
        devices: Nanos(record.devices.load(Relaxed)),
        ..Account::default()
    };
    record.counts.read().enter(&mut account, |outcomes| &mut outcomes.untold);
    record.before.plus(account)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::domain::testing::Script;
    use crate::domain::testing::halter::Halter;
    use crate::testing::wait_for;
    use crate::time::Nanos;

    #[test]
    fn a_vcpu_runs_only_after_its_first_wake_and_retires_by_itself() {
        let domain = HostThreads::new(&crate::testing::cpus(), HostYield::Sched);
        let script = Script::new([Stop::Exit, Stop::Done]);
        let id = domain.add(script.vcpu(), Attributes::default()).unwrap();
        assert_eq!(script.runs(), 0);
        domain.wake(id);
        wait_for(|| script.retired());
        assert_eq!(script.runs(), 2);
    }

    #[test]
    fn an_idle_vcpu_goes_on_after_a_wake_and_ends_when_retired() {
        let domain = HostThreads::new(&crate::testing::cpus(), HostYield::Ignore);
        let script = Script::new([Stop::Idle(Time::NEVER), Stop::Idle(Time::NEVER)]);
        let id = domain.add(script.vcpu(), Attributes::default()).unwrap();
        domain.wake(id);
        wait_for(|| script.runs() == 1);
        domain.wake(id);
        wait_for(|| script.runs() == 2);
        domain.retire(id);
        wait_for(|| script.retired());
    }

    #[test]
    fn a_vcpu_that_halts_inside_is_left_there_and_idles() {
        let domain = HostThreads::new(&crate::testing::cpus(), HostYield::Sched);
        let halter = Halter::default();
        let id = domain.add(halter.vcpu(), Attributes::default()).unwrap();
        domain.wake(id);
        for event in 1..10 {
            halter.send();
            wait_for(|| halter.handled() == event);
        }
        let before = domain.account(id).unwrap();
        wait_for(|| domain.account(id).unwrap().idle > before.idle + Nanos::from_millis(5));
        assert_eq!(halter.dozes(), 0);
        domain.retire(id);
        wait_for(|| halter.retired());
    }

    #[test]
    fn the_times_of_a_vcpu_that_runs_make_up_the_time_between_two_looks_however_close() {
        let domain = HostThreads::new(&crate::testing::cpus(), HostYield::Sched);
        let script = Script::new((0..1_000_000).map(|_| Stop::Exit));
        let id = domain.add(script.vcpu(), Attributes::default()).unwrap();
        domain.wake(id);
        wait_for(|| script.runs() > 0);
        let born = domain.vcpus.get(id).unwrap().born;
        let mut last = domain.account(id).unwrap();
        while script.runs() < 900_000 {
            let asked = monotonic();
            let now = domain.account(id).unwrap();
            assert!(now.run >= last.run && now.wait >= last.wait && now.idle >= last.idle, "{last:?}, then {now:?}");
            let total = now.run + now.wait + now.idle;
            assert!(asked.since(born) <= total && total <= monotonic().since(born), "{now:?}");
            last = now;
        }
        domain.retire(id);
        wait_for(|| script.retired());
    }

    #[test]
    fn vcpus_of_every_permitted_class_run_and_a_refused_one_takes_no_place() {
        let domain = HostThreads::new(&crate::testing::cpus(), HostYield::Sched);
        for class in [Class::Batch, Class::Idle, Class::Rt] {
            let script = Script::new([Stop::Done]);
            match domain.add(script.vcpu(), Attributes { class, ..Attributes::default() }) {
                Ok(id) => {
                    domain.wake(id);
                    wait_for(|| script.retired());
                }
                Err(refused) => {
                    assert_eq!(class, Class::Rt, "{refused}");
                    assert!(refused.to_string().contains("SCHED_RR"), "{refused}");
                    assert!(domain.vcpus.by_id().iter().all(|(id, _)| id.index() < 2));
                }
            }
        }
    }
}
