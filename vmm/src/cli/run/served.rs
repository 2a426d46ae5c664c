//! `stile run --socket`: the VMs of a file on a node, which can be watched and changed over its socket.

use super::{LOOK_EVERY, console};
use crate::cli::args::RunArgs;
use crate::cli::ending::{self, Ended};
use crate::cli::failure::Failure;
use crate::cli::guests::Guests;
use crate::cli::interrupt;
use crate::cli::pipe;
use crate::cli::printer::Printer;
use crate::cli::serve::{Served, Wanted};
use crate::cli::small;
use crate::cli::stats::summarize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stile_api::VmState;
use stile_machine::vm::console::Sink;
use stile_node::{Node, NodeVm};

pub(super) fn run(args: &RunArgs, socket: &Path) -> Result<(), Failure> {
    let config = small::load(&args.file, args.policy.as_ref())?;
    // The node opens them anew; mistakes are told here, with their place in the file.
    Guests::open(&config, &args.file)?.suit_host(args.try_linux)?;
    let interrupted = interrupt::on_interrupt_or_end()?;
    let unread = Arc::new(AtomicBool::new(false));
    pipe::tell_when_closed(&unread).map_err(Failure::run)?;
    let printer = Printer::new();
    let served = Served::open(Wanted {
        config: &config,
        given: None,
        socket: socket.to_owned(),
        http: None,
        files: Vec::new(),
        recordings: None,
        echo: Some(console(args, &config, Sink::Terminal)?),
        try_linux: args.try_linux,
        no_jail: args.no_jail,
    })?;
    let begun = served.create_all(&config, false);
    served.tell();
    let limit = args.limit.map(Duration::from_secs_f64);
    let by_user = begun.is_ok() && wait(&served.node, [&interrupted, &unread], limit);
    let node = Arc::clone(&served.node);
    let hanging = served.end(Duration::ZERO);
    begun?;
    let (vms, reading) = (node.vms(), node.reading());
    let all: Vec<Ended> = vms.iter().filter_map(|vm| ended(vm)).collect();
    let ended = ending::tell(&all, vms.len(), &printer);
    let told = summarize(&reading, &printer).and_then(|()| printer.finish());
    if hanging.is_err() {
        let failures = [told.err(), ended.err()];
        failures.into_iter().flatten().for_each(|failure| failure.tell());
        // To free the VMs would be to wait for them.
        std::process::exit(1);
    }
    told?;
    match by_user {
        _ if unread.load(Ordering::Relaxed) => Err(Failure::Unread),
        true => Err(Failure::Interrupted),
        false => ended,
    }
}

/// Waits until no VM runs or is paused. Returns true if one of these flags ended the wait.
fn wait(node: &Node, flags: [&AtomicBool; 2], limit: Option<Duration>) -> bool {
    let start = Instant::now();
    while node.vms().iter().any(|vm| vm.state() != VmState::Stopped) {
        if flags.iter().any(|flag| flag.load(Ordering::Relaxed)) {
            return true;
        }
        if limit.is_some_and(|limit| start.elapsed() >= limit) {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    false
}

fn ended(vm: &NodeVm) -> Option<Ended> {
    let outcome = vm.outcome()?;
    Some(Ended { name: vm.name().to_owned(), outcome, results: vm.results() })
}
