//! The events of a watch, read as they arrive.

use crate::cluster::cause::Cause;
use crate::cluster::codec::{self, Malformed};
use crate::cluster::silence::Silent;
use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt as _;
use kube::client::Body;
use std::time::Duration;
use tokio::time::timeout;

/// Data that has arrived is handed on at once, but never more than about this many bytes.
const GULP: usize = 256 << 10;

/// The events of a watch, not yet parsed.
pub(in crate::cluster) struct EventStream<B = Body> {
    body: B,
    /// Returns the length of the whole events that some data begin with.
    whole: fn(&[u8]) -> Result<usize, Malformed>,
    arrived: Arrived,
    ended: bool,
}

/// Data that has arrived and was not handed on. Usually that is one piece with whole events, which is handed on as it
/// came, without a copy.
enum Arrived {
    One(Bytes),
    Several(BytesMut),
}

impl<B: HttpBody<Data = Bytes, Error = kube::Error> + Unpin> EventStream<B> {
    pub(in crate::cluster) fn new(body: B) -> Self {
        Self::split(body, codec::whole_events)
    }

    /// Returns the events of a watch in another encoding, by what finds their ends.
    pub(in crate::cluster) fn split(body: B, whole: fn(&[u8]) -> Result<usize, Malformed>) -> Self {
        Self {
            body,
            whole,
            arrived: Arrived::One(Bytes::new()),
            ended: false,
        }
    }

    /// Returns the whole events that have arrived, or none at the end. `silence` is how long nothing may arrive.
    pub(in crate::cluster) async fn next(&mut self, silence: Duration) -> Result<Option<Bytes>, Cause> {
        while !self.ended {
            let frame = timeout(silence, self.body.frame())
                .await
                .map_err(|_| Silent(silence))?;
            self.take_frame(frame)?;
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
        while !self.ended && self.arrived.data().len() < GULP {
            let Some(frame) = self.body.frame().now_or_never() else {
                break;
            };
            self.take_frame(frame)?;
        }
        let whole = (self.whole)(self.arrived.data());
        let whole = whole.map_err(|error| Cause::Malformed(error.to_string()))?;
        Ok((whole > 0).then(|| self.arrived.split(whole)))
    }

    /// Takes the data of a frame, or notes the end of the stream.
    fn take_frame(&mut self, frame: Option<Result<Frame<Bytes>, kube::Error>>) -> Result<(), Cause> {
        match frame {
            None => self.ended = true,
            Some(frame) => {
                if let Ok(data) = frame?.into_data() {
                    self.arrived.add(data);
                }
            }
        }
        Ok(())
    }
}

impl Arrived {
    fn data(&self) -> &[u8] {
        match self {
            Self::One(data) => data,
            Self::Several(data) => data,
        }
    }

    fn add(&mut self, more: Bytes) {
        match self {
            Self::One(data) if data.is_empty() => *data = more,
            Self::One(data) => {
                let mut both = BytesMut::with_capacity(data.len() + more.len());
                both.extend_from_slice(data);
                both.extend_from_slice(&more);
                *self = Self::Several(both);
            }
            Self::Several(data) => data.extend_from_slice(&more),
        }
    }

    /// Splits off the first bytes.
    fn split(&mut self, at: usize) -> Bytes {
        let first = match self {
            Self::One(data) => data.split_to(at),
            Self::Several(data) => data.split_to(at).freeze(),
        };
        *self = match self.data() {
            [] => Self::One(Bytes::new()),
            // The rest of a piece would keep all of it in memory until the event's end has come.
            rest => Self::Several(rest.into()),
        };
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream::iter;
    use http_body_util::StreamBody;

    /// Events of several sizes, and one that is cut off.
    fn events() -> Vec<u8> {
        let mut data = Vec::new();
        for size in [0, 3, 200, 9000, 40, 5, 5000, 1_u32] {
            data.extend_from_slice(&size.to_be_bytes());
            data.resize(data.len() + size as usize, b'x');
        }
        data
    }

    #[tokio::test]
    async fn whole_events_come_out_however_they_are_cut() {
        let (whole, cut) = (events(), b"\0\0\x01\0xx");
        let sent = [&whole[..], cut].concat();
        for size in [1, 2, 7, 63, 64, 300, 4096, 100_000] {
            let frames: Vec<_> = sent
                .chunks(size)
                .flat_map(|chunk| [Bytes::new(), Bytes::copy_from_slice(chunk)])
                .map(|data| Ok::<_, kube::Error>(Frame::data(data)))
                .collect();
            let mut stream = EventStream::new(StreamBody::new(iter(frames)));
            let mut came = Vec::new();
            while let Some(events) = stream.next(Duration::from_secs(1)).await.unwrap() {
                let length = codec::whole_events(&events);
                assert_eq!(length, Ok(events.len()), "in pieces of {size}");
                came.extend_from_slice(&events);
            }
            assert!(
                came == whole,
                "in pieces of {size}: {} of {}",
                came.len(),
                whole.len()
            );
        }
    }

    #[test]
    fn what_is_left_of_a_piece_is_joined_with_the_next() {
        let mut arrived = Arrived::One(Bytes::new());
        let mut came = Vec::new();
        for piece in ["ab", "", "cdef", "g", "hijklm", "n"] {
            arrived.add(Bytes::from_static(piece.as_bytes()));
            let whole = arrived.data().len() / 3 * 3;
            came.extend_from_slice(&arrived.split(whole));
        }
        assert_eq!((&came[..], arrived.data()), (&b"abcdefghijkl"[..], &b"mn"[..]));
    }
}
