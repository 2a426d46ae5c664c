//! Standard error, shared with a display that stays in place on a terminal: a progress bar, or a table of
//! `run --stats`.

use indicatif::{ProgressBar, WeakProgressBar};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// The display that stays in place at the moment.
static BELOW: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Writes diagnostics above this bar from now on, until it is dropped.
pub(crate) fn stay_above(bar: &ProgressBar) {
    *BELOW.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
}

/// Writes to standard error, above the display. A failure is ignored: there is no place left to report it.
pub(super) struct Screen;

impl Write for Screen {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let bar = BELOW.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(WeakProgressBar::upgrade);
        let write = || {
            let _ = io::stderr().lock().write_all(text);
        };
        match bar.filter(|bar| !bar.is_finished()) {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
