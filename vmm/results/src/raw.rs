//! The samples as files: CSV in long form for spreadsheets and data frames, and JSON with the detail, an object a line.
//!
//! Both hold every value with full precision, in the order measured.

use std::collections::BTreeSet;
use std::io::{self, Write};

use super::model::Sample;

/// The file with a JSON object a line.
pub const JSON_LINES: &str = "samples.jsonl";

/// Writes `round,suite,policy,<parameters>,metric,value`, a line per value. A parameter that a run does not have is
/// empty.
pub fn write_csv(out: &mut impl Write, samples: &[Sample]) -> io::Result<()> {
    let params: BTreeSet<&str> = samples.iter().flat_map(|sample| sample.params.iter().map(|(name, _)| name)).collect();
    let header = ["round", "suite", "policy"].into_iter().chain(params.iter().copied()).chain(["metric", "value"]);
    write_row(out, header.map(str::to_owned))?;
    for sample in samples {
        let run = [sample.round.to_string(), sample.suite.to_string(), sample.policy.clone()];
        let values = params.iter().map(|name| sample.params.get(name).map(ToString::to_string).unwrap_or_default());
        let run: Vec<String> = run.into_iter().chain(values).collect();
        for (metric, value) in &sample.values {
            write_row(out, run.iter().cloned().chain([metric.name().to_owned(), value.to_string()]))?;
        }
    }
    Ok(())
}

/// Writes each sample with its detail, a line each.
pub fn write_json_lines(out: &mut impl Write, samples: &[Sample]) -> io::Result<()> {
    for sample in samples {
        serde_json::to_writer(&mut *out, sample)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

fn write_row(out: &mut impl Write, fields: impl Iterator<Item = String>) -> io::Result<()> {
    let row: Vec<String> = fields.map(quote).collect();
    writeln!(out, "{}", row.join(","))
}

/// RFC 4180: only a field with a comma, quote or line break needs quotes.
fn quote(field: String) -> String {
    if field.contains([',', '"', '\n', '\r']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Params;
    use crate::testing::ticket;
    use stile_suites::Metric;

    #[test]
    fn each_value_is_a_line_and_missing_parameters_are_empty() {
        let mut samples = ticket("rsdl", Metric::Throughput, &[1.5, 2.5]);
        samples[1].params = Params::default().with("vcpus", 8).with("hint", "a,\"b\"");
        let mut csv = Vec::new();
        write_csv(&mut csv, &samples).unwrap();
        let expected = "round,suite,policy,hint,vcpus,metric,value\n\
                        0,ticket,rsdl,,4,throughput,1.5\n\
                        1,ticket,rsdl,\"a,\"\"b\"\"\",8,throughput,2.5\n";
        assert_eq!(String::from_utf8(csv).unwrap(), expected);
    }

    #[test]
    fn json_lines_read_back_as_the_samples() {
        let samples = ticket("host", Metric::Jain, &[0.5, 0.25]);
        let mut lines = Vec::new();
        write_json_lines(&mut lines, &samples).unwrap();
        let text = String::from_utf8(lines).unwrap();
        let back: Vec<Sample> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(back, samples);
    }
}
