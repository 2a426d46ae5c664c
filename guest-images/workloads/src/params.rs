//! A workload's parameters, from the command line.

use core::fmt::Write;
use stile_rt::abi::exit;
use stile_rt::clock::Clock;
use stile_rt::cmdline::{self, BadValue};
use stile_rt::console::Console;
use stile_rt::sync::{Manners, Patience};
use stile_rt::work::Work;
use stile_rt::{Boot, Cpu, doorbell};

/// The parameters that all workloads share.
#[derive(Debug, Clone, Copy)]
pub struct Params {
    cpu: Cpu,
    cmdline: &'static str,
    loops_per_us: u64,
    /// How waits spin and yield.
    pub patience: Patience,
    /// Nanoseconds.
    pub clock: Clock,
}

impl Params {
    /// Reads the command line. Ends the VM with a message if a value is bad.
    pub fn of(cpu: Cpu) -> Self {
        let boot = Boot::page();
        let cmdline = boot.cmdline();
        let manners = match cmdline::get(cmdline, "hint") {
            None | Some("full") => Manners::Telling,
            Some("none") => Manners::Wordless,
            Some("silent") => Manners::Silent,
            Some(other) => refuse(cpu, format_args!("hint={other} is none of full, none and silent")),
        };
        let spins = checked(cpu, cmdline::number(cmdline, "spins", Patience::SPINS.into())) as u32;
        Self {
            cpu,
            cmdline,
            loops_per_us: checked(cpu, cmdline::number(cmdline, "loops_per_us", 1000)),
            patience: Patience { spins, manners },
            clock: Clock::new(boot),
        }
    }

    /// A number of the command line.
    pub fn number(&self, key: &'static str, default: u64) -> u64 {
        checked(self.cpu, cmdline::number(self.cmdline, key, default))
    }

    /// A number of the command line from 1 to a million. A few dozen times a million can be counted in 32 bits.
    pub fn count(&self, key: &'static str, default: u64) -> u32 {
        match self.number(key, default) {
            n @ 1..=1_000_000 => n as u32,
            n => refuse(self.cpu, format_args!("{key}={n} is not from 1 to 1000000")),
        }
    }

    /// A text of the command line.
    pub fn text(&self, key: &str) -> Option<&'static str> {
        cmdline::get(self.cmdline, key)
    }

    /// Work of `ns` nanoseconds.
    pub fn work(&self, ns: u64) -> Work {
        Work::of_ns(ns, self.loops_per_us)
    }
}

fn checked(cpu: Cpu, value: Result<u64, BadValue<'_>>) -> u64 {
    value.unwrap_or_else(|bad| refuse(cpu, format_args!("{bad}")))
}

/// Says what is wrong with the command line and ends the VM.
pub fn refuse(cpu: Cpu, why: core::fmt::Arguments<'_>) -> ! {
    fail(cpu, exit::BAD_CMDLINE, why)
}

/// Says what went wrong and ends the VM with this exit code.
pub fn fail(cpu: Cpu, code: u32, why: core::fmt::Arguments<'_>) -> ! {
    let mut out = Console::new(cpu);
    let _ = writeln!(out, "{why}");
    out.flush();
    doorbell::exit(code)
}
