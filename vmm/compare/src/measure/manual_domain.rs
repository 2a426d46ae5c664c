//! A domain without threads: it keeps vCPUs until a caller takes one and runs it.

use parking_lot::Mutex;
use stile_sched::attributes::Attributes;
use stile_sched::domain::DomainError;
use stile_sched::ledger::{Account, Totals};
use stile_sched::{Domain, Vcpu, VcpuId};

/// The vCPUs, each until a caller takes it.
#[derive(Default)]
pub(super) struct ManualDomain(Mutex<Vec<Option<Box<dyn Vcpu>>>>);

impl ManualDomain {
    /// Takes a vCPU out. The caller must put it back before its VM ends.
    pub(super) fn take(&self, vcpu: VcpuId) -> Option<Box<dyn Vcpu>> {
        self.0.lock().get_mut(vcpu.index())?.take()
    }

    pub(super) fn put_back(&self, id: VcpuId, vcpu: Box<dyn Vcpu>) {
        self.0.lock()[id.index()] = Some(vcpu);
    }
}

impl Domain for ManualDomain {
    fn add(&self, vcpu: Box<dyn Vcpu>, _: Attributes) -> Result<VcpuId, DomainError> {
        let mut all = self.0.lock();
        all.push(Some(vcpu));
        Ok(VcpuId(all.len() as u32 - 1))
    }

    fn wake(&self, _: VcpuId) {}

    fn retire(&self, vcpu: VcpuId) {
        let gone = self.take(vcpu);
        gone.into_iter().for_each(|vcpu| vcpu.retired(&Account::default()));
    }

    fn interrupt(&self, _: VcpuId) {}

    fn account(&self, _: VcpuId) -> Option<Account> {
        None
    }

    fn totals(&self) -> Totals {
        Totals::default()
    }
}
