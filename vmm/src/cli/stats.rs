//! Shows how a run's vCPUs spend their time: `stile run --stats`, or without it a line for each VM at the end.
//!
//! On a terminal the table of the last interval stays in place below the output of the guests; elsewhere a table is
//! printed for every interval. Nothing here measures: see [`stile_metrics`].

use super::args::RunArgs;
use super::failure::Failure;
use super::live;
use super::printer::Printer;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::sync::Arc;
use stile_machine::vm::console::Sink;
use stile_metrics::table::{self, Frame};
use stile_metrics::{Reading, json, summary};
use stile_node::Machine;
use stile_report::table::Screen;
use stile_sched::time::monotonic;
use stile_sched::{Domain, Nanos, Time};
use tracing::warn;

/// The largest number of lines for VMs and vCPUs: a longer table is not read.
const MOST_ROWS: usize = 40;
/// The part of the time on pCPUs from which on it is said that other programs took it.
const MUCH_TAKEN: f64 = 0.05;
/// Columns of a table that does not go to a terminal.
const WIDTH_OF_BLOCKS: usize = 100;
/// Lines of a table besides those for VMs and vCPUs: two for the domain, the frame, the heading, the sum, the number of
/// lines left out, the cursor.
const OTHER_ROWS: usize = 10;

/// The figures that a run prints and writes.
pub(super) struct Stats {
    domain: Arc<dyn Domain>,
    pcpus: usize,
    /// Time between two readings; `None`: no interval was asked for.
    every: Option<Nanos>,
    began: Time,
    last: Option<Reading>,
    tables: Option<Tables>,
    json: Option<BufWriter<File>>,
    printer: Printer,
}

/// Where tables are printed.
enum Tables {
    /// In place, on a terminal.
    Live(ProgressBar),
    /// One below the other, in a file or pipe.
    Blocks,
}

impl Stats {
    /// The statistics that the options ask for.
    pub(super) fn new(
        args: &RunArgs,
        pcpus: usize,
        domain: &Arc<dyn Domain>,
        printer: &Printer,
    ) -> Result<Self, Failure> {
        let json = args.stats_json.as_ref().map(|path| {
            let cannot = |e| Failure::Input(miette::miette!("--stats-json: cannot write {}: {e}", path.display()));
            File::create(path).map(BufWriter::new).map_err(cannot)
        });
        let json = json.transpose()?;
        let tables = args.stats.map(|_| match std::io::stdout().is_terminal() {
            true => Tables::Live(live::table(printer)),
            false => Tables::Blocks,
        });
        let seconds = args.stats.or(json.is_some().then_some(1.0));
        let every = seconds.map(|seconds| Nanos((seconds * 1e9) as u64));
        let (domain, printer) = (Arc::clone(domain), printer.clone());
        Ok(Self { domain, pcpus, every, began: monotonic(), last: None, tables, json, printer })
    }

    /// Returns where guests print lines, so that they do not break the table.
    pub(super) fn console(&self) -> Sink {
        match &self.tables {
            Some(Tables::Live(bar)) => live::above(bar, &self.printer),
            _ => Sink::Terminal,
        }
    }

    /// Takes and prints a reading if the interval has passed.
    pub(super) fn look(&mut self, vms: &[Machine]) -> Result<(), Failure> {
        let since = self.last.as_ref().map_or(self.began, |last| last.at);
        if self.every.is_none_or(|every| monotonic().since(since) < every) {
            return Ok(());
        }
        let now = Reading::take(vms, &*self.domain, self.last.as_ref());
        self.write_json(&now, false)?;
        let during = self.last.as_ref().map_or_else(|| now.clone(), |last| now.since(last));
        match &self.tables {
            Some(Tables::Live(bar)) => bar.set_message(table::interval(&during, self.frame(now.at.since(since)))),
            Some(Tables::Blocks) => {
                let table = table::interval(&during, self.frame(now.at.since(since)));
                self.printer.line_if_read(format_args!("{table}"))?;
            }
            None => {}
        }
        self.last = Some(now);
        Ok(())
    }

    /// Removes the live table.
    pub(super) fn clear(&self) {
        if let Some(Tables::Live(bar)) = &self.tables {
            bar.finish_and_clear();
        }
    }

    /// Prints the sums after the VMs have ended: tables if the user asked for any, else a line for each VM.
    pub(super) fn finish(mut self, vms: &[Machine]) -> Result<(), Failure> {
        if self.every.is_none() {
            return summarize(&Reading::take(vms, &*self.domain, None), &self.printer);
        }
        let all = Reading::take(vms, &*self.domain, self.last.as_ref());
        warn_of_taken(&all);
        self.write_json(&all, true)?;
        if self.tables.is_some() {
            let frame = Frame { rows: MOST_ROWS, ..self.frame(all.at.since(self.began)) };
            self.printer.line(format_args!("\n{}", table::totals(&all, frame).trim_end()))?;
        }
        Ok(())
    }

    fn write_json(&mut self, reading: &Reading, is_final: bool) -> Result<(), Failure> {
        let Some(file) = &mut self.json else { return Ok(()) };
        let line = json::line(reading, reading.at.since(self.began), is_final);
        // A program that reads the file gets each line at once.
        writeln!(file, "{line}").and_then(|()| file.flush()).map_err(Failure::run)
    }

    fn frame(&self, wall: Nanos) -> Frame {
        let width = match self.tables {
            Some(Tables::Live(_)) => Screen::detect().width,
            _ => WIDTH_OF_BLOCKS,
        };
        // A table in place must fit the terminal as a whole.
        let lines = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(0, |size| usize::from(size.ws_row));
        let rows = if lines == 0 { MOST_ROWS } else { lines.saturating_sub(OTHER_ROWS).clamp(1, MOST_ROWS) };
        Frame { wall, pcpus: self.pcpus, width, rows }
    }
}

/// Prints a line for each VM on its time.
pub(super) fn summarize(all: &Reading, printer: &Printer) -> Result<(), Failure> {
    warn_of_taken(all);
    all.vms.iter().try_for_each(|vm| printer.line(format_args!("[{}] {}", vm.name, summary::line(vm))))
}

/// The guests' figures are not what they would be without the other programs.
fn warn_of_taken(all: &Reading) {
    let taken = all.taken();
    if taken > MUCH_TAKEN {
        warn!(
            remedy = "stop them, or give the guests pCPUs of their own (`pcpus` in [host])",
            "other programs took {:.0} % of the time in which guests had a pCPU",
            100.0 * taken
        );
    }
}
