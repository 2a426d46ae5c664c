//! Bars side by side: a group for each policy, a bar for each vCPU, and a line at the fair share.

use super::axis::Axis;
use super::{DrawError, INK, PALETTE, PlotError, SIZE, framed, label, number_tick};
use plotters::prelude::*;

/// The part of a group's width that bars fill.
const FILLED: f64 = 0.86;

/// The bars of one policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The policy.
    pub name: String,
    /// Its place in the palette.
    pub slot: usize,
    /// Their heights.
    pub bars: Vec<f64>,
}

/// Groups of bars, from zero.
#[derive(Clone, Debug)]
pub struct Bars {
    /// Description for readers who do not see it.
    pub title: String,
    /// Title of the horizontal axis.
    pub x_title: String,
    /// Title of the vertical axis.
    pub y_title: String,
    /// A value to mark with a line across.
    pub reference: f64,
    /// The groups.
    pub groups: Vec<Group>,
}

impl Bars {
    /// Draws them as an SVG element.
    pub fn svg(&self) -> Result<String, PlotError> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|source| PlotError { title: self.title.clone(), source })?;
        Ok(label(&svg, SIZE, &self.title))
    }

    fn draw(&self, svg: &mut String) -> Result<(), DrawError> {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let heights = self.groups.iter().flat_map(|group| group.bars.iter().copied());
        let vertical = Axis::linear(heights.fold(self.reference, f64::max));
        let name = |x: &f64| self.groups.get(x.round() as usize).map(|group| group.name.clone()).unwrap_or_default();
        let axes = (Axis::categories(self.groups.len()), vertical);
        let titles = (self.x_title.as_str(), self.y_title.as_str());
        let mut chart = framed(&root, axes, titles, &name, &|y| number_tick(*y))?;
        for (place, group) in self.groups.iter().enumerate() {
            let width = FILLED / group.bars.len().max(1) as f64;
            let left = |nth: usize| place as f64 - FILLED / 2.0 + nth as f64 * width;
            let style = PALETTE[group.slot % PALETTE.len()].filled();
            let bar = |(nth, height): (usize, &f64)| {
                Rectangle::new([(left(nth), 0.0), (left(nth) + width * 0.85, *height)], style)
            };
            chart.draw_series(group.bars.iter().enumerate().map(bar))?;
        }
        let ends = [(-0.5, self.reference), (self.groups.len() as f64 - 0.5, self.reference)];
        chart.draw_series(DashedLineSeries::new(ends, 6, 4, INK.stroke_width(1)))?;
        root.present()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(heights: &[&[f64]]) -> String {
        let group =
            |(slot, bars): (usize, &&[f64])| Group { name: format!("policy-{slot}"), slot, bars: bars.to_vec() };
        let groups = heights.iter().enumerate().map(group).collect();
        let (title, x_title) = ("shares".to_owned(), "vCPUs".to_owned());
        Bars { title, x_title, y_title: "share".to_owned(), reference: 1.0, groups }.svg().unwrap()
    }

    #[test]
    fn every_bar_is_drawn_in_its_groups_colour() {
        let svg = bars(&[&[1.5, 0.5], &[1.0, 1.0, 0.0]]);
        let of = |color: &str| svg.lines().filter(|line| line.starts_with("<rect") && line.contains(color)).count();
        assert_eq!((of("#595959"), of("#0072B2")), (2, 3), "{svg}");
        assert!(svg.contains("policy-1"));
    }

    #[test]
    fn no_bars_still_draw_axes() {
        for groups in [&[][..], &[&[][..]]] {
            let svg = bars(groups);
            assert!(svg.contains("share") && !svg.contains("NaN"));
        }
    }
}
