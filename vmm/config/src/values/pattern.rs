//! Regular expressions of whole numbers with a unit, for the JSON Schema: editors and clients learn the range from it.

/// The texts `NUMBER UNIT` between these two, in the units' smallest one. Numbers begin with no zero.
pub(super) fn within(min: u64, max: u64, units: &[(&str, u64)]) -> String {
    let of_unit = |(unit, factor): &(&str, u64)| {
        let (first, last) = (min.div_ceil(*factor), max / factor);
        (first <= last).then(|| format!("({}){unit}", between(first, last).join("|")))
    };
    units.iter().filter_map(of_unit).collect::<Vec<_>>().join("|")
}

/// Two digits of a multiple of four. They decide whether a longer number is one.
const FOURS: &str = "([02468][048]|[13579][26])";

/// The multiples of four from `first`, which has three digits or more, to `last`.
pub(super) fn fours(first: u64, last: u64) -> String {
    let ends = |ends: std::ops::RangeInclusive<u64>| -> String {
        let ends: Vec<_> = ends.filter(|end| end.is_multiple_of(4)).map(|end| format!("{end:02}")).collect();
        format!("({})", ends.join("|"))
    };
    let (low, high) = (first / 100, last / 100);
    if low == high {
        return format!("{low}{}", ends(first % 100..=last % 100));
    }
    let whole = between(low + 1, high - 1).into_iter().map(|begin| format!("{begin}{FOURS}"));
    let edges = [format!("{low}{}", ends(first % 100..=99)), format!("{high}{}", ends(0..=last % 100))];
    whole.chain(edges).collect::<Vec<_>>().join("|")
}

/// The numbers from `first` to `last`: an alternative for each block of numbers that share their first digits, have any
/// digit of a range next, and then any digits.
fn between(mut first: u64, last: u64) -> Vec<String> {
    let mut blocks = Vec::new();
    while first <= last {
        // The most digits at the end that may be any.
        let mut free = 0;
        while first != 0 && first.is_multiple_of(10_u64.pow(free + 1)) && first + 10_u64.pow(free + 1) - 1 <= last {
            free += 1;
        }
        let size = 10_u64.pow(free);
        let (digit, more) = (first / size % 10, (last - first + 1) / size - 1);
        let top = 9.min(digit + more);
        let before = Some(first / size / 10).filter(|before| *before > 0);
        let before = before.map_or(String::new(), |before| before.to_string());
        let digits = if digit == top { digit.to_string() } else { format!("[{digit}-{top}]") };
        let after = if free == 0 { String::new() } else { format!("[0-9]{{{free}}}") };
        blocks.push(format!("{before}{digits}{after}"));
        first += (top - digit + 1) * size;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use regex::Regex;

    const UNITS: [(&str, u64); 3] = [("s", 1_000_000), ("ms", 1_000), ("us", 1)];

    #[test]
    fn a_range_is_few_blocks() {
        assert_eq!(between(0, 9), ["[0-9]"]);
        assert_eq!(between(100, 5_000), ["[1-9][0-9]{2}", "[1-4][0-9]{3}", "5000"]);
        assert_eq!(within(100, 2_000, &UNITS), "([1-2])ms|([1-9][0-9]{2}|1[0-9]{3}|2000)us");
    }

    proptest! {
        #[test]
        fn multiples_of_four_match_if_they_are_within_the_range(
            first in 25_u64..20_000, more in 0_u64..30_000, number in 0_u64..200_000,
        ) {
            let (first, last) = (4 * first, 4 * (first + more));
            let pattern = Regex::new(&format!("^({})$", fours(first, last))).unwrap();
            for number in [number, first, first - 4, first + 4, last, last + 1, last + 4] {
                let fits = (first..=last).contains(&number) && number.is_multiple_of(4);
                prop_assert_eq!(pattern.is_match(&number.to_string()), fits, "{} in {} to {}", number, first, last);
            }
        }

        #[test]
        fn numbers_match_if_they_are_within_the_range(
            first in 0_u64..3_000_000, more in 0_u64..3_000_000, number in 0_u64..6_000_000, unit in 0_usize..3,
        ) {
            let last = first + more;
            let pattern = Regex::new(&format!("^({})$", within(first, last, &UNITS))).unwrap();
            for number in [number, first, last, last + 1, first.saturating_sub(1)] {
                let (name, factor) = UNITS[unit];
                let is_within = (first..=last).contains(&(number * factor));
                prop_assert_eq!(pattern.is_match(&format!("{number}{name}")), is_within, "{}{}", number, name);
            }
        }
    }
}
