//! A set of interrupt vectors, laid out as in the registers IRR, ISR and TMR.

/// Vectors in a word of the registers.
const WORD: usize = 32;

/// Some of the 256 vectors.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Vectors([u32; 256 / WORD]);

impl Vectors {
    /// Adds a vector. False if it was there.
    pub fn insert(&mut self, vector: u8) -> bool {
        let is_new = !self.contains(vector);
        self.0[usize::from(vector) / WORD] |= 1 << (usize::from(vector) % WORD);
        is_new
    }

    /// Takes a vector out.
    pub fn remove(&mut self, vector: u8) {
        self.0[usize::from(vector) / WORD] &= !(1 << (usize::from(vector) % WORD));
    }

    /// Whether the vector is in the set.
    pub fn contains(&self, vector: u8) -> bool {
        self.0[usize::from(vector) / WORD] & 1 << (usize::from(vector) % WORD) != 0
    }

    /// The greatest vector, which has the highest priority.
    pub fn highest(&self) -> Option<u8> {
        let word = self.0.iter().rposition(|word| *word != 0)?;
        Some((word * WORD + self.0[word].ilog2() as usize) as u8)
    }

    /// A word of the register: vectors `32 * index` to `32 * index + 31`.
    pub fn word(&self, index: usize) -> u32 {
        self.0[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_vector_comes_first_and_words_are_those_of_the_registers() {
        let mut vectors = Vectors::default();
        assert_eq!(vectors.highest(), None);
        for vector in [0, 31, 32, 255, 64] {
            assert!(vectors.insert(vector) && !vectors.insert(vector));
        }
        assert_eq!([0, 1, 2, 3, 7].map(|word| vectors.word(word)), [1 | 1 << 31, 1, 1, 0, 1 << 31]);
        for vector in [255, 64, 32, 31, 0] {
            assert_eq!(vectors.highest(), Some(vector));
            vectors.remove(vector);
            assert!(!vectors.contains(vector));
        }
        assert_eq!(vectors, Vectors::default());
    }
}
