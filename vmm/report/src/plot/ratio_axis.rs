//! A logarithmic axis of ratios around 1.

/// The axis covers at least this and its inverse, so that a small difference does not look like a large one.
const LEAST: f64 = 1.25;
/// Least distance between ticks: a line of text (units: px).
const APART: f64 = 19.0;
/// Fewer ticks do not show that the axis is logarithmic.
const FEWEST: usize = 3;

/// A vertical axis.
#[derive(Clone, Debug)]
pub struct RatioAxis {
    /// Logarithms of the ends.
    lo: f64,
    hi: f64,
    height: f64,
    /// The ratios that are named.
    pub ticks: Vec<f64>,
}

impl RatioAxis {
    /// The axis of this height that shows all these ratios, which are positive.
    pub fn around(ratios: impl Iterator<Item = f64>, height: f64) -> Self {
        let logs = ratios.chain([1.0 / LEAST, LEAST]).map(f64::ln);
        let (lo, hi) = logs.fold((0.0f64, 0.0f64), |(lo, hi), log| (lo.min(log), hi.max(log)));
        let pad = (hi - lo) * 0.05;
        let mut axis = Self { lo: lo - pad, hi: hi + pad, height, ticks: vec![1.0] };
        let grids = grids().map(|grid| axis.shown(grid));
        let fits = |ticks: &Vec<f64>| {
            let apart = |pair: &[f64]| axis.below_top(pair[0]) - axis.below_top(pair[1]) >= APART;
            ticks.len() >= FEWEST && ticks.windows(2).all(apart)
        };
        if let Some(ticks) = grids.into_iter().find(fits) {
            axis.ticks = ticks;
        }
        axis
    }

    fn shown(&self, mut ticks: Vec<f64>) -> Vec<f64> {
        ticks.retain(|tick| (self.lo..=self.hi).contains(&tick.ln()));
        ticks
    }

    /// How far below the top of the axis a ratio is; what is below the axis is at its foot.
    pub fn below_top(&self, ratio: f64) -> f64 {
        let log = ratio.max(f64::MIN_POSITIVE).ln().max(self.lo);
        self.height * (self.hi - log) / (self.hi - self.lo)
    }
}

/// Round ratios, the finest grid first.
fn grids() -> [Vec<f64>; 6] {
    let steps = |step: f64| (1..=60).map(|n| f64::from(n) * step).collect();
    let decades = |digits: &'static [f64]| {
        let of = |decade: i32| digits.iter().map(move |digit| digit * 10f64.powi(decade));
        (-6..=6).flat_map(of).collect()
    };
    [
        steps(0.1),
        steps(0.2),
        steps(0.5),
        decades(&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]),
        decades(&[1.0, 2.0, 5.0]),
        decades(&[1.0]),
    ]
}

/// "0.8", "1", "20".
pub fn tick_name(tick: f64) -> String {
    let digits = if tick < 0.0995 { 6 } else { 1 };
    let name = format!("{tick:.digits$}");
    name.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(lo: f64, hi: f64) -> Vec<String> {
        RatioAxis::around([lo, hi].into_iter(), 210.0).ticks.iter().map(|tick| tick_name(*tick)).collect()
    }

    #[test]
    fn ticks_are_as_fine_as_there_is_room_for() {
        assert_eq!(names(1.0, 1.0), ["0.8", "0.9", "1", "1.1", "1.2"]);
        assert_eq!(names(0.7, 4.5), ["0.7", "1", "1.5", "2", "3"]);
    }

    #[test]
    fn ticks_are_apart_and_include_one() {
        for (lo, hi) in [(0.5, 2.0), (0.1, 3.0), (0.01, 1.3), (0.7, 140.0), (1e-4, 1e4), (0.03, 3.5)] {
            let axis = RatioAxis::around([lo, hi].into_iter(), 210.0);
            let has_one = axis.ticks.iter().any(|tick| (tick - 1.0).abs() < 1e-9);
            assert!(axis.ticks.len() >= FEWEST && has_one, "{lo} to {hi}: {:?}", axis.ticks);
            let places: Vec<f64> = axis.ticks.iter().map(|tick| axis.below_top(*tick)).collect();
            assert!(places.windows(2).all(|pair| pair[0] - pair[1] >= APART), "{lo} to {hi}: {places:?}");
        }
    }

    #[test]
    fn a_ratio_of_zero_is_at_the_foot_and_a_greater_one_is_higher() {
        let axis = RatioAxis::around([0.5, 2.0].into_iter(), 100.0);
        assert!((axis.below_top(0.0) - 100.0).abs() < 1e-9);
        assert!(axis.below_top(2.0) < axis.below_top(0.5) && axis.below_top(2.0) > 0.0);
    }
}
