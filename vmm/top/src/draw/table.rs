//! The table: as many columns as fit, and the part of the rows around the selected one.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use stile_api::VmState;

use super::cells::fit;
use super::theme::Theme;
use crate::app::{App, Row};
use crate::column::{Column, share};

/// Longest name that is shown in full at the cost of columns, and where there is room, with its letter and mark.
const NAME_MEAN: u16 = 20;
const NAME_MAX: u16 = 32;
/// Cells of letter and mark.
const MARKS: usize = "A + ".len();
/// Widths of the bar.
const BAR_MIN: u16 = 10;
const BAR_MAX: u16 = 40;
/// Its rank among the columns when the screen is too narrow.
const BAR_RANK: u8 = 5;
/// What the bar is made of.
const RUN: &str = "█";
const READY: &str = "▒";
const TAKEN: &str = "!";
const REST: &str = "·";

/// The columns that fit, with their widths. Between two of them is a blank.
struct Fitted {
    columns: Vec<(Column, u16)>,
    /// Width of the bar; 0 if it does not fit.
    bar: u16,
}

/// The table, as high as the area.
pub(super) fn lines(app: &App, theme: Theme, area: Rect) -> Vec<Line<'static>> {
    let fitted = Fitted::new(area.width, longest_name(app), app.sorting.column);
    let rows = app.rows();
    let mut lines = vec![fitted.heading(app, theme, true), fitted.heading(app, theme, false)];
    let height = usize::from(area.height).saturating_sub(lines.len());
    let selected = app.selected_place(&rows);
    // The selected row is in the middle, as far as there are rows above and below.
    let first = selected.unwrap_or_default().saturating_sub(height / 2).min(rows.len().saturating_sub(height));
    for (place, row) in rows.iter().enumerate().skip(first).take(height) {
        lines.push(fitted.row(app, theme, row, Some(place) == selected));
    }
    if rows.is_empty() {
        lines.push(Line::styled(nothing(app), theme.faint()));
    }
    lines
}

/// Cells for the longest name, hidden rows included, so that a filter moves no column.
fn longest_name(app: &App) -> u16 {
    let names = app.frame.iter().flat_map(|frame| &frame.vms).map(|vm| Line::raw(&*vm.name).width());
    (names.max().unwrap_or_default() + MARKS).min(usize::from(u16::MAX)) as u16
}

fn nothing(app: &App) -> String {
    match &app.frame {
        None => "waiting for the first figures".to_owned(),
        Some(frame) if frame.vms.is_empty() => "there are no VMs".to_owned(),
        Some(_) => format!("no VM has `{}` in its name", app.filter),
    }
}

impl Fitted {
    /// Leaves columns out by their ranks, but never the one by which the rows are sorted.
    fn new(width: u16, name: u16, sorted: Column) -> Self {
        let rank = |column: Column| if column == sorted { 0 } else { column.look().rank };
        let name_min = name.clamp(Column::Name.look().width, NAME_MEAN);
        let wide = |column: Column| if column == Column::Name { name_min } else { column.look().width };
        let mut by_rank: Vec<(u8, Option<Column>, u16)> =
            Column::ALL.iter().map(|column| (rank(*column), Some(*column), wide(*column) + 1)).collect();
        by_rank.push((BAR_RANK, None, BAR_MIN + 1));
        by_rank.sort_by_key(|(rank, ..)| *rank);
        let mut left = width + 1;
        let fits = by_rank.into_iter().take_while(|(_, _, width)| {
            let rest = left.checked_sub(*width);
            left = rest.unwrap_or(left);
            rest.is_some()
        });
        let chosen: Vec<Option<Column>> = fits.map(|(_, column, _)| column).collect();
        let for_name = left.min(name.min(NAME_MAX).saturating_sub(name_min));
        let bar = if chosen.contains(&None) { (BAR_MIN + left - for_name).min(BAR_MAX) } else { 0 };
        let columns = Column::ALL.into_iter().filter(|column| chosen.contains(&Some(*column)));
        let wide = |column: Column| wide(column) + if column == Column::Name { for_name } else { 0 };
        Self { columns: columns.map(|column| (column, wide(column))).collect(), bar }
    }

    fn heading(&self, app: &App, theme: Theme, is_top: bool) -> Line<'static> {
        let mut spans = Vec::new();
        for (column, width) in &self.columns {
            let look = column.look();
            let is_sorted = *column == app.sorting.column;
            let text = match is_top {
                true if is_sorted => format!("{}{}", look.top, if app.sorting.is_reversed { "▲" } else { "▼" }),
                true => look.top.to_owned(),
                false => look.bottom.to_owned(),
            };
            let style = if is_sorted { theme.heading().patch(theme.strong()) } else { theme.heading() };
            spans.push(Span::styled(fit(&text, usize::from(*width), column.is_text()), style));
            spans.push(Span::raw(" "));
        }
        if self.bar > 0 {
            let legend = format!("{RUN}run{READY}ready");
            let text = if is_top { "its time" } else { legend.as_str() };
            spans.push(Span::styled(fit(text, usize::from(self.bar), true), theme.heading()));
        }
        Line::from(spans)
    }

    fn row(&self, app: &App, theme: Theme, row: &Row<'_>, is_selected: bool) -> Line<'static> {
        let mut spans = Vec::new();
        for (column, width) in &self.columns {
            let width = usize::from(*width);
            match column {
                Column::Name => spans.extend(name(app, theme, row, width)),
                Column::State => spans.push(state(theme, row, width)),
                _ => {
                    let style = if row.vcpu.is_some() { theme.faint() } else { theme.plain() };
                    let text = fit(&column.text(&row.subject()), width, column.is_text());
                    spans.push(Span::styled(text, style));
                }
            }
            spans.push(Span::raw(" "));
        }
        if is_selected {
            // One look for all of the row: reversed, some colours cannot be read, and a bar would say the contrary.
            spans.iter_mut().for_each(|span| span.style = theme.selected());
        }
        if self.bar > 0 {
            spans.extend(bar(theme, row, usize::from(self.bar)));
        }
        Line::from(spans)
    }
}

fn name(app: &App, theme: Theme, row: &Row<'_>, width: usize) -> Vec<Span<'static>> {
    let letter = app.history.letter(&row.vm.name);
    match row.vcpu {
        None => {
            let mark = if app.is_expanded(&row.vm.name) { '-' } else { '+' };
            let text = fit(&format!("{mark} {}", row.vm.name), width.saturating_sub(2), true);
            vec![Span::styled(format!("{letter} "), theme.vm(letter)), Span::styled(text, theme.strong())]
        }
        Some(vcpu) => vec![Span::styled(fit(&format!("     vCPU {}", vcpu.index), width, true), theme.faint())],
    }
}

fn state(theme: Theme, row: &Row<'_>, width: usize) -> Span<'static> {
    if row.vcpu.is_some() {
        let text = row.cpu.map(|cpu| format!("cpu{cpu}")).unwrap_or_default();
        return Span::styled(fit(&text, width, true), theme.faint());
    }
    let style = match row.vm.state {
        VmState::Running => theme.good(),
        VmState::Paused => theme.held(),
        VmState::Stopped => theme.faint(),
    };
    Span::styled(fit(row.vm.state.name(), width, true), style)
}

/// A bar of the vCPUs' time: on a pCPU, without one, taken by the host, idle.
fn bar(theme: Theme, row: &Row<'_>, width: usize) -> Vec<Span<'static>> {
    let figures = row.subject().figures;
    let [run, ready, taken] =
        [Some(figures.run_seconds), Some(figures.wait_seconds), figures.taken_seconds].map(|part| share(figures, part));
    let Some(run) = run else { return Vec::new() };
    // Each boundary is rounded by itself, so that the parts fill the bar.
    let ends = [run, run + ready.unwrap_or_default(), run + ready.unwrap_or_default() + taken.unwrap_or_default()]
        .map(|end| ((end * width as f64).round() as usize).min(width));
    let part =
        |text: &str, from: usize, to: usize, style: Style| Span::styled(text.repeat(to.saturating_sub(from)), style);
    vec![
        part(RUN, 0, ends[0], theme.good()),
        part(READY, ends[0], ends[1], theme.held()),
        part(TAKEN, ends[1], ends[2], theme.problem()),
        part(REST, ends[2], width, theme.faint()),
    ]
}
