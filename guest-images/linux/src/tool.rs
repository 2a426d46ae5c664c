//! Programs of the host that do a part of the work, and the errors when one fails.

use std::io;
use std::process::{Command, ExitStatus};

/// Why a program of the host failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The program is not installed.
    #[error("there is no program `{program}` (package {package}; packages are taken from Debian's archive by apt)")]
    Missing {
        /// Its name.
        program: String,
        /// Debian's package that contains it.
        package: &'static str,
    },
    /// The program cannot be started.
    #[error("cannot start `{program}`")]
    Start {
        /// Its name.
        program: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The program failed.
    #[error("`{command}` failed ({status}): {said}")]
    Failed {
        /// Its command line.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// Its last words on standard error.
        said: String,
    },
}

/// Runs a program, which is in that package. Returns its standard output.
pub fn output(command: &mut Command, package: &'static str) -> Result<Vec<u8>, ToolError> {
    let program = command.get_program().to_string_lossy().into_owned();
    // The output of programs is parsed, and shown, in one language.
    let done = command.env("LC_ALL", "C").output().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => ToolError::Missing { program: program.clone(), package },
        _ => ToolError::Start { program: program.clone(), source },
    })?;
    if done.status.success() {
        return Ok(done.stdout);
    }
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    let words: Vec<_> = std::iter::once(program.as_str().into()).chain(arguments).collect();
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(ToolError::Failed { command: words.join(" "), status: done.status, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named_with_its_package() {
        let error = output(&mut Command::new("no-such-program"), "some-package").unwrap_err();
        assert!(matches!(&error, ToolError::Missing { package: "some-package", .. }), "{error}");
    }

    #[test]
    fn a_failure_tells_the_command_and_its_last_words() {
        let error = output(Command::new("sh").args(["-c", "echo why >&2; exit 3"]), "dash").unwrap_err();
        assert!(error.to_string().contains("why") && error.to_string().contains("sh -c"), "{error}");
    }
}
