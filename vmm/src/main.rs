//! The program `stile`: its commands, built from the crates below it.

mod cli;
mod diagnostics;

fn main() -> std::process::ExitCode {
    cli::main()
}
