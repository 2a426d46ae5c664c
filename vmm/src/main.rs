//! The program `stile`.

fn main() -> std::process::ExitCode {
    stile::cli::main()
}
