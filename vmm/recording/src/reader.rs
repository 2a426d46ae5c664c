//! Reads recordings. A file that is not a recording is refused with the mistake, its place, and a remedy.
//!
//! A recording that was not finished is read up to its last whole event. Its vCPUs have no names.

use super::drain;
use super::header::{FORMAT, Header, VERSION};
use super::names::Names;
use serde::Deserialize;
use serde_json::Value;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use stile_sched::ledger::{Event, WORDS};
use stile_sched::{Nanos, Time};

/// Bytes of an event.
const EVENT: u64 = 8 * WORDS as u64;
/// A header is shorter than this. A file without a line end within it is not a recording (unit: bytes).
const HEADER_MAX: u64 = 1 << 20;

/// Why a file cannot be read as a recording.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read {}; `stile run --record` and `stile compare --record` write recordings", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is something else.
    #[error("{} is not a recording; `stile run --record` and `stile compare --record` write them", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The recording has another version.
    #[error(
        "{} is of version {found} of the format and this program reads version {VERSION}; record it anew, or read it with \
         the program that wrote it",
        path.display()
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: Value,
    },
    /// A line is malformed.
    #[error("{}: its {place} cannot be understood; the file is damaged, record it anew", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        place: &'static str,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The file is shorter than its header says.
    #[error(
        "{} is truncated: its header tells of {expected} events and their vCPUs' names, and the file ends after {found} \
         events; copy it again, or record it anew",
        path.display()
    )]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Events there should be.
        expected: u64,
        /// Events there are.
        found: u64,
    },
    /// An event is malformed.
    #[error("{}: event {number}, at byte {offset}, is none; the file is damaged, record it anew", path.display())]
    Event {
        /// The file.
        path: PathBuf,
        /// Its number, from 0.
        number: u64,
        /// Its place in the file.
        offset: u64,
    },
}

/// A recording, in a file or in memory.
#[derive(Debug, Clone)]
pub struct Recording {
    /// The file, or what stands for one in messages.
    path: PathBuf,
    header: Header,
    names: Names,
    events: Place,
    count: u64,
    /// The recorder did not finish the file.
    ended_early: bool,
}

/// Where the events are.
#[derive(Debug, Clone)]
enum Place {
    /// In the file, from this byte on.
    File { begin: u64 },
    /// Here.
    Memory(Arc<[Event]>),
}

/// The part that every version of the header has.
#[derive(Deserialize)]
struct Kind {
    format: String,
    version: Value,
}

impl Recording {
    /// These events, in order of time, as a recording in memory.
    pub fn of(header: Header, events: Vec<Event>, names: Names) -> Self {
        let (path, count) = (PathBuf::from(&header.workload), events.len() as u64);
        let header = Header { events: Some(count), ..header };
        Self { path, header, names, events: Place::Memory(events.into()), count, ended_early: false }
    }

    /// Writes it as a file has it.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(self.header.line()?.as_bytes())?;
        for event in self.events().map_err(io::Error::other)? {
            drain::put(&event.map_err(io::Error::other)?, out)?;
        }
        serde_json::to_writer(&mut *out, &self.names)?;
        out.write_all(b"\n")
    }

    /// Reads header and names, and checks the file's length against them.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let failed = |source| ReadError::File { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut file = BufReader::new(file);
        let mut line = Vec::new();
        (&mut file).take(HEADER_MAX).read_until(b'\n', &mut line).map_err(failed)?;
        let header = read_header(path, &line)?;
        let begin = line.len() as u64;
        let Some(count) = header.events else {
            let (names, count) = (Names::default(), (length - begin) / EVENT);
            let events = Place::File { begin };
            return Ok(Self { path: path.to_owned(), header, names, events, count, ended_early: true });
        };
        let end = count.checked_mul(EVENT).and_then(|bytes| bytes.checked_add(begin));
        let truncated =
            || ReadError::Truncated { path: path.to_owned(), expected: count, found: (length - begin) / EVENT };
        let end = end.filter(|&end| end < length).ok_or_else(truncated)?;
        file.seek(SeekFrom::Start(end)).map_err(failed)?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail).map_err(failed)?;
        if tail.last() != Some(&b'\n') {
            return Err(truncated());
        }
        let place = "last line, with the names of vCPUs,";
        let names =
            serde_json::from_slice(&tail).map_err(|source| ReadError::Line { path: path.to_owned(), place, source })?;
        let events = Place::File { begin };
        Ok(Self { path: path.to_owned(), header, names, events, count, ended_early: false })
    }

    /// Time from the beginning to the end of a recording that was not finished; `None` if it was finished.
    pub fn ended_early(&self) -> Result<Option<Nanos>, ReadError> {
        if !self.ended_early {
            return Ok(None);
        }
        let start = Time(self.header.start);
        let last = self.events_from(self.count.saturating_sub(1))?.next().transpose()?;
        Ok(Some(last.map_or(Nanos::ZERO, |event| event.time.since(start))))
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The names of its vCPUs.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its events from the first on, in order of time.
    pub fn events(&self) -> Result<Events<'_>, ReadError> {
        self.events_from(0)
    }

    fn events_from(&self, first: u64) -> Result<Events<'_>, ReadError> {
        let Place::File { begin } = self.events else { return Ok(Events { recording: self, file: None, next: first }) };
        let failed = |source| ReadError::File { path: self.path.clone(), source };
        let mut file = BufReader::new(File::open(&self.path).map_err(failed)?);
        file.seek(SeekFrom::Start(begin + first * EVENT)).map_err(failed)?;
        Ok(Events { recording: self, file: Some(file), next: first })
    }
}

fn read_header(path: &Path, line: &[u8]) -> Result<Header, ReadError> {
    let kind = serde_json::from_slice::<Kind>(line).ok().filter(|kind| kind.format == FORMAT);
    let Some(kind) = kind else { return Err(ReadError::Foreign { path: path.to_owned() }) };
    if kind.version != VERSION {
        return Err(ReadError::Version { path: path.to_owned(), found: kind.version });
    }
    let place = "first line";
    serde_json::from_slice(line).map_err(|source| ReadError::Line { path: path.to_owned(), place, source })
}

/// The events of a recording.
#[derive(Debug)]
pub struct Events<'a> {
    recording: &'a Recording,
    /// At the next event; `None`: they are in memory.
    file: Option<BufReader<File>>,
    next: u64,
}

impl Iterator for Events<'_> {
    type Item = Result<Event, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Recording { path, events, count, .. } = self.recording;
        if self.next == *count {
            return None;
        }
        let (begin, file) = match (events, &mut self.file) {
            (Place::File { begin }, Some(file)) => (begin, file),
            (Place::File { .. }, None) => return None,
            (Place::Memory(events), _) => {
                self.next += 1;
                return events.get(self.next as usize - 1).copied().map(Ok);
            }
        };
        let (number, path) = (self.next, path.clone());
        let mut bytes = [[0; 8]; WORDS];
        if let Err(source) = file.read_exact(bytes.as_flattened_mut()) {
            self.next = *count;
            return Some(Err(ReadError::File { path, source }));
        }
        self.next += 1;
        let offset = begin + number * EVENT;
        Some(Event::unpack(bytes.map(u64::from_le_bytes)).ok_or(ReadError::Event { path, number, offset }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Named;
    use stile_config::PolicyConfig;
    use stile_results::model::Params;
    use stile_sched::VcpuId;
    use stile_sched::ledger::What;

    fn events() -> Vec<Event> {
        (1..=3).map(|n| Event { time: Time(n), what: What::Remove { vcpu: VcpuId(n as u32) } }).collect()
    }

    /// A sound file of three events.
    fn bytes() -> Vec<u8> {
        let header = Header::new(&PolicyConfig::default(), &"0-1".parse().unwrap(), "ticket", Params::default());
        let mut bytes = Header { events: Some(3), ..header }.line().unwrap().into_bytes();
        bytes.extend(events().iter().flat_map(Event::pack).flat_map(u64::to_le_bytes));
        let names = Names::from(vec![Named { id: 1, since: 0, vm: "a".into(), index: 0 }]);
        bytes.extend(serde_json::to_vec(&names).unwrap());
        bytes.push(b'\n');
        bytes
    }

    fn open(bytes: &[u8]) -> Result<Vec<Event>, ReadError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        Recording::open(file.path())?.events()?.collect()
    }

    fn edited(from: &str, to: &str) -> Vec<u8> {
        let bytes = bytes();
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
    }

    #[test]
    fn a_recording_in_memory_reads_like_the_file_that_it_is_written_to() {
        let header = Header::new(&PolicyConfig::default(), &"0-1".parse().unwrap(), "a node", Params::default());
        let names = Names::from(vec![Named { id: 1, since: 0, vm: "a".into(), index: 0 }]);
        let recording = Recording::of(header, events(), names);
        let mut bytes = Vec::new();
        recording.write(&mut bytes).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.rec");
        std::fs::write(&path, bytes).unwrap();
        let read = Recording::open(&path).unwrap();
        let all = |recording: &Recording| recording.events().unwrap().map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!((all(&read), all(&recording)), (events(), events()));
        assert_eq!((read.names(), read.header()), (recording.names(), recording.header()));
    }

    #[test]
    fn what_was_written_is_read_back() {
        assert_eq!(open(&bytes()).unwrap(), events());
    }

    #[test]
    fn every_file_cut_short_is_refused_and_none_panics() {
        let whole = bytes();
        for length in 0..whole.len() {
            let error = open(&whole[..length]).unwrap_err();
            let told = matches!(error, ReadError::Foreign { .. } | ReadError::Truncated { .. });
            assert!(told, "{length}: {error}");
        }
        let told = open(&whole[..whole.len() - 60]).unwrap_err().to_string();
        assert!(told.contains("3 events") && told.contains("record it anew"), "{told}");
    }

    #[test]
    fn one_that_was_not_finished_is_read_up_to_its_last_whole_event() {
        let whole = edited("\"events\":3", "\"events\":null");
        let begin = whole.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        for (length, count) in [(0, 0), (31, 0), (32, 1), (95, 2), (96, 3), (127, 3)] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &whole[..begin + length]).unwrap();
            let recording = Recording::open(file.path()).unwrap();
            let read: Vec<Event> = recording.events().unwrap().map(Result::unwrap).collect();
            assert_eq!(read, events()[..count], "{length}");
            let early = recording.ended_early().unwrap().unwrap();
            let after_start = |event: &Event| event.time.since(Time(recording.header().start));
            assert_eq!(early, read.last().map_or(Nanos::ZERO, after_start));
        }
    }

    #[test]
    fn one_that_was_finished_did_not_end_early() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes()).unwrap();
        assert_eq!(Recording::open(file.path()).unwrap().ended_early().unwrap(), None);
    }

    #[test]
    fn other_files_versions_and_damages_are_told_apart() {
        assert!(matches!(open(b"{\"format\":\"other\",\"version\":1}\n"), Err(ReadError::Foreign { .. })));
        let (ours, other) = (format!("\"version\":{VERSION}"), "\"version\":77");
        assert!(matches!(open(&edited(&ours, other)), Err(ReadError::Version { .. })));
        assert!(matches!(open(&edited("rsdl", "dlsr")), Err(ReadError::Line { place: "first line", .. })));
        assert!(matches!(open(&edited("\"since\"", "\"until\"")), Err(ReadError::Line { .. })));
        assert!(matches!(
            open(&edited("\"events\":3", "\"events\":18446744073709551615")),
            Err(ReadError::Truncated { .. })
        ));
        let mut damaged = bytes();
        let kind = damaged.iter().position(|&byte| byte == b'\n').unwrap() + 1 + 32 + 28;
        damaged[kind] = 99;
        let error = open(&damaged).unwrap_err();
        assert!(matches!(error, ReadError::Event { number: 1, .. }), "{error}");
        let missing = Recording::open(Path::new("/nowhere/at.rec")).unwrap_err().to_string();
        assert!(missing.contains("/nowhere/at.rec"), "{missing}");
    }
}
