//! The thread that does what comes due by itself: it buries VMs that have ended, and takes changes back. A second one
//! frees the machines of ended VMs, for which KVM may take long.

use crate::make::Machine;
use crate::node::Node;
use parking_lot::Mutex;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use stile_jail::Kind;
use stile_sched::domain::watchdog::Starvation;

/// What comes due.
#[derive(Debug, Clone)]
pub(crate) enum Message {
    /// The VM of this name has ended.
    Ended(String),
    /// A change goes back, unless it was confirmed.
    TakeBack {
        /// Its number.
        change: u64,
        /// Why, for the log.
        why: &'static str,
    },
    /// The watchdog has found a vCPU that waits too long.
    Starved {
        /// How many handovers came before the domain in which it waits.
        handovers: u64,
        /// What it has found.
        starvation: Box<Starvation>,
    },
}

/// The way to the thread.
#[derive(Clone)]
pub(crate) struct Mail(Sender<(Instant, Message)>);

/// The ways to both threads, for those who share a node.
pub(crate) struct Keeper {
    mail: Mutex<Mail>,
    ended: Mutex<Sender<Arc<Machine>>>,
}

/// The other ends.
pub(crate) struct Inbox {
    mail: Receiver<(Instant, Message)>,
    ended: Receiver<Arc<Machine>>,
}

impl Mail {
    /// Has the thread see to this. Waits for nothing.
    pub(crate) fn send(&self, message: Message) {
        self.send_later(message, Duration::ZERO);
    }

    /// Has the thread see to this after some time.
    pub(crate) fn send_later(&self, message: Message, after: Duration) {
        // A node that is gone has nothing to see to.
        let _ = self.0.send((Instant::now() + after, message));
    }
}

impl Keeper {
    /// The ways to threads that are not started yet, and their other ends.
    pub(crate) fn new() -> (Self, Inbox) {
        let (mail_sender, mail) = mpsc::channel();
        let (ended_sender, ended) = mpsc::channel();
        let keeper = Self { mail: Mutex::new(Mail(mail_sender)), ended: Mutex::new(ended_sender) };
        (keeper, Inbox { mail, ended })
    }

    /// Has the machine of a VM that has ended freed. Waits for nothing.
    pub(crate) fn free(&self, machine: Arc<Machine>) {
        // A node that is gone has no thread for it, and it is freed here.
        let _ = self.ended.lock().send(machine);
    }

    /// A way of one's own.
    pub(crate) fn mail(&self) -> Mail {
        self.mail.lock().clone()
    }
}

/// Starts the threads. They end with the node.
pub(crate) fn start(node: &Arc<Node>, inbox: Inbox) -> io::Result<()> {
    let Inbox { mail, ended } = inbox;
    let node = Arc::downgrade(node);
    thread("keeper", move || keep(&node, &mail))?;
    thread("freer", move || ended.iter().for_each(drop))
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        stile_jail::narrow(Kind::Control);
        work();
    })?;
    Ok(())
}

fn keep(node: &Weak<Node>, mail: &Receiver<(Instant, Message)>) {
    let mut due: Vec<(Instant, Message)> = Vec::new();
    loop {
        let next = due.iter().map(|(at, _)| *at).min();
        let came = match next {
            None => mail.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(at) => mail.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match came {
            Ok(message) => due.push(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        let (ripe, later) = due.into_iter().partition(|(at, _)| *at <= now);
        due = later;
        for (_, message) in ripe {
            let Some(node) = node.upgrade() else { return };
            see_to(&node, message);
        }
    }
}

fn see_to(node: &Node, message: Message) {
    match message {
        Message::Ended(vm) => node.bury(&vm),
        Message::TakeBack { change, why } => node.take_back(change, why),
        Message::Starved { handovers, starvation } => node.starved(handovers, &starvation),
    }
}
