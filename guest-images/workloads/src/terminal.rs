//! A terminal and its shell. Keys come every `period_us`. Each key is read, sent to the shell, echoed and drawn. vCPU 0
//! is the terminal, vCPU 1 the shell. Each blocks until the other wakes it. The recorded response is the time from the
//! key to its echo on screen. An echo of another key ends the VM.

use crate::frames::{deadlines, finished, sleep_until};
use crate::params::Params;
use core::sync::atomic::{AtomicU64, Ordering};
use stile_rt::abi::{exit, milestone};
use stile_rt::{Boot, Cpu, doorbell};

/// The last key sent to the shell, and the last echo; 0 before the first.
static KEY: AtomicU64 = AtomicU64::new(0);
static ECHO: AtomicU64 = AtomicU64::new(0);

/// The vCPUs.
const TERMINAL: u32 = 0;
const SHELL: u32 = 1;

/// Two vCPUs take part. Other vCPUs have no work.
pub fn main(cpu: Cpu) -> u32 {
    let params = Params::of(cpu);
    if Boot::page().vcpus() < 2 {
        crate::params::refuse(cpu, format_args!("a terminal wants two vCPUs: itself and its shell"));
    }
    match cpu.index() {
        TERMINAL => terminal(cpu, &params),
        SHELL => shell(cpu, &params),
        _ => exit::OK,
    }
}

/// Time that a key takes (units: ns): a fifth to be read, three fifths in the shell, a fifth to be drawn.
fn work_ns(params: &Params) -> u64 {
    params.number("work_us", 500) * 1000
}

fn terminal(cpu: Cpu, params: &Params) -> ! {
    let work = params.work(work_ns(params) / 5);
    let mut deadlines = deadlines(params);
    doorbell::progress(milestone::READY);
    for key in 1.. {
        sleep_until(cpu, deadlines.due());
        work.run(cpu);
        // Release pairs with the Acquire in the shell; the kick comes after it.
        KEY.store(key, Ordering::Release);
        doorbell::kick(SHELL);
        let echo = wait_for_change(cpu, &ECHO, key - 1);
        assert!(echo == key, "key {key} was echoed as {echo}");
        work.run(cpu);
        finished(cpu, params, &mut deadlines);
    }
    unreachable!("nobody types that much")
}

fn shell(cpu: Cpu, params: &Params) -> ! {
    let work = params.work(work_ns(params) * 3 / 5);
    let mut last = 0;
    loop {
        last = wait_for_change(cpu, &KEY, last);
        work.run(cpu);
        ECHO.store(last, Ordering::Release);
        doorbell::kick(TERMINAL);
        cpu.op_done();
    }
}

/// Blocks until a word has another value than this.
fn wait_for_change(cpu: Cpu, word: &AtomicU64, was: u64) -> u64 {
    loop {
        // Acquire pairs with the Release of the vCPU that wrote it.
        match word.load(Ordering::Acquire) {
            now if now != was => return now,
            _ => doorbell::idle(cpu, None),
        }
    }
}
