//! How a VM ended, and the fault if its guest made one.

use std::fmt;

/// How a VM ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The guest rang the exit doorbell.
    Exit(u32),
    /// The guest powered itself off.
    PoweredOff,
    /// The guest asked for a reboot, which ends the VM.
    Rebooted,
    /// The guest's kernel panicked.
    Panicked,
    /// The guest broke a rule.
    Fault(Fault),
    /// The user stopped it.
    Stopped,
}

impl Outcome {
    /// Whether the VM ended as intended.
    pub fn is_well(&self) -> bool {
        matches!(self, Self::Exit(0) | Self::PoweredOff | Self::Stopped)
    }
}

/// The fault of a guest that ended its VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Index of the vCPU that made it.
    pub vcpu: u32,
    /// Address of the instruction, if known.
    pub rip: Option<u64>,
    /// The kind of fault.
    pub kind: FaultKind,
}

/// The kinds of faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// A CPU exception.
    Exception {
        /// Vector, 0..32.
        vector: u8,
        /// Error code, for vectors that have one.
        error: Option<u64>,
        /// The address accessed, for page faults.
        address: Option<u64>,
    },
    /// An exception that could not be delivered.
    TripleFault,
    /// An access to an address with neither memory nor device.
    Unmapped {
        /// Guest-physical address.
        address: u64,
        /// Whether the access was a write.
        write: bool,
    },
    /// A port without a device, or a doorbell rung with a wrong width.
    Port {
        /// Port number.
        port: u16,
        /// Access width (units: bytes).
        width: usize,
    },
    /// A doorbell with arguments that break the ABI.
    Doorbell {
        /// Name of the doorbell.
        name: &'static str,
        /// The rule that it breaks.
        why: String,
    },
    /// An instruction that does not end, and keeps the CPU from taking interrupts.
    NoWindow,
    /// KVM could not continue.
    Kvm(String),
    /// The monitor panicked while it worked for this vCPU.
    Monitor(String),
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
            Self::NoWindow => f.write_str("keeps the CPU from taking interrupts, by an instruction that does not end"),
            Self::Kvm(why) => write!(f, "KVM gave up: {why}"),
            Self::Monitor(why) => {
                write!(f, "stile panicked while it worked for this vCPU, which is a fault of stile: {why}")
            }
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
