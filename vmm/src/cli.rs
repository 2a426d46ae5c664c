//! The program: its commands, and what its exit codes mean.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! //! | 1 | a guest or the run itself failed; or a figure is worse than in the report that `--baseline` names |
//! //! | 2 | the user's input cannot be used; nothing was started |
//! //! | 3 | KVM cannot be used here, or cannot run Linux guests |
//! | 4 | a Linux guest asked for a reboot, and nothing else went wrong |
//! | 5 | a Linux guest's kernel panicked, and nothing else went wrong |
//! | 6 | the jail refused a system call |
//! | 130 | ended by Ctrl-C; what was measured is kept |
//!
//! A write to a closed pipe ends the program with SIGPIPE.

mod args;
mod check;
mod compare;
mod demands;
mod ending;
mod ext;
mod failure;
mod guest_images;
mod guests;
mod interrupt;
mod jail;
mod linux;
mod live;
mod manual;
mod node;
mod notify;
mod outcome;
mod output;
mod pipe;
mod printer;
mod recordings;
mod request;
mod rounds;
mod run;
mod serve;
mod sim;
mod simulation;
mod small;
mod stats;
mod terminal;

use crate::diagnostics;
use args::{Cli, Command};
use failure::Failure;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Runs the command line of this process.
pub(crate) fn main() -> ExitCode {
    pipe::end_when_closed();
    let cli = Cli::of_process();
    // Reports of errors follow the terminal's width; without one they are as plain as a log wants them.
    let fancy = std::io::stderr().is_terminal();
    let _ = miette::set_hook(Box::new(move |_| {
        let options = miette::MietteHandlerOpts::new().unicode(fancy).color(fancy).width(110);
        Box::new(options.build())
    }));
    if let Err(error) = diagnostics::start(cli.verbosity) {
        let failure = Failure::Input(miette::Report::new(error));
        failure.tell();
        return ExitCode::from(failure.code());
    }
    let done = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Serve(args) => serve::serve(&args),
        Command::Node(command) => node::ask(&command),
        Command::Check(args) => check::check(&args),
        Command::Schema { sim, markdown } => small::schema(sim, markdown),
        Command::Compare(args) => compare::compare(&args),
        Command::Sim(args) => sim::sim(&args),
        Command::Doctor { costs: true, .. } => small::costs(),
        Command::Doctor { json, .. } => match small::doctor(json) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Guest(command) => guest_images::guest(&command),
        Command::Show(args) => small::show(&args),
        Command::Trace(args) => match &args.recording {
            Some(recording) => recordings::trace(recording, args.out.as_deref(), args.force),
            None => node::trace(&args),
        },
        Command::Why(args) => match &args.recording {
            Some(recording) => recordings::why(&args.vcpu, recording, args.node.json),
            None => node::why(&args),
        },
        Command::Replay { recording, json } => recordings::replay(&recording, json),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { folder } => manual::write(&folder),
        Command::CheckReport { file } => small::check_report(&file),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.tell();
            if matches!(failure, Failure::Unread) {
                pipe::end();
            }
            ExitCode::from(failure.code())
        }
    }
}
