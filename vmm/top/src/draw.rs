//! The screen: head, strip of pCPUs, table of VMs, a line for messages or input, and a line of keys.
//!
//! What a colour says is said by a letter, a word or a shape as well.

mod cells;
mod head;
mod help;
mod strip;
mod table;
mod theme;

use ratatui::Frame as Screen;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::text::Line;

use super::app::{App, Mode};
use theme::Theme;

/// The least size on which the table makes sense.
const WIDTH_MIN: u16 = 40;
const HEIGHT_MIN: u16 = 10;

/// Draws the state.
pub fn draw(app: &App, screen: &mut Screen<'_>) {
    let area = screen.area();
    let theme = Theme { color: app.color };
    if area.width < WIDTH_MIN || area.height < HEIGHT_MIN {
        let text = format!("too small: {WIDTH_MIN} x {HEIGHT_MIN} or more");
        return screen.render_widget(Line::raw(text), area);
    }
    let strip = strip::lines(app, theme, area.width, strip::height_max(area.height));
    let heights = [2, strip.len() as u16, 0, 1, 1].map(Constraint::Length);
    let [head, pcpus, body, message, keys] =
        Layout::vertical([heights[0], heights[1], Constraint::Fill(1), heights[3], heights[4]]).areas(area);
    draw_lines(screen, head, head::lines(app, theme, area.width));
    draw_lines(screen, pcpus, strip);
    if app.mode == Mode::Help {
        draw_lines(screen, pcpus.union(body), help::lines(theme, pcpus.union(body)));
    } else {
        draw_lines(screen, body, table::lines(app, theme, body));
    }
    let (line, cursor) = head::message(app, theme);
    screen.render_widget(line, message);
    if let Some(column) = cursor {
        screen.set_cursor_position(Position::new(column.min(message.right().saturating_sub(1)), message.y));
    }
    screen.render_widget(head::keys(app, theme), keys);
}

/// Draws lines from the top of an area on, over what is there.
fn draw_lines(screen: &mut Screen<'_>, area: Rect, lines: Vec<Line<'_>>) {
    screen.render_widget(ratatui::widgets::Clear, area);
    for (row, line) in area.rows().zip(lines) {
        screen.render_widget(line, row);
    }
}
