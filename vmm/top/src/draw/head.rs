//! The two lines at the top, the line for messages and input, and the line of keys.

use ratatui::text::{Line, Span};
use stile_api::{Frame, VmState};
use stile_text::{count, si};

use super::cells::{cut, fit};
use super::theme::Theme;
use crate::app::{App, Connection, Mode};
use crate::column::{rate, time_text};

/// Keys of each mode.
const IN_TABLE: &str = "? help  q quit  Enter vCPUs  p pause  n/N nice  c cap  / filter  < > r sort";
const IN_INPUT: &str = "Enter accept  Esc leave";
const IN_HELP: &str = "any key: back";

/// The head.
pub(super) fn lines(app: &App, theme: Theme, width: u16) -> Vec<Line<'static>> {
    let width = usize::from(width);
    let (state, style) = match app.connection {
        Connection::Begun => ("connecting", theme.held()),
        Connection::Live => ("live", theme.good()),
        Connection::Lost => ("LOST", theme.problem()),
    };
    let clock = app.frame.as_ref().map(|frame| clock(frame.at)).unwrap_or_default();
    let left = width.saturating_sub(clock.len() + 2 + state.len() + 1);
    let about = app.frame.as_ref().map(about).unwrap_or_else(|| "stile top".to_owned());
    let first = vec![
        Span::styled(fit(&about, left, true), theme.strong()),
        Span::raw(format!(" {clock}  ")),
        Span::styled(state, style),
    ];
    let rates = app.frame.as_ref().map(rates).unwrap_or_default();
    let mut second = vec![Span::raw(rates)];
    if !app.filter.is_empty() {
        second.push(Span::styled(format!("filter: {}", app.filter), theme.strong()));
    }
    vec![Line::from(first), Line::from(second)]
}

/// The line for input or a message, and the column of the cursor.
pub(super) fn message(app: &App, theme: Theme) -> (Line<'static>, Option<u16>) {
    let input = match &app.mode {
        Mode::Filter => Some(format!("filter: {}", app.filter)),
        Mode::Cap { vm, text } => Some(format!("cap of {vm}, in CPUs (none: no cap): {text}")),
        Mode::Table | Mode::Help => None,
    };
    let said = app.message.as_ref().map(|message| {
        let (mark, style) = if message.is_problem { ("! ", theme.problem()) } else { ("", theme.plain()) };
        Span::styled(format!("{mark}{}", message.text), style)
    });
    match input {
        Some(input) => {
            let line = Line::styled(input, theme.strong());
            let end = line.width() as u16;
            let said = said.map(|said| [Span::raw("   "), said]);
            (line.spans.into_iter().chain(said.into_iter().flatten()).collect(), Some(end))
        }
        None => (Line::from_iter(said), None),
    }
}

/// The keys.
pub(super) fn keys(app: &App, theme: Theme) -> Line<'static> {
    let text = match app.mode {
        Mode::Table => IN_TABLE,
        Mode::Filter | Mode::Cap { .. } => IN_INPUT,
        Mode::Help => IN_HELP,
    };
    Line::styled(text, theme.faint())
}

fn about(frame: &Frame) -> String {
    let vcpus: usize = frame.vms.iter().map(|vm| vm.vcpus.len()).sum();
    let with = |state| frame.vms.iter().filter(|vm| vm.state == state).count();
    let states = [VmState::Paused, VmState::Stopped].map(|state| match with(state) {
        0 => String::new(),
        number => format!(", {number} {}", state.name()),
    });
    // A policy with parameters can be as long as the line; the counts come first.
    format!(
        "stile top  {}  {}, {}{}  {}",
        count(frame.pcpus.len(), "pCPU"),
        count(frame.vms.len(), "VM"),
        count(vcpus, "vCPU"),
        states.concat(),
        cut(&frame.policy, 40),
    )
}

fn rates(frame: &Frame) -> String {
    let run: f64 = frame.vms.iter().map(|vm| vm.figures.run_seconds).sum();
    let all = frame.seconds.map(|seconds| seconds * frame.pcpus.len() as f64).filter(|all| *all > 0.0);
    let busy = all.map_or("-".to_owned(), |all| format!("{:.1}", 100.0 * run / all));
    let switches = rate(frame.domain.switches, frame.seconds).map_or("-".to_owned(), |rate| si(rate.round()));
    let kicks = frame.domain.kicks.and_then(|kicks| kicks.p99).map_or("-".to_owned(), time_text);
    format!("{busy} % used  switches {switches}/s  kicks p99 {kicks}  ")
}

/// The time of day in UTC.
fn clock(at: f64) -> String {
    let second = at.max(0.0) as u64 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_is_that_of_utc() {
        assert_eq!([0.0, 1_764_043_453.9, -1.0].map(clock), ["00:00:00 UTC", "04:04:13 UTC", "00:00:00 UTC"]);
    }
}
