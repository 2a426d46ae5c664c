//! Why a text is not accepted as a value.

/// A text that is not accepted as a value: what is wrong, and what would be accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{wrong}; accepted: {accepted}")]
pub struct ValueError {
    /// What is wrong with the text.
    pub wrong: String,
    /// What would be accepted in its place.
    pub accepted: String,
}
