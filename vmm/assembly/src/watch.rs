//! A run with a watchdog: a domain, its watchdog, and the action when the domain starves a vCPU.

use crate::AssemblyError;
use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use stile_config::{Config, OnStarvation, PolicyConfig};
use stile_sched::domain::switchable::Switchable;
use stile_sched::domain::watchdog::{Cause, Rules, Starvation, Watchdog};
use stile_sched::{Domain, VcpuId};

/// A domain that can be watched.
#[derive(Debug)]
pub struct Watched {
    domain: Arc<dyn Domain>,
    /// The domain as one that can go over to the host's scheduler, if it can.
    falls: Option<Arc<Switchable>>,
    policy: PolicyConfig,
    slots: usize,
}

/// Prints the messages of a watchdog.
pub type Say = Box<dyn Fn(&str) + Send>;

/// Whether a watchdog watches for starvation under this policy.
pub fn is_watched(policy: &PolicyConfig) -> bool {
    let row = policy.algorithm.row();
    !row.algorithm.is_host() && (row.wait_bound.is_some() || policy.starvation_bound.duration().is_some())
}

impl Watched {
    /// A domain for this configuration.
    pub fn new(config: &Config) -> Result<Self, AssemblyError> {
        let policy = config.policy.clone();
        let may_fall = is_watched(&policy) && policy.on_starvation == OnStarvation::Fallback;
        let falls = if may_fall { crate::switchable_for(config)? } else { None };
        let domain = match &falls {
            Some(domain) => Arc::clone(domain) as Arc<dyn Domain>,
            None => crate::domain_for(config)?,
        };
        Ok(Self { domain, falls, policy, slots: config.host.pcpus.len() })
    }

    /// The domain.
    pub fn domain(&self) -> &Arc<dyn Domain> {
        &self.domain
    }

    /// Starts to watch, if there is a bound. Reports starved vCPUs by these names.
    pub fn watch(&self, names: HashMap<VcpuId, String>, say: Say) -> io::Result<Option<Watchdog>> {
        if !is_watched(&self.policy) {
            return Ok(None);
        }
        let (policy, slots, falls) = (self.policy.clone(), self.slots, self.falls.clone());
        let bound = Box::new(move |me, others: &[_]| crate::starvation_bound(&policy, me, others, slots));
        let tell = Box::new(move |starvation: Starvation| {
            let name = |vcpu: VcpuId| names.get(&vcpu).cloned().unwrap_or_else(|| vcpu.to_string());
            say(starvation.text(&name).trim_end());
            match &falls {
                Some(domain) if starvation.cause == Cause::Scheduler => fall_back(domain, &say),
                _ => ControlFlow::Continue(()),
            }
        });
        Watchdog::start(Arc::clone(&self.domain), Rules { bound, tell }).map(Some)
    }
}

fn fall_back(domain: &Switchable, say: &Say) -> ControlFlow<()> {
    match domain.fall_back() {
        Ok(vcpus) => {
            say(&format!("the host's scheduler decides from now on; all {vcpus} vCPUs go on there"));
            ControlFlow::Break(())
        }
        Err(e) => {
            let cause = std::error::Error::source(&e).map(ToString::to_string).unwrap_or_default();
            say(&format!("{e}: {cause}"));
            ControlFlow::Continue(())
        }
    }
}
