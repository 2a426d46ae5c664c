//! Rights of the process besides files and system calls: capabilities, new privileges, dumps and limits.

use crate::error::JailError;
use crate::kind::Kind;
use caps::{CapSet, Capability, CapsHashSet};
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::set_no_new_privs;

/// For scheduling: classes and nice values of threads, and the counter by which a thread learns that it left its CPU.
const SCHEDULING: [Capability; 2] = [Capability::CAP_SYS_NICE, Capability::CAP_PERFMON];

/// Gives up what no run needs. Threads that start later inherit it. With `interfaces`, root can attach to interfaces of
/// the host. `descriptors` is the most that may be open.
pub(crate) fn give_up(interfaces: bool, descriptors: Option<u64>) -> Result<(), JailError> {
    let failed = |what| move |error: rustix::io::Errno| JailError::Rights { what, source: error.into() };
    set_no_new_privs(true).map_err(failed("new privileges"))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(failed("being dumped and traced"))?;
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(failed("core dumps"))?;
    if let Some(most) = descriptors {
        let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
        let most = maximum.map_or(most, |maximum| most.min(maximum));
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(Resource::Nofile, limit).map_err(failed("descriptors"))?;
    }
    let mut kept = vec![Capability::CAP_DAC_OVERRIDE];
    kept.extend(SCHEDULING);
    kept.extend(interfaces.then_some(Capability::CAP_NET_ADMIN));
    keep(&kept)
}

/// Keeps of the calling thread's capabilities those that its kind needs.
pub(crate) fn keep_for(kind: Kind) -> Result<(), JailError> {
    keep(if kind.schedules() { &SCHEDULING } else { &[] })
}

/// Answers a question on a thread of its own, which has the capabilities of a jailed thread that runs vCPUs.
///
/// # Errors
/// A thread that cannot be started, or cannot give capabilities up, is an error of the question.
pub fn as_carrier<T: Send>(question: impl FnOnce() -> std::io::Result<T> + Send) -> std::io::Result<T> {
    let answer = || {
        keep_for(Kind::Carrier).map_err(std::io::Error::other)?;
        question()
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("rights-probe".to_owned()).spawn_scoped(scope, answer)?;
        thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the probing thread panicked")))
    })
}

/// Drops the calling thread's capabilities but for these, so far as it has them.
fn keep(wanted: &[Capability]) -> Result<(), JailError> {
    let had = caps::read(None, CapSet::Permitted)?;
    if had.is_empty() {
        return Ok(());
    }
    let kept: CapsHashSet = wanted.iter().copied().filter(|capability| had.contains(capability)).collect();
    caps::set(None, CapSet::Inheritable, &CapsHashSet::new())?;
    caps::set(None, CapSet::Effective, &kept)?;
    Ok(caps::set(None, CapSet::Permitted, &kept)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_asked_with_the_capabilities_of_scheduling_alone_and_the_asker_keeps_its_own() {
        let held = || caps::read(None, CapSet::Effective).map_err(std::io::Error::other);
        let before = held().unwrap();
        let of_a_carrier = as_carrier(held).unwrap();
        assert!(of_a_carrier.iter().all(|capability| SCHEDULING.contains(capability)), "{of_a_carrier:?}");
        assert_eq!(held().unwrap(), before);
    }
}
