//! The progress of the tests, by the events that the outer system sends; and when the machine is given up.

use crate::results::{Event, Verdict};
use crate::script::Script;
use std::collections::BTreeMap;
use std::time::Duration;

/// From start to first test; takes some 7 s on an idle host.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// Time beyond a test's limit, within which the outer system should have killed the test.
const GRACE: Duration = Duration::from_secs(30);
/// After so long without a sign of life a CPU has hung. A CPU that lives gives one every 5 s.
const SILENCE: Duration = Duration::from_secs(60);

/// The progress of the tests while the machine runs. Times are those of the host and count from its start, unless they
/// are the machine's own.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    scripts: &'a [Script],
    /// Seconds of the host that a second of the machine may take.
    slowness: u32,
    /// Number of events that have been processed.
    seen: usize,
    /// The test that runs, and its start; or when the machine set out for the first or next test.
    current: Option<String>,
    since: Duration,
    /// When its last try began (the machine's time).
    begun: Duration,
    /// Number of tries of the test that runs.
    tries: u32,
    ended: Vec<(String, Verdict)>,
    /// When each CPU that has given a sign of life gave the last one.
    alive: BTreeMap<usize, Duration>,
    /// All tests were run, and the machine has only to end.
    pub(super) done: bool,
}

impl<'a> Watch<'a> {
    pub(super) fn new(scripts: &'a [Script], slowness: u32) -> Self {
        let (since, begun) = (Duration::ZERO, Duration::ZERO);
        let (ended, alive) = (Vec::new(), BTreeMap::new());
        Self { scripts, slowness, seen: 0, current: None, since, begun, tries: 0, ended, alive, done: false }
    }

    pub(super) fn look(&mut self, events: &[Event], now: Duration) {
        for event in events.iter().skip(self.seen) {
            match event {
                Event::Begin(name, at) => (self.current, self.begun, self.tries) = (Some(name.clone()), *at, 1),
                Event::Again(_, at) => (self.begun, self.tries) = (*at, self.tries + 1),
                Event::End(name, code, at) => {
                    let time = at.saturating_sub(self.begun);
                    let limit = self.limit(name);
                    self.ended.push((name.clone(), Verdict::of(*code, time, limit, self.tries)));
                    self.current = None;
                }
                Event::Alive(cpu) => {
                    self.alive.insert(*cpu, now);
                    continue;
                }
                Event::Done => self.done = true,
            }
            self.since = now;
        }
        self.seen = self.seen.max(events.len());
    }

    fn limit(&self, name: &str) -> Duration {
        self.scripts.iter().find(|script| script.name == name).map_or(Duration::ZERO, |script| script.limit)
    }

    /// Why the machine is killed, and the verdict on the test that runs.
    pub(super) fn overdue(&self, now: Duration) -> Option<(String, Verdict)> {
        let silence = self.slowness * SILENCE;
        let silent = self.alive.iter().find(|(_, heard)| !self.done && now - **heard > silence);
        if let Some((cpu, _)) = silent {
            return Some((format!("CPU {cpu} gave no sign of life for {} s", silence.as_secs()), Verdict::Hung));
        }
        let (limit, verdict, what) = match &self.current {
            Some(name) => {
                (self.limit(name) + GRACE, Verdict::Lost, format!("test {name} did not end, nor could it be killed"))
            }
            None if self.done => (GRACE, Verdict::Lost, "the outer system did not power off".to_owned()),
            // Nothing of the tests runs in a machine that boots.
            None if self.ended.is_empty() => {
                (BOOT_LIMIT, Verdict::Hung, "the outer system did not come to its first test".to_owned())
            }
            None => (GRACE, Verdict::Lost, "the outer system hangs between tests".to_owned()),
        };
        let limit = self.slowness * limit;
        (now - self.since > limit).then(|| (format!("{what} within {} s", limit.as_secs()), verdict))
    }

    /// The verdict on each test. The first test that did not end has the verdict `last`.
    pub(super) fn verdicts(&self, last: Verdict) -> Vec<Verdict> {
        let mut last = Some(last);
        let verdict = |script: &Script| match self.ended.iter().find(|(name, _)| *name == script.name) {
            Some((_, verdict)) => verdict.clone(),
            None => last.take().unwrap_or(Verdict::NotRun),
        };
        self.scripts.iter().map(verdict).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Duration = Duration::from_millis(100);

    fn script(name: &str) -> Script {
        let (name, limit) = (name.to_owned(), Duration::from_secs(10));
        Script { name, description: String::new(), limit, needs: Vec::new(), text: String::new() }
    }

    fn begin(name: &str, at: u64) -> Event {
        Event::Begin(name.into(), Duration::from_secs(at))
    }

    fn end(name: &str, at: u64) -> Event {
        Event::End(name.into(), 0, Duration::from_secs(at))
    }

    #[test]
    fn tests_that_did_not_end_have_failed() {
        let scripts = ["a", "b", "c"].map(script);
        let mut watch = Watch::new(&scripts, 1);
        let mut events = vec![begin("a", 0)];
        watch.look(&events, Duration::from_secs(7));
        events.extend([end("a", 3), begin("b", 10)]);
        watch.look(&events, Duration::from_secs(10));
        assert_eq!(
            watch.verdicts(Verdict::Lost),
            [Verdict::Passed(Duration::from_secs(3)), Verdict::Lost, Verdict::NotRun]
        );
    }

    #[test]
    fn each_try_of_a_test_has_the_whole_limit() {
        let scripts = [script("a")];
        let mut watch = Watch::new(&scripts, 1);
        let mut events = vec![begin("a", 0)];
        watch.look(&events, Duration::ZERO);
        events.push(Event::Again("a".into(), Duration::ZERO));
        let limit = Duration::from_secs(10) + GRACE;
        watch.look(&events, limit);
        assert_eq!(watch.overdue(2 * limit), None);
        events.push(end("a", 3));
        watch.look(&events, 2 * limit);
        assert_eq!(watch.verdicts(Verdict::Ended), [Verdict::PassedAfterAll(Duration::from_secs(3), 2)]);
    }

    #[test]
    fn a_machine_is_given_up_only_when_a_limit_and_the_grace_have_passed() {
        let scripts = [script("a")];
        let mut watch = Watch::new(&scripts, 1);
        assert_eq!(watch.overdue(BOOT_LIMIT), None);
        assert!(matches!(watch.overdue(BOOT_LIMIT + MOMENT), Some((_, Verdict::Hung))));
        watch.look(&[begin("a", 0)], BOOT_LIMIT);
        let last = BOOT_LIMIT + Duration::from_secs(10) + GRACE;
        assert_eq!(watch.overdue(last), None);
        assert!(watch.overdue(last + MOMENT).is_some_and(|(why, _)| why.contains("test a")));
    }

    #[test]
    fn a_machine_has_hung_when_one_of_its_cpus_has_been_silent_for_long() {
        let scripts = [Script { limit: 2 * SILENCE, ..script("a") }];
        let mut watch = Watch::new(&scripts, 1);
        let mut events = vec![Event::Alive(0), Event::Alive(1), begin("a", 0)];
        watch.look(&events, Duration::ZERO);
        events.push(Event::Alive(0));
        watch.look(&events, MOMENT);
        assert_eq!(watch.overdue(SILENCE), None);
        let (why, verdict) = watch.overdue(SILENCE + MOMENT / 2).unwrap();
        assert!(why.contains("CPU 1"), "{why}");
        assert_eq!(verdict, Verdict::Hung);
        events.extend([end("a", 3), Event::Done]);
        watch.look(&events, 2 * MOMENT);
        assert_eq!(watch.overdue(GRACE), None);
    }
}
