//! Loads the scheduler of sched_ext, if a policy needs it; before the process enters its jail.

use super::failure::Failure;
use stile_config::PolicyConfig;

#[cfg(feature = "sched-ext")]
pub(super) type Loaded = Option<stile_ext::Loaded>;
#[cfg(not(feature = "sched-ext"))]
pub(super) type Loaded = ();

/// Loads it, if one of these policies needs it. It stays in the kernel while the result lives.
#[cfg(feature = "sched-ext")]
pub(super) fn for_policies<'a>(
    policies: impl IntoIterator<Item = &'a PolicyConfig>,
    pcpus: usize,
) -> Result<Loaded, Failure> {
    let needed = policies.into_iter().any(|policy| policy.algorithm.is_in_kernel());
    needed.then(|| stile_ext::load(pcpus)).transpose().map_err(Failure::run)
}

/// Without the feature no policy needs it.
#[cfg(not(feature = "sched-ext"))]
pub(super) fn for_policies<'a>(_: impl IntoIterator<Item = &'a PolicyConfig>, _: usize) -> Result<Loaded, Failure> {
    Ok(())
}

/// Tells if the kernel has thrown it out meanwhile, and what it has counted.
pub(super) fn tell(loaded: &Loaded, counts: bool) {
    #[cfg(feature = "sched-ext")]
    if let Some(loaded) = loaded {
        if !loaded.is_in_use() {
            tracing::warn!(
                "the kernel has thrown the scheduler of sched_ext out, so `ext` was `host` since; dmesg says why"
            );
        }
        if counts {
            tracing::info!(counts = ?loaded.counts(), "the scheduler of sched_ext");
        }
    }
    #[cfg(not(feature = "sched-ext"))]
    let ((), _) = (loaded, counts);
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
