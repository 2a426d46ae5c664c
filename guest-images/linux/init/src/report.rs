//! Reports: to the console, and to the host over vsock if it listens.
//!
//! A report is written in one piece, so that those of programs in the background do not break others. A host that goes
//! away is forgotten.

use std::io::{self, BufRead, BufReader, Write};
use std::sync::{Mutex, PoisonError};
use stile_abi::linux::{CONSOLE_PREFIX, OPEN, REPORT_PORT, Report};
use vsock::{VMADDR_CID_HOST, VsockStream};

/// Where reports go.
pub(crate) struct Reporter {
    host: Mutex<Option<VsockStream>>,
}

impl Reporter {
    /// To the console alone.
    pub(crate) fn console_only() -> Self {
        Self { host: Mutex::new(None) }
    }

    /// To the console, and to the host if there is a way to it. Without a device for vsock, or without a listener on
    /// the host, this fails at once.
    pub(crate) fn connect() -> Self {
        let host = VsockStream::connect_with_cid_port(VMADDR_CID_HOST, REPORT_PORT);
        Self { host: Mutex::new(host.ok()) }
    }

    /// Reports.
    pub(crate) fn report(&self, report: Report<'_>) {
        let mut host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        if host.as_mut().is_some_and(|stream| send(stream, report).is_err()) {
            *host = None;
        }
        let text = match report {
            Report::Output { line, .. } => format!("{line}\n"),
            report => format!("{CONSOLE_PREFIX}{report}\n"),
        };
        // If the console cannot be written, there is no other place to report that.
        let _ = io::stdout().write_all(text.as_bytes()).and_then(|()| io::stdout().flush());
    }

    /// Waits until the host says that the guest may go on.
    pub(crate) fn wait_for_host(&self) -> io::Result<()> {
        let host = self.host.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = host.as_ref().ok_or(io::ErrorKind::NotConnected)?.try_clone()?;
        // Others may report meanwhile.
        drop(host);
        wait_for_word(BufReader::new(stream))
    }

    /// Says on the console what went wrong beside the orders.
    pub(crate) fn complain(&self, problem: &str) {
        self.remark(&format!("warning: {problem}"));
    }

    /// Says on the console what happens beside the orders. This never waits for the host to read its connection.
    pub(crate) fn remark(&self, text: &str) {
        let _ = writeln!(io::stdout(), "{CONSOLE_PREFIX}{text}");
    }
}

fn send(stream: &mut VsockStream, report: Report<'_>) -> io::Result<()> {
    stream.write_all(format!("{report}\n").as_bytes())
}

/// Reads up to the line that opens the gate.
fn wait_for_word(host: impl BufRead) -> io::Result<()> {
    for line in host.lines() {
        if line? == OPEN {
            return Ok(());
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_is_open_once_the_host_says_so_and_not_when_it_goes() {
        assert!(wait_for_word(&b"hello\nopen\n"[..]).is_ok());
        assert!(wait_for_word(&b"hello\n"[..]).is_err());
    }
}
