//! Colours and other styles. Without colours the styles differ by bold, dim, underline and reverse.

use ratatui::style::{Color, Modifier, Style};

/// The styles of a screen.
#[derive(Clone, Copy)]
pub(super) struct Theme {
    pub(super) color: bool,
}

/// Colours of VMs, by their letters: of the terminal's own palette those that can be read on black and are not alike.
const OF_VMS: [Color; 8] = [
    Color::Cyan,
    Color::Yellow,
    Color::Green,
    Color::Magenta,
    Color::LightBlue,
    Color::LightRed,
    Color::LightGreen,
    Color::LightMagenta,
];

impl Theme {
    /// Plain text.
    pub(super) fn plain(self) -> Style {
        Style::new()
    }

    /// Text that matters more.
    pub(super) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Text that matters less.
    pub(super) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// The heading of a table.
    pub(super) fn heading(self) -> Style {
        self.colored(Color::Cyan)
    }

    /// The selected row.
    pub(super) fn selected(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// What did not work.
    pub(super) fn problem(self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// What works.
    pub(super) fn good(self) -> Style {
        self.colored(Color::Green)
    }

    /// What is held back.
    pub(super) fn held(self) -> Style {
        self.colored(Color::Yellow)
    }

    /// A VM, by its letter.
    pub(super) fn vm(self, letter: char) -> Style {
        let number = match letter {
            'A'..='Z' => letter as usize - 'A' as usize,
            'a'..='z' => 26 + letter as usize - 'a' as usize,
            _ => 52 + letter as usize % 10,
        };
        self.colored(OF_VMS[number % OF_VMS.len()])
    }

    fn colored(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }
}
