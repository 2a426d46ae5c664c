//! The program `stile`: its commands, made of the crates below it.

mod cli;
mod diagnostics;

fn main() -> std::process::ExitCode {
    cli::main()
}
