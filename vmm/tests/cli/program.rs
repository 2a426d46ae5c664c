//! The program and how its runs end.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_stile");

/// A folder with a configuration in it.
pub(crate) fn folder(config: &str) -> TempDir {
    let folder = TempDir::new().expect("a test may write temporary files");
    fs::write(folder.path().join("stile.toml"), config).expect("as above");
    folder
}

pub(crate) fn stile(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

/// How a run ended: exit code, standard output and error.
pub(crate) type Ended = (Option<i32>, String, String);

/// Exit code, standard output, and the words of standard error: messages are broken into lines by width.
pub(crate) fn output(mut command: Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().expect("cargo built the program");
    // The frame of a message begins each further line.
    let words = |text: &str| text.split_whitespace().filter(|word| *word != "|").collect::<Vec<_>>().join(" ");
    let stderr = words(&String::from_utf8_lossy(&stderr));
    // Tests run beside each other, and take time from each other's guests.
    let stderr = match stderr.split_once("warning: other programs took") {
        Some((before, warning)) => {
            // It ends with what to do about it.
            let rest = warning.split_once("(`pcpus` in [host])").map_or("", |(_, rest)| rest);
            let rest = rest.trim_start_matches([')', ' ']);
            format!("{before}{rest}").trim_end().to_owned()
        }
        None => stderr,
    };
    (status.code(), String::from_utf8_lossy(&stdout).into_owned(), stderr)
}

/// Both `check` and `run` refuse the folder's configuration with exit code 2 and a message that holds all of these, and
/// start nothing.
#[track_caller]
pub(crate) fn refused(folder: &Path, told: &[&str]) {
    for command in ["check", "run"] {
        let (status, stdout, stderr) = output(stile(folder, &[command, "stile.toml"]));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{command}: {stderr}");
        for words in told {
            assert!(stderr.contains(words), "{command}: no `{words}` in: {stderr}");
        }
    }
}
