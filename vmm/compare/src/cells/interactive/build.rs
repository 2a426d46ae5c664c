//! The make loads: one build from its start to its last job, and its times.

use crate::cells::site::Site;
use crate::error::CompareError;
use crate::window::{ops, spare};
use std::time::{Duration, Instant};
use stile_host::system_time;
use stile_machine::unikernel::Vm;
use stile_sched::time::monotonic;

/// The time limit of a build: well beyond what it takes under any policy.
const DONE_WITHIN: Duration = Duration::from_secs(60);

/// The times of a build. Those of its vCPUs are in the accounts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Built {
    /// From its start until its last job was done.
    pub(super) real: Duration,
    /// The time that this process spent in the host's kernel meanwhile.
    pub(super) sys: Duration,
}

/// Starts a build and waits for its end; `None` if the user ended the run.
pub(super) fn run(site: &Site<'_>, vm: &Vm, jobs: u64) -> Result<Option<Built>, CompareError> {
    let (began, looking, sys) = (monotonic(), Instant::now(), system_time());
    vm.start();
    let ended = || (0..vm.state().vcpus()).map(|vcpu| spare(vm.state(), vcpu)[0]).find(|&tsc| tsc != 0);
    site.look(|| {
        if let Some(tsc) = ended() {
            let real = monotonic().since(began).0.saturating_sub(vm.state().clock().since(tsc).0);
            return Ok(Some(Built { real: Duration::from_nanos(real), sys: system_time().saturating_sub(sys) }));
        }
        site.still_runs(vm)?;
        if looking.elapsed() > DONE_WITHIN {
            let done = ops([vm]);
            return Err(site.stuck(vm, format!("had done {done} jobs of a build of {jobs} compilations"), DONE_WITHIN));
        }
        Ok(None)
    })
}
