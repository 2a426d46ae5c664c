//! Loads the scheduler of sched_ext, if a policy needs it; before the process enters its jail.

use super::failure::Failure;
use stile_config::PolicyConfig;

#[cfg(feature = "sched-ext")]
pub(super) type Loaded = Option<stile_ext::Loaded>;
#[cfg(not(feature = "sched-ext"))]
pub(super) type Loaded = ();

/// Loads it, if one of these policies needs it. It stays in the kernel while the result lives.
#[cfg(feature = "sched-ext")]
pub(super) fn for_policies<'a>(policies: impl IntoIterator<Item = &'a PolicyConfig>) -> Result<Loaded, Failure> {
    let needed = policies.into_iter().any(|policy| policy.algorithm == stile_config::Algorithm::Ext);
    let slots = || stile_host::allowed_cpus().map(|cpus| cpus.len()).unwrap_or(1);
    needed.then(|| stile_ext::load(slots())).transpose().map_err(Failure::run)
}

/// Without the feature no policy needs it.
#[cfg(not(feature = "sched-ext"))]
pub(super) fn for_policies<'a>(_: impl IntoIterator<Item = &'a PolicyConfig>) -> Result<Loaded, Failure> {
    Ok(())
}

/// Tells what it has counted.
pub(super) fn tell(loaded: &Loaded) {
    #[cfg(feature = "sched-ext")]
    loaded.iter().for_each(|loaded| tracing::warn!("the scheduler of sched_ext: {loaded:?}"));
    #[cfg(not(feature = "sched-ext"))]
    let () = loaded;
}
