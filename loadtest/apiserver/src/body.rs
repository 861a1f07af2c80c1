//! Bodies of responses.

use bytes::Bytes;
use futures::{Stream, StreamExt};
use http_body::{Body, Frame, SizeHint};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

pub(crate) type Pieces = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

/// The body of a response: one piece, or pieces made as they are asked for (long lists, watches). Its only errors are
/// the lost connections of a [`crate::FaultPlan`].
pub struct ResponseBody(Inner);

enum Inner {
    Whole(Option<Bytes>),
    Stream(Pieces, SizeHint),
    Watch(Pieces),
}

// === impl ResponseBody ===

impl ResponseBody {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Self(Inner::Whole(Some(bytes.into())))
    }

    pub(crate) fn stream(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::sized(Box::pin(chunks.map(Ok)), SizeHint::default())
    }

    /// A stream whose head promises a length.
    pub(crate) fn sized(pieces: Pieces, hint: SizeHint) -> Self {
        Self(Inner::Stream(pieces, hint))
    }

    pub(crate) fn watch(events: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self(Inner::Watch(Box::pin(events)))
    }

    pub(crate) fn is_watch(&self) -> bool {
        matches!(self.0, Inner::Watch(_))
    }

    /// Puts something between a watch and its reader. Other bodies stay as they are.
    #[must_use]
    pub(crate) fn wrap_watch(self, with: impl FnOnce(Pieces) -> Pieces) -> Self {
        match self.0 {
            Inner::Watch(pieces) => Self(Inner::Watch(with(pieces))),
            other => Self(other),
        }
    }
}

impl std::fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ResponseBody")
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match &mut self.get_mut().0 {
            Inner::Whole(bytes) => Poll::Ready(bytes.take().map(Ok)),
            Inner::Stream(pieces, _) | Inner::Watch(pieces) => pieces.as_mut().poll_next(cx),
        };
        piece.map(|p| p.map(|p| p.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Inner::Stream(_, hint) => *hint,
            Inner::Watch(_) => SizeHint::default(),
        }
    }
}
