//! Listing everything of a kind: streamed as the beginning of a watch, or page by page where that fails.

use super::lines::{Bookmark, Lines, take_lines};
use super::sources::{Gone, Source};
use super::{Watch, WatchError};
use crate::cluster::decode::Undecodable;
use crate::cluster::pages::{self, ANSWER, PAGE};
use crate::cluster::{ACCEPT_JSON, decode};

/// How everything is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// As the first events of a watch, which costs the server the least memory. Servers do it since 1.27 by a
    /// feature gate, and by default since 1.34.
    Stream,
    /// In pages.
    Pages,
    /// In one piece: for a list so slow that its pages expire.
    Whole,
}

impl Way {
    /// How to try it again when it has failed.
    pub(super) fn after(self, error: &WatchError) -> Self {
        match (self, error) {
            (Self::Pages, WatchError::Expired) => Self::Whole,
            _ => Self::Pages,
        }
    }
}

/// Hands on what a list shows.
///
/// The first list is handed on as it comes. A later one is held back until it is whole, cut to facts: while it is
/// being handed on nothing is planned, and that must not take as long as the server takes to list; and one that
/// breaks off has changed nothing.
struct Listed<S: Source> {
    first: bool,
    kept: Vec<(S::Listed, Option<Gone>)>,
}

impl<S: Source> Listed<S> {
    fn take(&mut self, watch: &Watch, items: Vec<(S::Listed, Option<Gone>)>, errors: &[Undecodable]) {
        watch.complain::<S>(errors);
        watch.metrics.alive();
        watch.metrics.listed.increment(items.len() as u64);
        if self.first {
            S::listed(&watch.router, items, watch.epoch);
        } else {
            self.kept.extend(items);
        }
    }

    fn finish(self, watch: &Watch, version: &str) -> Result<(), WatchError> {
        let version = decode::version(version)?;
        if !self.first {
            watch.router.begin_list(S::KIND);
            S::listed(&watch.router, self.kept, watch.epoch);
        }
        watch.router.end_list(S::KIND, watch.epoch, version);
        Ok(())
    }
}

impl Watch {
    /// Lists everything, and hands it on. Returns the version that the list shows. A server that does not stream
    /// lists is asked for pages.
    pub(super) async fn list<S: Source>(&mut self, way: Way, first: bool) -> Result<String, WatchError> {
        let mut listed = Listed::<S> {
            first,
            kept: Vec::new(),
        };
        let version = match way {
            Way::Stream => match self.stream(&mut listed).await {
                Err(WatchError::Status {
                    code: 400 | 422,
                    message,
                    ..
                }) => {
                    tracing::debug!(resource = S::KIND.as_str(), %message, "the server does not stream lists");
                    self.pages(PAGE, &mut listed).await?
                }
                outcome => outcome?,
            },
            Way::Pages => self.pages(PAGE, &mut listed).await?,
            Way::Whole => self.pages(0, &mut listed).await?,
        };
        listed.finish(self, &version)?;
        Ok(version)
    }

    async fn stream<S: Source>(&mut self, listed: &mut Listed<S>) -> Result<String, WatchError> {
        let uri = format!(
            "{}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds={}{}",
            S::PATH,
            self.timeout_seconds(),
            S::LIST
        );
        let mut lines = Lines::new(self.answer(&uri, ACCEPT_JSON).await?);
        while let Some(chunk) = lines.next(ANSWER).await? {
            let shown = take_lines::<S::Listed>(&chunk, true);
            listed.take(self, shown.items, &shown.errors);
            shown.end?;
            match (shown.bookmark, shown.version) {
                (Some(Bookmark::Listed), Some(version)) => return Ok(version),
                // Servers that do not know what was asked for begin an ordinary watch.
                (Some(Bookmark::Plain), _) => break,
                _ => {}
            }
        }
        Err(WatchError::NotListed)
    }

    async fn pages<S: Source>(&self, page_size: usize, listed: &mut Listed<S>) -> Result<String, WatchError> {
        let get = |uri: String| async move { self.answer(&uri, ACCEPT_JSON).await };
        pages::read(S::PATH, S::LIST, page_size, get, |items, errors| {
            listed.take(
                self,
                items.into_iter().map(|item| (item, None)).collect(),
                &errors,
            );
            Ok(())
        })
        .await
    }
}
