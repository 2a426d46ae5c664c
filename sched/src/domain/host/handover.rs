//! Giving all vCPUs back, and going on with those of another domain.

use super::record::Record;
use super::{Carrier, HostThreads};
use crate::domain::berth::Berth;
use crate::domain::carrier_thread::enter_thread;
use crate::domain::handover::{Adopted, Before, Evacuated, Evacuee, Handover};
use crate::ids::VcpuId;
use crate::kick;
use crate::sync::Ordering::{AcqRel, Relaxed};
use std::io;
use std::sync::Arc;

impl Handover for HostThreads {
    fn population(&self) -> usize {
        self.ids.lock().in_use()
    }

    fn berths(&self, vcpus: usize) -> io::Result<Vec<Berth>> {
        Berth::some(vcpus)
    }

    fn halt(&self) {
        self.vcpus.change(|_| self.shared.ending.store(true, Relaxed));
        let records = self.vcpus.all();
        for record in &records {
            record.parker.wake();
            record.thread.get().into_iter().for_each(|thread| kick::send(*thread));
        }
        // Now that the others are about to end, those that the host starves need a CPU only if other programs compute.
        self.raise_all(&records);
        for record in &records {
            // A panic there was reported by the panic hook; there is nothing left to do about it.
            record.handle.lock().take().into_iter().for_each(|thread| drop(thread.join()));
        }
    }

    fn evacuate(&self) -> Evacuated {
        let mut ids = std::mem::take(&mut *self.ids.lock());
        let mut left = std::mem::take(&mut *self.shared.left.lock());
        let mut vcpus = Vec::new();
        for (id, record) in self.vcpus.by_id() {
            match left.iter().position(|left| left.id == id) {
                Some(place) => {
                    let left = left.swap_remove(place);
                    vcpus.push(Evacuee {
                        id,
                        vcpu: left.vcpu,
                        attributes: record.attributes,
                        rests: left.rests,
                        event: record.event.swap(false, AcqRel),
                        retiring: record.ends_elsewhere.load(Relaxed),
                        account: left.account,
                        at: left.at,
                    });
                }
                // It ended by itself.
                None => ids.give_back(id),
            }
        }
        Evacuated { vcpus, ids }
    }

    fn missed(&self, vcpu: VcpuId) -> bool {
        self.vcpus.get(vcpu).is_some_and(|record| record.event.swap(false, AcqRel))
    }

    fn adopt(&self, mut evacuated: Evacuated, berths: Vec<Berth>) -> Adopted {
        let mut adopted = Adopted::default();
        let evacuees = adopted.but_for_ended(evacuated.vcpus, &mut evacuated.ids);
        *self.ids.lock() = evacuated.ids;
        assert!(evacuees.len() <= berths.len(), "there is a thread for every vCPU");
        let enters = |evacuee| {
            let Evacuee { id, vcpu, attributes, rests, event, account, at, .. } = evacuee;
            let cap = attributes.group.map(|group| self.groups.join(group));
            let before = Before::of(account);
            let record = Arc::new(Record { before, ..Record::new(at, attributes, vcpu.halts_inside(), cap) });
            if event {
                record.wake();
            }
            (id, vcpu, rests, record)
        };
        let entering: Vec<_> = evacuees.into_iter().map(enters).collect();
        self.vcpus.enter(entering.iter().map(|(id, .., record)| (*id, Arc::clone(record))));
        for ((id, vcpu, rests, record), berth) in entering.into_iter().zip(berths) {
            let (cpus, yields, shared) = (self.cpus, self.yields, Arc::clone(&self.shared));
            let carrier = Carrier { id, vcpu, record: Arc::clone(&record), yields, shared };
            let thread = berth.lead(Box::new(move |_| {
                enter_thread(&cpus);
                // A vCPU that runs already is not given up for its class: where the host refuses it, it is normal.
                let _ = carrier.enter();
                carrier.carry(rests);
            }));
            *record.handle.lock() = Some(thread);
        }
        adopted
    }
}
