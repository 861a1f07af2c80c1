//! Lists all objects of a kind: streamed as the beginning of a watch, or page by page where that fails.

use super::event_stream::EventStream;
use super::events::{Bookmark, take_events};
use super::handler::WatchHandler;
use super::reader::Reader;
use super::sources::{DeletedAt, Item};
use crate::cluster::cause::Cause;
use crate::cluster::codec::{self, Undecodable};
use crate::cluster::http::{self, Form};
use crate::cluster::pages::{self, ANSWER, PAGE};
use crate::core::namespace::Kind;

/// Ways to request a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Requests the list as the first events of a watch, which costs the server the least memory. Servers support it
    /// since 1.27 behind a feature gate, and by default since 1.34.
    Stream,
    /// Requests the list in pages.
    Pages,
    /// Requests the list in one piece, if it is so slow that its pages expire.
    Whole,
}

impl Way {
    /// Returns the way for the next attempt after a failure.
    pub(super) fn after(self, error: &Cause) -> Self {
        match (self, error) {
            (Self::Pages, Cause::Expired) => Self::Whole,
            // A server that is too busy would have more work with any other way.
            (way, error) if error.pause().is_some() => way,
            _ => Self::Pages,
        }
    }
}

/// The result of a list.
///
/// The first list is handed on as it arrives. A later one is buffered until it is complete, cut to facts: nothing is
/// planned while it is being handed on, and that must not take as long as the server takes to list. A list that breaks
/// off then has changed nothing.
pub(super) struct Listing<T> {
    /// The epoch to hand it on under as it arrives; `None` to buffer it.
    passing: Option<u8>,
    /// The buffered objects, in the parts in which they are handed on.
    kept: Vec<Part<T>>,
    /// Number of objects.
    pub(super) objects: usize,
    /// The version that the list shows.
    pub(super) version: u64,
}

/// Objects, each with the version of its deletion if it is gone.
type Part<T> = Vec<(T, Option<DeletedAt>)>;

/// The most objects that are added to a part. What the whole list takes is then never copied, and what was handed on is no longer
/// held: a list of a million pods would be in memory four times otherwise, on its way from here into the inbox of its shard.
const PART: usize = 4096;

impl<T: Item> Listing<T> {
    fn take(&mut self, reader: &Reader, items: Part<T>, errors: &[Undecodable]) {
        reader.complain(errors);
        reader.metrics.alive();
        self.objects += items.len();
        match self.passing {
            Some(epoch) => T::hand_on(&*reader.handler, reader.source.kind, items, epoch),
            None => self.keep(items),
        }
    }

    fn keep(&mut self, items: Part<T>) {
        match self.kept.last_mut() {
            Some(last) if last.len() + items.len() <= PART => last.extend(items),
            _ => self.kept.push(items),
        }
    }

    /// Hands on the buffered objects.
    pub(super) fn hand_on(self, handler: &dyn WatchHandler, kind: Kind, epoch: u8) {
        if self.passing.is_none() {
            handler.begin_list(kind);
            for part in self.kept {
                T::hand_on(handler, kind, part, epoch);
            }
        }
    }
}

impl Reader {
    /// Lists everything, and hands it on under an epoch as it arrives, or buffers it without one. Falls back to pages
    /// when the server does not stream lists.
    pub(super) async fn list<T: Item>(
        self,
        way: Way,
        passing: Option<u8>,
        seconds: u32,
    ) -> Result<Listing<T>, Cause> {
        let mut listing = Listing {
            passing,
            kept: Vec::new(),
            objects: 0,
            version: 0,
        };
        let version = match way {
            Way::Stream if !self.source.streams => self.pages(PAGE, &mut listing).await?,
            Way::Stream => match self.stream(&mut listing, seconds).await {
                Err(Cause::Status {
                    code: 400 | 422,
                    message,
                    ..
                }) => {
                    tracing::debug!(resource = self.source.kind.as_str(), %message, "the API server does not stream lists; listing by pages");
                    self.pages(PAGE, &mut listing).await?
                }
                outcome => outcome?,
            },
            Way::Pages => self.pages(PAGE, &mut listing).await?,
            Way::Whole => self.pages(0, &mut listing).await?,
        };
        listing.version = codec::version(&version)?;
        Ok(listing)
    }

    async fn stream<T: Item>(&self, listing: &mut Listing<T>, seconds: u32) -> Result<String, Cause> {
        let uri = format!(
            "{}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds={seconds}{}",
            http::collection(self.source.kind, None),
            self.source.list
        );
        let mut stream = EventStream::new(self.answer(&uri, Form::Whole).await?);
        while let Some(events) = stream.next(ANSWER).await? {
            let shown = take_events(&events, true);
            listing.take(self, shown.items, &shown.errors);
            shown.end?;
            match (shown.bookmark, shown.version) {
                (Some(Bookmark::Listed), Some(version)) => return Ok(version),
                // Servers without streaming lists begin an ordinary watch.
                (Some(Bookmark::Plain), _) => break,
                _ => {}
            }
        }
        Err(Cause::Malformed(
            "the list that was streamed broke off".to_owned(),
        ))
    }

    async fn pages<T: Item>(&self, page_size: usize, listing: &mut Listing<T>) -> Result<String, Cause> {
        let get = |uri: String| async move { self.answer(&uri, Form::Whole).await };
        pages::read(
            &http::collection(self.source.kind, None),
            self.source.list,
            page_size,
            Some(ANSWER),
            get,
            |items, errors| {
                listing.take(
                    self,
                    items.into_iter().map(|item| (item, None)).collect(),
                    &errors,
                );
                Ok(())
            },
        )
        .await
    }
}

#[cfg(test)]
mod tests;
