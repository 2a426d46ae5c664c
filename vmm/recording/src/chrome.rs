//! A recording as a trace for viewers: Chrome's trace-event format, which Perfetto reads as well.
//!
//! Tracks: one for each pCPU, with the vCPUs that ran there; one for each vCPU, grouped by VM, with its run, wait and
//! idle. Instants: yields with hint and outcome, kicks at their target, wakes. Arrows lead from a wake or a yield to
//! the run that follows from it. Times are microseconds since the recording began.
//!
//! It streams: memory grows with the number of vCPUs. A slice is written when it is over, so slices are in the order of
//! their ends, which the format permits.

mod event;
#[cfg(test)]
mod tests;

use super::names::Names;
use super::reader::{ReadError, Recording};
use event::{TraceEvent, Track};
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use stile_sched::ledger::{Began, Doing, Event, Span, Spans, What};
use stile_sched::policy::{Placement, Why};
use stile_sched::{Slot, Time, VcpuId, Wait, Yield};

/// The process of the pCPUs. The processes of VMs follow.
const PCPUS: u32 = 1;

/// Why no trace was written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The recording.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The trace.
    #[error("cannot write the trace")]
    Write(#[from] io::Error),
}

/// Writes a recording's trace.
pub fn write(recording: &Recording, out: &mut impl Write) -> Result<(), TraceError> {
    let mut writer = Writer::begin(recording, out)?;
    for event in recording.events()? {
        writer.tell(&event?)?;
    }
    Ok(writer.finish()?)
}

struct Writer<'a, W> {
    out: &'a mut W,
    names: &'a Names,
    start: Time,
    is_first: bool,
    spans: Spans,
    closed: Vec<Span>,
    /// The process of each VM, and the tracks that already have names.
    processes: HashMap<String, u32>,
    named: HashSet<Track>,
    /// The beginnings of arrows to a vCPU that have not ended yet.
    arrows: HashMap<VcpuId, (Track, Time, &'static str)>,
    drawn: u64,
}

impl<'a, W: Write> Writer<'a, W> {
    fn begin(recording: &'a Recording, out: &'a mut W) -> io::Result<Self> {
        let header = recording.header();
        let other = json!({"policy": header.policy.to_string(), "workload": header.workload, "lost": header.lost});
        write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[")?;
        let mut writer = Self {
            out,
            names: recording.names(),
            start: Time(header.start),
            is_first: true,
            spans: Spans::new(header.slots()),
            closed: Vec::new(),
            processes: HashMap::new(),
            named: HashSet::new(),
            arrows: HashMap::new(),
            drawn: 0,
        };
        writer.put(TraceEvent::name("process_name", Track { pid: PCPUS, tid: 0 }, "pCPUs"))?;
        for (slot, cpu) in (0..).map(Slot).zip(header.pcpus.iter()) {
            writer.put(TraceEvent::name("thread_name", track_of(slot), &format!("{slot} (CPU {cpu})")))?;
        }
        Ok(writer)
    }

    fn tell(&mut self, event: &Event) -> io::Result<()> {
        self.spans.tell(event, &mut self.closed);
        self.slices()?;
        let at = event.time;
        match event.what {
            What::Wake { vcpu, placement, .. } => self.wakes("wake", vcpu, placement, at),
            What::Resume { vcpu, placement } => self.wakes("resume", vcpu, placement, at),
            What::Taken { slot, time } => {
                let args = json!({"us": time.0 as f64 / 1e3});
                self.instant(track_of(slot), at, "taken by the host", args)
            }
            What::Overran { slot } => self.instant(track_of(slot), at, "overran its lease", Value::Null),
            What::Ask { slot, vcpu, why, decision } => {
                let next = decision.run.map(|lease| lease.vcpu);
                if let (Why::Yield(y), Some(vcpu)) = (why, vcpu) {
                    self.yields(vcpu, y, next, at)?;
                }
                if let Some(next) = next.filter(|&next| Some(next) != vcpu) {
                    self.arrives(next, slot, at)?;
                }
                decision.kick.map_or(Ok(()), |slot| self.instant(track_of(slot), at, "kick", Value::Null))
            }
            What::Steal { slot, thief, taken: true } => {
                let args = json!({"by": self.names.of(thief, at)});
                self.instant(track_of(slot), at, "steal", args)
            }
            What::Remove { vcpu } => {
                self.arrows.remove(&vcpu);
                Ok(())
            }
            What::Gap { lost } => {
                self.arrows.clear();
                self.instant(Track { pid: PCPUS, tid: 1 }, at, "events lost", json!({"events": lost}))
            }
            What::Add { .. } | What::Charge { .. } | What::Idled { .. } | What::Steal { .. } => Ok(()),
            What::Depart { .. } | What::Arrive { .. } | What::KeepUp { .. } => Ok(()),
        }
    }

    fn finish(mut self) -> io::Result<()> {
        self.spans.finish(&mut self.closed);
        self.slices()?;
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }

    fn wakes(&mut self, what: &'static str, vcpu: VcpuId, placement: Placement, at: Time) -> io::Result<()> {
        let track = self.track_of(vcpu, at)?;
        self.instant(track, at, what, json!({"placement": placement_text(placement)}))?;
        self.arrows.insert(vcpu, (track, at, what));
        match placement {
            Placement::Preempt(slot) | Placement::Queue(Some(slot)) => {
                let args = json!({"for": self.names.of(vcpu, at)});
                self.instant(track_of(slot), at, "kick", args)
            }
            Placement::Run(_) | Placement::Queue(None) | Placement::Held => Ok(()),
        }
    }

    fn yields(&mut self, vcpu: VcpuId, y: Yield, next: Option<VcpuId>, at: Time) -> io::Result<()> {
        let (kind, target) = match y.wait {
            Wait::Unknown => ("yield", None),
            Wait::Spin => ("seen spinning", None),
            Wait::Lock(holder) => ("yield for a lock", Some(holder)),
            Wait::Message(peer) => ("yield for a message", Some(peer)),
        };
        let track = self.track_of(vcpu, at)?;
        let outcome = if next == Some(vcpu) { "stayed" } else { "switched" };
        let target = target.map(|target| self.names.of(target, at));
        self.instant(track, at, kind, json!({"target": target, "again": y.again, "outcome": outcome}))?;
        if let Some(next) = next.filter(|&next| next != vcpu) {
            self.arrows.entry(next).or_insert((track, at, "yield"));
        }
        Ok(())
    }

    /// A vCPU is on a slot now: its arrow ends there.
    fn arrives(&mut self, vcpu: VcpuId, slot: Slot, at: Time) -> io::Result<()> {
        let Some((from, began, kind)) = self.arrows.remove(&vcpu) else { return Ok(()) };
        self.drawn += 1;
        let (began, at) = (self.us(began), self.us(at));
        self.put(TraceEvent { id: Some(self.drawn), ..TraceEvent::new("s", kind, from, began) })?;
        let end = TraceEvent { id: Some(self.drawn), bp: Some("e"), ..TraceEvent::new("f", kind, track_of(slot), at) };
        self.put(end)
    }

    /// Writes the spans that are over.
    fn slices(&mut self) -> io::Result<()> {
        let closed = std::mem::take(&mut self.closed);
        for span in closed.iter().filter(|span| span.from < span.to) {
            let track = self.track_of(span.vcpu, span.from)?;
            let (from, dur) = (self.us(span.from), Some(span.time().0 as f64 / 1e3));
            let slice = |name, track| TraceEvent { dur, ..TraceEvent::new("X", name, track, from) };
            match span.doing {
                Doing::Idle => self.put(slice("idle", track))?,
                Doing::Wait(began) => {
                    let args = Some(json!({"since": began_text(began)}));
                    self.put(TraceEvent { args, ..slice("wait", track) })?;
                }
                Doing::Taken(slot) => {
                    self.put(slice("taken by the host", track))?;
                    self.put(slice("taken by the host", track_of(slot)))?;
                }
                Doing::Run(slot) => {
                    let (name, place) = (self.names.of(span.vcpu, span.from), format!("run on {slot}"));
                    self.put(slice(&place, track))?;
                    self.put(slice(&name, track_of(slot)))?;
                }
            }
        }
        self.closed = closed;
        self.closed.clear();
        Ok(())
    }

    fn instant(&mut self, track: Track, at: Time, name: &str, args: Value) -> io::Result<()> {
        let args = Some(args).filter(|args| !args.is_null());
        let at = self.us(at);
        self.put(TraceEvent { s: Some("t"), args, ..TraceEvent::new("i", name, track, at) })
    }

    /// The track of a vCPU. Writes the track's name before anything else.
    fn track_of(&mut self, vcpu: VcpuId, at: Time) -> io::Result<Track> {
        let named = self.names.get(vcpu, at);
        let (vm, index) = named.map_or(("vCPUs", vcpu.0), |named| (named.vm.as_str(), named.index));
        let pid = match self.processes.get(vm) {
            Some(&pid) => pid,
            None => {
                let pid = PCPUS + 1 + self.processes.len() as u32;
                self.processes.insert(vm.to_owned(), pid);
                self.put(TraceEvent::name("process_name", Track { pid, tid: 0 }, vm))?;
                pid
            }
        };
        let track = Track { pid, tid: index + 1 };
        if self.named.insert(track) {
            self.put(TraceEvent::name("thread_name", track, &self.names.of(vcpu, at)))?;
        }
        Ok(track)
    }

    fn us(&self, at: Time) -> f64 {
        at.since(self.start).0 as f64 / 1e3
    }

    fn put(&mut self, event: TraceEvent<'_>) -> io::Result<()> {
        self.out.write_all(if std::mem::take(&mut self.is_first) { b"\n" } else { b",\n" })?;
        Ok(serde_json::to_writer(&mut *self.out, &event)?)
    }
}

fn track_of(slot: Slot) -> Track {
    Track { pid: PCPUS, tid: u32::from(slot.0) + 1 }
}

fn placement_text(placement: Placement) -> String {
    match placement {
        Placement::Run(slot) => format!("onto idle {slot}"),
        Placement::Preempt(slot) => format!("into the queue, ahead of the vCPU on {slot}"),
        Placement::Queue(Some(slot)) => format!("into the queue, and {slot} gets a limit"),
        Placement::Queue(None) => "into the queue".to_owned(),
        Placement::Held => "nowhere, held back by its VM's cap".to_owned(),
    }
}

fn began_text(began: Began) -> &'static str {
    match began {
        Began::Woken(_) => "it was woken",
        Began::Yielded(_) => "it yielded",
        Began::UsedUp => "its lease was used up",
        Began::GaveWay => "it made room for another one",
        Began::Robbed => "its slot was taken before it had begun",
        Began::HeldBack => "its VM's cap held it back",
        Began::Resumed(_) => "the cap let it go on",
    }
}
