//! How a probe of the suite `interactive` would feel to a user: great, good, ok, bad or awful.
//!
//! The words are the source's. Here each stands for two bounds, one of the response's 99th percentile and one of the
//! share of missed deadlines; both must hold. docs/suites.md gives the reasons for the bounds.

use serde::{Deserialize, Serialize};

/// A stand-in for a program that a user looks at, listens to or touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Probe {
    /// A window manager that draws 60 pictures a second.
    Beryl,
    /// A browser while it scrolls.
    Galeon,
    /// A music player.
    Mp3,
    /// A terminal: from a key to its echo.
    Terminal,
    /// A mouse's pointer.
    Mouse,
}

/// A rating, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rating {
    /// Completely smooth.
    Great,
    /// Fully responsive.
    Good,
    /// Visible latency.
    Ok,
    /// Difficult to use; music skips.
    Bad,
    /// Make it stop.
    Awful,
}

/// The most that a rating allows: response (unit: ms), deadlines missed (unit: %).
type Bound = (f64, f64);

impl Probe {
    /// Every probe, in the order of the source's table.
    pub const ALL: [Self; 5] = [Self::Beryl, Self::Galeon, Self::Mp3, Self::Terminal, Self::Mouse];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Beryl => "beryl",
            Self::Galeon => "galeon",
            Self::Mp3 => "mp3",
            Self::Terminal => "terminal",
            Self::Mouse => "mouse",
        }
    }

    /// The part of a CPU that galeon uses while it scrolls.
    pub const GALEON_SCROLLING: f64 = 0.3;

    /// The part of a CPU that galeon uses in the mean.
    pub fn wants(self) -> f64 {
        match self {
            Self::Beryl => 0.4,
            Self::Galeon => 0.15,
            Self::Mp3 => 0.05,
            Self::Terminal => 0.0125,
            Self::Mouse => 0.006_25,
        }
    }

    /// Bounds of great, good, ok and bad.
    #[rustfmt::skip] // a table
    fn bounds(self) -> [Bound; 4] {
        match self {
            Self::Beryl    => [(16.7, 1.0), (33.3, 5.0), (100.0, 25.0), (250.0, 60.0)],
            Self::Galeon   => [(33.3, 1.0), (66.7, 5.0), (100.0, 25.0), (250.0, 60.0)],
            Self::Mp3      => [(25.0, 0.0), (50.0, 0.0), (50.0, 0.0),   (500.0, 25.0)],
            Self::Terminal => [(40.0, 1.0), (100.0, 5.0), (200.0, 25.0), (1000.0, 60.0)],
            Self::Mouse    => [(16.7, 5.0), (50.0, 25.0), (75.0, 50.0), (225.0, 75.0)],
        }
    }

    /// The rating if 99 of 100 responses take no longer than this (unit: us), and this part of the deadlines is missed
    /// (unit: %).
    pub fn rate(self, p99_us: f64, missed: f64) -> Rating {
        let keeps = |(response, share): &Bound| p99_us <= response * 1000.0 && missed <= *share;
        let place = self.bounds().iter().position(keeps);
        place.map_or(Rating::Awful, |place| Rating::ALL[place])
    }
}

impl Rating {
    /// Every rating, the best first.
    pub const ALL: [Self; 5] = [Self::Great, Self::Good, Self::Ok, Self::Bad, Self::Awful];

    /// The word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Great => "great",
            Self::Good => "good",
            Self::Ok => "ok",
            Self::Bad => "bad",
            Self::Awful => "awful",
        }
    }

    /// The rating of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rating| rating.name() == name)
    }

    /// The number of steps between this rating and another.
    pub fn distance(self, other: Self) -> usize {
        (self as usize).abs_diff(other as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_widen_from_rating_to_rating() {
        for probe in Probe::ALL {
            for pair in probe.bounds().windows(2) {
                assert!(pair[0].0 <= pair[1].0 && pair[0].1 <= pair[1].1, "{probe:?}: {pair:?}");
            }
        }
    }

    #[test]
    fn both_the_response_and_the_deadlines_must_keep_the_bound() {
        assert_eq!(Probe::Beryl.rate(16_000.0, 0.0), Rating::Great);
        assert_eq!(Probe::Beryl.rate(16_000.0, 3.0), Rating::Good);
        assert_eq!(Probe::Beryl.rate(90_000.0, 0.0), Rating::Ok);
        assert_eq!(Probe::Beryl.rate(90_000.0, 61.0), Rating::Awful);
        assert_eq!(Probe::Terminal.rate(1_000_001.0, 0.0), Rating::Awful);
    }

    #[test]
    fn music_that_skips_is_bad_at_best() {
        assert_eq!(Probe::Mp3.rate(40_000.0, 0.0), Rating::Good);
        assert_eq!(Probe::Mp3.rate(10_000.0, 0.5), Rating::Bad);
    }

    #[test]
    fn names_of_ratings_read_back() {
        assert!(Rating::ALL.iter().all(|rating| Rating::named(rating.name()) == Some(*rating)));
        assert_eq!(Rating::named("fine"), None);
        assert_eq!(Rating::Great.distance(Rating::Bad), 3);
    }
}
