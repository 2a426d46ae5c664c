//! What a unikernel guest and its monitor agree on. The agreement with Linux guests is in [`linux`].
//!
//! A guest asks for something by writing a 32-bit value to a *doorbell* port ([`port`]). Arguments that do not fit into
//! 32 bits are in the calling vCPU's [`CallBlock`], a cache line of guest memory. The [`BootInfo`] page holds what the
//! guest has to know before it can ask. Each vCPU's [`Gauge`] holds counters that the monitor may read at any time,
//! without the guest's help. Each vCPU's [`Steal`] holds what the monitor tells a running guest.
//!
//! All addresses are guest-physical and the guest maps memory one to one. Integers are little-endian.
//!
//! # Compatibility
//! The monitor fills in [`BootInfo::magic`], [`BootInfo::version`] and the sizes of the structures it knows. A guest
//! that was built against others reports [`exit::ABI_MISMATCH`] and stops. Only equal versions work together: guests
//! and monitor are built from one tree.
#![cfg_attr(not(test), no_std)]

pub mod gauge;
pub mod hint;
pub mod linux;
pub mod queues;
pub mod steal;
pub mod work;

pub use gauge::Gauge;
pub use hint::{Hint, HintKind};
pub use queues::Queues;
pub use steal::{Presence, Steal};

use core::sync::atomic::AtomicU64;

/// First word of [`BootInfo`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"stile-vm");
/// Version of everything in this crate.
pub const VERSION: u32 = 5;

/// Guest-physical address of the boot-information page; a vCPU also gets it in `rdi` when it starts.
pub const BOOT_INFO_GPA: u64 = 0x1000;
/// Lowest address an image may occupy. Everything below belongs to the monitor's boot structures.
pub const IMAGE_MIN_GPA: u64 = 0x20_0000;
/// Window in which virtio-mmio devices lie, one page each; never backed by memory.
pub const MMIO_BASE: u64 = 0xd000_0000;
/// Guest memory ends below the MMIO window (units: bytes).
pub const MEMORY_MAX: u64 = MMIO_BASE;
/// Stack of each vCPU (units: bytes). The page below it is unmapped, so an overflow faults instead of corrupting.
pub const STACK_BYTES: u64 = 128 * 1024;
/// Longest kernel command line (units: bytes).
pub const CMDLINE_MAX: usize = 1024;

/// Doorbell ports. A doorbell is a 32-bit `out`; other widths and ports break the ABI.
pub mod port {
    /// Value: number of bytes at `CallBlock::args[0]` to print, at most [`super::CONSOLE_MAX`].
    pub const CONSOLE: u16 = 0x500;
    /// Value: a packed [`super::Hint`]. Returns when the vCPU is scheduled again.
    pub const YIELD: u16 = 0x504;
    /// Block until an event (a kick, a device) or until the guest TSC reaches `CallBlock::args[0]`
    /// ([`super::NO_DEADLINE`]: events only). Returns at once if an event came since the last idle. Value: a packed
    /// [`super::Queues`]. These queues are served first, as if their number had been written to the network device's
    /// notification register. So a vCPU that sends and then waits exits once.
    pub const IDLE: u16 = 0x508;
    /// Send an event to the vCPU with this index, or to all others with [`super::KICK_OTHERS`].
    pub const KICK: u16 = 0x50c;
    /// The guest passed a milestone; value is one of [`super::milestone`], or any number from 0x100 on.
    pub const PROGRESS: u16 = 0x510;
    /// A named result: `args[0]` address and `args[1]` length of the UTF-8 name (at most [`super::NAME_MAX`] bytes),
    /// `args[2]` the value. A VM that reports too many of them ends.
    pub const RESULT: u16 = 0x514;
    /// Block until the monitor opens the VM's gate, which it does for all VMs of a run at once. Events neither end
    /// this wait nor are they kept for the next idle.
    pub const GATE: u16 = 0x51c;
    /// End the whole VM; the value is its exit code, see [`super::exit`].
    pub const EXIT: u16 = 0x518;
    /// Ports `FAULT + vector` are written by the monitor's own ring-0 stubs when a CPU exception is taken.
    pub const FAULT: u16 = 0x20;
}

/// Longest text in one console doorbell (units: bytes).
pub const CONSOLE_MAX: u32 = 4096;
/// Longest name in one result doorbell (units: bytes).
pub const NAME_MAX: u64 = 64;
/// `IDLE` deadline that never comes.
pub const NO_DEADLINE: u64 = u64::MAX;
/// `KICK` target: every vCPU of the VM but the caller.
pub const KICK_OTHERS: u32 = u32::MAX;

/// Milestones of the [`port::PROGRESS`] doorbell.
pub mod milestone {
    /// Guest code runs: the first thing the runtime rings, before any set-up of its own.
    pub const STARTED: u32 = 1;
    /// The workload is set up and starts to work.
    pub const READY: u32 = 2;
    /// The workload has done all it had to do, and its vCPUs idle from now on.
    pub const DONE: u32 = 3;
}

/// Exit codes the runtime itself uses; a workload's own codes are 0 (all well) to 99.
pub mod exit {
    /// The workload ended well.
    pub const OK: u32 = 0;
    /// A Rust panic; its message went to the console.
    pub const PANIC: u32 = 101;
    /// Boot page with another magic, version or sizes.
    pub const ABI_MISMATCH: u32 = 102;
    /// The command line cannot be understood; the reason went to the console.
    pub const BAD_CMDLINE: u32 = 103;
    /// The heap is used up.
    pub const OUT_OF_MEMORY: u32 = 104;
}

/// The boot-information page, written by the monitor before the first vCPU starts and constant from then on.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct BootInfo {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// `size_of::<BootInfo>()`.
    pub boot_info_size: u32,
    /// `size_of::<CallBlock>()`.
    pub call_block_size: u32,
    /// `size_of::<Gauge>()`.
    pub gauge_size: u32,
    /// `size_of::<Steal>()`.
    pub steal_size: u32,
    /// Keeps the structure free of padding; 0.
    pub unused: u32,
    /// vCPUs in this VM, from 1.
    pub vcpus: u32,
    /// Frequency of the guest TSC (units: kHz). The TSC is that of the host: all vCPUs and VMs share one clock.
    pub tsc_khz: u32,
    /// Address of `vcpus` consecutive [`CallBlock`]s.
    pub calls: u64,
    /// Address of `vcpus` consecutive [`Gauge`]s.
    pub gauges: u64,
    /// Address of `vcpus` consecutive [`Steal`]s.
    pub steals: u64,
    /// First byte of free memory; page-aligned.
    pub heap_start: u64,
    /// One past the last byte of free memory; page-aligned.
    pub heap_end: u64,
    /// Address of the device's registers, 0: no device. A network device's are those of virtio-mmio.
    pub device_mmio: u64,
    /// Bytes used of `cmdline`.
    pub cmdline_len: u32,
    /// Keeps the structure free of padding; 0.
    pub reserved: u32,
    /// UTF-8, words separated by spaces.
    pub cmdline: [u8; CMDLINE_MAX],
}

/// Arguments of one vCPU's doorbells. Written by the vCPU before it rings, read by the monitor before it returns.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct CallBlock {
    /// Meaning by doorbell, see [`port`].
    pub args: [AtomicU64; 8],
}

const _: () = assert!(size_of::<BootInfo>() <= 4096);
const _: () = assert!(size_of::<CallBlock>() == 64);
