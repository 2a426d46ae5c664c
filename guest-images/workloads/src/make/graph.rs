//! The jobs of a build, what each needs, and which may begin. Pure.
//!
//! One job makes the headers; all compilations need them. Eight compilations make an archive, and one link of all
//! archives ends the build, as in the tree of a kernel.

/// Compilations in an archive.
const ARCHIVE: usize = 8;
/// Most jobs of a build.
pub const JOBS_MAX: usize = 2048;
/// The job that all compilations need.
const HEADERS: usize = 0;

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not begun.
    Waiting,
    /// Begun.
    Running,
    /// Ended.
    Done,
}

/// The jobs of a build, numbered from 0 in an order in which no job needs a later one: headers, compilations, archives,
/// link.
#[derive(Debug, Clone, Copy)]
pub struct Graph {
    compilations: usize,
}

impl Graph {
    /// Most compilations.
    pub const MOST: usize = (JOBS_MAX - 2) / (ARCHIVE + 1) * ARCHIVE;

    /// A build of so many compilations; `None` if there are none or too many.
    pub fn new(compilations: usize) -> Option<Self> {
        (1..=Self::MOST).contains(&compilations).then_some(Self { compilations })
    }

    fn archives(self) -> usize {
        self.compilations.div_ceil(ARCHIVE)
    }

    /// The link, which needs all others.
    pub fn last(self) -> usize {
        self.compilations + self.archives() + 1
    }

    /// Whether a job compiles.
    pub fn is_compilation(self, job: usize) -> bool {
        job > HEADERS && job <= self.compilations
    }

    /// The jobs that must be done before this one.
    pub fn needs(self, job: usize) -> core::ops::Range<usize> {
        let first_archive = self.compilations + 1;
        match job {
            HEADERS => 0..0,
            _ if self.is_compilation(job) => HEADERS..HEADERS + 1,
            _ if job == self.last() => first_archive..self.last(),
            _ => {
                let first = 1 + (job - first_archive) * ARCHIVE;
                first..(first + ARCHIVE).min(first_archive)
            }
        }
    }

    /// The first job that can begin and has not.
    pub fn ready(self, state: impl Fn(usize) -> State) -> Option<usize> {
        let done = |job| state(job) == State::Done;
        (0..=self.last()).find(|&job| state(job) == State::Waiting && self.needs(job).all(done))
    }

    /// Pieces of work in a job. Compilations differ as sources do, an archive is short, the link is longest.
    pub fn pieces(self, job: usize) -> u32 {
        match job {
            HEADERS => 16,
            _ if self.is_compilation(job) => 12 + (job as u32).wrapping_mul(0x9e37_79b9) % 41,
            _ if job == self.last() => 64,
            _ => 4,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    /// The order in which a single worker does all jobs.
    fn alone(graph: Graph) -> Vec<usize> {
        let mut states = vec![State::Waiting; graph.last() + 1];
        let mut order = Vec::new();
        while let Some(job) = graph.ready(|job| states[job]) {
            states[job] = State::Done;
            order.push(job);
        }
        order
    }

    #[test]
    fn every_job_is_done_once_and_after_what_it_needs_whatever_the_size() {
        for compilations in [1, 7, 8, 9, 64, Graph::MOST] {
            let graph = Graph::new(compilations).unwrap();
            assert!(graph.last() < JOBS_MAX);
            let order = alone(graph);
            assert_eq!(order.len(), graph.last() + 1, "{compilations} compilations");
            for (place, &job) in order.iter().enumerate() {
                assert!(graph.needs(job).all(|need| order[..place].contains(&need)), "{compilations}: job {job}");
            }
        }
    }

    #[test]
    fn the_link_needs_everything_directly_or_not() {
        let graph = Graph::new(20).unwrap();
        let mut needed = vec![false; graph.last() + 1];
        needed[graph.last()] = true;
        for job in (0..=graph.last()).rev() {
            assert!(needed[job], "nobody needs job {job}");
            graph.needs(job).for_each(|need| needed[need] = true);
        }
    }

    #[test]
    fn nothing_begins_while_what_it_needs_still_runs() {
        let graph = Graph::new(3).unwrap();
        assert_eq!(graph.ready(|_| State::Waiting), Some(0));
        assert_eq!(graph.ready(|job| if job == 0 { State::Running } else { State::Waiting }), None);
        assert_eq!(graph.ready(|job| if job == 0 { State::Done } else { State::Waiting }), Some(1));
    }

    #[test]
    fn sizes_that_cannot_be_built_are_refused() {
        assert!(Graph::new(0).is_none());
        assert!(Graph::new(Graph::MOST + 1).is_none());
    }
}
