//! Entering the jail, and narrowing it for a thread.

use crate::error::JailError;
use crate::files::{self, Place};
use crate::kind::Kind;
use crate::{EXIT_CODE, lists, privileges, refusal};
use seccompiler::{BpfProgram, apply_filter};
use std::fmt;
use std::io::Write;
use std::sync::OnceLock;

/// The rights that a run keeps.
#[derive(Debug, Default)]
pub struct Jail {
    /// The files and folders that it may use.
    pub places: Vec<Place>,
    /// It listens on unix sockets and connects to others.
    pub sockets: bool,
    /// It ends child processes. It cannot start one: what starts them must run before the jail is entered.
    pub children: bool,
    /// It attaches to network interfaces of the host, for which root needs a capability.
    pub interfaces: bool,
    /// It has no terminal for which it could type ([`takes_keys`](crate::takes_keys)). Threads that run vCPUs may then
    /// make any ioctl(2). Otherwise they may make those of KVM and of perf counters, and the kernel compares each call.
    pub without_terminal: bool,
    /// Most descriptors that it may have open.
    pub descriptors: Option<u64>,
    /// Called in the signal handler that ends the process after a refused call. It must do only what a handler may.
    pub before_end: Option<fn()>,
}

/// What the kernel does not offer. The rest of the jail holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// Filters of system calls.
    Filters,
    /// Landlock.
    Landlock,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filters => "this kernel has no filters of system calls (CONFIG_SECCOMP_FILTER)",
            Self::Landlock => "this kernel has no Landlock, or it is off (CONFIG_SECURITY_LANDLOCK, lsm=)",
        })
    }
}

/// What threads need to narrow their rights.
struct Entered {
    /// By [`Kind::index`]; `None` where the kernel has no filters.
    programs: Option<[BpfProgram; Kind::ALL.len()]>,
}

static ENTERED: OnceLock<Entered> = OnceLock::new();

impl Jail {
    /// Enters the jail. Only the calling thread is bound, and those that it starts from then on. Returns what the
    /// kernel does not offer.
    ///
    /// # Errors
    /// The kernel refuses something that it offers. Some rights may be given up already.
    pub fn enter(self) -> Result<Vec<Missing>, JailError> {
        if ENTERED.get().is_some() {
            return Err(JailError::Twice);
        }
        let mut missing = Vec::new();
        privileges::give_up(self.interfaces, self.descriptors)?;
        if !files::restrict(&self.places, self.children)? {
            missing.push(Missing::Landlock);
        }
        let entered = if crate::Offer::of_kernel().filters {
            refusal::tell_refusals(self.before_end)?;
            let programs = compile(self.without_terminal)?;
            apply_filter(&lists::absent().failing(libc::ENOSYS)?)?;
            apply_filter(&lists::of_process(self.sockets, self.children).trapping()?)?;
            Entered { programs: Some(programs) }
        } else {
            missing.push(Missing::Filters);
            Entered { programs: None }
        };
        ENTERED.set(entered).map_err(|_| JailError::Twice)?;
        Ok(missing)
    }
}

fn compile(without_terminal: bool) -> Result<[BpfProgram; Kind::ALL.len()], JailError> {
    let mut programs: [BpfProgram; Kind::ALL.len()] = Default::default();
    for kind in Kind::ALL {
        programs[kind.index()] = lists::of(kind, without_terminal).trapping()?;
    }
    Ok(programs)
}

/// Gives up what the calling thread does not need, for good. Without a jail it does nothing. A thread that cannot be
/// bound ends the process: it would run with more rights than it was meant to have.
pub fn narrow(kind: Kind) {
    let Some(entered) = ENTERED.get() else { return };
    if let Err(error) = entered.narrow(kind) {
        // Where standard error takes nothing the exit code has to do.
        let _ = writeln!(std::io::stderr(), "error: a thread cannot enter its jail: {error}");
        std::process::exit(EXIT_CODE);
    }
}

impl Entered {
    fn narrow(&self, kind: Kind) -> Result<(), JailError> {
        privileges::keep_for(kind)?;
        if let Some(programs) = &self.programs {
            apply_filter(&programs[kind.index()])?;
        }
        Ok(())
    }
}
