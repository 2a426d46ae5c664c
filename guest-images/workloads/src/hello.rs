//! Says hello and ends. It is the smallest guest, and its start is measured.

use core::fmt::Write;
use stile_rt::abi::exit;
use stile_rt::console::{Console, Serial};
use stile_rt::{Boot, Cpu, cmdline};

/// vCPU 0 greets; `console=serial` uses the serial port instead of the doorbell, `console=none` says nothing.
pub fn main(cpu: Cpu) -> u32 {
    if cpu.index() == 0 {
        let boot = Boot::page();
        let _ = match cmdline::get(boot.cmdline(), "console") {
            Some("none") => Ok(()),
            Some("serial") => greet(&mut Serial, boot),
            _ => greet(&mut Console::new(cpu), boot),
        };
    }
    exit::OK
}

fn greet(out: &mut impl Write, boot: Boot) -> core::fmt::Result {
    writeln!(out, "hello from {} vCPU{}", boot.vcpus(), if boot.vcpus() == 1 { "" } else { "s" })
}
