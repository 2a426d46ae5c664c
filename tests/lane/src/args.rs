//! The command line.

use crate::emulator::Kind;
use crate::measure::Measurement;
use crate::suites::Suite;
use clap::Parser;
use std::path::PathBuf;
use std::time::Duration;

/// Runs tests of stile on an emulated machine whose KVM has hardware virtualisation, or measures there
#[derive(Debug, Parser)]
#[command(name = "hardware-lane")]
pub(crate) struct Args {
    /// The tests; none: all
    pub(crate) names: Vec<String>,
    /// List the tests, and run none
    #[arg(long)]
    pub(crate) list: bool,
    /// Run the tests this many times, each time on a machine started anew
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
    /// The machine to emulate
    #[arg(long, value_enum, default_value_t = Kind::Svm)]
    pub(crate) machine: Kind,
    /// The Debian whose stock kernel the machine runs
    #[arg(long, value_enum, default_value_t = Suite::Own)]
    pub(crate) outer: Suite,
    /// The Debian whose QEMU emulates the machine `svm`
    #[arg(long, value_enum, default_value_t = Suite::Own)]
    pub(crate) qemu: Suite,
    /// Instructions that each CPU of the machine `vmx` makes in a second of its time
    #[arg(long, value_name = "N", default_value_t = 100_000_000, value_parser = clap::value_parser!(u32).range(10_000_000..=2_000_000_000))]
    pub(crate) ips: u32,
    /// Build stile and its tests as users do, and not as `cargo test` does; always so for the machine `vmx` and for
    /// measurements
    #[arg(long)]
    pub(crate) release: bool,
    /// Build stile with these features as well; only with `--release`, and where that is so in any case
    #[arg(long, value_name = "LIST")]
    pub(crate) features: Option<String>,
    /// Boot this kernel in Linux guests instead of Debian's
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel: Option<PathBuf>,
    /// Run no tests but the command of stile's behind `--`, such as `compare cyclictest --guest linux`, and bring what
    /// it makes into this folder
    #[arg(long, value_name = "DIR", requires = "command", conflicts_with_all = ["names", "list", "repeat"])]
    measure: Option<PathBuf>,
    /// Run the command once for each seed, which moves its start and where its threads begin, and is `--seed` of
    /// `compare`
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1", requires = "measure")]
    seeds: Vec<u32>,
    /// End the command of a seed after this time of the machine
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, requires = "measure")]
    limit: u32,
    /// Explain the waits of this VM in every recording that was brought, as `stile why` does
    #[arg(long, value_name = "VM", requires = "measure")]
    why: Option<String>,
    /// The command
    #[arg(last = true, value_name = "ARGUMENT", requires = "measure")]
    command: Vec<String>,
}

impl Args {
    /// What to measure, if that was asked for.
    pub(crate) fn measurement(&self) -> Option<Measurement> {
        let results = self.measure.clone()?;
        let limit = Duration::from_secs(self.limit.into());
        let (command, seeds, why) = (self.command.clone(), self.seeds.clone(), self.why.clone());
        Some(Measurement { command, seeds, limit, results, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(std::iter::once("hardware-lane").chain(line.split_whitespace()))
    }

    #[test]
    fn a_measurement_has_a_command_and_no_tests() {
        let args = parsed("--measure out --seeds 1,2 -- compare boot --vms 1").unwrap();
        let measurement = args.measurement().unwrap();
        assert_eq!(measurement.command, ["compare", "boot", "--vms", "1"]);
        assert_eq!((measurement.seeds, measurement.limit), (vec![1, 2], Duration::from_secs(3600)));
        assert_eq!(parsed("linux-boot").unwrap().measurement(), None);
        for wrong in ["--measure out", "--measure out linux-boot -- run", "--seeds 1 linux-boot", "-- run"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_kernel_is_named_by_its_age_or_by_its_version() {
        let outer = |name: &str| parsed(&format!("--outer {name}")).unwrap().outer;
        assert_eq!(["oldest", "6.1", "6.12"].map(outer), [Suite::Oldest, Suite::Oldest, Suite::Stable]);
        assert_eq!(["newest", "7.x", "own"].map(outer), [Suite::Newest, Suite::Newest, Suite::Own]);
    }
}
