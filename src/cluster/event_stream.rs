//! The events of a watch, read as they arrive.

use super::cause::{Cause, Silent};
use super::codec;
use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use kube::client::Body;
use std::time::Duration;
use tokio::time::timeout;

/// Data that has arrived is handed on in one batch, but never more than about this many bytes.
const GULP: usize = 256 << 10;

/// The events of a watch, not yet parsed.
pub(super) struct EventStream {
    body: Body,
    buffer: BytesMut,
    ended: bool,
}

impl EventStream {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            buffer: BytesMut::new(),
            ended: false,
        }
    }

    /// Returns the whole events that have arrived, or none at the end. `silence` is how long nothing may arrive.
    pub(super) async fn next(&mut self, silence: Duration) -> Result<Option<Bytes>, Cause> {
        while !self.ended {
            let frame = timeout(silence, self.body.frame())
                .await
                .map_err(|_| Silent(silence))?;
            self.ended = !take_frame(frame, &mut self.buffer)?;
            // Take along all data that has arrived already.
            if let Some(events) = self.arrived()? {
                return Ok(Some(events));
            }
        }
        // A last event without its end was cut off; it comes again.
        Ok(None)
    }

    /// Returns the whole events that have arrived already, if there are any.
    pub(super) fn arrived(&mut self) -> Result<Option<Bytes>, Cause> {
        while !self.ended && self.buffer.len() < GULP {
            let Some(frame) = self.body.frame().now_or_never() else {
                break;
            };
            self.ended = !take_frame(frame, &mut self.buffer)?;
        }
        let whole = codec::whole_events(&self.buffer).map_err(|error| Cause::Malformed(error.to_string()))?;
        Ok((whole > 0).then(|| self.buffer.split_to(whole).freeze()))
    }
}

/// Adds a frame's data to the buffer. Returns false at the end of the stream.
fn take_frame(
    frame: Option<Result<http_body::Frame<Bytes>, kube::Error>>,
    buffer: &mut BytesMut,
) -> Result<bool, Cause> {
    match frame {
        None => Ok(false),
        Some(frame) => {
            if let Ok(data) = frame?.into_data() {
                buffer.extend_from_slice(&data);
            }
            Ok(true)
        }
    }
}
