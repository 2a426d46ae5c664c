//! Threads that do what may wait, so that the thread that answers requests never does.
//!
//! They are started before that thread gives its rights up, since a thread has no more rights than the one that starts
//! it.

use crate::answer::Refused;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use stile_api::{Problem, Reason};
use stile_jail::Kind;
use stile_node::Node;
use tokio::sync::oneshot;

/// Threads for what only looks, which takes no longer than locks are held.
const LOOKERS: usize = 4;
/// Threads for what changes something, which may wait for a guest. As many requests are carried out at a time.
const DOERS: usize = 32;
/// Stack of such a thread (units: bytes).
const STACK: usize = 1 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// The node, and the threads that work at it.
#[derive(Clone)]
pub(crate) struct Crew {
    node: Arc<Node>,
    look: Sender<Job>,
    work: Sender<Job>,
}

impl Crew {
    /// Starts the threads. They end when the last clone is dropped.
    pub(crate) fn start(node: Arc<Node>) -> io::Result<Self> {
        Ok(Self { node, look: threads("api look", LOOKERS)?, work: threads("api work", DOERS)? })
    }

    /// The node.
    pub(crate) fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Looks at the node.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Node) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Refused> {
        self.have_done(&self.look, look).await
    }

    /// Does this at the node. It is done also if the client does not wait for it.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Node) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Refused> {
        self.have_done(&self.work, work).await
    }

    async fn have_done<T: Send + 'static>(
        &self,
        threads: &Sender<Job>,
        work: impl FnOnce(&Node) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Refused> {
        let (done, answer) = oneshot::channel();
        let node = Arc::clone(&self.node);
        let job = Box::new(move || {
            // A client that has gone needs no answer.
            let _ = done.send(work(&node));
        });
        let lost = |_| Problem::new(Reason::Internal, "stile panicked; the node's log says where");
        if threads.send(job).is_err() {
            return Err(Problem::new(Reason::Internal, "the node ends").into());
        }
        answer.await.map_err(lost).flatten().map_err(Refused)
    }
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
