//! Writes each sample of a comparison as soon as it is measured.
//!
//! `raw/samples.jsonl` grows by a line for each sample, so the samples of a run that fails are kept. A line is written
//! whole or not at all. At the end of the run the writer of reports replaces the file.

use super::model::Sample;
use super::raw::{self, JSON_LINES};
use super::storage::StorageError;
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// A journal in a report's folder, which is made if need be. The first sample replaces the journal of an earlier
    /// run.
    pub fn create(dir: &Path) -> Result<Self, StorageError> {
        let raw = dir.join("raw");
        fs::create_dir_all(&raw).map_err(|source| StorageError::Directory { path: raw.clone(), source })?;
        let path = raw.join(JSON_LINES);
        match File::options().write(true).create(true).truncate(false).open(&path) {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(StorageError::File { path, source }),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a sample.
    pub fn add(&self, sample: &Sample) -> Result<(), StorageError> {
        let written = self.append(sample);
        written.map_err(|source| StorageError::File { path: self.path.clone(), source })
    }

    fn append(&self, sample: &Sample) -> io::Result<()> {
        let mut line = Vec::new();
        raw::write_json_lines(&mut line, std::slice::from_ref(sample))?;
        let mut file = &self.file;
        let end = file.stream_position()?;
        if end == 0 {
            file.set_len(0)?;
        }
        let written = file.write_all(&line);
        if written.is_err() {
            // Half a line would make the file unreadable. Shortening it needs no disk space.
            file.set_len(end)?;
            file.seek(io::SeekFrom::Start(end))?;
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ticket;
    use stile_suites::Metric;

    #[test]
    fn samples_are_there_as_soon_as_they_are_added() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::create(dir.path()).unwrap();
        for (n, sample) in ticket("host", Metric::Jain, &[0.5, 0.25]).iter().enumerate() {
            journal.add(sample).unwrap();
            let text = fs::read_to_string(journal.path()).unwrap();
            let last: Sample = serde_json::from_str(text.lines().nth(n).unwrap()).unwrap();
            assert_eq!((&last, text.lines().count()), (sample, n + 1));
        }
    }

    #[test]
    fn samples_of_an_earlier_run_are_there_until_there_is_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let samples = ticket("host", Metric::Jain, &[0.5, 0.25]);
        samples.iter().for_each(|sample| Journal::create(dir.path()).unwrap().add(sample).unwrap());
        let journal = Journal::create(dir.path()).unwrap();
        let kept = fs::read_to_string(journal.path()).unwrap();
        assert_eq!(serde_json::from_str::<Sample>(&kept).unwrap(), samples[1], "and only that of the last run");
    }

    #[test]
    fn a_folder_that_is_a_file_is_named_with_the_remedy() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Journal::create(file.path()).unwrap_err().to_string();
        assert!(error.contains(file.path().to_str().unwrap()) && error.contains("--out"), "{error}");
    }

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let sample = &ticket("host", Metric::Jain, &[0.5])[0];
        let path = PathBuf::from("/dev/full");
        // The disk is always full, so it cannot be shortened either.
        let file = File::options().write(true).open(&path).unwrap();
        let error = Journal { path, file }.add(sample).unwrap_err().to_string();
        assert!(error.contains("/dev/full") && error.contains("make room"), "{error}");
    }
}
