//! Follows changes of `EndpointSlices` by their metadata, without reading what exists.

use super::cause::{Cause, Silent};
use super::codec::{self, EventKind, Namespaced};
use super::encodings::{Encodings, Form};
use super::event_stream::EventStream;
use super::http;
use super::pages::ANSWER;
use crate::core::facts::{CUSTOM_MANAGED_BY, LABEL_MANAGED_BY, MANAGED_BY, MIRRORED_BY, SliceMeta};
use crate::core::namespace::Kind;
use kube::Client;
use kube::client::Body;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// A watch that shows nothing for this long is restarted: the server sends a bookmark a minute.
const SILENCE: Duration = Duration::from_secs(120);
/// The pause before a watch that ended is started again.
const PAUSE: Duration = Duration::from_secs(5);

/// What the watch shows.
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

/// Watches until the receiver is dropped.
pub(crate) async fn follow(client: Client, encodings: Encodings, news: mpsc::Sender<SliceNews>) {
    while !news.is_closed() {
        if let Err(cause) = watch(&client, &encodings, &news).await
            && news.send(SliceNews::Broken(cause.to_string())).await.is_err()
        {
            return;
        }
        tokio::select! {
            () = news.closed() => return,
            () = sleep(PAUSE) => {}
        }
    }
}

/// Runs one watch until the server ends it, from the version that the store has now.
async fn watch(client: &Client, encodings: &Encodings, news: &mpsc::Sender<SliceNews>) -> Result<(), Cause> {
    let path = http::collection(Kind::Slice, None);
    let list = answer(client, encodings, Form::MetadataList, &format!("{path}?limit=1")).await?;
    let list = timeout(ANSWER, list.collect_bytes())
        .await
        .map_err(|_| Silent(ANSWER))??;
    let from = codec::list_version(&list)?;
    // The slices that endpointd and the controllers that it replaces write.
    let ours = format!("{LABEL_MANAGED_BY} in ({MANAGED_BY},{MIRRORED_BY},{CUSTOM_MANAGED_BY})");
    let uri = format!(
        "{path}?watch=1&allowWatchBookmarks=true&resourceVersion={from}&timeoutSeconds=600&labelSelector={}",
        utf8_percent_encode(&ours, NON_ALPHANUMERIC)
    );
    let mut stream = EventStream::new(answer(client, encodings, Form::Metadata, &uri).await?);
    if news.send(SliceNews::Follows).await.is_err() {
        return Ok(());
    }
    while let Some(events) = stream.next(SILENCE).await? {
        for event in codec::events(&events) {
            let event = event?;
            let deleted = match event.kind {
                EventKind::Bookmark => continue,
                EventKind::Error => {
                    let status = codec::status(0, event.object);
                    return Err(Cause::refused(status.code, status));
                }
                EventKind::Applied => false,
                EventKind::Deleted => true,
            };
            // Without its metadata, the Service of a slice is unknown.
            let Ok(slice) = codec::object::<Namespaced<SliceMeta>>(event.object) else {
                continue;
            };
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

async fn answer(client: &Client, encodings: &Encodings, form: Form, uri: &str) -> Result<Body, Cause> {
    let read = http::read(client, encodings, Kind::Slice, form, uri);
    let answer = timeout(ANSWER, read).await.map_err(|_| Silent(ANSWER))??;
    answer.map_err(|(head, status)| Cause::refused(head.code.as_u16(), status))
}
