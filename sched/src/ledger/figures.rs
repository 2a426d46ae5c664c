//! Figures of a recording: the ledger's books, kept once more from its events.
//!
//! Two things a recording does not know: yields while no vCPU waited, which no policy is asked about, and naps that
//! were over before the policy heard of them, which count as running.

use super::account::Account;
use super::books::{Books, Counts};
use super::event::{Event, What};
use super::spans::Spans;
use crate::attributes::Attributes;
use crate::ids::VcpuId;
use crate::policy::Why;
use crate::time::Time;

/// Keeps the books of a recording.
#[derive(Debug)]
pub struct Figures {
    books: Books,
    spans: Spans,
    /// When each vCPU that is there was taken in.
    since: Vec<Option<Time>>,
    ended: Vec<VcpuFigures>,
    from: Option<Time>,
}

/// A vCPU's life in a recording.
#[derive(Debug, Clone)]
pub struct VcpuFigures {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// When it was taken in: ids are used again.
    pub since: Time,
    /// Until when it was there.
    pub until: Time,
    /// What became of its time.
    pub account: Account,
}

impl Figures {
    /// Of a domain of so many slots, without vCPUs yet.
    pub fn new(slots: usize) -> Self {
        let (books, spans) = (Books::new(slots), Spans::new(slots));
        Self { books, spans, since: Vec::new(), ended: Vec::new(), from: None }
    }

    /// Enters the next event. False: it contradicts the events before it, or some are missing here, and nothing can be
    /// entered from here on.
    pub fn tell(&mut self, event: &Event) -> bool {
        let is_gap = matches!(event.what, What::Gap { .. });
        if is_gap || !self.spans.tell(event, &mut Vec::new()) {
            return false;
        }
        let now = event.time;
        self.from.get_or_insert(now);
        match event.what {
            What::Add { vcpu, nice, class, group, .. } => {
                self.books.added(vcpu, Attributes { nice, class, group }, now);
                self.since.resize(self.since.len().max(vcpu.index() + 1), None);
                self.since[vcpu.index()] = Some(now);
            }
            What::Remove { vcpu } => {
                self.end(vcpu, now);
                self.books.removed(vcpu, now);
            }
            What::Wake { vcpu, placement, .. } => self.books.woken(vcpu, placement, now),
            What::Ask { slot, vcpu, why, decision } => {
                let ends = vcpu.filter(|_| why == Why::Retire);
                ends.into_iter().for_each(|vcpu| self.end(vcpu, now));
                self.books.asked(slot, why, decision, now);
            }
            What::Steal { slot, thief, taken: true } => self.books.stolen(slot, thief),
            What::Idled { vcpu, since } => self.books.idled(vcpu, since),
            What::Resume { placement, .. } => self.books.resumed(placement, now),
            What::Taken { slot, time } => _ = self.books.taken(slot, time, now),
            What::Arrive { placement: Some(placement), .. } => self.books.resumed(placement, now),
            What::Charge { vcpu, time } => _ = self.books.charged(vcpu, time),
            What::Overran { .. } | What::Steal { .. } | What::Gap { .. } => {}
            What::Depart { .. } | What::Arrive { .. } | What::KeepUp { .. } => {}
        }
        true
    }

    /// All vCPUs in the order in which they were taken in, up to the latest event.
    pub fn vcpus(&self) -> Vec<VcpuFigures> {
        let there = (0..).map(VcpuId).zip(&self.since).filter(|(_, since)| since.is_some());
        let mut all = self.ended.clone();
        all.extend(there.filter_map(|(vcpu, _)| self.life(vcpu, self.spans.at())));
        all.sort_by_key(|life| life.since);
        all
    }

    /// Counts of the domain.
    pub fn counts(&self) -> &Counts {
        self.books.counts()
    }

    /// From the first event to the latest.
    pub fn span(&self) -> crate::time::Nanos {
        self.spans.at().since(self.from.unwrap_or(self.spans.at()))
    }

    fn end(&mut self, vcpu: VcpuId, now: Time) {
        self.ended.extend(self.life(vcpu, now));
        self.since[vcpu.index()] = None;
    }

    fn life(&self, vcpu: VcpuId, until: Time) -> Option<VcpuFigures> {
        let since = self.since[vcpu.index()]?;
        Some(VcpuFigures { vcpu, since, until, account: self.books.account_of(vcpu, until)? })
    }
}
