//! The host's activity while something is measured: its CPUs, run queue, switches and interrupts, sampled at intervals.
//!
//! The counts are the whole host's, not this process's. A separate thread reads one file a few times a second.

use super::HostRoot;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two samples.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// The file with the counts.
const STAT: &str = "/proc/stat";

/// The host's counts since it started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Counts {
    user: u64,
    system: u64,
    irq: u64,
    idle: u64,
    steal: u64,
    interrupts: u64,
    switches: u64,
    running: u64,
}

impl Counts {
    /// From the text of /proc/stat; `None` if something is missing.
    fn parse(stat: &str) -> Option<Self> {
        let line = |key: &str| {
            let mut lines = stat.lines().map(|line| line.split_ascii_whitespace());
            lines.find_map(|mut words| (words.next() == Some(key)).then_some(words))
        };
        let number = |key| line(key)?.next()?.parse().ok();
        let times: Vec<u64> = line("cpu")?.map_while(|word| word.parse().ok()).collect();
        // The columns after these are guests' times, which the first two contain already.
        let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = times[..] else { return None };
        Some(Self {
            user: user + nice,
            system,
            irq: irq + softirq,
            idle: idle + iowait,
            steal,
            interrupts: number("intr")?,
            switches: number("ctxt")?,
            running: number("procs_running")?,
        })
    }
}

/// The host's activity between two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Activity {
    /// Time of the second sample, counted from the start of sampling.
    pub at: Duration,
    /// Parts of all CPUs' time: programs and guests, kernel, interrupts, idle, and what a host above took (units: %).
    pub cpu: [f64; 5],
    /// Threads that ran or were ready, at the second sample.
    pub running: u64,
    /// Switches (units: 1/s).
    pub switches: f64,
    /// Interrupts (units: 1/s).
    pub interrupts: f64,
}

impl Activity {
    /// The names of the columns that [`Display`](std::fmt::Display) writes.
    pub const HEADER: &str =
        "seconds,user_pct,system_pct,irq_pct,idle_pct,steal_pct,running,switches_per_s,interrupts_per_s";

    /// The activity between two samples; `None` if the clock of the CPU times did not tick in between.
    fn between(earlier: &(Duration, Counts), later: &(Duration, Counts)) -> Option<Self> {
        let (a, b) = (&earlier.1, &later.1);
        let times = [(a.user, b.user), (a.system, b.system), (a.irq, b.irq), (a.idle, b.idle), (a.steal, b.steal)];
        let times = times.map(|(a, b)| b.saturating_sub(a) as f64);
        let (all, seconds) = (times.iter().sum::<f64>(), later.0.saturating_sub(earlier.0).as_secs_f64());
        (all > 0.0 && seconds > 0.0).then(|| Self {
            at: later.0,
            cpu: times.map(|time| 100.0 * time / all),
            running: b.running,
            switches: b.switches.saturating_sub(a.switches) as f64 / seconds,
            interrupts: b.interrupts.saturating_sub(a.interrupts) as f64 / seconds,
        })
    }
}

impl std::fmt::Display for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3}", self.at.as_secs_f64())?;
        self.cpu.iter().try_for_each(|part| write!(f, ",{part:.1}"))?;
        write!(f, ",{},{:.0},{:.0}", self.running, self.switches, self.interrupts)
    }
}

/// Samples the host in a thread until [`finish`](Self::finish) or until it is dropped.
#[derive(Debug)]
pub struct Sampler {
    /// Dropping the sender ends the thread.
    over: Sender<()>,
    looks: JoinHandle<Vec<Activity>>,
}

impl Sampler {
    /// Starts to sample.
    pub fn start() -> std::io::Result<Self> {
        let (over, ended) = mpsc::channel::<()>();
        let begun = Instant::now();
        let look = move || Some((begun.elapsed(), Counts::parse(&HostRoot::default().text(STAT)?)?));
        let looks = move || {
            let (mut seen, mut last) = (Vec::new(), look());
            loop {
                let over = ended.recv_timeout(LOOK_EVERY) != Err(RecvTimeoutError::Timeout);
                let now = look();
                if let Some(activity) = last.as_ref().zip(now.as_ref()).and_then(|(a, b)| Activity::between(a, b)) {
                    seen.push(activity);
                    last = now;
                }
                if over {
                    return seen;
                }
            }
        };
        let looks = std::thread::Builder::new().name("host-activity".to_owned()).spawn(looks)?;
        Ok(Self { over, looks })
    }

    /// The samples up to now.
    pub fn finish(self) -> Vec<Activity> {
        drop(self.over);
        self.looks.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  100 20 300 4000 50 6 7 8 90 1\ncpu0 50 10 150 2000 25 3 3 4 45 0\n\
                        intr 12345 0 9 0\nctxt 67890\nbtime 1700000000\nprocesses 4242\nprocs_running 3\nprocs_blocked 0\n\
                        softirq 99 1 2\n";

    #[test]
    fn counts_are_the_hosts_and_not_a_cpus() {
        let counts = Counts::parse(STAT).unwrap();
        let expected = Counts {
            user: 120,
            system: 300,
            irq: 13,
            idle: 4050,
            steal: 8,
            interrupts: 12_345,
            switches: 67_890,
            running: 3,
        };
        assert_eq!(counts, expected);
    }

    #[test]
    fn counts_with_something_missing_are_none() {
        for missing in ["cpu ", "intr", "ctxt", "procs_running"] {
            assert_eq!(Counts::parse(&STAT.replacen(missing, "other", 1)), None, "{missing}");
        }
        assert_eq!(Counts::parse(&STAT.replacen("cpu  100 20 300 4000 50 6 7 8", "cpu  100 20", 1)), None);
        assert_eq!(Counts::parse(""), None);
    }

    #[test]
    fn activity_is_parts_of_the_time_and_rates() {
        let a = Counts::parse(STAT).unwrap();
        let b = Counts { user: 170, idle: 4090, steal: 18, interrupts: 12_845, switches: 68_090, running: 41, ..a };
        let at = Duration::from_millis;
        let activity = Activity::between(&(at(250), a), &(at(500), b)).unwrap();
        assert_eq!(activity.to_string(), "0.500,50.0,0.0,0.0,40.0,10.0,41,800,2000");
        assert_eq!(activity.to_string().split(',').count(), Activity::HEADER.split(',').count());
        assert_eq!(Activity::between(&(at(250), a), &(at(250), a)), None);
    }

    #[test]
    fn a_sampler_ends_when_it_is_asked() {
        let sampler = Sampler::start().unwrap();
        assert!(sampler.finish().len() <= 1);
    }
}
