//! Standard output of a run. Nothing that the run does waits for a reader: the process's writing thread writes.

use super::failure::Failure;
use super::output;
use std::fmt::Arguments;
use std::io::{self, Write};
use stile_machine::vm::console::{Outlet, STANDARD_OUTPUT, Stalled};

/// Prints results of a run.
#[derive(Debug, Clone)]
pub(super) struct Printer(Outlet);

impl Printer {
    pub(super) fn new() -> Self {
        let write = |text: &[u8]| {
            let mut out = io::stdout().lock();
            out.write_all(text).and_then(|()| out.flush())
        };
        Self(Outlet::new(STANDARD_OUTPUT, Box::new(write)))
    }

    /// The way to standard output.
    pub(super) fn outlet(&self) -> &Outlet {
        &self.0
    }

    /// Prints this line. An error may come from an earlier line.
    pub(super) fn line(&self, text: Arguments<'_>) -> Result<(), Failure> {
        self.0.put_patiently(format!("{text}\n").as_bytes()).map_err(unread)?;
        self.outcome()
    }

    /// Prints this line if there is room for it: the next one tells as much.
    pub(super) fn line_if_read(&self, text: Arguments<'_>) -> Result<(), Failure> {
        // What is lost for lack of room was not needed.
        let _ = self.0.put(format!("{text}\n").as_bytes());
        self.outcome()
    }

    /// Waits until all is printed.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        self.0.flush().map_err(unread)?;
        self.outcome()
    }

    fn outcome(&self) -> Result<(), Failure> {
        self.0.take_lost().error.map_or(Ok(()), |error| Err(output::failure(error)))
    }
}

fn unread(stalled: Stalled) -> Failure {
    Failure::Run(miette::miette!(
        help = "read it, or have it go to a file; what guests and the run printed since is lost",
        "{stalled}"
    ))
}
