//! What a source said, each with whether our figures say the same: two sentences, for what agrees and what does not.

/// Claims of one source.
#[derive(Debug, Default)]
pub(super) struct Claims {
    agree: Vec<String>,
    differ: Vec<String>,
}

impl FromIterator<(bool, String)> for Claims {
    fn from_iter<T: IntoIterator<Item = (bool, String)>>(claims: T) -> Self {
        let mut all = Self::default();
        claims.into_iter().for_each(|(holds, figures)| all.add(holds, figures));
        all
    }
}

impl Claims {
    /// A claim with the figures that decide it.
    pub(super) fn add(&mut self, holds: bool, figures: String) {
        if holds { &mut self.agree } else { &mut self.differ }.push(figures);
    }

    /// A sentence each for what agrees and for what does not, where there is something.
    pub(super) fn findings(&self) -> Vec<String> {
        let sentence = |opening, all: &[String]| (!all.is_empty()).then(|| format!("{opening}: {}.", all.join("; ")));
        let both = [sentence("As the source saw it", &self.agree), sentence("Not as the source saw it", &self.differ)];
        both.into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_agrees_and_what_does_not_are_a_sentence_each() {
        let mut claims = Claims::default();
        assert_eq!(claims.findings(), Vec::<String>::new());
        claims.add(true, "a is 2".to_owned());
        claims.add(false, "b is 3".to_owned());
        claims.add(true, "c is 4".to_owned());
        let expected = ["As the source saw it: a is 2; c is 4.", "Not as the source saw it: b is 3."];
        assert_eq!(claims.findings(), expected);
    }
}
