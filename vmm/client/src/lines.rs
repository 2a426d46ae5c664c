//! Answers that go on: bytes, and server-sent events (HTML standard, section 9.2).

use crate::{Client, ClientError};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::time::Duration;

/// Pieces of an answer, as they come.
pub struct Bytes {
    client: Client,
    body: Incoming,
}

impl Bytes {
    pub(crate) fn of(client: Client, body: Incoming) -> Self {
        Self { client, body }
    }

    /// The next piece, if one comes within this time. `None`: the answer has ended.
    pub fn next_within(&mut self, limit: Duration) -> Option<Result<Vec<u8>, ClientError>> {
        let body = &mut self.body;
        self.client.runtime.block_on(async {
            match tokio::time::timeout(limit, body.frame()).await {
                Err(_) => Some(Ok(Vec::new())),
                Ok(None) => None,
                Ok(Some(Ok(frame))) => Some(Ok(frame.into_data().map(|data| data.to_vec()).unwrap_or_default())),
                Ok(Some(Err(e))) => Some(Err(self.client.broken(e))),
            }
        })
    }
}

impl Iterator for Bytes {
    type Item = Result<Vec<u8>, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        let body = &mut self.body;
        let frame = self.client.runtime.block_on(body.frame())?;
        Some(match frame {
            Ok(frame) => Ok(frame.into_data().map(|data| data.to_vec()).unwrap_or_default()),
            Err(e) => Err(self.client.broken(e)),
        })
    }
}

/// The data of server-sent events.
pub struct Events<T> {
    bytes: Bytes,
    parser: Parser,
    kind: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Events<T> {
    pub(crate) fn of(bytes: Bytes) -> Self {
        Self { bytes, parser: Parser::default(), kind: PhantomData }
    }

    /// The next event, if one comes within about this time. `None`: there are no more.
    pub fn next_within(&mut self, limit: Duration) -> Option<Result<Option<T>, ClientError>> {
        if let Some(data) = self.parser.next() {
            return Some(self.parsed(&data).map(Some));
        }
        match self.bytes.next_within(limit)? {
            Ok(piece) => self.parser.take(&piece),
            Err(e) => return Some(Err(e)),
        }
        let data = self.parser.next();
        Some(data.map(|data| self.parsed(&data)).transpose())
    }

    fn parsed(&self, data: &str) -> Result<T, ClientError> {
        serde_json::from_str(data).map_err(|e| self.bytes.client.broken(e))
    }
}

impl<T: DeserializeOwned> Iterator for Events<T> {
    type Item = Result<T, ClientError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(data) = self.parser.next() {
                return Some(self.parsed(&data));
            }
            match self.bytes.next()? {
                Ok(piece) => self.parser.take(&piece),
                Err(e) => return Some(Err(e)),
            }
        }
    }
}

/// Finds the data of events in text that comes in pieces.
#[derive(Debug, Default)]
struct Parser {
    text: Vec<u8>,
    data: Vec<String>,
}

impl Parser {
    fn take(&mut self, piece: &[u8]) {
        self.text.extend_from_slice(piece);
    }

    /// The data of the next complete event.
    fn next(&mut self) -> Option<String> {
        while let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.text.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            match line.strip_prefix("data:") {
                Some(data) => self.data.push(data.strip_prefix(' ').unwrap_or(data).to_owned()),
                None if line.is_empty() && !self.data.is_empty() => {
                    return Some(std::mem::take(&mut self.data).join("\n"));
                }
                // Names of events, and comments that keep the connection alive.
                None => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_of_events_is_found_in_text_that_comes_in_pieces() {
        let mut parser = Parser::default();
        let mut found = Vec::new();
        for piece in [": hello\n\nevent: fra", "me\ndata: {\"a\"", ":1}\n", "\ndata: x\r\ndata:y\r\n\r\n:\n\n"] {
            parser.take(piece.as_bytes());
            found.extend(std::iter::from_fn(|| parser.next()));
        }
        assert_eq!(found, ["{\"a\":1}", "x\ny"]);
    }
}
