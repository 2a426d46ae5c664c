//! Runs in the outer system beside the tests: holds what must not change meanwhile, and tells the lane that each CPU is
//! alive.

mod keys;
mod signs;

use std::process::ExitCode;
use stile_sched::kick;

/// Reports that the keys are held.
const HELD: &str = "/run/keys-held";

fn main() -> ExitCode {
    kick::block();
    match keys::hold().and_then(|held| std::fs::write(HELD, "").map(|()| held)) {
        Ok(_held) => {
            signs::of_life();
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("companion: {error}");
            ExitCode::FAILURE
        }
    }
}
