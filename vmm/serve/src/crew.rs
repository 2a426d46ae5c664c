//! Threads that do what may wait, so that the thread that answers requests never does.
//!
//! They are started before that thread gives its rights up, since a thread has no more rights than the one that starts
//! it.

use crate::answer::Refused;
use crate::large;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use stile_api::{Problem, Reason};
use stile_jail::Kind;
use stile_node::Node;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Threads for what only looks, which takes no longer than locks are held.
const LOOKERS: usize = 4;
/// Threads for what changes something, which may wait for a guest. As many requests are carried out at a time.
const DOERS: usize = 32;
/// Threads for what waits for a guest to switch itself off, which takes as long as a client says.
const ENDERS: usize = 32;
/// Threads for what decides on a change, which has to come in time whatever all others wait for.
const DECIDERS: usize = 1;
/// Stack of such a thread (units: bytes).
const STACK: usize = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// The node, and the threads that work at it.
#[derive(Clone)]
pub(crate) struct Crew {
    node: Arc<Node>,
    look: Sender<Job>,
    work: Sender<Job>,
    end: Sender<Job>,
    decide: Sender<Job>,
    large: Arc<Semaphore>,
}

impl Crew {
    /// Starts the threads. They end when the last clone is dropped.
    pub(crate) fn start(node: Arc<Node>) -> io::Result<Self> {
        Ok(Self {
            node,
            look: threads("api look", LOOKERS)?,
            work: threads("api work", DOERS)?,
            end: threads("api end", ENDERS)?,
            decide: threads("api decide", DECIDERS)?,
            large: Arc::new(Semaphore::new(large::MOST)),
        })
    }

    /// The node.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Waits for a place for a large answer.
    pub(crate) async fn place(&self) -> Result<OwnedSemaphorePermit, Refused> {
        let ends = |_| Problem::new(Reason::Internal, "the node ends").into();
        Arc::clone(&self.large).acquire_owned().await.map_err(ends)
    }

    /// Looks at the node, unless the client has gone by then.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Node) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Refused> {
        let (done, answer) = oneshot::channel();
        let node = Arc::clone(&self.node);
        have_done(&self.look, unless_gone(done, move || look(&node)), answer).await
    }

    /// Does this at the node. It is done also if the client does not wait for it.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Node) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Refused> {
        self.do_by(&self.work, work).await
    }

    /// As [`Crew::work`], for what ends a guest in its own time.
    pub(crate) async fn end<T: Send + 'static>(
        &self,
        end: impl FnOnce(&Node) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Refused> {
        self.do_by(&self.end, end).await
    }

    /// As [`Crew::work`], for a decision on a change that waits for it.
    pub(crate) async fn decide<T: Send + 'static>(
        &self,
        decide: impl FnOnce(&Node) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Refused> {
        self.do_by(&self.decide, decide).await
    }

    async fn do_by<T: Send + 'static>(
        &self,
        threads: &Sender<Job>,
        work: impl FnOnce(&Node) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Refused> {
        let (done, answer) = oneshot::channel();
        let node = Arc::clone(&self.node);
        let job = move || {
            // A client that has gone needs no answer.
            let _ = done.send(work(&node));
        };
        have_done(threads, Box::new(job), answer).await
    }
}

/// Looks for a client that waits. Clients that come and go would have these threads work for nobody.
fn unless_gone<T: Send + 'static>(done: oneshot::Sender<T>, look: impl FnOnce() -> T + Send + 'static) -> Job {
    Box::new(move || {
        if !done.is_closed() {
            let _ = done.send(look());
        }
    })
}

async fn have_done<T>(
    threads: &Sender<Job>,
    job: Job,
    answer: oneshot::Receiver<Result<T, Problem>>,
) -> Result<T, Refused> {
    let lost = |_| Problem::new(Reason::Internal, "stile panicked; the node's log says where");
    if threads.send(job).is_err() {
        return Err(Problem::new(Reason::Internal, "the node ends").into());
    }
    answer.await.map_err(lost).flatten().map_err(Refused)
}

fn threads(name: &str, count: usize) -> io::Result<Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..count {
        let jobs = Arc::clone(&jobs);
        std::thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(move || {
            stile_jail::narrow(Kind::Node);
            while let Some(job) = next(&jobs) {
                // Unwind-safe: the node's locks are sound after a panic, or say that they are not.
                let _ = catch_unwind(AssertUnwindSafe(job));
            }
        })?;
    }
    Ok(sender)
}

fn next(jobs: &Mutex<Receiver<Job>>) -> Option<Job> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_looks_for_a_client_that_has_gone() {
        let (done, mut answer) = oneshot::channel();
        unless_gone(done, || 7)();
        assert_eq!(answer.try_recv(), Ok(7));
        let (done, answer) = oneshot::channel::<u8>();
        drop(answer);
        unless_gone(done, || unreachable!("nobody waits for it"))();
    }
}
