//! The vCPUs of a domain, by their ids.
//!
//! Looking takes no lock. A thread that the host starves would keep one for as long as it gets no CPU, and with it
//! every wake of the domain.

use super::record::Record;
use crate::ids::VcpuId;
use crate::sync::Mutex;
use arc_swap::ArcSwap;
use std::sync::Arc;

/// A vCPU's record at the index of its id.
pub(super) type Records = Vec<Option<Arc<Record>>>;

/// The table. A change replaces it, so it is the one who changes it that pays.
#[derive(Debug, Default)]
pub(super) struct Table {
    records: ArcSwap<Records>,
    changing: Mutex<()>,
}

impl Table {
    /// Of this vCPU, if it is known.
    pub(super) fn get(&self, vcpu: VcpuId) -> Option<Arc<Record>> {
        self.with(vcpu, Arc::clone)
    }

    /// What a look at this vCPU's record returns, if it is known.
    pub(super) fn with<R>(&self, vcpu: VcpuId, look: impl FnOnce(&Arc<Record>) -> R) -> Option<R> {
        self.records.load().get(vcpu.index())?.as_ref().map(look)
    }

    /// All of this moment.
    pub(super) fn all(&self) -> Vec<Arc<Record>> {
        self.records.load().iter().flatten().cloned().collect()
    }

    /// All of this moment, each with its id.
    pub(super) fn by_id(&self) -> Vec<(VcpuId, Arc<Record>)> {
        let records = self.records.load();
        let known = records.iter().enumerate().filter_map(|(index, record)| Some((index, record.clone()?)));
        known.map(|(index, record)| (VcpuId(index as u32), record)).collect()
    }

    /// Makes vCPUs known.
    pub(super) fn enter(&self, entries: impl IntoIterator<Item = (VcpuId, Arc<Record>)>) {
        self.change(|records| {
            for (id, record) in entries {
                if records.len() <= id.index() {
                    records.resize(id.index() + 1, None);
                }
                records[id.index()] = Some(record);
            }
        });
    }

    /// Changes it. Changes come one after the other.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Records) -> R) -> R {
        let _changing = self.changing.lock();
        let mut records = Records::clone(&self.records.load());
        let result = change(&mut records);
        self.records.store(Arc::new(records));
        result
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
    fn wakes_and_interrupts_do_not_wait_for_a_thread_that_changes_the_table() {
        let domain = HostThreads::new(&crate::testing::cpus(), HostYield::Sched);
        let script = Script::new([]);
        let id = domain.add(script.vcpu(), Attributes::default()).unwrap();
        domain.vcpus.change(|_| {
            domain.wake(id);
            domain.interrupt(id);
            assert!(domain.account(id).is_some());
        });
        wait_for(|| script.runs() > 0);
        domain.retire(id);
        wait_for(|| script.retired());
    }
}
