//! Collects a guest's text into lines and passes them to the sink that the user chose.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// Where the lines of a guest go.
#[derive(Clone)]
pub enum Sink {
    /// Nowhere.
    Discard,
    /// Standard output, each line after the VM's name.
    Terminal,
    /// A function that shows the line. The line begins with the VM's name.
    Lines(Arc<dyn Fn(&str) + Send + Sync>),
    /// A buffer that the caller reads.
    Buffer(Arc<Mutex<Vec<u8>>>),
    /// A writer that gets each byte as it comes, unchanged. It serves a user who types to the guest, and files that
    /// keep the output as it is.
    Raw(Arc<Mutex<dyn Write + Send>>),
}

/// Longest line that is kept in one piece (units: bytes); a longer one is broken.
const LINE_MAX: usize = 4096;

/// Collects a VM's bytes into lines.
pub struct Console {
    name: String,
    sink: Sink,
    line: Vec<u8>,
}

impl Console {
    /// A console of the VM `name`.
    pub fn new(name: &str, sink: Sink) -> Self {
        Self { name: name.to_owned(), sink, line: Vec::new() }
    }

    fn end_line(&mut self) {
        match &self.sink {
            Sink::Discard => {}
            Sink::Terminal => {
                // A closed terminal must not end the guest.
                let _ = writeln!(std::io::stdout().lock(), "{}", self.shown());
            }
            Sink::Lines(show) => show(&self.shown()),
            Sink::Buffer(buffer) => {
                let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
                buffer.extend_from_slice(&self.line);
                buffer.push(b'\n');
            }
            Sink::Raw(_) => {}
        }
        self.line.clear();
    }

    /// The line with the VM's name, and without control characters that a terminal would obey.
    fn shown(&self) -> String {
        let text = String::from_utf8_lossy(&self.line);
        let text: String = text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect();
        format!("[{}] {text}", self.name)
    }
}

impl Write for Console {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Sink::Raw(out) = &self.sink {
            let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
            // A closed writer must not end the guest.
            let _ = out.write_all(bytes).and_then(|()| out.flush());
            return Ok(bytes.len());
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
        Ok(bytes.len())
    }

    /// Does nothing. An incomplete line stays here until it is complete or the console is dropped. The serial port
    /// flushes after every byte.
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        if !self.line.is_empty() {
            self.end_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_lines_and_the_last_one_is_not_lost() {
        let buffer = Arc::default();
        let mut console = Console::new("vm", Sink::Buffer(Arc::clone(&buffer)));
        console.write_all(b"one\r\ntw").unwrap();
        console.write_all(b"o\nthree").unwrap();
        drop(console);
        assert_eq!(*buffer.lock().unwrap(), b"one\ntwo\nthree\n");
    }

    #[test]
    fn lines_are_shown_with_the_name_and_without_control_characters() {
        let shown = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&shown);
        let mut console =
            Console::new("vm", Sink::Lines(Arc::new(move |line| sink.lock().unwrap().push(line.to_owned()))));
        console.write_all(b"a\x1b[2Jb\tc\n").unwrap();
        assert_eq!(*shown.lock().unwrap(), ["[vm] a\u{fffd}[2Jb\tc"]);
    }

    #[test]
    fn raw_bytes_come_at_once_and_unchanged() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let out: Arc<Mutex<dyn Write + Send>> = kept.clone();
        let mut console = Console::new("vm", Sink::Raw(out));
        console.write_all(b"login\x1b[0m: ").unwrap();
        assert_eq!(*kept.lock().unwrap(), b"login\x1b[0m: ");
    }

    #[test]
    fn bytes_flushed_one_by_one_stay_one_line() {
        let buffer = Arc::default();
        let mut console = Console::new("vm", Sink::Buffer(Arc::clone(&buffer)));
        for byte in b"one\n" {
            console.write_all(&[*byte]).unwrap();
            console.flush().unwrap();
        }
        assert_eq!(*buffer.lock().unwrap(), b"one\n");
    }
}
