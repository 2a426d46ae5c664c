//! The first process of stile's Linux guests: makes the guest usable, carries out the orders of the kernel's command
//! line, reports, and powers off.
//!
//! 1. File systems are mounted ([`mounts`]), and drivers loaded for the devices that are there ([`drivers`]).
//! 2. The orders ([`orders`]) are carried out one after the other ([`work`]), up to the first that fails. Without
//!    orders there is a shell on the console.
//! 3. If all went well the guest powers off. If not, it restarts, which tells a monitor that it did not end as it
//!    should.
//! 4. If the power button is pressed meanwhile, the guest powers off, whatever it does ([`button`]).
//!
//! Reports go to the console, and to the host over vsock ([`report`]). Started as any other process, the program
//! carries out the one order that its arguments are, so that a host can make and check the contents of disks as guests
//! do.

mod attack;
mod button;
mod disk;
mod drivers;
mod mounts;
mod orders;
mod report;
mod work;

use button::Button;
use orders::Order;
use report::Reporter;
use rustix::system::RebootCommand;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stile_abi::linux::{ORDERS, Report};

fn main() -> ExitCode {
    if std::process::id() == 1 {
        let command = if serve() { RebootCommand::PowerOff } else { RebootCommand::Restart };
        rustix::fs::sync();
        // It does not come back; should it, the kernel panics as its first process ends.
        let error = rustix::system::reboot(command);
        eprintln!("cannot end the guest: {error:?}");
        return ExitCode::FAILURE;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    let reporter = Reporter::console_only();
    match Order::parse(&words.join(" ")).map_err(Into::into).and_then(|order| work::carry_out(&order, 0, &reporter)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Time since the kernel began to count it (units: microseconds).
fn uptime_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = Duration::try_from(now).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

/// From the first moment to the last order; true if all went well.
fn serve() -> bool {
    let after_us = uptime_us();
    let mut problems = mounts::mount_all();
    problems.extend(drivers::load_needed());
    let reporter = Arc::new(Reporter::connect());
    reporter.report(Report::Started { after_us });
    problems.iter().for_each(|problem| reporter.complain(problem));
    let button = Button::watch(&reporter);
    let well = match std::fs::read_to_string("/proc/cmdline") {
        Ok(line) => obey(&line, &reporter, &button),
        Err(error) => {
            reporter.complain(&format!("cannot read the kernel's command line: {error}"));
            false
        }
    };
    button.give_way();
    reporter.report(Report::Finished { well });
    well
}

/// Carries out the orders of a command line, up to the first that fails.
fn obey(command_line: &str, reporter: &Reporter, button: &Button) -> bool {
    let text = orders::parameter(command_line, ORDERS);
    let texts = text.as_deref().map_or_else(|| vec!["shell"], orders::split);
    (0..).zip(texts).all(|(number, words)| {
        button.give_way();
        reporter.report(Report::Begin { order: number, words });
        let begun = Instant::now();
        let done = Order::parse(words).map_err(Into::into).and_then(|order| work::carry_out(&order, number, reporter));
        let failure = done.as_ref().err().map(ToString::to_string);
        let took_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        reporter.report(Report::End { order: number, took_us, failure: failure.as_deref() });
        done.is_ok()
    })
}
