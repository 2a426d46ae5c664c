//! Axes of plots: the places of values, and the values that are labelled.

use super::Scale;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use std::ops::Range;

/// An axis: the places of values, and the values that are labelled.
#[derive(Clone, Debug)]
pub struct Axis {
    scale: Scale,
    /// Ends, as values.
    range: Range<f64>,
    /// The values that are labelled.
    ticks: Vec<f64>,
}

impl Axis {
    /// The horizontal axis: categories at equal distances.
    pub fn categories(number: usize) -> Self {
        let ticks: Vec<f64> = (0..number).map(|index| index as f64).collect();
        Self { scale: Scale::Linear, range: -0.5..number.max(1) as f64 - 0.5, ticks }
    }

    /// From zero to a highest value.
    pub fn linear(highest: f64) -> Self {
        let highest = if highest > 0.0 { highest } else { 1.0 };
        let raw_step = highest / 5.0;
        let decade = 10f64.powf(raw_step.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * decade).find(|step| *step >= raw_step * 0.999);
        let step = step.unwrap_or(raw_step);
        let top = highest * 1.06;
        let ticks = (0..).map(|n| f64::from(n) * step).take_while(|tick| *tick <= top).collect();
        Self { scale: Scale::Linear, range: 0.0..top, ticks }
    }

    /// Logarithmic, around all values that are positive.
    pub fn log(values: &[f64]) -> Self {
        let logs: Vec<f64> = values.iter().filter(|value| **value > 0.0).map(|value| value.log10()).collect();
        let lo = logs.iter().copied().reduce(f64::min).unwrap_or(0.0);
        let hi = logs.iter().copied().fold(lo, f64::max);
        // At least a third of a decade around, so that a small difference does not look like a large one.
        let pad = ((hi - lo) * 0.08).max(0.17);
        let range = 10f64.powf(lo - pad)..10f64.powf(hi + pad);
        let steps: &[f64] = if hi - lo < 1.7 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = ((lo - pad).floor() as i32)..=((hi + pad).ceil() as i32);
        let ticks = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
        let ticks = ticks.filter(|tick| range.contains(tick)).collect();
        Self { scale: Scale::Log, range, ticks }
    }

    /// Whether the scale has a place for a value.
    pub fn shows(&self, value: f64) -> bool {
        self.scale == Scale::Linear || value > 0.0
    }
}

impl Ranged for Axis {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = |value: f64| if self.scale == Scale::Log { value.log10() } else { value };
        let (start, end) = (place(self.range.start), place(self.range.end));
        let fraction = (place(*value) - start) / (end - start);
        limit.0 + (fraction * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{number_tick, time_tick};
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_begin_at_zero() {
        let axis = Axis::linear(33_000.0);
        assert_eq!(axis.ticks, [0.0, 10_000.0, 20_000.0, 30_000.0]);
        assert_eq!(axis.ticks.iter().map(|tick| number_tick(*tick)).collect::<Vec<_>>(), ["0", "10k", "20k", "30k"]);
    }

    #[test]
    fn log_ticks_are_decades_for_a_wide_range_and_finer_for_a_narrow_one() {
        let names = |values: &[f64]| -> Vec<String> {
            let axis = Axis::log(values);
            axis.ticks.iter().map(|tick| time_tick(*tick)).collect()
        };
        assert_eq!(names(&[50.0, 60_000.0]), ["100 µs", "1 ms", "10 ms", "100 ms"]);
        assert_eq!(names(&[1000.0, 4000.0]), ["1 ms", "2 ms", "5 ms"]);
    }
}
