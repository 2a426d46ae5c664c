//! How a VM ended, and if by its own fault, what it did.

use std::fmt;

/// How a VM ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The guest rang the exit doorbell.
    Exit(u32),
    /// The guest powered itself off.
    PoweredOff,
    /// The guest asked to be started anew.
    Rebooted,
    /// The guest's kernel panicked.
    Panicked,
    /// The guest did what it must not.
    Fault(Fault),
    /// The user ended it.
    Stopped,
}

impl Outcome {
    /// Whether nothing went wrong.
    pub fn is_well(&self) -> bool {
        matches!(self, Self::Exit(0) | Self::PoweredOff | Self::Stopped)
    }
}

/// What a guest did that ended its VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Index of the vCPU that did it.
    pub vcpu: u32,
    /// Where it was, if known.
    pub rip: Option<u64>,
    /// What it did.
    pub kind: FaultKind,
}

/// The ways to end badly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// A CPU exception.
    Exception {
        /// Vector, 0..32.
        vector: u8,
        /// Error code, for vectors that have one.
        error: Option<u64>,
        /// The address it touched, for page faults.
        address: Option<u64>,
    },
    /// An exception that could not be delivered.
    TripleFault,
    /// An access to an address with neither memory nor device.
    Unmapped {
        /// Guest-physical address.
        address: u64,
        /// Whether it wrote.
        write: bool,
    },
    /// A port that nothing listens on, or a doorbell rung with a wrong width.
    Port {
        /// Port number.
        port: u16,
        /// Access width (units: bytes).
        width: usize,
    },
    /// A doorbell with arguments that break the ABI.
    Doorbell {
        /// Which one.
        name: &'static str,
        /// What is wrong.
        why: String,
    },
    /// KVM could not go on.
    Kvm(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(code) => write!(f, "exit code {code}{}", known_code(*code)),
            Self::PoweredOff => f.write_str("powered off"),
            Self::Rebooted => f.write_str("asked for a reboot, which ends it"),
            Self::Panicked => f.write_str("the guest's kernel panicked"),
            Self::Fault(fault) => fault.fmt(f),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

fn known_code(code: u32) -> &'static str {
    match code {
        stile_abi::exit::PANIC => " (the guest panicked)",
        stile_abi::exit::ABI_MISMATCH => " (the guest was built for another ABI version)",
        stile_abi::exit::BAD_CMDLINE => " (the guest does not understand its command line)",
        stile_abi::exit::OUT_OF_MEMORY => " (the guest ran out of memory)",
        _ => "",
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vCPU {}", self.vcpu)?;
        if let Some(rip) = self.rip {
            write!(f, " at RIP {rip:#x}")?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exception { vector, error, address } => {
                write!(f, "exception {vector} ({})", exception_name(*vector))?;
                if let Some(error) = error {
                    write!(f, ", error code {error:#x}")?;
                }
                address.map_or(Ok(()), |a| write!(f, ", touching {a:#x}"))
            }
            Self::TripleFault => f.write_str("triple fault"),
            Self::Unmapped { address, write } => {
                write!(f, "{} unmapped memory at {address:#x}", if *write { "writes" } else { "reads" })
            }
            Self::Port { port, width } => write!(f, "{width}-byte access to port {port:#x}, which is no doorbell"),
            Self::Doorbell { name, why } => write!(f, "breaks the ABI at doorbell {name}: {why}"),
            Self::Kvm(why) => write!(f, "KVM gave up: {why}"),
        }
    }
}

fn exception_name(vector: u8) -> &'static str {
    match vector {
        0 => "divide error",
        1 => "debug",
        3 => "breakpoint",
        4 => "overflow",
        6 => "invalid opcode",
        8 => "double fault",
        12 => "stack fault",
        13 => "general protection",
        14 => "page fault",
        16 => "x87 error",
        17 => "alignment check",
        19 => "SIMD error",
        _ => "reserved",
    }
}

/// Whether the CPU pushes an error code for this exception.
pub(crate) fn has_error_code(vector: u8) -> bool {
    matches!(vector, 8 | 10..=14 | 17 | 21 | 29 | 30)
}
