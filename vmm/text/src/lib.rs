//! Text for readers: quantities, counts, lists and paragraphs.
//!
//! [`si`], [`bytes`], [`time_us`], [`percent`] and [`ratio`] write numbers; [`count`], [`list`] and [`fill`] write
//! prose. Nothing here is parsed back: files keep numbers with full precision.

mod prose;
mod quantity;

pub use prose::{count, fill, list};
pub use quantity::{bytes, percent, ratio, si, significant, time_us};
