//! The plots of each block of the report, and their series.

use super::detail::Details;
use super::plot::bars::{Bars, Group};
use super::plot::{self, Plot, PlotError, Point, Scale, Series, timeline};
use super::view::Block;
use stile_results::model::{Params, Sample};
use stile_results::moment::Moment;
use stile_results::stats;
use stile_suites::Metric;

/// The quantiles of a distribution that are plotted.
const QUANTILES: [(f64, &str); 8] =
    [(0.1, "10"), (0.25, "25"), (0.5, "50"), (0.75, "75"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (1.0, "100")];

/// A plot with its caption.
#[derive(Debug)]
pub struct Figure {
    /// Its meaning, for the reader.
    pub caption: String,
    /// The plot.
    pub svg: String,
}

/// The policies of a report, each with a colour and a marker of its own.
#[derive(Clone, Copy, Debug)]
pub struct Palette<'a> {
    /// In the report's order.
    pub policies: &'a [&'a str],
    /// The policy that ratios refer to.
    pub reference: &'a str,
}

impl Palette<'_> {
    /// A policy's place in the palette: the reference has the first; the others follow in the report's order.
    pub fn slot(self, policy: &str) -> usize {
        if policy == self.reference {
            return 0;
        }
        let others = self.policies.iter().filter(|other| **other != self.reference);
        1 + others.take_while(|other| **other != policy).count()
    }
}

/// The plots of a block. The distribution and the shares are drawn if the samples have them.
pub fn of(block: &Block<'_>, palette: Palette<'_>, details: Details<'_>) -> Result<Vec<Figure>, PlotError> {
    let metrics = block.suite.plotted().iter().filter(|metric| block.has(**metric));
    let mut figures = metrics.map(|metric| figure(block, palette, *metric)).collect::<Result<Vec<_>, _>>()?;
    figures.extend(distribution(block, palette, details)?);
    figures.extend(shares(block, palette, details)?);
    Ok(figures)
}

/// Quantiles of the latency at the largest size; `None` without histograms.
fn distribution(block: &Block<'_>, palette: Palette<'_>, details: Details<'_>) -> Result<Option<Figure>, PlotError> {
    let of = |policy: &&str| {
        let buckets = details.latency(block, policy);
        let at = |(category, (quantile, _)): (usize, &(f64, &str))| {
            let value = stats::percentile(&buckets, *quantile)? as f64 / 1000.0;
            Some(Point { category, value, whisker: None })
        };
        Series { slot: palette.slot(policy), points: QUANTILES.iter().enumerate().filter_map(at).collect() }
    };
    let series: Vec<Series> = block.policies.iter().map(of).collect();
    let (Some(largest), true) = (block.largest(), series.iter().any(|series| !series.points.is_empty())) else {
        return Ok(None);
    };
    let size = largest.size_label();
    let plot = Plot {
        title: format!("Quantiles of the latency of {} by policy with {size}", block.title()),
        x_title: "% of all waits that took no longer".to_owned(),
        y_title: "time (log scale)".to_owned(),
        categories: QUANTILES.iter().map(|(_, name)| (*name).to_owned()).collect(),
        series,
        scale: Scale::Log,
        reference: None,
        tick: plot::time_tick,
    };
    let caption = format!("Latency distribution with {size} ({}all rounds together)", simulated(block));
    Ok(Some(Figure { caption, svg: plot.svg()? }))
}

/// CPU time of each vCPU at the largest size; `None` if it is not known.
fn shares(block: &Block<'_>, palette: Palette<'_>, details: Details<'_>) -> Result<Option<Figure>, PlotError> {
    let of = |policy: &&str| {
        let bars = details.shares(block, policy);
        (!bars.is_empty()).then(|| Group { name: (*policy).to_owned(), slot: palette.slot(policy), bars })
    };
    let groups: Vec<Group> = block.policies.iter().filter_map(of).collect();
    let (Some(largest), false) = (block.largest(), groups.is_empty()) else { return Ok(None) };
    let size = largest.size_label();
    let bars = Bars {
        title: format!("CPU time of each vCPU of {} by policy with {size}", block.title()),
        x_title: "vCPUs, most CPU time first".to_owned(),
        y_title: "CPU time / equal share".to_owned(),
        reference: 1.0,
        groups,
    };
    let caption = format!("CPU time of each vCPU with {size} ({}1.0 is an equal share)", simulated(block));
    Ok(Some(Figure { caption, svg: bars.svg()? }))
}

fn simulated(block: &Block<'_>) -> &'static str {
    if block.simulated { "simulated, " } else { "" }
}

/// The worst moments of a block: a timeline for each policy that has one.
pub fn moments(block: &Block<'_>, details: Details<'_>) -> Vec<Figure> {
    details.moments(block).map(|(sample, moment)| timeline(sample, &moment)).collect()
}

fn timeline(sample: &Sample, moment: &Moment) -> Figure {
    let (policy, size, round) = (&sample.policy, sample.params.size_label(), sample.round + 1);
    let [waited, longest, kept] = [moment.waited(), moment.longest, moment.kept].map(stile_text::time_us);
    let of = if moment.longest > moment.waited() * 1.01 {
        format!("the longest wait in the last {kept} of its window (in all of it: {longest})")
    } else {
        "the longest wait in its window".to_owned()
    };
    let title = format!("What ran on each pCPU while {} waited {waited} under {policy}", moment.vcpu);
    let caption = format!("{policy}, {size}, round {round}: {} waited {waited} for a pCPU, {of}", moment.vcpu);
    Figure { caption, svg: timeline::svg(moment, &title) }
}

fn figure(block: &Block<'_>, palette: Palette<'_>, metric: Metric) -> Result<Figure, PlotError> {
    let mut caption = metric.label().to_owned();
    caption[..1].make_ascii_uppercase();
    let time = metric.is_time();
    // On machines from one to hundreds of pCPUs throughput spans powers of ten as well.
    let log = time || metric == Metric::Throughput && block.size_axis() == Params::PCPUS;
    let unit = if time { "time" } else { block.suite.unit(metric) };
    let y_title = if log { format!("{unit} (log scale)") } else { unit.to_owned() };
    let plot = Plot {
        title: format!("{} of {} by policy over {}", caption, block.title(), block.size_axis()),
        x_title: block.size_axis().to_owned(),
        y_title,
        categories: block.headline_rows().into_iter().map(category).collect(),
        series: block.policies.iter().map(|policy| series(block, palette, policy, metric)).collect(),
        scale: if log { Scale::Log } else { Scale::Linear },
        reference: metric.is_share().then_some(1.0),
        tick: if time { plot::time_tick } else { plot::number_tick },
    };
    let caption = format!("{caption} ({}{})", simulated(block), block.suite.direction(metric));
    Ok(Figure { caption, svg: plot.svg()? })
}

fn category(row: &Params) -> String {
    row.size().map_or_else(|| row.size_label(), |(_, size)| size.to_string())
}

fn series(block: &Block<'_>, palette: Palette<'_>, policy: &str, metric: Metric) -> Series {
    let point = |(category, row): (usize, &Params)| {
        let cell = block.cell(row, policy, metric)?;
        Some(Point { category, value: cell.median, whisker: cell.ci95.map(|ci| (ci.lo, ci.hi)) })
    };
    let points = block.headline_rows().into_iter().enumerate().filter_map(point).collect();
    Series { slot: palette.slot(policy), points }
}
