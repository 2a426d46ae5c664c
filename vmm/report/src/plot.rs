//! Plots as inline SVG: a line with whiskers per policy over the sizes of a run.
//!
//! A policy has one colour and one marker throughout a report. Colours are written as the light theme's; `style.css`
//! maps each of them to a variable, so that the dark theme can replace it. Sizes are drawn at equal distances: they are
//! chosen settings, not a continuous scale. The vertical axis begins at zero, or is logarithmic and says so.

pub mod axis;
pub mod bars;
pub mod headline;
pub mod ratio_axis;
pub mod timeline;

use axis::Axis;
use plotters::coord::Shift;
use plotters::prelude::*;
use thiserror::Error;

/// Size of a plot (units: SVG user units, px at its natural size).
const SIZE: (u32, u32) = (600, 336);
/// Size of a legend's key.
const KEY_SIZE: (u32, u32) = (30, 14);
/// Colours that are apart for all common colour blindnesses and at least 3:1 to white; the first is the reference's.
pub const PALETTE: [RGBColor; 7] = [
    RGBColor(0x59, 0x59, 0x59),
    RGBColor(0x00, 0x72, 0xB2),
    RGBColor(0xD5, 0x5E, 0x00),
    RGBColor(0x00, 0x8F, 0x68),
    RGBColor(0xB8, 0x5C, 0x92),
    RGBColor(0xA6, 0x76, 0x00),
    RGBColor(0x6A, 0x4F, 0xC4),
];
/// Colour of the grid.
pub const GRID: RGBColor = RGBColor(0xE4, 0xE4, 0xE0);
/// Colour of axes and text.
pub const INK: RGBColor = RGBColor(0x44, 0x44, 0x40);
/// Half a marker's width (units: px).
const MARKER: i32 = 4;
/// Markers; six of them against seven colours, so that 42 policies can be told apart.
const MARKERS: [&[(i32, i32)]; 6] = [
    &[], // a circle
    &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
    &[(0, -5), (5, 4), (-5, 4)],
    &[(0, -6), (6, 0), (0, 6), (-6, 0)],
    &[(0, 5), (5, -4), (-5, -4)],
    &[(-2, -6), (2, -6), (2, -2), (6, -2), (6, 2), (2, 2), (2, 6), (-2, 6), (-2, 2), (-6, 2), (-6, -2), (-2, -2)],
];

/// A value at one of the plot's sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Index of the size.
    pub category: usize,
    /// The median.
    pub value: f64,
    /// Ends of the whisker.
    pub whisker: Option<(f64, f64)>,
}

/// One policy's line.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The policy's place in the palette and among the markers.
    pub slot: usize,
    /// Its points.
    pub points: Vec<Point>,
}

/// How values map to height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// Logarithmic; values that are not positive are left out.
    Log,
}

/// Everything that a plot shows.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Description for readers who do not see it.
    pub title: String,
    /// Title of the horizontal axis.
    pub x_title: String,
    /// Title of the vertical axis, with the unit.
    pub y_title: String,
    /// The sizes.
    pub categories: Vec<String>,
    /// The lines.
    pub series: Vec<Series>,
    /// The vertical scale.
    pub scale: Scale,
    /// A value to mark with a line across: 1.0 for shares.
    pub reference: Option<f64>,
    /// Shows a value on the vertical axis.
    pub tick: fn(f64) -> String,
}

/// A plot that could not be drawn.
#[derive(Debug, Error)]
#[error("cannot draw the plot `{title}`")]
pub struct PlotError {
    title: String,
    #[source]
    source: DrawError,
}

type DrawError = DrawingAreaErrorKind<std::io::Error>;

impl Plot {
    /// Draws the plot as an SVG element.
    pub fn svg(&self) -> Result<String, PlotError> {
        let mut svg = String::new();
        self.draw(&mut svg).map_err(|source| PlotError { title: self.title.clone(), source })?;
        Ok(label(&svg, SIZE, &self.title))
    }

    /// The vertical axis for all that it shows.
    fn vertical(&self) -> Axis {
        let ends = |point: &Point| {
            let (lo, hi) = point.whisker.unwrap_or((point.value, point.value));
            [lo, point.value, hi]
        };
        let points = self.series.iter().flat_map(|series| &series.points);
        let values: Vec<f64> = points.flat_map(ends).chain(self.reference).collect();
        match self.scale {
            Scale::Linear => Axis::linear(values.into_iter().fold(0.0, f64::max)),
            Scale::Log => Axis::log(&values),
        }
    }

    fn draw(&self, svg: &mut String) -> Result<(), DrawError> {
        let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
        let axis = self.vertical();
        let last = self.categories.len() as f64 - 1.0;
        let size_name = |x: &f64| self.categories.get(x.round() as usize).cloned().unwrap_or_default();
        let axes = (Axis::categories(self.categories.len()), axis.clone());
        let titles = (self.x_title.as_str(), self.y_title.as_str());
        let mut chart = framed(&root, axes, titles, &size_name, &|y| (self.tick)(*y))?;
        if let Some(reference) = self.reference.filter(|value| axis.shows(*value)) {
            let ends = [(-0.5, reference), (last + 0.5, reference)];
            chart.draw_series(DashedLineSeries::new(ends, 6, 4, INK.stroke_width(1)))?;
        }
        for (index, series) in self.series.iter().enumerate() {
            // Side by side, so that whiskers do not hide each other.
            let step = (0.4 / self.series.len() as f64).min(0.06);
            let shift = (index as f64 - (self.series.len() as f64 - 1.0) / 2.0) * step;
            draw_series(&mut chart, series, shift, &axis)?;
        }
        root.present()
    }
}

/// An empty chart with its axes, the same for all plots over categories.
fn framed<'a>(
    root: &DrawingArea<SVGBackend<'a>, Shift>,
    (x, y): (Axis, Axis),
    (x_title, y_title): (&str, &str),
    x_name: &dyn Fn(&f64) -> String,
    y_name: &dyn Fn(&f64) -> String,
) -> Result<ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>, DrawError> {
    let mut chart = ChartBuilder::on(root)
        .margin(8)
        .margin_right(12)
        .x_label_area_size(50)
        .y_label_area_size(88)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .axis_style(INK)
        .label_style(("sans-serif", 15).into_font().color(&INK))
        .axis_desc_style(("sans-serif", 16).into_font().color(&INK))
        .x_label_formatter(x_name)
        .y_label_formatter(y_name)
        .x_desc(x_title)
        .y_desc(y_title)
        .draw()?;
    Ok(chart)
}

fn draw_series(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Cartesian2d<Axis, Axis>>,
    series: &Series,
    shift: f64,
    axis: &Axis,
) -> Result<(), DrawError> {
    let color = PALETTE[series.slot % PALETTE.len()];
    let area = chart.plotting_area();
    let points: Vec<&Point> = series.points.iter().filter(|point| axis.shows(point.value)).collect();
    let places: Vec<(f64, f64)> = points.iter().map(|point| (point.category as f64 + shift, point.value)).collect();
    for (point, (x, _)) in points.iter().zip(&places) {
        let Some((lo, hi)) = point.whisker else { continue };
        // On a logarithmic scale a whisker down to zero ends at the axis.
        let (x, lo) = (*x, if axis.shows(lo) { lo } else { axis.range().start });
        area.draw(&PathElement::new([(x, lo), (x, hi)], color.stroke_width(1)))?;
        for end in [lo, hi] {
            let cap = PathElement::new([(-MARKER, 0), (MARKER, 0)], color.stroke_width(1));
            area.draw(&(EmptyElement::at((x, end)) + cap))?;
        }
    }
    area.draw(&PathElement::new(places.clone(), color.stroke_width(2)))?;
    for place in places {
        match MARKERS[series.slot % MARKERS.len()] {
            [] => area.draw(&Circle::new(place, MARKER + 1, color.filled()))?,
            shape => area.draw(&(EmptyElement::at(place) + Polygon::new(shape, color)))?,
        }
    }
    Ok(())
}

/// The key of a policy in a legend: its colour and marker as an SVG element.
pub fn legend_key(slot: usize) -> Result<String, PlotError> {
    let mut svg = String::new();
    draw_key(&mut svg, slot).map_err(|source| PlotError { title: "legend".to_owned(), source })?;
    Ok(label(&svg, KEY_SIZE, ""))
}

fn draw_key(svg: &mut String, slot: usize) -> Result<(), DrawError> {
    let root = SVGBackend::with_string(svg, KEY_SIZE).into_drawing_area();
    let color = PALETTE[slot % PALETTE.len()];
    let (width, middle) = (KEY_SIZE.0 as i32, (KEY_SIZE.0 as i32 / 2, KEY_SIZE.1 as i32 / 2));
    root.draw(&PathElement::new([(0, middle.1), (width, middle.1)], color.stroke_width(2)))?;
    match MARKERS[slot % MARKERS.len()] {
        [] => root.draw(&Circle::new(middle, MARKER + 1, color.filled()))?,
        shape => root.draw(&(EmptyElement::at(middle) + Polygon::new(shape, color)))?,
    }
    root.present()
}

/// Replaces the opening tag's fixed size, which would keep the page from scaling the plot, by a description. An empty
/// one marks decoration.
fn label(svg: &str, (width, height): (u32, u32), title: &str) -> String {
    let body = svg.split_once('>').map_or("", |(_, body)| body);
    let role = if title.is_empty() {
        "aria-hidden=\"true\"".to_owned()
    } else {
        format!("role=\"img\" aria-label=\"{}\"", maud::html! { (title) }.into_string().replace('"', "&quot;"))
    };
    format!("<svg viewBox=\"0 0 {width} {height}\" {role}>{body}")
}

/// A tick of a time axis given in microseconds: "100 µs".
pub fn time_tick(us: f64) -> String {
    trim_zeros(stile_text::time_us(us))
}

/// A tick of any other axis: "30k", "0.5".
pub fn number_tick(value: f64) -> String {
    trim_zeros(stile_text::si(value))
}

/// "20.0k" as "20k": ticks are round numbers.
fn trim_zeros(shown: String) -> String {
    let end = shown.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(shown.len());
    let (number, suffix) = shown.split_at(end);
    if !number.contains('.') {
        return shown;
    }
    format!("{}{suffix}", number.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<Point>, scale: Scale) -> Plot {
        let categories = points.iter().map(|point| point.category.to_string()).collect();
        Plot {
            title: "a \"b\" <c>".to_owned(),
            x_title: "vCPUs".to_owned(),
            y_title: "locks/s".to_owned(),
            categories,
            series: vec![Series { slot: 1, points }],
            scale,
            reference: None,
            tick: number_tick,
        }
    }

    fn point(category: usize, value: f64) -> Point {
        Point { category, value, whisker: Some((value * 0.9, value * 1.1)) }
    }

    #[test]
    fn one_point_is_drawn_on_either_scale() {
        for scale in [Scale::Linear, Scale::Log] {
            let svg = plot(vec![point(0, 30_000.0)], scale).svg().unwrap();
            assert!(svg.contains("<polygon"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"));
        }
    }

    #[test]
    fn no_points_and_zeros_still_draw_axes() {
        for points in [vec![], vec![point(0, 0.0)]] {
            for scale in [Scale::Linear, Scale::Log] {
                let svg = plot(points.clone(), scale).svg().unwrap();
                assert!(svg.contains("vCPUs") && !svg.contains("NaN"));
            }
        }
    }

    #[test]
    fn the_description_is_escaped() {
        let svg = plot(vec![point(0, 1.0)], Scale::Linear).svg().unwrap();
        assert!(svg.contains("aria-label=\"a &quot;b&quot; &lt;c&gt;\""), "{svg}");
    }

    #[test]
    fn neighbouring_slots_differ_in_colour_and_marker() {
        let keys: Vec<String> = (0..42).map(|slot| legend_key(slot).unwrap()).collect();
        let distinct: std::collections::BTreeSet<&String> = keys.iter().collect();
        assert_eq!(distinct.len(), 42);
    }
}
