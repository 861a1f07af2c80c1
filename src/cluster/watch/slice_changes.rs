//! Follows changes of `EndpointSlices` by their metadata, without reading what exists.

use super::event_stream::EventStream;
use super::sources::ALL_SLICES;
use crate::clock;
use crate::cluster::cause::Cause;
use crate::cluster::codec::{self, EventKind, Namespaced};
use crate::cluster::http::{self, Form};
use crate::cluster::pages;
use crate::core::facts::SliceMeta;
use crate::core::namespace::Kind;
use kube::Client;
use kube::client::Body;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// A watch that shows nothing for this long is restarted: the server sends a bookmark a minute.
const SILENCE: Duration = Duration::from_secs(120);
/// The pause before a watch that broke, or ended sooner than this, is started again.
const PAUSE: Duration = Duration::from_secs(5);

/// An event of the watch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SliceNews {
    /// The watch shows changes from now on.
    Follows,
    /// A slice of this namespace and Service was written or deleted.
    Changed {
        namespace: Arc<str>,
        service: Arc<str>,
        deleted: bool,
    },
    /// The watch ended, for this reason. Changes are missed until it is started again.
    Broken(String),
}

/// Watches until the receiver is dropped. A watch that the server ends in order is resumed where it ended.
pub(crate) async fn follow(client: Client, news: mpsc::Sender<SliceNews>) {
    let mut from = None;
    while !news.is_closed() {
        let started = Instant::now();
        match watch(&client, &news, &mut from).await {
            Ok(()) if clock::since(started) >= PAUSE => continue,
            Ok(()) => {}
            Err(cause) => {
                from = None;
                if news.send(SliceNews::Broken(cause.to_string())).await.is_err() {
                    return;
                }
            }
        }
        tokio::select! {
            () = news.closed() => return,
            () = sleep(PAUSE) => {}
        }
    }
}

/// Runs one watch until the server ends it: from a version, or else from the one that the store has now. Leaves the version
/// from which it can be resumed.
async fn watch(
    client: &Client,
    news: &mpsc::Sender<SliceNews>,
    from: &mut Option<String>,
) -> Result<(), Cause> {
    let path = http::collection(Kind::Slice, None);
    let version = if let Some(version) = from.take() {
        version
    } else {
        let uri = format!("{path}?limit=1");
        pages::version(answer(client, Form::MetadataList, &uri))
            .await?
            .to_string()
    };
    let uri = format!(
        "{path}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds=600{ALL_SLICES}"
    );
    let mut stream = EventStream::new(answer(client, Form::Metadata, &uri).await?);
    *from = Some(version);
    if news.send(SliceNews::Follows).await.is_err() {
        return Ok(());
    }
    while let Some(events) = stream.next(SILENCE).await? {
        for event in codec::events(&events) {
            let event = event?;
            let deleted = match event.kind {
                EventKind::Bookmark => {
                    *from = Some(codec::bookmark(event.object)?.0);
                    continue;
                }
                EventKind::Error => {
                    let status = codec::status(0, event.object);
                    return Err(Cause::refused(status.code, status));
                }
                EventKind::Applied => false,
                EventKind::Deleted => true,
            };
            // Without its metadata, the Service of a slice is unknown.
            let Ok((slice, at)) = codec::versioned::<Namespaced<SliceMeta>>(event.object) else {
                continue;
            };
            *from = Some(at);
            let changed = SliceNews::Changed {
                namespace: slice.namespace,
                service: slice.facts.service,
                deleted,
            };
            if news.send(changed).await.is_err() {
                return Ok(());
            }
        }
    }
    Ok(())
}

async fn answer(client: &Client, form: Form, uri: &str) -> Result<Body, Cause> {
    pages::answer(http::read(client, uri, form.accept())).await
}
