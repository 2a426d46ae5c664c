//! A node's domain goes on with all vCPUs as another one (`stile_sched::domain::handover`).

use crate::affinity;
use crate::node::Node;
use crate::scheduling::Scheduling;
use crate::vm::NodeVm;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;
use stile_api::{Problem, Reason};
use stile_config::VmConfig;
use stile_sched::attributes::Attributes;
use stile_sched::{Domain, VcpuId};

impl Node {
    /// Has a domain that can hold caps.
    pub(crate) fn have_caps(&self) -> Result<(), Problem> {
        let _log = self.log.lock();
        let before = self.scheduling.read().clone();
        if before.caps {
            return Ok(());
        }
        self.go_over(Scheduling { caps: true, ..before }, &[]).map(drop)
    }

    /// Another domain goes on with all vCPUs. Returns how many there are, and how long that took (unit: s).
    pub(crate) fn go_over(&self, next: Scheduling, vms: &[(Arc<NodeVm>, VmConfig)]) -> Result<(usize, f64), Problem> {
        let mut scheduling = self.scheduling.write();
        // A VM may have started since it was checked.
        let next = Scheduling { carried: self.carried(&next.policy)?, ..next };
        let mut attributes: HashMap<VcpuId, Attributes> = HashMap::new();
        for (vm, config) in vms {
            let ids = vm.machine().map(|machine| machine.vm.vcpu_set().ids()).unwrap_or_default();
            let of_vm = vm.attributes(config);
            if of_vm == vm.attributes(&vm.config()) {
                continue;
            }
            attributes.extend(ids.into_iter().map(|id| (id, of_vm)));
        }
        let moves = next.policy != scheduling.policy
            || next.carried != scheduling.carried
            || next.pcpus != scheduling.pcpus
            || next.caps != scheduling.caps
            || !attributes.is_empty();
        let done = if moves { self.hands_over(&scheduling, &next, &attributes)? } else { (0, 0.0) };
        vms.iter().for_each(|(vm, config)| vm.set_config(config.clone()));
        let before = std::mem::replace(&mut *scheduling, next.clone());
        drop(scheduling);
        if moves {
            let carriers: HashSet<i32> = self.domain.threads().iter().map(|thread| thread.0).collect();
            affinity::follow(&before.pcpus, &next.pcpus, &carriers);
            self.go_on_recording();
            self.watch();
        }
        Ok(done)
    }

    fn hands_over(
        &self,
        before: &Scheduling,
        next: &Scheduling,
        attributes: &HashMap<VcpuId, Attributes>,
    ) -> Result<(usize, f64), Problem> {
        let domain = next.domain()?;
        // It would look at a domain that ends.
        drop(self.watchdog.lock().take());
        let began = Instant::now();
        let change = |id: VcpuId, own: &mut Attributes| {
            attributes.get(&id).into_iter().for_each(|new| *own = *new);
        };
        match self.domain.hand_over(domain, &next.numbers(), change) {
            Ok(vcpus) => {
                self.handovers.fetch_add(1, Ordering::Relaxed);
                Ok((vcpus, began.elapsed().as_secs_f64()))
            }
            Err(e) => {
                self.watch_under(before);
                Err(Problem::of(Reason::Unsupported, "nothing was changed", &e)
                    .remedy("raise the limit on threads, or on timers (ulimit -i), and try again"))
            }
        }
    }
}
