//! Output of the program: results go to standard output, messages to standard error.
//!
//! If standard output cannot be written, the command fails. A failed write to standard error is ignored: there is no
//! place left for a message.

use super::failure::Failure;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Writes this to standard output.
pub(super) fn print(text: Arguments<'_>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    // What is still in the buffer when the program ends is lost.
    out.write_fmt(text).and_then(|()| out.flush()).map_err(failure)
}

/// Writes this line to standard output.
pub(super) fn line(text: Arguments<'_>) -> Result<(), Failure> {
    print(format_args!("{text}\n"))
}

/// Writes this line to standard error.
pub(super) fn note(text: Arguments<'_>) {
    tell(&format!("{text}\n"));
}

/// Writes this to standard error.
pub(super) fn tell(text: &str) {
    crate::diagnostics::write_to_stderr(text.as_bytes());
}

/// Refuses to overwrite the file that `option` names, unless with `force`. A path that is not a regular file, such as
/// `/dev/null` or a pipe, is accepted: writing to it loses nothing.
pub(super) fn not_there(option: &str, path: &Path, force: bool) -> Result<(), Failure> {
    if force || !path.is_file() {
        return Ok(());
    }
    Err(Failure::Input(miette::miette!(
        help = "name another file, or give --force to overwrite this one",
        "{option}: {} exists",
        path.display()
    )))
}

/// The failure of writing to standard output.
pub(super) fn failure(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::Run(miette::miette!(
            help = "make room where it goes, or have it go elsewhere",
            "cannot write to standard output: {error}"
        )),
    }
}
