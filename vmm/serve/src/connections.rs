//! Connections: how many there may be, and how long a client may take.
//!
//! A connection costs a descriptor and some memory. So their number has a bound, beyond which a client is told so and
//! hung up on. Those that may only read cannot take all of them. A client that sends its request slowly, or not at all,
//! is hung up on as well, and so is one that does not take its answer.

use crate::peer::Peer;
use axum::Router;
use axum::body::Body;
use axum::http::header;
use axum::response::Response;
use futures_util::StreamExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_io_timeout::TimeoutStream;
use tower::ServiceExt;

/// Most connections at a time, of all listeners together.
pub(crate) const MOST: usize = 512;
/// Of these, kept for clients that may change something: whoever runs the node must be able to confirm a change.
pub(crate) const RESERVED: usize = 32;
/// How long a client may take nothing of its answer that is on its way.
const TAKES_WITHIN: Duration = Duration::from_secs(60);
/// How long the head of a request may take to come. A connection that is kept alive may wait as long for the next one.
const HEAD_IN: Duration = Duration::from_secs(30);
/// How long a client that is hung up on has to take the last of its answer.
pub(crate) const HANG_UP_IN: Duration = Duration::from_secs(1);
/// How long the last events have to get on their way when the server ends.
const LAST_EVENTS_IN: Duration = Duration::from_millis(200);
/// What a client is told that comes when there are too many.
const FULL: &str = r#"{"reason":"conflict","message":"there are too many connections to this node","remedy":"close some, or try again later"}"#;

/// The connections of a server.
#[derive(Clone)]
pub(crate) struct Connections {
    router: Router,
    room: Arc<Semaphore>,
    /// Turns true when the server ends.
    ending: watch::Receiver<bool>,
}

impl Connections {
    pub(crate) fn new(router: Router, room: Arc<Semaphore>, ending: watch::Receiver<bool>) -> Self {
        Self { router, room, ending }
    }

    /// A place for a connection of this client, if there is one. All connections are taken on one thread.
    fn place(&self, peer: Peer) -> Option<OwnedSemaphorePermit> {
        let is_kept = self.room.available_permits() <= RESERVED && !peer.may_change();
        if is_kept { None } else { Arc::clone(&self.room).try_acquire_owned().ok() }
    }

    /// Takes a connection of this client.
    pub(crate) fn take<S>(&self, stream: S, peer: Peer)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(place) = self.place(peer) else {
            tokio::spawn(hang_up(stream));
            return;
        };
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(TAKES_WITHIN));
        let (router, mut ending, ends) = (self.router.clone(), self.ending.clone(), self.ending.clone());
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
                let mut request = request.map(Body::new);
                request.extensions_mut().insert(peer);
                let (router, ends) = (router.clone(), ends.clone());
                async move {
                    let answer = router.oneshot(request).await.unwrap_or_else(|never| match never {});
                    Ok::<_, Infallible>(until(ends, answer))
                }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_IN).half_close(false);
            let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(Box::pin(stream)), service));
            let ends = async { ending.wait_for(|ends| *ends).await.map(drop) };
            tokio::select! {
                // A client that hangs up in the midst of it has its own reasons.
                _ = connection.as_mut() => {}
                _ = ends => {
                    connection.as_mut().graceful_shutdown();
                    let _ = tokio::time::timeout(HANG_UP_IN, connection).await;
                }
            }
            drop(place);
        });
    }
}

/// Ends the answer when the server ends, if it would go on for good: a stream of events.
fn until(mut ends: watch::Receiver<bool>, answer: Response) -> Response {
    if answer.headers().get(header::CONTENT_TYPE).is_none_or(|kind| kind != "text/event-stream") {
        return answer;
    }
    let over = async move {
        let _ = ends.wait_for(|ends| *ends).await;
        tokio::time::sleep(LAST_EVENTS_IN).await;
    };
    answer.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(over))))
}

async fn hang_up<S: AsyncWrite + Unpin>(mut stream: S) {
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{FULL}",
        FULL.len()
    );
    let told = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await
    };
    // It was told as well as could be.
    let _ = tokio::time::timeout(HANG_UP_IN, told).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, DuplexStream};
    use tokio::time::Instant;

    /// Connections of which there may be so many, and what ends them.
    fn connections(most: usize) -> (Connections, watch::Sender<bool>) {
        let (ending, ends) = watch::channel(false);
        let router = Router::new().route("/", get(|| async { "here" }));
        (Connections::new(router, Arc::new(Semaphore::new(most)), ends), ending)
    }

    const OWNER: Peer = Peer::Process { uid: 0, pid: None };

    fn connect(connections: &Connections) -> DuplexStream {
        connect_as(OWNER, connections)
    }

    fn connect_as(peer: Peer, connections: &Connections) -> DuplexStream {
        let (client, server) = tokio::io::duplex(4096);
        connections.take(server, peer);
        client
    }

    async fn rest(mut client: DuplexStream) -> String {
        let mut text = String::new();
        client.read_to_string(&mut text).await.expect("it is text");
        text
    }

    // Time is that of the test: it goes on once all tasks wait.
    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_nothing_is_hung_up_on() {
        let (connections, _ending) = connections(1);
        let began = Instant::now();
        rest(connect(&connections)).await;
        assert!(began.elapsed() >= HEAD_IN && began.elapsed() < 2 * HEAD_IN, "{:?}", began.elapsed());
        // Its place is free again.
        let mut next = connect(&connections);
        next.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        assert!(rest(next).await.ends_with("here"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_a_byte_now_and_then_is_hung_up_on_as_well() {
        let (connections, _ending) = connections(1);
        let began = Instant::now();
        let mut client = connect(&connections);
        for byte in b"GET / HTTP/1.1\r\nhost: a\r\n".iter().cycle() {
            tokio::time::sleep(HEAD_IN / 8).await;
            if client.write_all(&[*byte]).await.is_err() {
                break;
            }
            assert!(began.elapsed() < 2 * HEAD_IN);
        }
        assert!(began.elapsed() >= HEAD_IN, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_too_many_is_told_so() {
        let (connections, _ending) = connections(1);
        let _first = connect(&connections);
        let answer = rest(connect(&connections)).await;
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.ends_with(FULL), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_may_only_read_leave_room_for_those_that_may_change_something() {
        let (connections, _ending) = connections(RESERVED + 1);
        let _reader = connect_as(Peer::Loopback, &connections);
        let answer = rest(connect_as(Peer::Loopback, &connections)).await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        let mut owner = connect(&connections);
        owner.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
        assert!(rest(owner).await.ends_with("here"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_take_its_answer_is_hung_up_on() {
        let (_ending, ends) = watch::channel(false);
        let router = Router::new().route("/", get(|| async { "x".repeat(1 << 20) }));
        let connections = Connections::new(router, Arc::new(Semaphore::new(1)), ends);
        let mut client = connect(&connections);
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        tokio::time::sleep(TAKES_WITHIN + Duration::from_secs(1)).await;
        // What was on its way is there, and nothing more.
        assert!(rest(client).await.len() <= 4096);
        assert_eq!(connections.room.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_of_events_gets_the_last_ones_and_a_whole_answer() {
        let (ending, ends) = watch::channel(false);
        let (events, _) = tokio::sync::broadcast::channel::<&str>(4);
        let source = events.clone();
        let stream = move || {
            let stream = futures_util::stream::unfold(source.subscribe(), |mut events| async move {
                let event = events.recv().await.ok()?;
                Some((Ok::<_, Infallible>(event), events))
            });
            async { ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(stream)) }
        };
        let router = Router::new().route("/", get(stream));
        let connections = Connections::new(router, Arc::new(Semaphore::new(1)), ends);
        let mut client = connect(&connections);
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        while events.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
        ending.send_replace(true);
        events.send("the last one").unwrap();
        let answer = rest(client).await;
        assert!(answer.contains("the last one") && answer.ends_with("\r\n0\r\n\r\n"), "{answer}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_ends_hangs_up_on_those_that_wait() {
        let (connections, ending) = connections(1);
        let (client, began) = (connect(&connections), Instant::now());
        ending.send_replace(true);
        rest(client).await;
        assert!(began.elapsed() <= HANG_UP_IN);
    }
}
