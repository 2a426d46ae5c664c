//! `stile top`: the crate of that name, with a node over its socket.

use super::answer::{escaped, failed};
use super::args::TopArgs;
use crate::cli::failure::Failure;
use crate::cli::pipe;
use hyper::Method;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use stile_api::{Change, Frame, NodeInfo, Problem, Reason, SchedulingRequest, VmInfo};
use stile_client::{Client, ClientError, Events};
use stile_top::{Frames, Node, TopOptions};

pub(super) fn top(args: &TopArgs) -> Result<(), Failure> {
    let path = args.socket.clone().unwrap_or_else(stile_serve::default_path);
    // Before the terminal is taken over: a node that is not there is told as by all commands.
    let _: NodeInfo = Client::new(&path).map_err(Failure::run)?.get("/v1").map_err(failed)?;
    // A node that goes away is told on the screen.
    pipe::tell_when_closed(&Arc::default()).map_err(Failure::run)?;
    let options = TopOptions { interval: args.interval.duration(), color: !args.no_color };
    stile_top::run(OverSocket { path }, options).map_err(Failure::run)
}

/// A node over its socket, with a client for each request.
struct OverSocket {
    path: PathBuf,
}

impl OverSocket {
    fn client(&self) -> Result<Client, Problem> {
        Client::new(&self.path).map_err(|e| Problem::of(Reason::Internal, "no client", &e))
    }

    fn have<T: serde::de::DeserializeOwned>(
        &self,
        method: Method,
        target: &str,
        body: Option<&impl Serialize>,
    ) -> Result<(), Problem> {
        self.client()?.send::<T>(method, target, body).map(drop).map_err(problem)
    }
}

impl Node for OverSocket {
    fn frames(&self, interval: Duration) -> Result<Box<dyn Frames>, Problem> {
        let target = format!("/v1/frames?interval={}ms", interval.as_millis());
        Ok(Box::new(Received(self.client()?.events(&target).map_err(problem)?)))
    }

    fn pause(&self, vm: &str) -> Result<(), Problem> {
        self.have::<VmInfo>(Method::POST, &format!("/v1/vms/{}/pause", escaped(vm)), None::<&()>)
    }

    fn resume(&self, vm: &str) -> Result<(), Problem> {
        self.have::<VmInfo>(Method::POST, &format!("/v1/vms/{}/resume", escaped(vm)), None::<&()>)
    }

    fn schedule(&self, vm: &str, request: &SchedulingRequest) -> Result<(), Problem> {
        self.have::<Change>(Method::PATCH, &format!("/v1/vms/{}/scheduling", escaped(vm)), Some(request))
    }
}

struct Received(Events<Frame>);

impl Frames for Received {
    fn next(&mut self, limit: Duration) -> Result<Option<Frame>, Problem> {
        let ended = || Problem::new(Reason::TimedOut, "the node has ended the connection");
        self.0.next_within(limit).ok_or_else(ended)?.map_err(problem)
    }
}

fn problem(error: ClientError) -> Problem {
    match error {
        ClientError::Problem(problem) => problem,
        other => Problem::of(Reason::TimedOut, "no connection", &other),
    }
}
