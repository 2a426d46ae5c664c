//! The claims of a source, and whether stile's figures confirm them: a sentence for those that are confirmed, one for
//! those that are not, and one for those that the figures are too scattered to decide.

use stile_results::model::Cell;

/// Claims of one source.
#[derive(Debug, Default)]
pub(super) struct Claims {
    agree: Vec<String>,
    differ: Vec<String>,
    open: Vec<String>,
}

/// The verdict of stile's figures on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// They confirm it.
    Agrees,
    /// They contradict it.
    Differs,
    /// Either may be chance.
    Open,
}

impl From<bool> for Found {
    fn from(holds: bool) -> Self {
        if holds { Self::Agrees } else { Self::Differs }
    }
}

impl Found {
    /// Confirmed or contradicted, but open if the intervals of the two cells overlap. Without intervals the medians
    /// decide. The report says elsewhere how little they prove then.
    pub(super) fn unless_overlap(self, one: &Cell, other: &Cell) -> Self {
        let intervals = one.ci95.zip(other.ci95);
        let overlap = intervals.is_some_and(|(one, other)| one.lo <= other.hi && other.lo <= one.hi);
        if overlap { Self::Open } else { self }
    }
}

impl FromIterator<(Found, String)> for Claims {
    fn from_iter<T: IntoIterator<Item = (Found, String)>>(claims: T) -> Self {
        let mut all = Self::default();
        claims.into_iter().for_each(|(found, figures)| all.add(found, figures));
        all
    }
}

impl Claims {
    /// A claim with the figures that decide it.
    pub(super) fn add(&mut self, found: impl Into<Found>, figures: String) {
        let all = match found.into() {
            Found::Agrees => &mut self.agree,
            Found::Differs => &mut self.differ,
            Found::Open => &mut self.open,
        };
        all.push(figures);
    }

    /// A sentence for each verdict that some claim has.
    pub(super) fn findings(&self) -> Vec<String> {
        let sentence = |opening, all: &[String]| (!all.is_empty()).then(|| format!("{opening}: {}.", all.join("; ")));
        let all = [
            sentence("As the source saw it", &self.agree),
            sentence("Not as the source saw it", &self.differ),
            sentence("Open, as the intervals overlap", &self.open),
        ];
        all.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_results::model::{Report, RunContext};
    use stile_results::testing::ticket;
    use stile_suites::Metric;

    #[test]
    fn what_agrees_and_what_does_not_are_a_sentence_each() {
        let mut claims = Claims::default();
        assert_eq!(claims.findings(), Vec::<String>::new());
        claims.add(true, "a is 2".to_owned());
        claims.add(false, "b is 3".to_owned());
        claims.add(true, "c is 4".to_owned());
        claims.add(Found::Open, "d is 1.01".to_owned());
        let expected = [
            "As the source saw it: a is 2; c is 4.",
            "Not as the source saw it: b is 3.",
            "Open, as the intervals overlap: d is 1.01.",
        ];
        assert_eq!(claims.findings(), expected);
    }

    #[test]
    fn a_claim_on_two_cells_is_open_where_their_intervals_overlap() {
        let cell = |samples: &[f64]| {
            let samples = ticket("host", Metric::Throughput, samples);
            Report::from_samples(&samples, RunContext::default()).cells.remove(0)
        };
        let found = |one: &[f64], other: &[f64]| Found::from(true).unless_overlap(&cell(one), &cell(other));
        assert_eq!(found(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), Found::Agrees);
        assert_eq!(found(&[1.0, 2.0, 4.5], &[4.0, 5.0, 6.0]), Found::Open);
        assert_eq!(found(&[1.0], &[1.0]), Found::Agrees, "there are no intervals");
    }
}
