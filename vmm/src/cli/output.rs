//! What the program says: on standard output what it was asked for, on standard error what there is to say about it.
//!
//! A standard output that cannot be written is a failure like any other. A standard error that cannot be written is none:
//! there is nowhere left to say so.

use super::Failure;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Writes this to standard output.
pub(super) fn print(text: Arguments<'_>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    // What is left in the buffer when the program ends is lost without a word.
    out.write_fmt(text).and_then(|()| out.flush()).map_err(failure)
}

/// The same, and ends the line.
pub(super) fn line(text: Arguments<'_>) -> Result<(), Failure> {
    print(format_args!("{text}\n"))
}

/// Writes this to standard error and ends the line.
pub(super) fn note(text: Arguments<'_>) {
    tell(&format!("{text}\n"));
}

/// Writes this to standard error.
pub(super) fn tell(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Refuses to write over a file that is there, unless the user says so; `option` named it. What is no regular file, such as
/// `/dev/null` or a pipe, loses nothing.
pub(super) fn not_there(option: &str, path: &Path, force: bool) -> Result<(), Failure> {
    if force || !path.is_file() {
        return Ok(());
    }
    Err(Failure::Input(miette::miette!(
        help = "name another file, or give --force to write over this one",
        "{option}: {} is there already",
        path.display()
    )))
}

/// What follows if standard output cannot be written.
pub(super) fn failure(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::Run(miette::miette!(
            help = "make room where it goes, or have it go elsewhere",
            "cannot write to standard output: {error}"
        )),
    }
}
