//! What a domain has counted over all of its vCPUs, those that have ended too.

use super::host_times::{HostAccount, of_thread};
use super::record::Record;
use super::table::Table;
use crate::domain::counts::Tally;
use crate::ledger::Totals;
use crate::sync::{Mutex, Ordering::Relaxed};
use std::sync::Arc;

/// The sums over vCPUs that have ended or left, and the vCPUs that are about to end. No count goes back from one look
/// to the next.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Kept locked while files of the host are read, which a starved thread may do as well.
    sums: Mutex<Sums>,
    /// Locked for moments only: an end must not wait.
    leaving: Mutex<Vec<Arc<Record>>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    counted: Tally,
    switches: u64,
    migrations: u64,
}

impl Ended {
    /// The vCPU that `take` takes from the table is about to end.
    pub(super) fn leaves(&self, take: impl FnOnce() -> Option<Arc<Record>>) -> Option<Arc<Record>> {
        let mut leaving = self.leaving.lock();
        let taken = take();
        leaving.extend(taken.clone());
        leaving.retain(|record| !record.summed.load(Relaxed));
        taken
    }

    /// The thread of this vCPU counts nothing more.
    pub(super) fn ends(&self, record: &Arc<Record>) {
        {
            let mut sums = self.sums.lock();
            *sums = sums.plus(record);
            record.summed.store(true, Relaxed);
        }
        self.leaving.lock().retain(|leaving| !Arc::ptr_eq(leaving, record));
    }

    /// vCPUs that are about to end; none if that would have to be waited for.
    pub(super) fn leaving(&self) -> Vec<Arc<Record>> {
        self.leaving.try_lock().map_or_else(Vec::new, |leaving| leaving.clone())
    }

    /// All counts. The vCPUs in the table are looked at first: one that leaves meanwhile is found twice.
    pub(super) fn totals(&self, table: &Table) -> Totals {
        let sums = self.sums.lock();
        let mut records = table.all();
        for record in self.leaving.lock().iter() {
            if !records.iter().any(|known| Arc::ptr_eq(known, record)) {
                records.push(Arc::clone(record));
            }
        }
        let live = records.iter().filter(|record| !record.summed.load(Relaxed));
        live.fold(*sums, |sums, record| sums.plus(record)).totals()
    }
}

impl Sums {
    fn plus(self, record: &Record) -> Self {
        let HostAccount { switches, migrations, .. } = of_thread(record);
        Self {
            counted: self.counted.plus(record.counts.read()),
            switches: self.switches + switches,
            migrations: self.migrations + migrations,
        }
    }

    fn totals(self) -> Totals {
        Totals { switches: self.switches, migrations: self.migrations, ..self.counted.totals_untold() }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use crate::attributes::Attributes;
    use crate::domain::contract::Domain;
    use crate::domain::host::{HostThreads, HostYield};
    use crate::domain::testing::Script;
    use crate::testing::wait_for;

    #[test]
    fn a_vcpu_that_is_about_to_end_is_counted() {
        let domain = HostThreads::new(&crate::testing::cpus(), HostYield::Sched);
        let script = Script::new([]);
        let id = domain.add(script.vcpu(), Attributes::default()).unwrap();
        domain.wake(id);
        wait_for(|| script.runs() > 0 && domain.totals().switches > 0);
        let before = domain.totals();
        domain.retire(id);
        wait_for(|| {
            let ended = script.retired();
            assert!(domain.totals().switches >= before.switches, "its thread has ended: {ended}");
            ended
        });
    }
}
