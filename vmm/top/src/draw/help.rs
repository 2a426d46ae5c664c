//! The help: keys, and what the columns say.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::cells::fit;
use super::theme::Theme;
use crate::app::KEYS;
use crate::column::Column;

/// Cells for the names of keys.
const KEY_WIDTH: usize = 34;
/// Cells for the names of columns.
const COLUMN_WIDTH: usize = 13;

/// The help, keys first. On a low screen, columns that explain themselves are left out.
pub(super) fn lines(theme: Theme, area: Rect) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'_>> = KEYS.iter().map(|(key, does)| line(theme, key, KEY_WIDTH, does)).collect();
    lines.push(Line::raw(""));
    let plain = [Column::Name, Column::State, Column::Class, Column::WaitP50, Column::WaitMax, Column::Cap];
    let room = usize::from(area.height).saturating_sub(lines.len());
    let is_low = room < Column::ALL.len();
    let columns = Column::ALL.into_iter().filter(|column| !is_low || !plain.contains(column));
    lines.extend(columns.map(|column| line(theme, &column.name(), COLUMN_WIDTH, column.look().meaning)));
    lines
}

fn line(theme: Theme, name: &str, width: usize, text: &str) -> Line<'static> {
    Line::from(vec![Span::styled(fit(name, width, true), theme.strong()), Span::raw(text.to_owned())])
}
