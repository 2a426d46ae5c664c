//! The strip: for each pCPU the vCPU that has it, and the letters of the VMs that had it at the frames before.
//!
//! Few pCPUs have a line or a part of a line each. Many have one letter each, for the newest frame alone.

use ratatui::text::{Line, Span};
use stile_api::{Frame, PcpuView};

use super::cells::fit;
use super::theme::Theme;
use crate::app::App;

/// Least width of a pCPU's part of a line: its number, a name, and a history worth looking at.
const PART_MIN: u16 = 30;
/// Longest part of that for the vCPU's name.
const NAME_MAX: usize = 18;
/// A pCPU that no vCPU has.
const NOBODY: char = '·';
/// Letters without a blank between them.
const GROUP: usize = 8;

/// The most lines that the strip may have on a screen of this height.
pub(super) fn height_max(screen: u16) -> usize {
    usize::from(screen / 5).max(2)
}

/// The strip. It has at most `most` lines.
pub(super) fn lines(app: &App, theme: Theme, width: u16, most: usize) -> Vec<Line<'static>> {
    let Some(frame) = &app.frame else { return Vec::new() };
    if !App::has_policy(frame) {
        let text = "The host's scheduler decides which vCPU has which pCPU, and does not tell.";
        return vec![Line::styled(text, theme.faint())];
    }
    let parts_max = usize::from(width / PART_MIN).max(1);
    match frame.pcpus.len().div_ceil(most) {
        parts if parts <= parts_max => each(app, theme, frame, usize::from(width), parts.max(1)),
        _ => together(app, theme, frame, usize::from(width), most),
    }
}

/// A part of a line for each pCPU. They are in order from top to bottom, then to the right.
fn each(app: &App, theme: Theme, frame: &Frame, width: usize, parts: usize) -> Vec<Line<'static>> {
    let rows = frame.pcpus.len().div_ceil(parts);
    let digits = frame.pcpus.iter().map(|pcpu| pcpu.cpu.to_string().len()).max().unwrap_or(1);
    let line = |row: usize| {
        let pcpus = frame.pcpus.iter().skip(row).step_by(rows.max(1));
        Line::from_iter(pcpus.flat_map(|pcpu| part(app, theme, pcpu, digits, width / parts)))
    };
    (0..rows).map(line).collect()
}

fn part(app: &App, theme: Theme, pcpu: &PcpuView, digits: usize, width: usize) -> Vec<Span<'static>> {
    let name_width = (width / 3).min(NAME_MAX);
    let history_width = width.saturating_sub("cpu".len() + digits + 1 + name_width + 2);
    let name = fit(pcpu.vcpu.as_deref().unwrap_or("-"), name_width, true);
    let past: Vec<Option<char>> = app.history.of(pcpu.cpu, history_width).collect();
    let now = past.last().copied().flatten();
    let style = now.map_or(theme.faint(), |letter| theme.vm(letter));
    let mut spans =
        vec![Span::styled(format!("cpu{:<digits$} ", pcpu.cpu), theme.faint()), Span::styled(name, style), " ".into()];
    spans.push(" ".repeat(history_width - past.len()).into());
    spans.extend(past.iter().map(|letter| cell(theme, *letter)));
    spans.push(" ".into());
    spans
}

/// A letter for each pCPU. If not all fit, the last line says how many are left out.
fn together(app: &App, theme: Theme, frame: &Frame, width: usize, most: usize) -> Vec<Line<'static>> {
    let label_width = "cpu512 ".len();
    let per_line = (width.saturating_sub(label_width) / (GROUP + 1)).max(1) * GROUP;
    let line = |pcpus: &[PcpuView]| {
        let label = pcpus.first().map(|first| format!("cpu{}", first.cpu)).unwrap_or_default();
        let mut spans = vec![Span::styled(fit(&label, label_width, true), theme.faint())];
        for group in pcpus.chunks(GROUP) {
            let now = group.iter().map(|pcpu| app.history.of(pcpu.cpu, 1).next().flatten());
            spans.extend(now.map(|letter| cell(theme, letter)));
            spans.push(" ".into());
        }
        Line::from(spans)
    };
    let needed = frame.pcpus.len().div_ceil(per_line);
    let shown = if needed > most { most - 1 } else { needed };
    let mut lines: Vec<Line<'_>> = frame.pcpus.chunks(per_line).take(shown).map(line).collect();
    if needed > most {
        let more = frame.pcpus.len() - shown * per_line;
        lines.push(Line::styled(format!("{} more", stile_text::count(more, "pCPU")), theme.faint()));
    }
    lines
}

fn cell(theme: Theme, letter: Option<char>) -> Span<'static> {
    match letter {
        Some(letter) => Span::styled(letter.to_string(), theme.vm(letter)),
        None => Span::styled(NOBODY.to_string(), theme.faint()),
    }
}
