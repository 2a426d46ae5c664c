//! Which plots a block of the report gets, and their series.

use super::metric::Metric;
use super::model::{BASELINE, Params};
use super::plot::{self, Plot, PlotError, Point, Scale, Series};
use super::view::Block;

/// A plot with its caption.
#[derive(Debug)]
pub struct Figure {
    /// What it shows, for the reader.
    pub caption: String,
    /// The plot.
    pub svg: String,
}

/// A policy's colour and marker: the baseline has the first, whatever else runs; the others follow in the report's
/// order.
pub fn slot(policies: &[&str], policy: &str) -> usize {
    if policy == BASELINE {
        return 0;
    }
    1 + policies.iter().filter(|other| **other != BASELINE).take_while(|other| **other != policy).count()
}

/// The plots of a block.
pub fn of(block: &Block<'_>, policies: &[&str]) -> Result<Vec<Figure>, PlotError> {
    let metrics = block.suite.plotted().iter().filter(|metric| block.has(**metric));
    metrics.map(|metric| figure(block, policies, *metric)).collect()
}

fn figure(block: &Block<'_>, policies: &[&str], metric: Metric) -> Result<Figure, PlotError> {
    let mut caption = metric.label().to_owned();
    caption[..1].make_ascii_uppercase();
    let time = metric.is_time();
    // Over machines of all sizes throughput goes through as many powers.
    let log = time || metric == Metric::Throughput && block.size_axis() == Params::PCPUS;
    let unit = if time { "time" } else { metric.unit(block.suite) };
    let y_title = if log { format!("{unit} (log scale)") } else { unit.to_owned() };
    let plot = Plot {
        title: format!("{} of {} by policy over {}", caption, block.title(), block.size_axis()),
        x_title: block.size_axis().to_owned(),
        y_title,
        categories: block.rows.iter().map(|row| category(row)).collect(),
        series: block.policies.iter().map(|policy| series(block, policies, policy, metric)).collect(),
        scale: if log { Scale::Log } else { Scale::Linear },
        reference: metric.is_share().then_some(1.0),
        tick: if time { plot::time_tick } else { plot::number_tick },
    };
    let simulated = if block.simulated { "simulated, " } else { "" };
    Ok(Figure { caption: format!("{caption} ({simulated}{})", metric.direction(block.suite)), svg: plot.svg()? })
}

fn category(row: &Params) -> String {
    row.size().map_or_else(|| row.size_label(), |(_, size)| size.to_string())
}

fn series(block: &Block<'_>, policies: &[&str], policy: &str, metric: Metric) -> Series {
    let point = |(category, row): (usize, &&_)| {
        let cell = block.cell(row, policy, metric)?;
        Some(Point { category, value: cell.median, whisker: cell.ci95.map(|ci| (ci.lo, ci.hi)) })
    };
    Series { slot: slot(policies, policy), points: block.rows.iter().enumerate().filter_map(point).collect() }
}
