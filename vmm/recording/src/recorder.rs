//! Writes a recording while its domain runs.
//!
//! A separate thread empties the rings every few milliseconds, so memory is bounded. Events that it cannot write in
//! time are lost and counted: recording must not slow down the domain. A recording that was not finished, because the
//! process died, has no number of events in its header and no names. Readers take what there is.

use super::drain::{self, Drain, SHARDS_APART};
use super::header::Header;
use super::names::{Named, Names};
use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use stile_config::PolicyConfig;
use stile_jail::Kind;
use stile_machine::vm::VcpuSet;
use stile_sched::ledger::Event;
use stile_sched::{Domain, Nanos, ledger};

/// Time between two turns. A ring holds more events than a slot asks questions in ten times that.
const EVERY: Duration = Duration::from_millis(3);
/// Bytes written at once (unit: bytes).
const BUFFER: usize = 256 << 10;
/// After so many turns all events are written, so that few are missing if the process dies.
const FLUSH: u32 = 64;

/// Why a run cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// stile was built without recording.
    #[error("this build of stile records nothing; build it with the feature `trace`, which is on by default")]
    NotBuilt,
    /// The host's scheduler decides, so there is no policy to record.
    #[error("under `{policy}` the host's scheduler decides, and there is nothing to record; choose another policy")]
    NoPolicy {
        /// Name of the policy.
        policy: String,
    },
    /// The file cannot be written.
    #[error("cannot write the recording {}; make room there or name another file", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// The content of a finished recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// Events.
    pub events: u64,
    /// Events that were overwritten before they were written.
    pub lost: u64,
}

/// A recording under way.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    header: Header,
    names: Mutex<Vec<Named>>,
    thread: Option<JoinHandle<io::Result<Written>>>,
    ending: Arc<AtomicBool>,
}

/// Whether there is anything to record under a policy.
pub fn recordable(policy: &PolicyConfig) -> Result<(), RecordError> {
    match policy.algorithm.is_host() {
        _ if !ledger::RECORDS => Err(RecordError::NotBuilt),
        true => Err(RecordError::NoPolicy { policy: policy.to_string() }),
        false => Ok(()),
    }
}

/// The result of the thread: the file up to the last event, and the counts.
type Written = (BufWriter<File>, Drain);

impl Recorder {
    /// Starts to record a domain, which must not have a vCPU yet.
    pub fn start(path: &Path, header: Header, domain: &dyn Domain) -> Result<Self, RecordError> {
        recordable(&header.policy)?;
        let Some(trace) = domain.trace() else {
            return Err(RecordError::NoPolicy { policy: header.policy.to_string() });
        };
        let ending = Arc::new(AtomicBool::new(false));
        let held_back = if header.policy.is_divided(header.slots()) { SHARDS_APART } else { Nanos::ZERO };
        let begin = || {
            let mut out = BufWriter::with_capacity(BUFFER, File::create(path)?);
            out.write_all(header.line()?.as_bytes())?;
            out.flush()?;
            let ending = Arc::clone(&ending);
            std::thread::Builder::new().name("recorder".into()).spawn(move || {
                stile_jail::narrow(Kind::Output);
                keep_up(out, Drain::new(trace, held_back), &ending)
            })
        };
        let thread = begin().map_err(|source| RecordError::File { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), header, names: Mutex::default(), thread: Some(thread), ending })
    }

    /// Path of its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the names of a VM's vCPUs.
    pub fn name(&self, vm: &VcpuSet) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).extend(Names::of_vm(vm));
    }

    /// Writes the remaining events. All vCPUs of the domain should have ended.
    pub fn finish(mut self) -> Result<Recorded, RecordError> {
        let names = std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner));
        let written = self.stop().and_then(|(mut out, drain)| {
            serde_json::to_writer(&mut out, &Names::from(names))?;
            out.write_all(b"\n")?;
            out.seek(SeekFrom::Start(0))?;
            let Drain { events, lost, .. } = drain;
            let header = Header { events: Some(events), lost, ..self.header.clone() };
            out.write_all(header.line()?.as_bytes())?;
            out.flush()?;
            Ok(Recorded { events, lost })
        });
        written.map_err(|source| RecordError::File { path: self.path.clone(), source })
    }

    fn stop(&mut self) -> io::Result<Written> {
        self.ending.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return Err(io::Error::other("the recorder was stopped before")) };
        thread.thread().unpark();
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the recorder's thread ended early")))
    }
}

/// Writes a recording of complete events, of vCPUs without names.
pub fn write(path: &Path, header: Header, events: &[Event]) -> Result<(), RecordError> {
    let written = || {
        let mut out = BufWriter::with_capacity(BUFFER, File::create(path)?);
        let header = Header { events: Some(events.len() as u64), ..header };
        out.write_all(header.line()?.as_bytes())?;
        events.iter().try_for_each(|event| drain::put(event, &mut out))?;
        serde_json::to_writer(&mut out, &Names::default())?;
        out.write_all(b"\n")?;
        out.flush()
    };
    written().map_err(|source| RecordError::File { path: path.to_owned(), source })
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.thread.is_some() {
            // A caller that drops it unfinished has an error of its own to report.
            let _ = self.stop();
        }
    }
}

/// The thread, which runs until it is told to end.
fn keep_up(mut out: BufWriter<File>, mut drain: Drain, ending: &AtomicBool) -> io::Result<Written> {
    while !ending.load(Ordering::Acquire) {
        for _ in 0..FLUSH {
            drain.turn(&mut out)?;
            std::thread::park_timeout(EVERY);
            if ending.load(Ordering::Acquire) {
                break;
            }
        }
        out.flush()?;
    }
    drain.finish(&mut out)?;
    Ok((out, drain))
}
