//! The last seconds of a node, from the events that its domain keeps anyway.

use crate::node::Node;
use std::time::Duration;
use stile_api::{Problem, Reason};
use stile_recording::explain::{Answer, explain};
use stile_recording::{Header, Named, Names, Recording};
use stile_results::model::Params;
use stile_sched::time::monotonic;
use stile_sched::{Domain, Nanos};

impl Node {
    /// The events of this last time, as far as they are kept: 16,384 for each pCPU.
    pub fn flight(&self, last: Duration) -> Result<Recording, Problem> {
        let scheduling = self.scheduling.read();
        let Some(trace) = self.domain.trace() else {
            let none = format!("under {} nothing is recorded: the host's scheduler decides", scheduling.policy);
            return Err(Problem::new(Reason::Conflict, none).remedy("choose another policy"));
        };
        let since = monotonic() - Nanos::from(last);
        let events = trace.latest().into_iter().filter(|event| event.time >= since).collect();
        let header = Header::new(&scheduling.policy, &scheduling.pcpus, "a node", Params::default());
        let header = header.beginning_at(since);
        let machines = self.vms().into_iter().filter_map(|vm| vm.machine());
        let names: Vec<Named> =
            machines.flat_map(|machine| Names::of_vm(machine.vm.vcpu_set()).collect::<Vec<_>>()).collect();
        Ok(Recording::of(header, events, Names::from(names)))
    }

    /// Why a vCPU waited longest in this last time.
    pub fn why(&self, vcpu: &str, last: Duration) -> Result<Answer, Problem> {
        let flight = self.flight(last)?;
        explain(&flight, vcpu).map_err(|e| Problem::of(Reason::NotFound, "nothing can be explained", &e))
    }
}
