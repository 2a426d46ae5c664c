//! The watchdog of a node's domain, and what follows when it finds a vCPU that waits longer than the policy promises.

use crate::changes::{Guarded, Wanted};
use crate::keeper::Message;
use crate::node::Node;
use crate::scheduling::Scheduling;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use stile_api::{Author, Happened};
use stile_assembly::watch::is_watched;
use stile_config::OnStarvation;
use stile_sched::VcpuId;
use stile_sched::domain::watchdog::{Cause, Rules, Starvation, Watchdog};
use tracing::warn;

impl Node {
    /// Has the watchdog watch under the present policy.
    pub(crate) fn watch(&self) {
        let scheduling = self.scheduling.read().clone();
        self.watch_under(&scheduling);
    }

    pub(crate) fn watch_under(&self, scheduling: &Scheduling) {
        let mut watchdog = self.watchdog.lock();
        drop(watchdog.take());
        if !is_watched(&scheduling.policy) {
            return;
        }
        let (policy, slots) = (scheduling.policy.clone(), scheduling.pcpus.len());
        let bound = Box::new(move |me, others: &[_]| stile_assembly::starvation_bound(&policy, me, others, slots));
        let (mail, handovers) = (self.keeper().mail(), self.handovers.load(Ordering::Relaxed));
        let tell = Box::new(move |starvation: Starvation| {
            mail.send(Message::Starved { handovers, starvation: Box::new(starvation) });
            ControlFlow::Continue(())
        });
        match Watchdog::start(Arc::clone(&self.as_domain), Rules { bound, tell }) {
            Ok(started) => *watchdog = Some(started),
            Err(e) => warn!("no watchdog watches for starvation: {e}"),
        }
    }

    /// The watchdog has found a vCPU that waits too long, in the domain after so many handovers. Called by the keeper.
    pub(crate) fn starved(&self, handovers: u64, starvation: &Starvation) {
        let names = self.names();
        let name = |vcpu: VcpuId| names.get(&vcpu).cloned().unwrap_or_else(|| vcpu.to_string());
        let text = starvation.text(&name);
        let text = text.trim_end();
        warn!("{text}");
        self.bus().tell(Happened::Starved { text: text.to_owned() });
        if starvation.cause == Cause::Host {
            return;
        }
        let mut log = self.log.lock();
        // The domain in which the vCPU waited may have ended. No change since then has starved it.
        if self.handovers.load(Ordering::Relaxed) != handovers {
            return;
        }
        if let Some(change) = log.awaiting() {
            let why = "the watchdog objected: a vCPU waited longer than the policy promises";
            return self.see_taken_back(&mut log, change, why);
        }
        let policy = self.scheduling.read().policy.clone();
        if policy.on_starvation != OnStarvation::Fallback || policy.algorithm.is_host() {
            return;
        }
        let host = "host".parse().expect("a policy of the host is known");
        let wanted = Wanted { policy: Some(host), ..Wanted::default() };
        match self.change_with(&mut log, Author { uid: None, pid: None }, wanted, Guarded::default()) {
            Ok(change) => warn!("the host's scheduler decides from now on; all {} vCPUs go on there", change.vcpus),
            Err(problem) => warn!("the host's scheduler cannot take over: {problem}"),
        }
    }
}
