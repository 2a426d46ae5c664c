//! A vCPU's record.

use super::caps::GroupCap;
use super::host_times::{HostTimes, Idle};
use super::raised::Raised;
use crate::attributes::{Attributes, Class};
use crate::domain::counts::Counts;
use crate::domain::handover::Before;
use crate::domain::parker::Parker;
use crate::kick;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering::AcqRel, thread as threads};
use crate::time::{Time, monotonic};
use std::sync::Arc;

/// What other threads may see of a vCPU's thread.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) born: Time,
    pub(super) attributes: Attributes,
    /// Its account up to then, in other domains.
    pub(super) before: Before,
    pub(super) idle: Idle,
    /// An event has come since it last ceased to idle.
    pub(super) event: AtomicBool,
    pub(super) times: HostTimes,
    pub(super) thread: std::sync::OnceLock<kick::ThreadId>,
    pub(super) handle: Mutex<Option<threads::JoinHandle<()>>>,
    /// It waits inside its run, where `idle` does not see it.
    pub(super) halts: bool,
    pub(super) parker: Parker,
    pub(super) raised: Raised,
    /// It is to end, and is no longer known.
    pub(super) retiring: AtomicBool,
    /// It is to end in the domain that goes on with it.
    pub(super) ends_elsewhere: AtomicBool,
    pub(super) counts: Counts,
    /// The domain's sums over ended vCPUs include these counts. Written while the sums are locked.
    pub(super) summed: AtomicBool,
    /// The cap that it is held to.
    pub(super) cap: Option<Arc<GroupCap>>,
    /// What other threads used for it (unit: ns).
    pub(super) devices: AtomicU64,
}

impl Record {
    pub(super) fn new(born: Time, attributes: Attributes, halts: bool, cap: Option<Arc<GroupCap>>) -> Self {
        Self {
            born,
            attributes,
            halts,
            cap,
            devices: AtomicU64::new(0),
            before: Before::default(),
            handle: Mutex::default(),
            idle: Idle::default(),
            event: AtomicBool::new(false),
            times: HostTimes::default(),
            thread: std::sync::OnceLock::new(),
            parker: Parker::default(),
            raised: Raised::default(),
            retiring: AtomicBool::new(false),
            ends_elsewhere: AtomicBool::new(false),
            counts: Counts::default(),
            summed: AtomicBool::new(false),
        }
    }

    /// An event. Release and Acquire: the vCPU, or the domain that goes on with it, sees what was written before.
    pub(super) fn wake(&self) {
        self.idle.wake(monotonic());
        self.event.swap(true, AcqRel);
        self.parker.wake();
    }

    /// Whether the host may let its thread wait for long while normal threads compute.
    pub(super) fn yields_to_most(&self) -> bool {
        self.attributes.class == Class::Idle || self.attributes.nice.get() > 0
    }
}
