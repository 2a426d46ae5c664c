//! Carrying orders out.

use crate::attack::{self, AttackError};
use crate::disk::{self, DiskError};
use crate::orders::{Order, OrderError};
use crate::report::Reporter;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use stile_abi::linux::Report;

/// Where programs are.
const PATH: &str = "/bin:/usr/bin";

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkError {
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Attack(#[from] AttackError),
    #[error("cannot run {program}: {source}")]
    Start { program: String, source: io::Error },
    #[error("the host does not say that the gate is open: {0}")]
    Gate(io::Error),
    #[error("{0}")]
    Status(ExitStatus),
}

/// Carries out an order of this number.
pub(crate) fn carry_out(order: &Order, number: u32, reporter: &Reporter) -> Result<(), WorkError> {
    match order {
        Order::Idle(Some(time)) => std::thread::sleep(*time),
        Order::Idle(None) => loop {
            std::thread::sleep(Duration::MAX);
        },
        Order::Gate => reporter.wait_for_host().map_err(WorkError::Gate)?,
        Order::Write(extent) => disk::write(extent)?,
        Order::Check(extent) => disk::check(extent)?,
        Order::Shell => shell()?,
        Order::Attack(attack) => {
            let made = attack::make(attack)?;
            reporter.report(Report::Output { order: number, line: &made });
        }
        Order::Program { words, background: true } => run_beside(words)?,
        Order::Program { words, background: false } => run(words, number, reporter)?,
    }
    Ok(())
}

/// A program and its arguments, with the environment that programs get.
fn command(words: &[String]) -> Command {
    let (program, arguments) = words.split_first().expect("an order has words");
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", PATH).env("HOME", "/").env("TERM", "linux");
    command
}

fn start(command: &mut Command) -> Result<Child, WorkError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.spawn().map_err(|source| WorkError::Start { program, source })
}

fn wait(mut child: Child, program: &str) -> Result<(), WorkError> {
    let status = child.wait().map_err(|source| WorkError::Start { program: program.to_owned(), source })?;
    if status.success() { Ok(()) } else { Err(WorkError::Status(status)) }
}

/// Runs a program to its end and reports what it prints.
fn run(words: &[String], number: u32, reporter: &Reporter) -> Result<(), WorkError> {
    let program = &words[0];
    let pipe = || -> io::Result<_> {
        let (reader, writer) = io::pipe()?;
        Ok((reader, writer.try_clone()?, writer))
    };
    let (reader, out, err) = pipe().map_err(|source| WorkError::Start { program: program.clone(), source })?;
    let child = {
        // The command holds the writing ends; the reader sees the end only once they are gone.
        let mut command = command(words);
        start(command.stdin(Stdio::null()).stdout(out).stderr(err))?
    };
    tell(reader, number, reporter);
    wait(child, program)
}

/// Reports lines until every writer has closed its end.
fn tell(reader: PipeReader, number: u32, reporter: &Reporter) {
    for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
        reporter.report(Report::Output { order: number, line: &String::from_utf8_lossy(&line) });
    }
}

/// Starts a program that runs on beside the next orders, up to the end of the guest. What it prints goes to the
/// console.
fn run_beside(words: &[String]) -> Result<(), WorkError> {
    start(command(words).stdin(Stdio::null())).map(drop)
}

/// A shell with the console as its terminal. Its end counts as success, whatever the last command was.
fn shell() -> Result<(), WorkError> {
    let words = ["setsid", "cttyhack", "sh"].map(str::to_owned);
    match wait(start(&mut command(&words))?, &words[0]) {
        Err(WorkError::Status(_)) => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(text: &str) -> Result<(), WorkError> {
        carry_out(&Order::parse(text)?, 0, &Reporter::console_only())
    }

    #[test]
    fn a_programs_exit_code_is_the_orders() {
        done("true").unwrap();
        assert!(matches!(done("false"), Err(WorkError::Status(status)) if status.code() == Some(1)));
    }

    #[test]
    fn a_program_that_is_not_there_fails_with_its_name() {
        assert!(done("no-such-program").unwrap_err().to_string().contains("no-such-program"));
    }

    #[test]
    fn output_without_an_end_of_line_and_of_both_streams_is_awaited() {
        done("printf x").unwrap();
        done("ls /no-such-folder").unwrap_err();
    }

    #[test]
    fn a_gate_without_a_host_stays_shut() {
        assert!(matches!(done("gate"), Err(WorkError::Gate(_))));
    }

    #[test]
    fn what_runs_beside_is_not_awaited() {
        let begun = std::time::Instant::now();
        done("sleep 2 &").unwrap();
        assert!(begun.elapsed() < Duration::from_secs(2));
    }
}
