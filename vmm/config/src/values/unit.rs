//! Whole numbers with a unit, as texts.

use std::fmt;

/// Splits `text` into a number and the factor that its unit stands for.
pub(super) fn number_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// Writes `value` in the largest unit that needs no fraction. `units` go from large to small and end with factor 1.
pub(super) fn write_with_unit(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let exact = units.iter().find(|(_, factor)| value.is_multiple_of(*factor) && value >= *factor);
    match exact.or(units.last()) {
        Some((unit, factor)) => write!(f, "{}{unit}", value / factor),
        None => write!(f, "{value}"),
    }
}
