//! Readings as text: a table of VMs in their order, below a line on the domain.
//!
//! A table that is too wide loses columns, the least important first. A table that is too long loses VMs. No line is
//! wrapped. A value that is not known is `-`, never 0.

use super::metric::{
    BORROWED, DEVICES, EXITS, IDLE, KICKS, LENT, MIGRATIONS, Metric, OVERRUN, RUN, STEAL, STEALS, SWITCHES, TAKEN,
    THROTTLED, TURNS, Value, WAIT, WAITS, YIELDS,
};
use super::reading::{Reading, Sample, VmReading};
use comfy_table::{Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use std::cmp::Reverse;
use stile_sched::Nanos;
use stile_sched::ledger::Outcomes;
use stile_text::fill;
use stile_text::{count, si, time_us};

/// Longest name of a VM that is shown in full (units: characters).
const NAME_MAX: usize = 20;
const NAME_TAIL: usize = 6;
/// VMs with at most this many vCPUs have a line for each vCPU.
const FEW_VCPUS: usize = 8;
const UNKNOWN: &str = "-";
/// Blanks between two columns, beside the one in place of a line.
const COLUMN_GAP: u16 = 1;
/// A line below the heading, and no other lines.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::new('─', '─', '─', '─'));

/// The frame of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The time that the reading covers.
    pub wall: Nanos,
    /// Number of pCPUs of the domain.
    pub pcpus: usize,
    /// Columns of text that fit.
    pub width: usize,
    /// Most lines for VMs and vCPUs.
    pub rows: usize,
}

/// The table of an interval: shares and rates, VM by VM. VMs without any time in it are left out.
pub fn interval(since: &Reading, frame: Frame) -> String {
    let vms: Vec<&VmReading> = since.vms.iter().filter(|vm| vm.sum().account.total() > Nanos::ZERO).collect();
    let rows = Rows::new(&vms, frame.rows, false);
    domain_line(since, frame, Show::Rate) + &rows.render(&during(), frame)
}

/// The table of a whole run: first the shares of time, then the counts.
pub fn totals(reading: &Reading, frame: Frame) -> String {
    let vms: Vec<&VmReading> = reading.vms.iter().collect();
    let rows = Rows::new(&vms, frame.rows, true);
    let [times, events] = [&in_all()[..], &events()[..]].map(|columns| rows.render(columns, frame));
    domain_line(reading, frame, Show::Number) + &times + "\n" + &events
}

/// How a value is shown.
#[derive(Clone, Copy)]
enum Show {
    /// As part of the vCPUs' time.
    Share,
    /// As a number.
    Number,
    /// As a rate (units: 1/s).
    Rate,
    /// As a quantile of the spans.
    Quantile(f64),
    /// As the longest span.
    Longest,
    /// As the yields with this outcome.
    Outcome(&'static str, fn(&Outcomes) -> u64),
}

/// A column, and its rank when the table is too wide: the largest number goes first, 0 never.
struct Column(&'static Metric<Sample>, Show, u8);

fn during() -> Vec<Column> {
    vec![
        Column(&RUN, Show::Share, 0),
        Column(&WAIT, Show::Share, 0),
        Column(&IDLE, Show::Share, 3),
        Column(&TAKEN, Show::Share, 4),
        Column(&WAITS, Show::Quantile(0.5), 2),
        Column(&WAITS, Show::Quantile(0.99), 0),
        Column(&WAITS, Show::Longest, 0),
        Column(&TURNS, Show::Rate, 1),
        Column(&MIGRATIONS, Show::Rate, 5),
        Column(&YIELDS, Show::Rate, 4),
        Column(&EXITS, Show::Rate, 1),
    ]
}

fn in_all() -> [Column; 13] {
    [
        Column(&RUN, Show::Number, 0),
        Column(&RUN, Show::Share, 1),
        Column(&WAIT, Show::Number, 0),
        Column(&WAIT, Show::Share, 0),
        Column(&THROTTLED, Show::Number, 3),
        Column(&IDLE, Show::Number, 0),
        Column(&IDLE, Show::Share, 2),
        Column(&TAKEN, Show::Number, 3),
        Column(&DEVICES, Show::Number, 4),
        Column(&STEAL, Show::Number, 3),
        Column(&OVERRUN, Show::Number, 4),
        Column(&LENT, Show::Number, 5),
        Column(&BORROWED, Show::Number, 5),
    ]
}

fn events() -> [Column; 11] {
    [
        Column(&WAITS, Show::Quantile(0.5), 3),
        Column(&WAITS, Show::Quantile(0.99), 0),
        Column(&WAITS, Show::Longest, 0),
        Column(&TURNS, Show::Number, 0),
        Column(&MIGRATIONS, Show::Number, 2),
        Column(&STEALS, Show::Number, 4),
        Column(&YIELDS, Show::Number, 0),
        Column(&YIELDS, Show::Outcome("alone", |o| o.alone), 1),
        Column(&YIELDS, Show::Outcome("switched", |o| o.switched), 1),
        Column(&YIELDS, Show::Outcome("stayed", |o| o.stayed), 1),
        Column(&EXITS, Show::Number, 0),
    ]
}

impl Column {
    /// In two lines.
    fn heading(&self) -> String {
        let heading = self.0.heading;
        match self.1 {
            Show::Number => heading.to_owned(),
            Show::Share => format!("{heading}\n%"),
            Show::Rate => format!("{heading}\n/s"),
            Show::Quantile(q) => format!("{heading}\np{:.0}", q * 100.0),
            Show::Longest => format!("{heading}\nmax"),
            Show::Outcome(outcome, _) => format!("{heading}\n{outcome}"),
        }
    }

    fn cell(&self, sample: &Sample, wall: Nanos) -> String {
        let Some(value) = self.0.value(sample) else { return UNKNOWN.to_owned() };
        if let Show::Outcome(_, of) = self.1 {
            return match value {
                // The outcomes of yields are known only with a policy.
                Value::Yields(yields) if sample.by_policy => si(of(&yields.outcomes()) as f64),
                _ => UNKNOWN.to_owned(),
            };
        }
        show(value, self.1, wall, sample.account.total())
    }
}

fn show(value: Value<'_>, show: Show, wall: Nanos, total: Nanos) -> String {
    let number = match value {
        Value::Time(time) if matches!(show, Show::Share) => return share(time, total),
        Value::Time(span) => return time(span),
        Value::Spans(spans) if spans.count() == 0 => return UNKNOWN.to_owned(),
        Value::Spans(spans) => match show {
            Show::Quantile(q) => return time(spans.quantile(q)),
            Show::Longest => return time(spans.max()),
            _ => spans.count(),
        },
        Value::Count(number) => number,
        Value::Yields(yields) => yields.outcomes().total(),
    };
    match show {
        Show::Rate if wall == Nanos::ZERO => UNKNOWN.to_owned(),
        Show::Rate => si((number as f64 * 1e9 / wall.0 as f64).round()),
        _ => si(number as f64),
    }
}

pub(super) fn time(time: Nanos) -> String {
    time_us(time.0 as f64 / 1000.0)
}

fn share(part: Nanos, whole: Nanos) -> String {
    if whole == Nanos::ZERO { UNKNOWN.to_owned() } else { format!("{:.1}", 100.0 * part.0 as f64 / whole.0 as f64) }
}

/// The line on the domain: how busy its pCPUs were, switches and kicks.
fn domain_line(reading: &Reading, frame: Frame, how: Show) -> String {
    let Frame { wall, pcpus, width, .. } = frame;
    let account = Sample::sum(reading.vms.iter().flat_map(|vm| &vm.vcpus)).account;
    let all = Nanos(wall.0 * pcpus as u64);
    let busy = share(account.run, all);
    let taken = match account.taken {
        Nanos::ZERO => String::new(),
        taken => format!(" and {} % taken by other programs", share(taken, all)),
    };
    let number = |metric: &'static Metric<_>| {
        let value = metric.value(&reading.domain).map(|value| show(value, how, wall, Nanos::ZERO));
        let unit = if matches!(how, Show::Rate) { "/s" } else { "" };
        format!("{} {}{unit}", value.as_deref().unwrap_or(UNKNOWN), metric.heading)
    };
    let kicks = match KICKS.value(&reading.domain) {
        Some(Value::Spans(kicks)) if kicks.count() > 0 => {
            let [p50, p99] = [0.5, 0.99].map(|q| time(kicks.quantile(q)));
            format!("{}: p50 {p50}, p99 {p99}, max {}", number(&KICKS), time(kicks.max()))
        }
        Some(_) => format!("no {}", KICKS.heading),
        None => format!("{UNKNOWN} {}", KICKS.heading),
    };
    fill(
        &format!("in {}: {busy} % of {} used{taken}, {}, {kicks}", time(wall), count(pcpus, "pCPU"), number(&SWITCHES)),
        width,
    )
}

/// The lines of a table.
struct Rows {
    rows: Vec<Row>,
    /// Number of VMs without a line, for lack of room.
    more: usize,
}

struct Row {
    label: String,
    vcpus: Option<usize>,
    sample: Sample,
}

impl Rows {
    /// The VMs in order, each with its vCPUs in order if they are few. If not all fit, those that waited longest. Then
    /// the sum, unless there is one VM.
    fn new(vms: &[&VmReading], most: usize, each_vcpu: bool) -> Self {
        let mut sums: Vec<(usize, &VmReading, Sample)> =
            vms.iter().enumerate().map(|(place, &vm)| (place, vm, vm.sum())).collect();
        let all = (sums.len() > 1).then(|| Row {
            label: "all".to_owned(),
            vcpus: Some(vms.iter().map(|vm| vm.vcpus.len()).sum()),
            sample: Sample::sum(sums.iter().map(|(.., sum)| sum)),
        });
        let more = sums.len().saturating_sub(most.max(1));
        sums.sort_by_key(|(.., sum)| Reverse(sum.account.wait));
        sums.truncate(most.max(1));
        sums.sort_by_key(|(place, ..)| *place);
        let (mut rows, mut left) = (Vec::new(), sums.len() + more);
        for (_, vm, sum) in sums {
            let vcpus = vm.vcpus.len();
            left -= 1;
            rows.push(Row { label: label(vm), vcpus: Some(vcpus), sample: sum });
            // Every VM that follows needs a line.
            if each_vcpu && (2..=FEW_VCPUS).contains(&vcpus) && rows.len() + vcpus + left <= most {
                let of_vcpu = |(index, vcpu): (usize, &Sample)| Row {
                    label: format!("  vCPU {index}"),
                    vcpus: None,
                    sample: vcpu.clone(),
                };
                rows.extend(vm.vcpus.iter().enumerate().map(of_vcpu));
            }
        }
        rows.extend(all);
        Self { rows, more }
    }

    fn render(&self, columns: &[Column], frame: Frame) -> String {
        let mut columns: Vec<&Column> = columns.iter().collect();
        let mut text = self.table(&columns, frame.wall);
        while text.lines().any(|line| line.chars().count() > frame.width)
            && let Some(least) = columns.iter().map(|c| c.2).max().filter(|least| *least > 0)
        {
            columns.retain(|column| column.2 != least);
            text = self.table(&columns, frame.wall);
        }
        if self.more > 0 {
            text += &format!("and {} more\n", self.more);
        }
        text
    }

    fn table(&self, columns: &[&Column], wall: Nanos) -> String {
        let mut table = Table::new();
        table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled).force_no_tty();
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        let headings = ["VM".to_owned(), "vCPUs".to_owned()].into_iter().chain(columns.iter().map(|c| c.heading()));
        table.set_header(headings.enumerate().map(|(i, text)| if i == 0 { Cell::new(text) } else { right(text) }));
        for row in &self.rows {
            let vcpus = right(row.vcpus.map(|n| n.to_string()).unwrap_or_default());
            let cells = columns.iter().map(|column| right(column.cell(&row.sample, wall)));
            table.add_row([Cell::new(&row.label), vcpus].into_iter().chain(cells));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, COLUMN_GAP));
        }
        let lines = table.to_string();
        lines.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

/// The VM's name, shortened in the middle: names of VMs that are alike differ at their ends.
fn label(vm: &VmReading) -> String {
    let name: Vec<char> = vm.name.chars().collect();
    if name.len() <= NAME_MAX {
        return vm.name.clone();
    }
    let (head, tail) = (&name[..NAME_MAX - 1 - NAME_TAIL], &name[name.len() - NAME_TAIL..]);
    head.iter().chain(&['…']).chain(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::super::reading::tests::{reading, vcpu, vm};
    use super::*;

    fn frame() -> Frame {
        Frame { wall: Nanos::from_millis(1000), pcpus: 2, width: 100, rows: 40 }
    }

    /// The cells of a row.
    fn row<'a>(table: &'a str, label: &str) -> Vec<&'a str> {
        let line = table.lines().find(|line| line.trim_start().starts_with(label));
        line.unwrap_or_else(|| panic!("no row {label} in\n{table}")).split_whitespace().collect()
    }

    #[test]
    fn an_interval_is_told_in_shares_and_rates_in_the_vms_order() {
        let two =
            reading(vec![vm("a", vec![vcpu(900, 50, 50)]), vm("b", vec![vcpu(500, 400, 100), vcpu(500, 400, 100)])]);
        let text = interval(&two, frame());
        assert!(
            text.starts_with("in 1.00 s: 95.0 % of 2 pCPUs used, 40 switches/s, 40 kicks/s: p50 10.0 µs,"),
            "{text}"
        );
        assert_eq!(row(&text, "b")[..5], ["b", "2", "50.0", "40.0", "10.0"]);
        assert_eq!(row(&text, "b")[5..], ["0.0", "2.00", "ms", "2.00", "ms", "2.00", "ms", "14", "0", "12", "2.47k"]);
        assert_eq!(row(&text, "all")[..5], ["all", "3", "63.3", "28.3", "8.3"]);
        assert!(text.find("\n a ") < text.find("\n b "), "{text}");
    }

    #[test]
    fn vms_without_time_in_an_interval_are_left_out() {
        let text = interval(&reading(vec![vm("gone", vec![vcpu(0, 0, 0)]), vm("a", vec![vcpu(1, 0, 0)])]), frame());
        assert!(!text.contains("gone") && !text.contains("all"), "{text}");
    }

    #[test]
    fn what_the_host_does_not_tell_is_a_dash() {
        let mut host = reading(vec![vm("a", vec![Sample { by_policy: false, steal: None, ..vcpu(500, 400, 100) }])]);
        host.domain.by_policy = false;
        let text = totals(&host, frame());
        assert!(text.contains("- kicks") && text.contains("40 switches"), "{text}");
        let times = ["a", "1", "500", "ms", "50.0", "400", "ms", "40.0", "-", "100", "ms", "10.0", "-", "0", "-", "-"];
        assert_eq!(row(&text, "a "), times);
        let events = text.rsplit("\n\n").next().unwrap();
        assert_eq!(row(events, "a "), ["a", "1", "-", "-", "-", "7", "0", "-", "6", "-", "-", "-", "1.23k"]);
    }

    #[test]
    fn totals_tell_the_vcpus_of_vms_that_have_few_if_there_is_room() {
        let one = reading(vec![vm("a", vec![vcpu(500, 400, 100); 3]), vm("b", vec![vcpu(1, 1, 1); 9])]);
        let text = totals(&one, frame());
        assert_eq!(text.matches("vCPU 2").count(), 2, "in both tables:\n{text}");
        assert!(!text.contains("vCPU 3"), "{text}");
        assert!(!totals(&one, Frame { rows: 3, ..frame() }).contains("vCPU 0"));
    }

    #[test]
    fn vms_and_their_vcpus_stand_in_their_order_whoever_waited() {
        let waits = [("a", 10), ("b", 30), ("c", 20)];
        let text = totals(&reading(waits.map(|(name, wait)| vm(name, vec![vcpu(1, wait, 0); 2])).to_vec()), frame());
        let firsts: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let places = ["a", "b", "c"].map(|name| firsts.iter().position(|first| *first == name));
        assert!(places.is_sorted() && places[0].is_some(), "{text}");
        let vcpus = text.lines().filter_map(|line| line.trim().strip_prefix("vCPU ")?.chars().next());
        assert_eq!(vcpus.collect::<String>(), "01".repeat(6), "{text}");
    }

    #[test]
    fn of_many_vms_those_that_waited_most_are_told_and_the_others_counted() {
        let many = (0..30).map(|n| vm(&format!("vm-{n}"), vec![vcpu(10, n, 0)])).collect();
        let text = interval(&reading(many), Frame { rows: 10, ..frame() });
        assert!(text.contains("vm-29") && text.contains("vm-20") && !text.contains("vm-19"), "{text}");
        assert!(text.ends_with("and 20 more\n"), "{text}");
        assert_eq!(row(&text, "all")[1], "30");
    }

    #[test]
    fn long_names_keep_both_ends() {
        let label = |name| label(&vm(name, Vec::new()));
        assert_eq!(label("exactly-twenty-chars"), "exactly-twenty-chars");
        assert_eq!(label("müller-and-daughters-12"), "müller-and-da…ers-12");
    }

    #[test]
    fn every_line_fits_and_narrow_tables_lose_columns() {
        let name = "a-name-that-is-longer-than-any-sensible-one";
        let wide = reading(vec![vm(name, vec![vcpu(123_456, 234_567, 345_678); 8]), vm("b", vec![vcpu(1, 1, 1)])]);
        for width in [80, 100, 120] {
            for text in [interval(&wide, Frame { width, ..frame() }), totals(&wide, Frame { width, ..frame() })] {
                let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
                assert!(widest <= width, "{widest} of {width}:\n{text}");
                assert!(text.contains("ready") && text.contains("p99"), "{width}:\n{text}");
                assert!(width == 80 || text.contains("p50"), "{width}:\n{text}");
            }
        }
    }
}
