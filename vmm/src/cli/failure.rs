//! Why a command failed, and the exit code that follows.

use super::output;
use crate::diagnostics;
use miette::Diagnostic;
use tracing::error;

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// A message for the user, printed as a report.
    Input(miette::Report),
    /// KVM cannot be used.
    NoKvm(stile_host::KvmUnavailable),
    /// KVM can be used, but not for Linux guests.
    Unsuited(miette::Report),
    /// The run failed.
    Run(miette::Report),
    /// Guests asked for a reboot.
    Rebooted(miette::Report),
    /// Guests' kernels panicked.
    Panicked(miette::Report),
    /// A figure is worse than in the baseline; the message has been printed.
    Worse,
    /// The user ended the program.
    Interrupted,
    /// The reader of standard output has closed it.
    Unread,
}

impl Failure {
    /// The user's input cannot be used, for this reason.
    pub(super) fn input(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Input(miette::Report::from_err(error))
    }

    /// The run failed, for this reason.
    pub(super) fn run(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Run(miette::Report::from_err(error))
    }

    /// Prints the failure on standard error: as a report for people, or as one line of JSON for each mistake.
    pub(super) fn tell(&self) {
        match self {
            Self::Input(report)
            | Self::Unsuited(report)
            | Self::Run(report)
            | Self::Rebooted(report)
            | Self::Panicked(report) => {
                if diagnostics::are_json() {
                    log(&**report);
                } else {
                    output::note(format_args!("{report:?}"));
                }
            }
            Self::NoKvm(why) => error!("{why}"),
            Self::Worse | Self::Interrupted | Self::Unread => {}
        }
    }

    /// The exit code of the program.
    pub(super) fn code(&self) -> u8 {
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

/// Logs an error, and each of those that it is made of, with its causes and what to do about it.
fn log(wrong: &dyn Diagnostic) {
    let causes = std::iter::successors(wrong.source(), |cause| cause.source()).map(ToString::to_string);
    let help = wrong.help().map(|help| help.to_string());
    error!(causes = causes.collect::<Vec<_>>().join(": "), remedy = help, "{wrong}");
    wrong.related().into_iter().flatten().for_each(log);
}
