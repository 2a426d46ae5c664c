//! The program `stile`: its commands, built from the crates below it.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
