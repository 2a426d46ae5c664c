//! The threads that wait for a node.
//!
//! One thread receives frames, and connects anew after an error. The other gives orders, one after the other. Both end
//! when the [`Link`] is dropped and the call that they are in has returned; nobody waits for that.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use stile_api::{Frame, Problem, Reason};

use super::node::{Frames, Node, Order};

/// Pause before another attempt to connect. A person notices no delay, and the node has little to do with refusals.
const RETRY: Duration = Duration::from_secs(1);
/// Longest wait for a frame before the thread looks whether it should end.
const LOOK: Duration = Duration::from_millis(500);
/// Intervals without a frame after which a connection counts as lost.
const SILENT_INTERVALS: u32 = 5;
/// Orders that may wait for the node. A user who orders more than that is told so.
const ORDERS_MAX: usize = 32;
/// News that may wait for the screen; then the threads wait, as while the program is stopped by Ctrl-Z.
const NEWS_MAX: usize = 64;

/// What a node tells.
#[derive(Debug)]
pub(crate) enum News {
    /// Figures.
    Frame(Box<Frame>),
    /// There is no connection. Another attempt follows.
    Lost(Problem),
    /// The answer to an order.
    Answered(Order, Result<(), Problem>),
}

/// The way to a node and back.
pub(crate) struct Link {
    news: Receiver<News>,
    orders: SyncSender<Order>,
    /// Dropped to end the thread that receives frames.
    _open: Sender<Infallible>,
}

impl Link {
    /// Starts both threads.
    pub(crate) fn start(node: impl Node, interval: Duration) -> io::Result<Self> {
        Self::start_with(node, interval, RETRY)
    }

    fn start_with(node: impl Node, interval: Duration, retry: Duration) -> io::Result<Self> {
        let node = Arc::new(node);
        let (tell, news) = sync_channel(NEWS_MAX);
        let (orders, ordered) = sync_channel(ORDERS_MAX);
        let (open, end) = channel();
        let receiver = Reception { node: Arc::clone(&node), interval, retry, tell: tell.clone(), end };
        thread::Builder::new().name("frames".into()).spawn(move || receiver.run())?;
        thread::Builder::new().name("orders".into()).spawn(move || give(&*node, &ordered, &tell))?;
        Ok(Self { news, orders, _open: open })
    }

    /// Hands an order over; `false` if too many wait.
    pub(crate) fn order(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
    }

    /// The news that have come since the last call.
    pub(crate) fn news(&self) -> impl Iterator<Item = News> {
        self.news.try_iter()
    }
}

/// Gives orders until no more can come.
fn give(node: &impl Node, ordered: &Receiver<Order>, tell: &SyncSender<News>) {
    for order in ordered {
        let answer = order.give(node);
        if tell.send(News::Answered(order, answer)).is_err() {
            return;
        }
    }
}

/// The thread that receives frames.
struct Reception<N> {
    node: Arc<N>,
    interval: Duration,
    retry: Duration,
    tell: SyncSender<News>,
    end: Receiver<Infallible>,
}

impl<N: Node> Reception<N> {
    fn run(self) {
        while self.is_open() {
            let ended = self.node.frames(self.interval).and_then(|mut frames| self.receive(&mut *frames));
            let Err(problem) = ended else { return };
            if self.tell.send(News::Lost(problem)).is_err() {
                return;
            }
            if self.end.recv_timeout(self.retry) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Passes frames on until the link is closed, or with the reason for which there are no more.
    fn receive(&self, frames: &mut dyn Frames) -> Result<(), Problem> {
        let patience = self.interval * SILENT_INTERVALS;
        let mut last = Instant::now();
        while self.is_open() {
            match frames.next(LOOK)? {
                Some(frame) => {
                    last = Instant::now();
                    if self.tell.send(News::Frame(Box::new(frame))).is_err() {
                        return Ok(());
                    }
                }
                None if last.elapsed() > patience => {
                    return Err(Problem::new(Reason::TimedOut, format!("no figures for {} s", patience.as_secs())));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.end.try_recv() == Err(TryRecvError::Empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use stile_api::{DomainFigures, SchedulingRequest};

    /// Much more than any of this takes.
    const LIMIT: Duration = Duration::from_secs(20);

    const INTERVAL: Duration = Duration::from_secs(1);

    /// A node that gives one frame each time and then breaks the connection.
    #[derive(Default)]
    struct Short {
        connections: Arc<Mutex<Vec<Duration>>>,
    }

    struct One(bool);

    impl Node for Short {
        fn frames(&self, interval: Duration) -> Result<Box<dyn Frames>, Problem> {
            self.connections.lock().expect("no test panics with it").push(interval);
            Ok(Box::new(One(false)))
        }

        fn pause(&self, vm: &str) -> Result<(), Problem> {
            Err(Problem::new(Reason::NotFound, format!("there is no {vm}")))
        }

        fn resume(&self, _: &str) -> Result<(), Problem> {
            Ok(())
        }

        fn schedule(&self, _: &str, request: &SchedulingRequest) -> Result<(), Problem> {
            Err(Problem::new(Reason::Invalid, format!("{:?}", request.nice)))
        }
    }

    impl Frames for One {
        fn next(&mut self, _: Duration) -> Result<Option<Frame>, Problem> {
            if std::mem::replace(&mut self.0, true) {
                return Err(Problem::new(Reason::Internal, "closed"));
            }
            let domain = DomainFigures::default();
            Ok(Some(Frame { at: 0.0, seconds: None, policy: "rsdl".into(), pcpus: vec![], domain, vms: vec![] }))
        }
    }

    fn next(link: &Link) -> News {
        link.news.recv_timeout(LIMIT).expect("there are news")
    }

    #[test]
    fn a_broken_connection_is_told_and_made_anew() {
        let node = Short::default();
        let connections = Arc::clone(&node.connections);
        let link = Link::start_with(node, INTERVAL, Duration::ZERO).expect("threads can be started");
        for _ in 0..2 {
            assert!(matches!(next(&link), News::Frame(frame) if frame.policy == "rsdl"));
            assert!(matches!(next(&link), News::Lost(problem) if problem.message == "closed"));
        }
        let connections = connections.lock().expect("as above");
        assert!(connections.len() >= 2 && connections.iter().all(|interval| *interval == INTERVAL), "{connections:?}");
    }

    #[test]
    fn orders_reach_the_node_in_order_and_their_answers_come_back() {
        let link = Link::start_with(Short::default(), INTERVAL, Duration::ZERO).expect("threads can be started");
        let vm = "web".to_owned();
        let request = SchedulingRequest { nice: Some(3), ..SchedulingRequest::default() };
        let orders =
            [Order::Pause { vm: vm.clone() }, Order::Resume { vm: vm.clone() }, Order::Schedule { vm, request }];
        assert!(orders.iter().all(|order| link.order(order.clone())));
        let mut answers = Vec::new();
        while answers.len() < orders.len() {
            if let News::Answered(order, answer) = next(&link) {
                answers.push((order, answer.map_err(|problem| problem.message)));
            }
        }
        let expected = [Err("there is no web".to_owned()), Ok(()), Err("Some(3)".to_owned())];
        assert_eq!(answers, orders.into_iter().zip(expected).collect::<Vec<_>>());
    }

    #[test]
    fn both_threads_end_with_the_link() {
        let node = Short::default();
        let alive = Arc::downgrade(&node.connections);
        let link = Link::start_with(node, INTERVAL, Duration::ZERO).expect("threads can be started");
        assert!(matches!(next(&link), News::Frame(_)));
        drop(link);
        let started = Instant::now();
        while alive.strong_count() > 0 {
            assert!(started.elapsed() < LIMIT, "a thread holds the node");
            thread::yield_now();
        }
    }
}
