//! The values of metrics and intervals as readers see them.

use stile_results::stats::Interval;
use stile_suites::Metric;
use stile_suites::Suite;
use stile_suites::metric::Kind;
use stile_text::{bytes, ratio, si, significant, time_us};

/// A value, with its metric's unit unless the unit stands elsewhere: "30.6k", "1.20 ms", "0.99".
pub fn value(metric: Metric, suite: Suite, value: f64) -> String {
    if metric.is_time() {
        time_us(value)
    } else if matches!(metric.kind(), Kind::Share | Kind::Index) {
        format!("{value:.2}")
    } else {
        match suite.unit(metric) {
            // The prefix is in the unit.
            "Mbit/s" if value >= 1000.0 => format!("{value:.0}"),
            "Mbit/s" => significant(value),
            "KiB" => bytes(value * 1024.0),
            "MiB" => bytes(value * f64::from(1 << 20)),
            "%" => format!("{} %", si(value)),
            _ => si(value),
        }
    }
}

/// Whether [`value`] shows the unit.
pub fn tells_unit(metric: Metric, suite: Suite) -> bool {
    metric.is_time() || matches!(suite.unit(metric), "KiB" | "MiB" | "%")
}

/// A value with its unit in all cases: "30.6k locks/s".
pub fn value_with_unit(metric: Metric, suite: Suite, number: f64) -> String {
    let shown = value(metric, suite, number);
    if tells_unit(metric, suite) { shown } else { format!("{shown} {}", suite.unit(metric)) }
}

/// A ratio's interval: "[1.18, 1.27]".
pub fn interval(interval: Interval) -> String {
    format!("[{}, {}]", ratio(interval.lo), ratio(interval.hi))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_has_the_digits_of_a_ratio() {
        assert_eq!(interval(Interval { lo: 0.9, hi: 1.1 }), "[0.90, 1.10]");
    }

    #[test]
    fn megabits_get_no_second_prefix() {
        assert_eq!(value_with_unit(Metric::Throughput, Suite::Netbench, 1234.5), "1234 Mbit/s");
    }

    #[test]
    fn memory_and_parts_carry_their_units() {
        let shown = |metric, number| value(metric, Suite::Boot, number);
        assert_eq!([812.4, 4096.0].map(|kib| shown(Metric::MemoryPerVm, kib)), ["812 KiB", "4.00 MiB"]);
        assert_eq!(shown(Metric::PeakMemory, 2048.0), "2.00 GiB");
        assert_eq!(shown(Metric::MissedShare, 12.0), "12 %");
        assert_eq!(value_with_unit(Metric::MissedShare, Suite::Interactive, 12.5), "12.5 %");
    }
}
