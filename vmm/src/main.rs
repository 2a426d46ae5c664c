//! The program `stile`: its commands, made of the crates below it.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
