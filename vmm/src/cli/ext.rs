//! Loads the scheduler of sched_ext, if a policy needs it; before the process enters its jail.

use super::failure::Failure;
use stile_config::PolicyConfig;

/// The scheduler, if a policy needs it. It stays in the kernel while this lives.
pub(super) struct Loaded {
    #[cfg(feature = "sched-ext")]
    scheduler: Option<stile_ext::Loaded>,
}

/// Loads it, if one of these policies needs it, which are for so many pCPUs.
#[cfg(feature = "sched-ext")]
pub(super) fn for_policies<'a>(
    policies: impl IntoIterator<Item = &'a PolicyConfig>,
    pcpus: usize,
) -> Result<Loaded, Failure> {
    let needed = policies.into_iter().any(|policy| policy.algorithm.is_in_kernel());
    let scheduler = needed.then(|| stile_ext::load(pcpus)).transpose().map_err(Failure::run)?;
    Ok(Loaded { scheduler })
}

/// Without the feature no policy needs it.
#[cfg(not(feature = "sched-ext"))]
pub(super) fn for_policies<'a>(_: impl IntoIterator<Item = &'a PolicyConfig>, _: usize) -> Result<Loaded, Failure> {
    Ok(Loaded {})
}

impl Loaded {
    /// Tells if the kernel has thrown it out meanwhile, and what it has counted, where the jail permits to ask.
    #[cfg(feature = "sched-ext")]
    pub(super) fn tell(&self, no_jail: bool) {
        let Some(scheduler) = &self.scheduler else { return };
        if !scheduler.is_in_use() {
            tracing::warn!(
                "the kernel has thrown the scheduler of sched_ext out, so `ext` was `host` since; dmesg says why"
            );
        }
        if no_jail {
            tracing::info!(counts = ?scheduler.counts(), "the scheduler of sched_ext");
        }
    }

    /// There is nothing to tell.
    #[cfg(not(feature = "sched-ext"))]
    pub(super) fn tell(&self, _: bool) {}
}

/// Refuses a policy that would have to be loaded: a node's policy can change, and its jail permits to load nothing.
pub(super) fn not_on_a_node(policy: &PolicyConfig) -> Result<(), Failure> {
    match policy.algorithm.is_in_kernel() {
        true => Err(Failure::Input(miette::miette!(
            help = "take another policy; `stile run` without --socket and `stile compare` have this one",
            "[policy]: a node cannot load `{policy}` into the kernel"
        ))),
        false => Ok(()),
    }
}
