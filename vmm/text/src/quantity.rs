//! Numbers as readers see them: three significant digits, SI prefixes, times in the unit that suits them.
//!
//! Files keep full precision; nothing here is parsed back.

/// Memory: "812 KiB", "1.20 GiB".
pub fn bytes(bytes: f64) -> String {
    let (scale, unit) = match bytes {
        b if b < 999.5 * 1024.0 => (f64::from(1 << 10), "KiB"),
        b if b < 999.5 * f64::from(1 << 20) => (f64::from(1 << 20), "MiB"),
        b if b < 999.5 * f64::from(1 << 30) => (f64::from(1 << 30), "GiB"),
        _ => (f64::from(1 << 30) * 1024.0, "TiB"),
    };
    format!("{} {unit}", significant(bytes / scale))
}

/// A count or rate with an SI prefix: "30.6k", "1.20M", "0".
pub fn si(value: f64) -> String {
    let magnitude = value.abs();
    // 999.5 would round up to "1000".
    let (scale, prefix) = match magnitude {
        m if m < 999.5 => (1.0, ""),
        m if m < 999.5e3 => (1e3, "k"),
        m if m < 999.5e6 => (1e6, "M"),
        m if m < 999.5e9 => (1e9, "G"),
        _ => (1e12, "T"),
    };
    if scale == 1.0 && value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    format!("{}{prefix}", significant(value / scale))
}

/// A time given in microseconds.
pub fn time_us(us: f64) -> String {
    let (scale, unit) = match us.abs() {
        0.0 => return "0".to_owned(),
        t if t < 0.9995 => (1e-3, "ns"),
        t if t < 999.5 => (1.0, "µs"),
        t if t < 999.5e3 => (1e3, "ms"),
        _ => (1e6, "s"),
    };
    format!("{} {unit}", significant(us / scale))
}

/// A part of a whole: "5 %", "0.35 %".
pub fn percent(part: f64) -> String {
    let percent = part * 100.0;
    let digits = if percent >= 9.95 || (percent - percent.round()).abs() < 0.05 {
        0
    } else if percent >= 0.995 {
        1
    } else {
        2
    };
    format!("{percent:.digits$} %")
}

/// A ratio: "1.23", "0.045", "12.3"; "0.998" close to 1, where two digits would hide the side on which it lies.
pub fn ratio(ratio: f64) -> String {
    let near_one = ratio != 1.0 && (ratio - 1.0).abs() < 0.00995;
    match ratio.abs() {
        small if small != 0.0 && small < 0.0995 => {
            // Two significant digits, but no long row of zeros before them.
            let decimals = (1.0 - small.log10().floor()).clamp(3.0, 6.0) as usize;
            format!("{ratio:.decimals$}")
        }
        _ if near_one => format!("{ratio:.3}"),
        _ => significant(ratio),
    }
}

/// Three significant digits, at most two of them after the point, never an exponent.
pub fn significant(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_up_changes_the_prefix() {
        assert_eq!([999.4, 999.6, 30_640.0, 999_600.0].map(si), ["999", "1.00k", "30.6k", "1.00M"]);
    }

    #[test]
    fn whole_numbers_have_no_decimals_and_zero_no_unit() {
        assert_eq!([0.0, 3.0, 398.0].map(si), ["0", "3", "398"]);
        assert_eq!(time_us(0.0), "0");
    }

    #[test]
    fn times_take_the_unit_that_suits_them() {
        assert_eq!([0.25, 12.0, 1200.0, 2.5e6].map(time_us), ["250 ns", "12.0 µs", "1.20 ms", "2.50 s"]);
    }

    #[test]
    fn small_ratios_keep_two_significant_digits() {
        assert_eq!([0.045, 0.5, 1.234, 12.34].map(ratio), ["0.045", "0.50", "1.23", "12.3"]);
        assert_eq!([0.0996, 0.0046, 0.000_46, 1e-9, 0.0].map(ratio), ["0.10", "0.0046", "0.00046", "0.000000", "0.00"]);
        assert_eq!([0.996, 1.0, 1.004].map(ratio), ["0.996", "1.00", "1.004"]);
    }

    #[test]
    fn parts_have_the_digits_that_tell_them_apart() {
        assert_eq!([0.05, 0.333, 0.0123, 0.0035, 0.0].map(percent), ["5 %", "33 %", "1.2 %", "0.35 %", "0 %"]);
    }

    #[test]
    fn memory_has_binary_prefixes() {
        assert_eq!([812.4 * 1024.0, 4.0 * 1024f64.powi(2)].map(bytes), ["812 KiB", "4.00 MiB"]);
        assert_eq!(bytes(3.3 * 1024f64.powi(4)), "3.30 TiB");
    }
}
