//! Prints the rules that the workspace at a given path breaks, and the places.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

use stile_structure::RULES;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let root = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| ".".into())).canonicalize()?;
    let mut code = ExitCode::SUCCESS;
    for rule in &RULES {
        let broken = (rule.check)(&root)?;
        println!(
            "{}: {}",
            rule.name,
            if broken.is_empty() { "kept".into() } else { format!("{} breaks", broken.len()) }
        );
        for text in &broken {
            println!("  {text}");
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}
