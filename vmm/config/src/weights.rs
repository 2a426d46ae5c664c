//! The page of weights, `docs/weights.md`: what each nice value is worth under each algorithm, from the algorithms'
//! rows.

use stile_sched::Nice;

use super::algorithm::{Algorithm, Row};
use super::bounds::{NICE_MAX, NICE_MIN};
use super::types::PolicyConfig;

const INTRODUCTION: &str = "\
# Weights of nice values

A vCPU's weight is the CPU time that it gets beside a vCPU of nice 0 while both compute all the time and not every vCPU has a
pCPU of its own. The table has it for each nice value under each algorithm. `stile check FILE` prints the CPU time that
follows for each VM of a configuration.

This page is generated from the rows of the algorithms. To write it anew after a change:
`STILE_BLESS=1 cargo test -p stile-config weights_page`.

## What is promised

* Two vCPUs that compute all the time and share the same pCPUs get CPU time in the ratio of their weights. Under `rsdl` this
  holds over rotations, in each of which a vCPU of nice 0 may use 20 times `rr_interval`. Over shorter times a vCPU can be
  some quotas ahead or behind.
* A vCPU gets one pCPU at most, and the vCPUs of a VM with a `cap` get no more than the cap together. The others share the
  rest by their weights.
* A weight counts within the classes `normal` and `batch`. Class `rt` runs before them and class `idle` after them, whatever
  the nice value. Under an algorithm without weights classes do not count either.
* A vCPU that sleeps does not save its share up: what it does not use while it sleeps is used by the others.
* `host` and `host-noyield` have the weights of the Linux kernel, and `o1` and `goodness` those of the kernels that they come
  from: there, vCPUs that sleep a lot may get more than their weight.

The steps of `rsdl` are not those of `nice(1)`, which are the kernel's 1.25. From nice 0 to 1 the weight halves, and a step
between -6 and 0 adds a twentieth: nice -5 is worth 1.25 under `rsdl` and 3.05 under `host`.

## Table

";

/// The page.
pub fn weights_markdown() -> String {
    let rows: Vec<&Row> = Algorithm::all().collect();
    let names: Vec<String> = rows.iter().map(|row| format!("`{}`", row.name)).collect();
    let mut page = format!("{INTRODUCTION}| nice | {} |\n|---:|{}\n", names.join(" | "), "---:|".repeat(names.len()));
    for nice in (NICE_MIN..=NICE_MAX).filter_map(Nice::new) {
        let cells: Vec<String> = rows.iter().map(|row| shown(weight(row, nice))).collect();
        page += &format!("| {} | {} |\n", nice.get(), cells.join(" | "));
    }
    page
}

/// CPU time beside a vCPU of nice 0.
fn weight(row: &Row, nice: Nice) -> f64 {
    let policy = PolicyConfig { algorithm: row.algorithm, ..PolicyConfig::default() };
    row.weight.map_or(1.0, |weight| weight(&policy, nice) / weight(&policy, Nice::default()))
}

/// Three digits that tell something.
fn shown(weight: f64) -> String {
    let decimals = (2 - weight.log10().floor() as i32).clamp(0, 4) as usize;
    format!("{weight:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, fs, path::Path};

    #[test]
    fn weights_page_is_what_the_rows_say() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/weights.md");
        if env::var_os("STILE_BLESS").is_some() {
            fs::write(&path, weights_markdown()).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == weights_markdown(),
            "docs/weights.md is out of date; STILE_BLESS=1 writes it anew"
        );
    }

    #[test]
    fn the_page_has_a_line_for_each_nice_value_and_1_at_nice_0() {
        let page = weights_markdown();
        let line = |nice: i8| page.lines().find(|line| line.starts_with(&format!("| {nice} |"))).unwrap();
        assert_eq!(line(0).matches("1.00").count(), Algorithm::all().count());
        assert!(line(-5).starts_with("| -5 | 1.25 | 3.05 | 3.05 | 1.00 |"), "{}", line(-5));
        assert!((NICE_MIN..=NICE_MAX).all(|nice| !line(nice).is_empty()));
    }
}
