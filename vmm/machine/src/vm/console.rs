//! Collects a guest's text into lines and passes them on to the sink that the user chose.
//!
//! What a guest prints is put into a bounded queue ([`Outlet`]), and one thread of the process writes it (`writer`). So
//! a reader that does not read stops no vCPU and no device. Text for which there is no room is lost; how much, is told
//! when the console is dropped.
//!
//! The VM pays for the CPU time that the writing thread has used for it, when it prints the next time. Only threads of
//! the VM charge it, so the writing thread needs no right to wake vCPUs, and waits for no lock of a domain.

mod loss;
mod outlet;
mod writer;

pub use outlet::{Lost, Outlet, ROOM, STANDARD_OUTPUT, Stalled, Write as WriteOut};
pub use writer::PATIENCE;

use super::PaidBy;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use stile_sched::Nanos;

/// Where the lines of a guest go.
#[derive(Clone)]
pub enum Sink {
    /// Nowhere.
    Discard,
    /// Standard output, each line after the VM's name.
    Terminal,
    /// A function that writes the line, on the process's writing thread. The line begins with the VM's name.
    Lines {
        /// The place to which it writes, for messages.
        place: String,
        /// The function.
        show: Arc<ShowLine>,
    },
    /// A function that looks at the line at once, on the thread that printed it. The line begins with the VM's name.
    /// The function must not wait for anything.
    AtOnce(Arc<dyn Fn(&str) + Send + Sync>),
    /// A buffer that the caller reads. It takes [`BUFFER_MAX`] bytes.
    Buffer(Arc<Mutex<Vec<u8>>>),
    /// A writer that gets each byte as it comes, unchanged, on the process's writing thread. It serves a user who types
    /// to the guest, and files that keep the output as it is.
    Raw {
        /// The place to which it writes, for messages.
        place: String,
        /// The writer.
        writer: Arc<Mutex<dyn Write + Send>>,
    },
    /// Both of these.
    Both(Box<(Sink, Sink)>),
}

/// Writes a line, without its end.
pub type ShowLine = dyn Fn(&str) -> io::Result<()> + Send + Sync;

/// Longest line that is kept in one piece (units: bytes); a longer one is broken.
const LINE_MAX: usize = 4096;
/// Most text in a [`Sink::Buffer`] (units: bytes). What a guest prints after that is lost.
pub const BUFFER_MAX: usize = 16 << 20;

/// Time that is charged at once: some ten times what it costs to charge it.
const LEAST_CHARGE: Nanos = Nanos::from_micros(50);

/// Collects a VM's bytes into lines.
pub struct Console {
    name: String,
    way: Way,
    line: Vec<u8>,
    payer: PaidBy,
}

/// How the text leaves the console.
enum Way {
    Discard,
    AtOnce(Arc<dyn Fn(&str) + Send + Sync>),
    Buffer(Arc<Mutex<Vec<u8>>>),
    Lines(Outlet),
    Raw(Outlet),
    Both(Box<(Console, Console)>),
}

impl Way {
    fn of(name: &str, sink: Sink) -> Self {
        match sink {
            Sink::Discard => Self::Discard,
            Sink::AtOnce(look) => Self::AtOnce(look),
            Sink::Buffer(buffer) => Self::Buffer(buffer),
            Sink::Terminal => lines(name, STANDARD_OUTPUT, |line| writeln!(io::stdout().lock(), "{line}")),
            Sink::Lines { place, show } => lines(name, &place, move |line| show(line)),
            Sink::Raw { place, writer } => Self::Raw(Outlet::new(
                &place,
                Box::new(move |bytes| {
                    let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
                    writer.write_all(bytes).and_then(|()| writer.flush())
                }),
            )),
            Sink::Both(sinks) => Self::Both(Box::new((Console::new(name, sinks.0), Console::new(name, sinks.1)))),
        }
    }
}

/// The way of lines that `show` writes to `place`, after the VM's name.
fn lines(name: &str, place: &str, show: impl Fn(&str) -> io::Result<()> + Send + 'static) -> Way {
    let name = name.to_owned();
    Way::Lines(Outlet::new(place, Box::new(move |line| show(&shown(&name, line)))))
}

/// The line with the VM's name, and without control characters that a terminal would obey.
fn shown(name: &str, line: &[u8]) -> String {
    format!("[{name}] {}", harmless(&String::from_utf8_lossy(line)))
}

/// The text without characters that a terminal would obey: control characters except tabs, and those that reverse the
/// direction of text.
pub fn harmless(text: &str) -> String {
    let is_bad =
        |c: char| (c.is_control() && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().map(|c| if is_bad(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Waits until all that was printed in this process has been written, as long as no write stalls.
pub fn settle() {
    writer::Writer::get().settle();
}

impl Console {
    /// A console of the VM `name`.
    pub fn new(name: &str, sink: Sink) -> Self {
        Self { name: name.to_owned(), way: Way::of(name, sink), line: Vec::new(), payer: PaidBy::default() }
    }

    /// The same, with a payer for the time that it takes to write its text.
    pub fn paid_by(mut self, payer: PaidBy) -> Self {
        self.set_payer(payer);
        self
    }

    fn set_payer(&mut self, payer: PaidBy) {
        if let Way::Both(consoles) = &mut self.way {
            consoles.0.set_payer(payer.clone());
            consoles.1.set_payer(payer.clone());
        }
        self.payer = payer;
    }

    /// Has the payer pay for what was written since the last time.
    fn pay(&self) {
        let (Way::Lines(outlet) | Way::Raw(outlet)) = &self.way else { return };
        let Some(payer) = self.payer.get() else { return };
        if let Some(time) = outlet.take_unpaid(LEAST_CHARGE) {
            // A vCPU that prints is held back by the cap itself, and the devices' worker when it pays for its own time.
            let _ = payer.pays(time);
        }
    }

    fn end_line(&mut self) {
        match &self.way {
            Way::Discard | Way::Raw(_) | Way::Both(_) => {}
            Way::AtOnce(look) => look(&shown(&self.name, &self.line)),
            Way::Buffer(buffer) => {
                let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
                if buffer.len() + self.line.len() < BUFFER_MAX {
                    buffer.extend_from_slice(&self.line);
                    buffer.push(b'\n');
                }
            }
            // The outlet counts what it does not take.
            Way::Lines(outlet) => {
                let _ = outlet.put(&self.line);
            }
        }
        self.line.clear();
    }
}

impl Write for Console {
    /// Takes all bytes, and never waits for a reader.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.way {
            Way::Raw(outlet) => {
                // As above. A piece that is longer than the outlet's room would never fit.
                bytes.chunks(LINE_MAX).for_each(|bytes| {
                    let _ = outlet.put_joined(bytes);
                });
                self.pay();
                return Ok(bytes.len());
            }
            Way::Both(consoles) => {
                let (first, second) = &mut **consoles;
                return first.write(bytes).and_then(|_| second.write(bytes));
            }
            Way::Discard | Way::AtOnce(_) | Way::Buffer(_) | Way::Lines(_) => {}
        }
        for &byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                b'\r' => {}
                _ => self.line.push(byte),
            }
            if self.line.len() >= LINE_MAX {
                self.end_line();
            }
        }
        self.pay();
        Ok(bytes.len())
    }

    /// Does nothing. An incomplete line stays here until it is complete or the console is dropped. The serial port
    /// flushes after every byte.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Console {
    /// Waits until the text is written, unless its place takes nothing.
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.end_line();
        }
        let (Way::Lines(outlet) | Way::Raw(outlet)) = &self.way else { return };
        loss::tell(&self.name, outlet.place(), &outlet.close());
    }
}

#[cfg(test)]
mod tests;
