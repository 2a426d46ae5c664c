//! Going on with vCPUs that another mechanism gave back.
//!
//! Their threads are started before that one gives them up ([`HostThreads::berths`]), so that a host without another
//! thread to give refuses while nothing has changed.

use super::{HostThreads, Record, carry, enter_attributes};
use crate::attributes::Attributes;
use crate::domain::carrier_thread::{STACK_BYTES, enter_thread};
use crate::domain::evacuate::{Evacuated, Evacuee};
use crate::ids::VcpuId;
use crate::ledger::Account;
use crate::sync::{mpsc, thread as threads};
use crate::time::Time;
use crate::vcpu::Vcpu;
use std::io;
use std::sync::Arc;

/// A thread that waits for a vCPU, and ends if it gets none.
pub(in crate::domain) struct Berth(mpsc::SyncSender<Passenger>);

struct Passenger {
    vcpu: Box<dyn Vcpu>,
    record: Arc<Record>,
    attributes: Attributes,
    rests: Option<Time>,
}

impl HostThreads {
    /// Threads for this many vCPUs.
    pub(in crate::domain) fn berths(&self, vcpus: usize) -> io::Result<Vec<Berth>> {
        (0..vcpus).map(|_| self.berth()).collect()
    }

    fn berth(&self) -> io::Result<Berth> {
        let (cpus, yields, ended) = (self.cpus, self.yields, Arc::clone(&self.ended));
        let (boards, boarded) = mpsc::sync_channel::<Passenger>(1);
        threads::Builder::new().name("vcpu".to_owned()).stack_size(STACK_BYTES).spawn(move || {
            enter_thread(&cpus);
            let Ok(Passenger { vcpu, record, attributes, rests }) = boarded.recv() else { return };
            // A vCPU that runs already is not given up for its class: where the host refuses it, it is normal.
            let _ = enter_attributes(attributes);
            carry(vcpu, &record, rests, yields, &ended);
        })?;
        Ok(Berth(boards))
    }

    /// Goes on with these vCPUs, on threads made for them, and with their ids. Those that were to end are given back.
    pub(in crate::domain) fn adopt(&self, evacuated: Evacuated, berths: Vec<Berth>) -> Adopted {
        let mut adopted = Adopted::default();
        *self.ids.lock() = evacuated.ids;
        let mut berths = berths.into_iter();
        for Evacuee { id, vcpu, attributes, rests, event, retiring, account, at } in evacuated.vcpus {
            if retiring {
                self.ids.lock().give_back(id);
                adopted.ended.push((vcpu, account));
                continue;
            }
            let cap = attributes.group.map(|group| self.groups.join(group));
            let before = Some(Box::new(account));
            let record = Arc::new(Record { before, ..Record::new(at, vcpu.halts_inside(), cap) });
            if event {
                record.parker.wake();
            }
            self.enter(id, Arc::clone(&record));
            let berth = berths.next().expect("there is a thread for every vCPU");
            // The thread waits for it.
            let _ = berth.0.send(Passenger { vcpu, record, attributes, rests });
            adopted.ids.push(id);
        }
        adopted
    }
}

/// What became of adopted vCPUs.
#[derive(Default)]
pub(in crate::domain) struct Adopted {
    /// Those that go on.
    pub(in crate::domain) ids: Vec<VcpuId>,
    /// Those that were to end, with their last accounts.
    pub(in crate::domain) ended: Vec<(Box<dyn Vcpu>, Account)>,
}
