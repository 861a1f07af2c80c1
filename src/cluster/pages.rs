//! Lists, read page by page as they stream in.

use super::cause::{Cause, Silent};
use super::codec::{Decode, ListReader, Undecodable};
use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt as _;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum number of objects on a page of a list: as many as fit into a few megabytes.
pub(super) const PAGE: usize = 500;
/// How long a server may take to begin to answer, or to send the next data.
pub(super) const ANSWER: Duration = Duration::from_secs(60);

/// Waits for a limited time, or without a limit.
pub(super) async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Result<T, Silent> {
    match limit {
        Some(limit) => timeout(limit, work).await.map_err(|_| Silent(limit)),
        None => Ok(work.await),
    }
}

/// Reads a list to its end, `size` objects at a time, or in one piece with 0. The server may be silent for `patience`. `query`
/// are its selectors, each after an ampersand; `get` asks for one page; `each` gets objects as they arrive, and errors about
/// those that cannot be decoded. Returns the version that the list shows.
pub(super) async fn read<T, B, Answer>(
    path: &str,
    query: &str,
    size: usize,
    patience: Option<Duration>,
    get: impl Fn(String) -> Answer,
    mut each: impl FnMut(Vec<T>, Vec<Undecodable>) -> Result<(), Cause>,
) -> Result<String, Cause>
where
    T: Decode,
    B: Body<Data = Bytes, Error = kube::Error> + Unpin,
    Answer: Future<Output = Result<B, Cause>>,
{
    let first = format!("{path}?limit={size}{query}");
    let mut uri = first.clone();
    loop {
        let mut body = get(uri).await?;
        let mut reader = ListReader::default();
        while let Some(frame) = within(patience, body.frame()).await? {
            if let Ok(data) = frame?.into_data() {
                reader.feed(&data);
            }
            let (items, errors) = reader.take();
            each(items, errors)?;
        }
        let end = reader.finish()?;
        if end.next.is_empty() {
            return Ok(end.version);
        }
        uri = format!(
            "{first}&continue={}",
            utf8_percent_encode(&end.next, NON_ALPHANUMERIC)
        );
    }
}
