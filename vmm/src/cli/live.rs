//! A table that stays in place on the terminal, drawn without waiting for the terminal.
//!
//! `indicatif` draws into memory here, and the process's writing thread passes each drawing on. If the terminal is
//! stopped, drawings are left out.

use super::printer::Printer;
use crate::diagnostics;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stile_machine::vm::console::{Outlet, STANDARD_OUTPUT, Sink};

/// Columns and lines where the terminal does not tell its size.
const SIZE: (u16, u16) = (80, 24);

/// A place on the terminal for a table, below all other output.
pub(super) fn table(printer: &Printer) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
    let drawing = Drawing { outlet: printer.outlet().clone(), text: Mutex::default() };
    let target = ProgressDrawTarget::term_like(Box::new(drawing));
    let bar = ProgressBar::with_draw_target(None, target).with_style(style);
    diagnostics::stay_above(&bar, Some(printer.outlet()));
    bar
}

/// Where guests print lines, so that they do not break the table.
pub(super) fn above(bar: &ProgressBar, printer: &Printer) -> Sink {
    let (bar, outlet) = (bar.clone(), printer.outlet().clone());
    let show = move |line: &str| {
        let lost = outlet.lost_bytes();
        bar.println(line);
        match outlet.lost_bytes() > lost {
            true => Err(io::Error::other("the terminal took it too slowly")),
            false => Ok(()),
        }
    };
    Sink::Lines { place: STANDARD_OUTPUT.to_owned(), show: Arc::new(show) }
}

/// Columns and lines of the terminal. One that is not connected with a screen has none.
fn size() -> (u16, u16) {
    let size = rustix::termios::tcgetwinsize(io::stdout()).map(|size| (size.ws_col, size.ws_row));
    size.ok().filter(|(columns, lines)| *columns > 0 && *lines > 0).unwrap_or(SIZE)
}

/// A terminal that keeps what is drawn until the drawing is complete.
#[derive(Debug)]
struct Drawing {
    outlet: Outlet,
    text: Mutex<String>,
}

impl Drawing {
    fn text(&self) -> MutexGuard<'_, String> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves the cursor by `n` places, in the direction that the control sequence's last letter says.
    fn go(&self, n: usize, direction: char) -> io::Result<()> {
        if n > 0 {
            // A string takes all.
            let _ = write!(self.text(), "\x1b[{n}{direction}");
        }
        Ok(())
    }
}

/// Control sequences as ECMA-48 has them.
impl TermLike for Drawing {
    fn width(&self) -> u16 {
        size().0
    }

    fn height(&self) -> u16 {
        size().1
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.go(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.go(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.go(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.go(n, 'D')
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        *self.text() += text;
        *self.text() += "\n";
        Ok(())
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        *self.text() += text;
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        *self.text() += "\r\x1b[2K";
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let drawn = std::mem::take(&mut *self.text());
        if !drawn.is_empty() {
            // A drawing that finds no room is left out: the next one has newer figures.
            let _ = self.outlet.put(drawn.as_bytes());
        }
        Ok(())
    }
}
