//! What guests share: ticket locks, mailboxes, requests, chat rooms; and the gauges in which each counts what it has
//! done.

use super::room::Room;
use crate::time::{Nanos, Time};
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::sync::Arc;

/// Waits that are longer count as this long (unit: ns): some 18 minutes.
const LONGEST_WAIT: u64 = 1 << 40;

/// One vCPU's counters, as a real guest keeps them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gauge {
    /// Operations: locks taken, letters answered, probes, requests, messages heard.
    pub ops: u64,
    /// Payload moved (unit: bytes).
    pub bytes: u64,
    /// When the wait under way began, or will begin.
    pub waits_since: Option<Time>,
    /// Which histogram its waits are recorded in.
    pub(super) part: u8,
}

/// A request with its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The client's work before it has sent the request.
    pub asks: Nanos,
    /// The server's work.
    pub serves: Nanos,
    /// The client's work until it has taken the answer.
    pub takes: Nanos,
    /// What counts as payload (unit: bytes).
    pub bytes: u32,
}

/// What all guests share.
#[derive(Debug)]
pub struct World {
    /// Each lock's tickets; the first is the holder's.
    pub locks: Vec<VecDeque<usize>>,
    /// Chat rooms.
    pub rooms: Vec<Room>,
    /// Done so far, by vCPU.
    pub gauges: Vec<Gauge>,
    /// Waits and responses by part (unit: ns).
    waits: Vec<Histogram<u64>>,
    /// Letters by addressee.
    pub(super) mail: Vec<u32>,
    /// The vCPU that asked last, and which exchange it was, by server.
    pub(super) asked: Vec<(usize, u32)>,
    /// The exchanges that clients go through, each from a place of its own.
    pub(super) traffic: Arc<[Exchange]>,
    /// Which vCPUs are on a pCPU, if guests are told.
    pub(super) told: Option<Vec<bool>>,
    /// vCPUs that got an event in this step.
    pub(super) events: Vec<usize>,
    /// vCPUs whose wait may be over by what was done in this step.
    pub(super) noticed: Vec<usize>,
}

impl World {
    pub(super) fn new() -> Self {
        Self {
            // Lock 0 is always there.
            locks: vec![VecDeque::new()],
            rooms: Vec::new(),
            gauges: Vec::new(),
            waits: Vec::new(),
            mail: Vec::new(),
            asked: Vec::new(),
            traffic: Arc::new([]),
            told: None,
            events: Vec::new(),
            noticed: Vec::new(),
        }
    }

    /// Makes room for a vCPU; one may be written to before it starts.
    pub(super) fn admit(&mut self, v: usize) {
        let len = self.mail.len().max(v + 1);
        self.mail.resize(len, 0);
        self.asked.resize(len, (0, 0));
        self.gauges.resize(len, Gauge::default());
    }

    /// A vCPU goes onto a pCPU, or leaves one.
    pub(super) fn place(&mut self, v: usize, runs: bool) {
        if let Some(told) = &mut self.told {
            told.resize(told.len().max(v + 1), false);
            told[v] = runs;
        }
    }

    /// Whether a vCPU is on a pCPU, if guests are told.
    pub(super) fn runs(&self, v: usize) -> Option<bool> {
        self.told.as_ref().map(|told| told.get(v).copied().unwrap_or(false))
    }

    /// Gives a vCPU to a part, whose waits are kept together.
    pub(super) fn enroll(&mut self, v: usize, part: u8) {
        let new = || Histogram::new_with_bounds(1, LONGEST_WAIT, 2).expect("the bounds are in order");
        self.waits.resize_with(self.waits.len().max(usize::from(part) + 1), new);
        self.gauges[v].part = part;
    }

    /// A first letter, so that the vCPU begins.
    pub fn post(&mut self, v: usize) {
        self.mail[v] += 1;
    }

    /// When the last of the rooms had done its work; `None` while one has not.
    pub fn ended(&self) -> Option<Time> {
        let ended = self.rooms.iter().map(Room::ended).collect::<Option<Vec<Time>>>()?;
        ended.into_iter().max()
    }

    /// Operations of all these.
    #[cfg(test)]
    pub(crate) fn ops_of(&self, group: &[usize]) -> u64 {
        group.iter().map(|&v| self.gauges[v].ops).sum()
    }

    /// Recorded waits of a part: how long, and how many.
    pub fn waits_of(&self, part: u8) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        let waits = self.waits.get(usize::from(part)).into_iter();
        waits.flat_map(|waits| waits.iter_recorded().map(|it| (Nanos(it.value_iterated_to()), it.count_at_value())))
    }

    /// Forgets the waits recorded; those under way are still under way.
    pub(super) fn forget_waits(&mut self) {
        self.waits.iter_mut().for_each(Histogram::reset);
    }

    /// A letter, which is seen by an addressee that spins and wakes one that idles.
    pub(super) fn send(&mut self, v: usize) {
        self.admit(v);
        self.mail[v] += 1;
        self.noticed.push(v);
        self.events.push(v);
    }

    /// A request for a server.
    pub(super) fn ask(&mut self, server: usize, client: usize, exchange: u32) {
        self.send(server);
        self.asked[server] = (client, exchange);
    }

    pub(super) fn begin_wait(&mut self, v: usize, at: Time) {
        self.gauges[v].waits_since = Some(at);
    }

    /// The wait that began is over.
    pub(super) fn end_wait(&mut self, v: usize, now: Time) {
        let gauge = &mut self.gauges[v];
        if let Some(since) = gauge.waits_since.take()
            && let Some(waits) = self.waits.get_mut(usize::from(gauge.part))
        {
            waits.saturating_record(now.since(since).0);
        }
    }

    pub(super) fn done(&mut self, v: usize) {
        self.gauges[v].ops += 1;
    }
}
