//! Man pages and completions for shells, both made from the definition of the command line: so they name what there is.

use super::args::Cli;
use super::failure::Failure;
use super::output;
use clap::CommandFactory;
use clap_complete::Shell;
use std::fs;
use std::path::Path;

/// Writes a page for the program and one for each command into this folder, which is made if it is missing.
pub(super) fn write(folder: &Path) -> Result<(), Failure> {
    let written = fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|error| {
        Failure::Run(miette::miette!(
            help = "name a folder that can be written",
            "cannot write man pages into {}: {error}",
            folder.display()
        ))
    })
}

/// Prints the completions for this shell.
pub(super) fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "stile", &mut script);
    output::print(format_args!("{}", String::from_utf8_lossy(&script)))
}
