//! The log of a node's changes. One of them at most awaits confirmation, with what takes it back.

use std::collections::VecDeque;
use std::time::Instant;
use stile_api::{Change, ChangeState, Problem, Reason};

/// Changes that the log keeps.
const KEPT: usize = 1000;

/// The changes, from the oldest on. `U` takes one back.
pub(crate) struct Log<U> {
    changes: VecDeque<Change>,
    /// Ids are given from 1 on.
    last: u64,
    awaiting: Option<Awaiting<U>>,
}

struct Awaiting<U> {
    change: u64,
    undo: U,
    /// When it is tried again to take it back, once that has failed.
    again: Option<Instant>,
}

impl<U> Default for Log<U> {
    fn default() -> Self {
        Self { changes: VecDeque::new(), last: 0, awaiting: None }
    }
}

impl<U: Clone> Log<U> {
    /// All changes that are kept, from the oldest on.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter()
    }

    /// The change that awaits confirmation.
    pub(crate) fn awaiting(&self) -> Option<u64> {
        self.awaiting.as_ref().map(|awaiting| awaiting.change)
    }

    /// What takes this change back.
    ///
    /// # Errors
    /// It does not await confirmation.
    pub(crate) fn undo(&self, id: u64) -> Result<U, Problem> {
        match &self.awaiting {
            Some(awaiting) if awaiting.change == id => Ok(awaiting.undo.clone()),
            _ => Err(self.not_awaiting(id)),
        }
    }

    /// Enters a change that was made, and gives it an id. With `undo`, it awaits confirmation.
    pub(crate) fn enter(&mut self, change: Change, undo: Option<U>) -> Change {
        self.last += 1;
        let change = Change { id: self.last, ..change };
        self.awaiting = undo.map(|undo| Awaiting { change: change.id, undo, again: None });
        self.changes.push_back(change.clone());
        if self.changes.len() > KEPT {
            self.changes.pop_front();
        }
        change
    }

    /// The change that awaits confirmation got it, or was taken back.
    ///
    /// # Errors
    /// It does not await confirmation.
    pub(crate) fn settle(&mut self, id: u64, state: ChangeState) -> Result<Change, Problem> {
        let awaits = self.awaiting() == Some(id);
        let Some(change) = self.changes.iter_mut().find(|change| awaits && change.id == id) else {
            return Err(self.not_awaiting(id));
        };
        change.state = state;
        let settled = change.clone();
        self.awaiting = None;
        Ok(settled)
    }

    /// Notes that it is tried at `again` to take back the change that awaits confirmation. False: a time that has not
    /// come yet is noted already.
    pub(crate) fn tries_again(&mut self, now: Instant, again: Instant) -> bool {
        let Some(awaiting) = self.awaiting.as_mut().filter(|awaiting| awaiting.again.is_none_or(|due| due <= now))
        else {
            return false;
        };
        awaiting.again = Some(again);
        true
    }

    fn not_awaiting(&self, id: u64) -> Problem {
        match self.changes.iter().any(|change| change.id == id) {
            true => Problem::new(Reason::Conflict, format!("change {id} does not wait to be confirmed")),
            false => Problem::new(Reason::NotFound, format!("there is no change {id}")),
        }
        .remedy("`stile changes` lists the changes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use stile_api::{Author, Settings};

    fn change() -> Change {
        let (by, nothing) = (Author { uid: None, pid: None }, Settings { policy: None, pcpus: None, vms: [].into() });
        let state = ChangeState::Applied;
        Change { id: 0, at: 0.0, by, before: nothing.clone(), after: nothing, vcpus: 0, seconds: 0.0, state }
    }

    #[test]
    fn a_change_awaits_until_it_is_settled_and_only_once() {
        let mut log = Log::default();
        assert_eq!((log.enter(change(), None).id, log.awaiting()), (1, None));
        assert_eq!((log.enter(change(), Some("back")).id, log.awaiting()), (2, Some(2)));
        assert_eq!(log.undo(2).ok(), Some("back"));
        for (id, reason) in [(1, Reason::Conflict), (3, Reason::NotFound)] {
            assert_eq!(log.undo(id).unwrap_err().reason, reason);
            assert_eq!(log.settle(id, ChangeState::Applied).unwrap_err().reason, reason);
        }
        let reverted = ChangeState::Reverted { why: "a test".to_owned() };
        assert_eq!(log.settle(2, reverted.clone()).unwrap().state, reverted);
        assert_eq!(log.awaiting(), None);
        assert_eq!(log.settle(2, ChangeState::Applied).unwrap_err().reason, Reason::Conflict);
        assert_eq!(log.changes().last().unwrap().state, reverted);
    }

    #[test]
    fn one_try_at_a_time_is_noted() {
        let (mut log, now) = (Log::default(), Instant::now());
        let later = |seconds| now + Duration::from_secs(seconds);
        assert!(!log.tries_again(now, later(5)), "no change awaits confirmation");
        log.enter(change(), Some(()));
        assert!(log.tries_again(now, later(5)));
        assert!(!log.tries_again(later(4), later(9)));
        assert!(log.tries_again(later(5), later(10)));
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let mut log = Log::<()>::default();
        (0..KEPT + 2).for_each(|_| drop(log.enter(change(), None)));
        assert_eq!((log.changes().count(), log.changes().next().unwrap().id), (KEPT, 3));
    }
}
