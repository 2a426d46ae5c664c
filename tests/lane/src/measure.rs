//! Measuring: a command of stile's runs in the machine once for each seed, and the files that it makes are brought out.
//!
//! A test only tells whether it passed. What a measurement makes (a report, recordings) is written to a disk of the
//! machine as an archive, which the lane unpacks when the machine has ended. The archive is written anew after every
//! seed, so a machine that ends early still gives what it had measured.
//!
//! The machine with VMX repeats a run exactly. A seed makes runs differ: in the machine's date, in the moment at which
//! the command starts, in the CPU that is in use then, which moves where its threads begin, and in `--seed` of `stile
//! compare`.

use crate::emulator::{CPUS, CYLINDER_BYTES};
use crate::script::{Need, Script};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use stile_linux_images::tool::{self, ToolError};
use stile_suites::{LinuxImage, Suite};

/// Of a disk (unit: bytes). A whole number of the cylinders that an emulator of an old disk asks for.
const DISK_BYTES: u64 = 512 * CYLINDER_BYTES;
/// What is left of a seed's limit for the archive when the command had to be ended.
const TO_ARCHIVE: Duration = Duration::from_secs(60);
/// The part of the script that does not depend on command and seed.
const STEPS: &str = include_str!("measure.sh");

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measurement {
    /// Arguments of stile's.
    pub(crate) command: Vec<String>,
    /// The seeds.
    pub(crate) seeds: Vec<u32>,
    /// The most time of the machine for each.
    pub(crate) limit: Duration,
    /// Where the results come to be: a folder for each seed.
    pub(crate) results: PathBuf,
    /// The VM whose waits are explained for every recording.
    pub(crate) why: Option<String>,
}

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MeasureError {
    /// The disk cannot be made.
    #[error("cannot make the disk for results")]
    Disk(#[source] io::Error),
    /// The results cannot be written or read.
    #[error("cannot write results to {0}")]
    Write(PathBuf, #[source] io::Error),
    /// They cannot be unpacked, or a recording not be read.
    #[error(transparent)]
    Tool(#[from] ToolError),
}

impl Measurement {
    /// The scripts, one for each seed.
    pub(crate) fn scripts(&self) -> Vec<Script> {
        self.seeds.iter().map(|&seed| self.script(seed)).collect()
    }

    fn script(&self, seed: u32) -> Script {
        let mut command = self.command.clone();
        if command.first().is_some_and(|first| first == "compare") {
            command.extend(["--seed".to_owned(), seed.to_string()]);
        }
        let command: Vec<String> = command.iter().map(|word| quoted(word)).collect();
        let name = format!("seed-{seed}");
        let seconds = self.limit.saturating_sub(TO_ARCHIVE).as_secs();
        // Prime factors that no period of the guests has.
        let text = format!(
            "name={name} busy={} pause=0.{:03} seconds={seconds}\nset -- {}\n{STEPS}",
            seed % CPUS,
            u64::from(seed) * 37 % 101,
            command.join(" ")
        );
        let description = format!("stile {}", command.join(" "));
        Script { name, description, limit: self.limit, needs: self.needs(), text }
    }

    /// The images of Linux guests: the large one only for suites that boot it.
    fn needs(&self) -> Vec<Need> {
        let suites = self.command.iter().flat_map(|word| word.split(',')).filter_map(|word| word.parse::<Suite>().ok());
        let is_large =
            |suite: Suite| suite.descriptor().linux.as_ref().is_some_and(|guests| guests.image == LinuxImage::Large);
        let large = suites.into_iter().any(is_large).then_some(Need::LargeLinuxGuest);
        std::iter::once(Need::LinuxGuest).chain(large).collect()
    }

    /// Unpacks the results that are on a disk, and explains the recordings among them.
    pub(crate) fn bring(&self, disk: &Path, stile: &Path) -> Result<(), MeasureError> {
        let write = |source| MeasureError::Write(self.results.clone(), source);
        std::fs::create_dir_all(&self.results).map_err(write)?;
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--no-same-owner").arg("--file").arg(disk).arg("--directory").arg(&self.results);
        tool::output(&mut tar, "tar")?;
        let Some(vm) = &self.why else { return Ok(()) };
        for recording in recordings(&self.results).map_err(write)? {
            let why = tool::output(Command::new(stile).args(["why", vm]).arg(&recording), "stile")?;
            std::fs::write(recording.with_extension("why"), why).map_err(write)?;
        }
        Ok(())
    }
}

/// A disk without an archive.
pub(crate) fn empty_disk(path: &Path) -> Result<(), MeasureError> {
    File::create(path).and_then(|file| file.set_len(DISK_BYTES)).map_err(MeasureError::Disk)
}

/// The recordings in a folder and those in it.
fn recordings(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rec") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// A word for the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(command: &[&str], results: &Path) -> Measurement {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let limit = Duration::from_secs(600);
        Measurement { command, seeds: vec![1, 4], limit, results: results.to_owned(), why: None }
    }

    #[test]
    fn every_seed_is_a_script_of_its_own_and_comparisons_are_told_the_seed() {
        let scripts = measurement(&["compare", "cyclictest", "--set", "it's=1"], Path::new("r")).scripts();
        let names: Vec<_> = scripts.iter().map(|script| script.name.as_str()).collect();
        assert_eq!(names, ["seed-1", "seed-4"]);
        let (first, other) = (&scripts[0].text, &scripts[1].text);
        assert!(first.contains(r"set -- 'compare' 'cyclictest' '--set' 'it'\''s=1' '--seed' '1'"), "{first}");
        assert!(first.starts_with("name=seed-1 busy=1 pause=0.037 seconds=540\n"), "{first}");
        assert!(other.starts_with("name=seed-4 busy=0 pause=0.047 seconds=540\n"), "{other}");
        let run = measurement(&["run", "file.toml"], Path::new("r")).scripts();
        assert!(!run[0].text.contains("--seed"));
        let needs = |suites: &str| measurement(&["compare", suites], Path::new("r")).scripts().remove(0).needs;
        assert_eq!(needs("pigz,boot"), [Need::LinuxGuest]);
        assert_eq!(needs("pigz,stress"), [Need::LinuxGuest, Need::LargeLinuxGuest]);
    }

    #[test]
    fn what_the_machine_wrote_is_unpacked_and_an_empty_disk_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, results) = (folder.path().join("disk"), folder.path().join("results"));
        empty_disk(&disk).unwrap();
        let measurement = measurement(&["compare"], &results);
        measurement.bring(&disk, Path::new("none")).unwrap();
        assert_eq!(std::fs::read_dir(&results).unwrap().count(), 0);
        let made = folder.path().join("made/seed-1");
        std::fs::create_dir_all(made.join("raw")).unwrap();
        std::fs::write(made.join("raw/a.rec"), "recording").unwrap();
        // As the machine does it, which does not shorten the disk.
        let written = Command::new("sh")
            .arg("-c")
            .arg("tar -c -C \"$0\" . | dd of=\"$1\" conv=notrunc status=none")
            .args([folder.path().join("made"), disk.clone()])
            .status();
        assert!(written.unwrap().success());
        measurement.bring(&disk, Path::new("none")).unwrap();
        assert_eq!(recordings(&results).unwrap(), [results.join("seed-1/raw/a.rec")]);
    }
}
