//! The program: its commands, and what its exit codes mean.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | a guest or the run itself failed; or the run is worse than what `--baseline` names |
//! | 2 | what the user gave cannot be used; nothing was started |
//! | 3 | KVM cannot be used here, or not for such a guest |
//! | 4 | a Linux guest asked for a reboot, and nothing else went wrong |
//! | 5 | a Linux guest's kernel panicked, and nothing else went wrong |
//! | 130 | ended by Ctrl-C; what was measured is kept |
//!
//! A program whose output nobody reads any more is ended by SIGPIPE.

mod args;
mod check;
mod compare;
mod demands;
mod ending;
mod guest_images;
mod guests;
mod linux;
mod output;
mod pipe;
mod recordings;
mod run;
mod sim;
mod small;
mod stats;
mod terminal;

use args::{Cli, Command};
use std::io::IsTerminal;
use std::process::ExitCode;

/// Why a command did not do what it was asked.
#[derive(Debug)]
enum Failure {
    /// A message for the user, as a report.
    Input(miette::Report),
    /// KVM cannot be used.
    NoKvm(stile_host::KvmUnavailable),
    /// KVM is there, but not for such a guest.
    Unsuited(miette::Report),
    /// The run failed.
    Run(miette::Report),
    /// Guests asked for a reboot.
    Rebooted(miette::Report),
    /// Guests' kernels panicked.
    Panicked(miette::Report),
    /// It is worse than its baseline, which was told.
    Worse,
    /// The user ended it.
    Interrupted,
    /// Nobody reads standard output any more.
    Unread,
}

impl Failure {
    fn input(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Input(miette::Report::from_err(error))
    }

    fn run(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Run(miette::Report::from_err(error))
    }

    /// Tells the user.
    fn tell(&self) {
        match self {
            Self::Input(report)
            | Self::Unsuited(report)
            | Self::Run(report)
            | Self::Rebooted(report)
            | Self::Panicked(report) => output::note(format_args!("{report:?}")),
            Self::NoKvm(why) => output::note(format_args!("stile: {why}")),
            Self::Worse | Self::Interrupted | Self::Unread => {}
        }
    }

    fn code(&self) -> u8 {
        match self {
            Self::Run(_) | Self::Worse | Self::Unread => 1,
            Self::Input(_) => 2,
            Self::NoKvm(_) | Self::Unsuited(_) => 3,
            Self::Rebooted(_) => 4,
            Self::Panicked(_) => 5,
            Self::Interrupted => 130,
        }
    }
}

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
    let done = match cli.command {
        Command::Run(args) => run::run(&args),
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
        Command::Trace { recording, out, force } => recordings::trace(&recording, out.as_deref(), force),
        Command::Why { vcpu, recording, json } => recordings::why(&vcpu, &recording, json),
        Command::Replay { recording, json } => recordings::replay(&recording, json),
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
