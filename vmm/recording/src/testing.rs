//! Made-up recordings for tests, as files.

use super::{Header, Named, Names, Recording};
use std::io::Write;
use stile_results::model::Params;
use stile_sched::attributes::Attributes;
use stile_sched::ledger::{Event, Ledger};
use stile_sched::policy::Why;
use stile_sched::{Slot, Time, VcpuId, Wait, Yield};
use tempfile::NamedTempFile;

/// A moment of a made-up recording (unit: us).
pub(super) fn us(us: u64) -> Time {
    Time(1_000_000 + us * 1_000)
}

/// A ledger under a recordable policy, on slots that are the CPUs 0, 1 and so on.
pub(super) struct Tape {
    pub(super) ledger: Ledger,
    header: Header,
    names: Vec<Named>,
}

impl Tape {
    pub(super) fn new(policy: &str, slots: u32) -> Self {
        let header = Header {
            start: us(0).0,
            ..Header::new(&policy.parse().unwrap(), &(0..slots).collect(), "a test", Params::default())
        };
        let policy = header.decides().unwrap().policies.remove(0);
        let ledger = Ledger::new(policy, slots as usize, 4096);
        Self { ledger, header, names: Vec::new() }
    }

    /// A vCPU of a VM.
    pub(super) fn add(&mut self, id: u32, vm: &str, index: u32, at: Time) -> VcpuId {
        self.names.push(Named { id, since: at.0, vm: vm.to_owned(), index });
        self.ledger.add(VcpuId(id), Attributes::default(), at);
        VcpuId(id)
    }

    pub(super) fn wake(&mut self, vcpu: VcpuId, at: Time) {
        let _ = self.ledger.wake(vcpu, None, at);
    }

    pub(super) fn ask(&mut self, slot: u16, why: Why, at: Time) -> Option<VcpuId> {
        self.ledger.next(Slot(slot), why, at).run.map(|lease| lease.vcpu)
    }

    pub(super) fn yields(&mut self, slot: u16, wait: Wait, at: Time) -> Option<VcpuId> {
        self.ask(slot, Why::Yield(Yield { wait, again: false }), at)
    }

    /// The file, with these events behind those of the ledger.
    pub(super) fn save(&self, more: &[Event]) -> (NamedTempFile, Recording) {
        let events = [&self.ledger.trace().latest()[..], more].concat();
        let header = Header { events: Some(events.len() as u64), ..self.header.clone() };
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(header.line().unwrap().as_bytes()).unwrap();
        events.iter().flat_map(Event::pack).for_each(|word| file.write_all(&word.to_le_bytes()).unwrap());
        serde_json::to_writer(&mut file, &Names::from(self.names.clone())).unwrap();
        file.write_all(b"\n").unwrap();
        let recording = Recording::open(file.path()).unwrap();
        (file, recording)
    }
}
