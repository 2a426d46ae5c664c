//! Texts in a given number of cells of the screen.

use ratatui::text::Line;

/// Cuts a text to this many cells, with a mark where it was cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    if Line::raw(text).width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        if Line::raw(format!("{kept}{c}…")).width() > width {
            break;
        }
        kept.push(c);
    }
    if width == 0 { kept } else { kept + "…" }
}

/// Cuts a text or fills it with blanks to this many cells.
pub(super) fn fit(text: &str, width: usize, is_left: bool) -> String {
    let text = cut(text, width);
    let blanks = " ".repeat(width.saturating_sub(Line::raw(&text).width()));
    if is_left { text + &blanks } else { blanks + &text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_ends_with_a_mark() {
        assert_eq!(["web", "frontend", "日本語"].map(|text| cut(text, 5)), ["web", "fron…", "日本…"]);
        assert_eq!(cut("web", 0), "");
    }

    #[test]
    fn a_text_fills_its_cells() {
        assert_eq!([fit("ab", 4, true), fit("ab", 4, false), fit("abcdef", 4, false)], ["ab  ", "  ab", "abc…"]);
    }
}
