//! What a guest has printed, for readers who come later, and for those who wait for more.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stile_machine::vm::console::Sink;
use tokio::sync::watch;

/// Bytes that are kept of each VM: a kernel's messages from its boot fit. Older ones are lost to readers.
pub const KEPT: usize = 256 << 10;

/// The console of a VM, over all its starts.
#[derive(Clone, Default)]
pub struct Scrollback(Arc<Mutex<Text>>);

/// The text of a console from a place on.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// The text, as the guest printed it.
    pub bytes: Vec<u8>,
    /// The number of its first byte since the VM was created; later than asked for if that is lost.
    pub from: u64,
    /// The number of the next byte.
    pub next: u64,
}

#[derive(Default)]
struct Text {
    kept: VecDeque<u8>,
    /// The number of the byte after the last one.
    end: watch::Sender<u64>,
    /// Nothing more will come: the VM was deleted.
    is_over: bool,
}

impl Scrollback {
    /// The way of a VM's output to here.
    pub fn sink(&self, vm: &str) -> Sink {
        let writer = Arc::new(Mutex::new(Writer(self.clone())));
        Sink::Raw { place: format!("the console of {vm}"), writer }
    }

    /// The text from byte number `from` on, as far as it is kept, at most so many bytes.
    pub fn read(&self, from: u64, most: usize) -> Piece {
        let text = self.text();
        let end = *text.end.borrow();
        let first = end - text.kept.len() as u64;
        let from = from.clamp(first, end);
        let skipped = (from - first) as usize;
        let bytes: Vec<u8> = text.kept.iter().skip(skipped).take(most).copied().collect();
        let next = from + bytes.len() as u64;
        Piece { bytes, from, next }
    }

    /// Tells of more text: the number of the byte after the last one.
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.text().end.subscribe()
    }

    /// Whether nothing more will come, so that a reader of all that is kept need not wait.
    pub fn is_over(&self) -> bool {
        self.text().is_over
    }

    /// Nothing more will come. Those who wait for more look again.
    pub(crate) fn ends(&self) {
        let mut text = self.text();
        text.is_over = true;
        text.end.send_modify(|_| {});
    }

    fn text(&self) -> MutexGuard<'_, Text> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps what is written.
struct Writer(Scrollback);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = self.0.text();
        text.kept.extend(bytes);
        let over = text.kept.len().saturating_sub(KEPT);
        text.kept.drain(..over);
        text.end.send_modify(|end| *end += bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_text_is_kept_and_read_from_any_place() {
        let console = Scrollback::default();
        let mut writer = Writer(console.clone());
        let followed = console.follow();
        writer.write_all(b"hello ").unwrap();
        writer.write_all(b"world").unwrap();
        assert_eq!(*followed.borrow(), 11);
        assert_eq!(console.read(6, 100), Piece { bytes: b"world".to_vec(), from: 6, next: 11 });
        assert_eq!(console.read(0, 5), Piece { bytes: b"hello".to_vec(), from: 0, next: 5 });
        assert_eq!(console.read(50, 5), Piece { bytes: Vec::new(), from: 11, next: 11 });
        writer.write_all(&vec![b'x'; KEPT - 5]).unwrap();
        let piece = console.read(0, 5);
        assert_eq!((piece.bytes, piece.from), (b"world".to_vec(), 6));
    }
}
