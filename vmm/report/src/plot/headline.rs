//! The headline of a report as one SVG figure that needs no page around it, for a README or a slide.
//!
//! Per block of the report one row of panels: throughput and p99 latency, each as the ratio to the reference by size.
//! The figure has its own background and both themes, and follows from the report alone: the same report gives the same
//! bytes.

use maud::{Markup, PreEscaped, html};
use thiserror::Error;

use super::ratio_axis::{RatioAxis, tick_name};
use super::{MARKER, MARKERS, PALETTE};
use crate::figures::Palette;
use crate::summary::{self, Summary};
use crate::view::{self, Block};
use stile_results::model::{Params, Report};
use stile_suites::{Better, Metric};

/// The metrics of the panels, from left to right.
const METRICS: [Metric; 2] = [Metric::Throughput, Metric::LatencyP99];
/// Sizes (units: SVG user units, px at the natural size).
const WIDTH: f64 = 800.0;
const MARGIN: f64 = 24.0;
const PANEL: f64 = 376.0;
/// From a panel's left edge to its plot: ticks and the title of the axis.
const AXIS: f64 = 62.0;
const PLOT_HEIGHT: f64 = 210.0;
/// Above a plot: the panel's title. Below it: sizes and their unit.
const ABOVE: f64 = 34.0;
const BELOW: f64 = 58.0;
/// Height of a line of small text.
const LINE: f64 = 20.0;
/// Width of a letter of small text, a little more than the mean.
const LETTER: f64 = 7.3;
/// Sizes that can be named below a plot.
const MOST_NAMES: usize = 10;
/// The colours of the dark theme, in the order of [`PALETTE`]; `style.css` has the same.
const DARK: [&str; 7] = ["#b9b9b4", "#5bb0e8", "#f28b4a", "#2fcb9d", "#e29bc6", "#e0b040", "#a794f2"];

/// A report without anything to draw.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "the report has no ratio of throughput or p99 latency to {reference}; compare it with another policy, or name a \
     policy that was measured with --reference"
)]
pub struct NoFigure {
    reference: String,
}

/// Draws the figure.
pub fn svg(report: &Report) -> Result<String, NoFigure> {
    let blocks = view::blocks(report);
    let rows: Vec<Vec<Panel<'_>>> = blocks.iter().map(panels).filter(|panels| !panels.is_empty()).collect();
    if rows.is_empty() {
        return Err(NoFigure { reference: report.reference.clone() });
    }
    let policies = view::policies(report);
    let palette = Palette { policies: &policies, reference: &report.reference };
    let title = title(report);
    let (legend, legend_height) = legend(palette);
    let about: Vec<String> = if let [suite] = view::suites(report)[..] { lines(suite.about()) } else { Vec::new() };
    let notes: Vec<String> = notes(report).iter().flat_map(|note| lines(note)).collect();
    let top = 44.0 + about.len() as f64 * LINE + legend_height + 6.0;
    let names = if rows.len() > 1 { LINE + 6.0 } else { 0.0 };
    let row_height = names + ABOVE + PLOT_HEIGHT + BELOW;
    let below = top + rows.len() as f64 * row_height;
    let height = below + notes.len() as f64 * LINE + 14.0;
    let markup = html! {
        svg xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {WIDTH} {height}")) width=(WIDTH) height=(height)
            role="img" aria-label=(title) {
            style { (PreEscaped(style())) }
            rect.page width=(WIDTH) height=(height) rx="8" {}
            text.title x=(MARGIN) y="34" { (title) }
            @for (nth, line) in about.iter().enumerate() {
                text.soft x=(MARGIN) y=(56.0 + nth as f64 * LINE) { (line) }
            }
            g transform=(format!("translate({MARGIN} {})", top - legend_height - 4.0)) { (legend) }
            @for (nth, panels) in rows.iter().enumerate() {
                @let y = top + nth as f64 * row_height;
                @if rows.len() > 1 { text.name x=(MARGIN) y=(y + LINE) { (panels[0].block.title()) } }
                @for (column, panel) in panels.iter().enumerate() {
                    g transform=(format!("translate({} {})", MARGIN + column as f64 * PANEL, y + names)) {
                        (panel.draw(palette))
                    }
                }
            }
            @for (nth, line) in notes.iter().enumerate() {
                text.soft x=(MARGIN) y=(below + 8.0 + nth as f64 * LINE) { (line) }
            }
        }
    };
    Ok(markup.into_string() + "\n")
}

/// "netbench: policies compared with host".
fn title(report: &Report) -> String {
    let suites: Vec<&str> = view::suites(report).iter().map(|suite| suite.name()).collect();
    let simulated = if report.simulated { "simulated " } else { "" };
    format!("{simulated}{}: policies compared with {}", stile_text::list(&suites), report.reference)
}

/// The notes on the figures and the machine.
fn notes(report: &Report) -> Vec<String> {
    let rounds = stile_text::count(report.rounds as usize, "round");
    let has_intervals = report.cells.iter().any(|cell| cell.ratio_ci95.is_some());
    let intervals = if has_intervals { "; the bars are 95 % intervals" } else { ", too few for intervals" };
    let mut notes = vec![format!("Medians of the ratios in {rounds}{intervals}. Vertical axes are logarithmic.")];
    let fact = |name: &str| report.host.pointer(name).and_then(|value| value.as_str());
    let pcpus = fact("/pcpus").map(|pcpus| format!("pCPUs {pcpus}"));
    let kernel = fact("/kernel/release").map(|kernel| format!("Linux {kernel}"));
    let machine: Vec<String> = [fact("/cpu/model").map(str::to_owned), pcpus, kernel].into_iter().flatten().collect();
    if !machine.is_empty() {
        notes.push(format!("Machine: {}.", machine.join(", ")));
    }
    let Summary { warnings, .. } = summary::summarize(report);
    notes.extend(warnings.into_iter().take(1));
    notes
}

/// Text in lines that fit the figure.
fn lines(text: &str) -> Vec<String> {
    let most = ((WIDTH - 2.0 * MARGIN) / LETTER) as usize;
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("there is one line at least");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > most {
            lines.push(word.to_owned());
        } else {
            *last += if last.is_empty() { "" } else { " " };
            *last += word;
        }
    }
    lines
}

/// The key of every policy, in as many lines as needed, and their height.
fn legend(palette: Palette<'_>) -> (Markup, f64) {
    let (mut x, mut y, mut keys) = (0.0, LINE * 0.7, Vec::new());
    for policy in palette.policies {
        let is_reference = *policy == palette.reference;
        let name = if is_reference { format!("{policy} = 1") } else { (*policy).to_owned() };
        let width = 44.0 + name.chars().count() as f64 * LETTER + 22.0;
        if x > 0.0 && x + width > WIDTH - 2.0 * MARGIN {
            (x, y) = (0.0, y + LINE);
        }
        keys.push((x, y, is_reference, palette.slot(policy), name));
        x += width;
    }
    let markup = html! {
        @for (x, y, is_reference, slot, name) in &keys {
            @if *is_reference {
                line.reference x1=(x) y1=(y) x2=(x + 34.0) y2=(y) {}
            } @else {
                line class=(format!("line s{}", slot % PALETTE.len())) x1=(x) y1=(y) x2=(x + 34.0) y2=(y) {}
                (marker(*slot, (x + 17.0, *y)))
            }
            text x=(x + 42.0) y=(y + 5.0) { (name) }
        }
    };
    (markup, y + LINE * 0.7)
}

/// A marker of a policy's shape and colour.
fn marker(slot: usize, (x, y): (f64, f64)) -> Markup {
    let class = format!("dot s{}", slot % PALETTE.len());
    let points = |shape: &[(i32, i32)]| {
        let at = |(dx, dy): &(i32, i32)| format!("{},{}", px(x + f64::from(*dx)), px(y + f64::from(*dy)));
        shape.iter().map(at).collect::<Vec<_>>().join(" ")
    };
    match MARKERS[slot % MARKERS.len()] {
        [] => html! { circle class=(class) cx=(px(x)) cy=(px(y)) r=(MARKER + 1) {} },
        shape => html! { polygon class=(class) points=(points(shape)) {} },
    }
}

/// The ratios of one metric in one block.
struct Panel<'a> {
    block: &'a Block<'a>,
    metric: Metric,
    rows: Vec<&'a Params>,
}

/// The panels of a block: those of its metrics that have a ratio.
fn panels<'a>(block: &'a Block<'a>) -> Vec<Panel<'a>> {
    let panel = |metric| {
        let has_ratio = |row: &&Params| {
            let mut cells = block.policies.iter().filter_map(|policy| block.cell(row, policy, metric));
            cells.any(|cell| cell.ratio.is_some_and(|ratio| ratio > 0.0) && !cell.is_of(block.reference))
        };
        let rows: Vec<&Params> = block.rows.iter().copied().filter(has_ratio).collect();
        (!rows.is_empty()).then_some(Panel { block, metric, rows })
    };
    METRICS.into_iter().filter_map(panel).collect()
}

/// A policy's ratio at one size.
struct Point {
    x: f64,
    ratio: f64,
    interval: Option<(f64, f64)>,
}

impl Panel<'_> {
    fn draw(&self, palette: Palette<'_>) -> Markup {
        let policies: Vec<&str> =
            self.block.policies.iter().copied().filter(|policy| *policy != palette.reference).collect();
        let all: Vec<Vec<Point>> =
            policies.iter().enumerate().map(|(nth, policy)| self.points(policy, nth, policies.len())).collect();
        let ends = all.iter().flatten().flat_map(|point| {
            let (lo, hi) = point.interval.unwrap_or((point.ratio, point.ratio));
            // An interval down to 0 ends at the axis.
            [if lo > 0.0 { lo } else { point.ratio }, hi]
        });
        let axis = RatioAxis::around(ends, PLOT_HEIGHT);
        let y = |ratio: f64| px(ABOVE + axis.below_top(ratio));
        let (right, bottom) = (PANEL - 12.0, ABOVE + PLOT_HEIGHT);
        let mut label = self.metric.label().to_owned();
        label[..1].make_ascii_uppercase();
        let direction = match self.metric.better() {
            Better::Higher => "higher is better",
            Better::Lower => "lower is better",
        };
        html! {
            text.name x=(AXIS) y="20" { (label) " (" (direction) ")" }
            @for tick in &axis.ticks {
                line.grid x1=(AXIS) y1=(y(*tick)) x2=(right) y2=(y(*tick)) {}
                text.end x=(AXIS - 8.0) y=(y(*tick) + 5.0) { (tick_name(*tick)) }
            }
            line.reference x1=(AXIS) y1=(y(1.0)) x2=(right) y2=(y(1.0)) {}
            line.axis x1=(AXIS) y1=(bottom) x2=(right) y2=(bottom) {}
            @for (nth, row) in self.rows.iter().enumerate() {
                @if nth % self.rows.len().div_ceil(MOST_NAMES) == 0 {
                    text.middle x=(px(self.x(nth))) y=(bottom + 20.0) { (size_name(row)) }
                }
            }
            text.middle.soft x=(px(f64::midpoint(AXIS, right))) y=(bottom + 41.0) { (self.block.size_axis()) }
            text.middle.soft transform=(format!("translate(14 {}) rotate(-90)", ABOVE + PLOT_HEIGHT / 2.0)) {
                "ratio to " (palette.reference)
            }
            @for (policy, points) in policies.iter().zip(&all) { (series(points, palette.slot(policy), &y)) }
        }
    }

    /// The place of a size.
    fn x(&self, nth: usize) -> f64 {
        AXIS + (PANEL - 12.0 - AXIS) * (nth as f64 + 0.5) / self.rows.len() as f64
    }

    /// A policy's points, a little to the side, so that intervals do not hide each other.
    fn points(&self, policy: &str, nth: usize, of: usize) -> Vec<Point> {
        let shift = (nth as f64 - (of as f64 - 1.0) / 2.0) * 9.0;
        let point = |(row, params): (usize, &&Params)| {
            let cell = self.block.cell(params, policy, self.metric)?;
            let ratio = cell.ratio.filter(|ratio| *ratio > 0.0)?;
            Some(Point { x: self.x(row) + shift, ratio, interval: cell.ratio_ci95.map(|ci| (ci.lo, ci.hi)) })
        };
        self.rows.iter().enumerate().filter_map(point).collect()
    }
}

fn size_name(row: &Params) -> String {
    row.size().map_or_else(|| row.size_label(), |(_, size)| size.to_string())
}

/// A policy's line, intervals and markers.
fn series(points: &[Point], slot: usize, y: &impl Fn(f64) -> f64) -> Markup {
    let color = format!("s{}", slot % PALETTE.len());
    let place = |point: &Point| format!("{},{}", px(point.x), y(point.ratio));
    html! {
        @for (x, (lo, hi)) in points.iter().filter_map(|point| Some((point.x, point.interval?))) {
            @let (low, high) = (y(lo), y(hi));
            path class=(format!("bar {color}")) d=(format!(
                "M{0},{1}V{2}M{3},{1}H{4}M{3},{2}H{4}", px(x), low, high, px(x - 4.0), px(x + 4.0)
            )) {}
        }
        polyline class=(format!("line {color}")) points=(points.iter().map(place).collect::<Vec<_>>().join(" ")) {}
        @for point in points { (marker(slot, (point.x, y(point.ratio)))) }
    }
}

/// A place, no finer than a screen shows.
fn px(place: f64) -> f64 {
    // Adding 0 makes a negative zero positive.
    (place * 10.0).round() / 10.0 + 0.0
}

/// Colours and fonts, for light and for dark.
fn style() -> String {
    let color =
        |nth: usize, color: &str| format!(".line.s{nth},.bar.s{nth}{{stroke:{color}}}.dot.s{nth}{{fill:{color}}}");
    let light = PALETTE.iter().enumerate().map(|(nth, c)| color(nth, &format!("#{:02x}{:02x}{:02x}", c.0, c.1, c.2)));
    let dark = DARK.iter().enumerate().map(|(nth, c)| color(nth, c));
    let theme = |page: &str, ink: &str, soft: &str, grid: &str| {
        format!(
            ".page{{fill:{page}}}text{{fill:{ink}}}.soft{{fill:{soft}}}.grid{{stroke:{grid}}}\
             .axis,.reference{{stroke:{soft}}}"
        )
    };
    format!(
        "text{{font:14px system-ui,\"Segoe UI\",Roboto,\"Helvetica Neue\",Arial,sans-serif}}\
         .title{{font-size:20px;font-weight:650}}.name{{font-size:15px;font-weight:600}}\
         .end{{text-anchor:end}}.middle{{text-anchor:middle}}.soft{{font-size:13.5px}}\
         .line{{fill:none;stroke-width:2.2}}.bar{{fill:none;stroke-width:1.4}}\
         .reference{{stroke-width:1.4;stroke-dasharray:6 4}}{}{}@media(prefers-color-scheme:dark){{{}{}}}",
        theme("#fcfcfa", "#1c1c1a", "#55554f", "#e4e4e0"),
        light.collect::<String>(),
        theme("#161715", "#e8e8e3", "#b0b0a8", "#2e302c"),
        dark.collect::<String>(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_results::model::{RunContext, Sample};
    use stile_results::testing::ticket;

    fn samples(policies: &[(&str, f64)]) -> Vec<Sample> {
        let of = |(policy, gain): &(&str, f64)| {
            let work = [100.0 * gain, 101.0 * gain, 99.0 * gain, 100.0, 102.0 * gain];
            let times = [9.0 / gain, 10.0 / gain, 11.0 / gain, 9.5, 10.0];
            let both = [ticket(policy, Metric::Throughput, &work), ticket(policy, Metric::LatencyP99, &times)].concat();
            [4u64, 8, 16].into_iter().flat_map(move |vcpus| {
                let params = Params::default().with("vcpus", vcpus);
                both.clone().into_iter().map(move |sample| Sample { params: params.clone(), ..sample })
            })
        };
        policies.iter().flat_map(of).collect()
    }

    fn report(policies: &[(&str, f64)]) -> Report {
        Report::from_samples(&samples(policies), RunContext::default())
    }

    #[test]
    fn panels_have_titles_sizes_intervals_and_a_key_for_each_policy() {
        let svg = svg(&report(&[("host", 1.0), ("rsdl", 1.3), ("<o1>", 0.7)])).unwrap();
        for told in [
            "ticket: policies compared with host",
            "Throughput (higher is better)",
            "P99 latency (lower is better)",
            "ratio to host",
            ">vCPUs<",
            ">16<",
            "host = 1",
            "&lt;o1&gt;",
            "Medians of the ratios in 5 rounds; the bars are 95 % intervals.",
        ] {
            assert!(svg.contains(told), "no `{told}` in {svg}");
        }
        assert_eq!(svg.matches("<path class=\"bar s1\"").count(), 6, "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("-0 "), "{svg}");
    }

    #[test]
    fn the_same_report_gives_the_same_bytes_whatever_order_its_samples_came_in() {
        let policies = vec!["host".to_owned(), "rsdl".to_owned()];
        let of = |samples: &[Sample]| {
            let context = RunContext { policies: policies.clone(), ..RunContext::default() };
            svg(&Report::from_samples(samples, context)).unwrap()
        };
        let mut samples = samples(&[("host", 1.0), ("rsdl", 1.3)]);
        let forwards = of(&samples);
        samples.reverse();
        assert_eq!(of(&samples), forwards);
    }

    #[test]
    fn a_report_without_ratios_is_refused_with_the_remedy() {
        let refused = svg(&report(&[("rsdl", 1.0)])).unwrap_err().to_string();
        assert!(refused.contains("to host") && refused.contains("--reference"), "{refused}");
        assert!(svg(&report(&[])).is_err());
    }

    #[test]
    fn the_dark_colours_are_those_of_the_page() {
        let page = include_str!("../style.css");
        for (nth, color) in DARK.iter().enumerate() {
            assert!(page.contains(&format!("--s{nth}: {color}")), "{color}");
        }
    }
}
