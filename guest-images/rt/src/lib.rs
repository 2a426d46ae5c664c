//! The runtime of stile's unikernel guests.
//!
//! A guest program is a `no_std` binary that names its main function with [`entry!`]. Every vCPU of the VM runs that
//! function from the moment the VM starts, at CPL 3 in 64-bit mode, on a stack of its own. The runtime gives it the
//! doorbells of `stile-abi` ([`doorbell`]), time ([`clock`]), locks and messages that yield politely ([`sync`]), a heap
//! ([`heap`]) and TCP over virtio-net ([`net`]).
//!
//! There are no interrupts. A vCPU that has nothing to do rings the idle doorbell, and an event (a kick, a device)
//! makes it return. Faults end the VM with a report made by the monitor.
//!
//! Outside a guest (unit tests, lints) the crate builds as an ordinary library; only the feature `guest` adds the
//! entry point, the panic handler and the memory functions a freestanding binary needs.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod boot;
pub mod clock;
pub mod cmdline;
pub mod console;
pub mod cpu;
pub mod doorbell;
pub mod exec;
pub mod heap;
#[cfg(feature = "guest")]
mod mem;
pub mod net;
#[cfg(feature = "guest")]
mod start;
pub mod sync;
pub mod work;

pub use boot::Boot;
pub use cpu::Cpu;
pub use stile_abi as abi;

/// Names the program's main function, `fn(Cpu) -> u32`. Its return value on vCPU 0 is the VM's exit code. The other
/// vCPUs idle for good when their main function returns.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[cfg(feature = "guest")]
        #[unsafe(no_mangle)]
        extern "C" fn stile_main(index: u32) -> ! {
            let main: fn($crate::Cpu) -> u32 = $main;
            let cpu = $crate::Cpu::enter(index);
            cpu.leave(main(cpu))
        }
    };
}
