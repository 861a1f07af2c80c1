//! Answers that are waited for, and lists, which are read page by page as they stream in.

use super::cause::Cause;
use super::codec::{self, Decode, ListReader, Status, Undecodable};
use super::connect::client_error::ClientError;
use super::http::Head;
use super::silence::within;
use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http_body_util::BodyExt as _;
use kube::client::Body;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::time::Duration;

/// Maximum number of objects on a page of a list: as many as fit into a few megabytes.
pub(super) const PAGE: usize = 500;
/// Number of empty pages in a row, each of which announces another, after which a list fails. A server whose filter leaves
/// nothing of a page may send such a page, but the API server itself goes on reading until the page is full.
const MOST_EMPTY: u32 = 3;
/// Number of pages after which a list fails: ten million objects, several times what the largest store of etcd (8 GB) holds.
const MOST_PAGES: u64 = 20_000;
/// How long a server may take to begin to answer, or to send the next data.
pub(super) const ANSWER: Duration = Duration::from_secs(60);
/// Timeout for reading one object, or a version.
const READING: Duration = Duration::from_secs(10);

/// The outcome of asking for an answer: its body, or the server's refusal.
type Asked = Result<Result<Body, (Head, Status)>, kube::Error>;

/// Waits for the server to begin an answer, for at most [`ANSWER`]. Boxed, since the client's futures are large.
pub(super) fn answer<'a>(
    asked: impl Future<Output = Asked> + Send + 'a,
) -> BoxFuture<'a, Result<Body, Cause>> {
    let answer = async {
        let answer = within(Some(ANSWER), asked).await?.map_err(ClientError::from)?;
        answer.map_err(|(head, status)| Cause::answered(&head, status))
    };
    answer.boxed()
}

/// Reads the version of a list of one object, from its answer. If that was asked for without a version, it comes from the
/// present state of the store, and costs the server next to nothing.
pub(super) async fn version(answer: impl Future<Output = Result<Body, Cause>>) -> Result<u64, Cause> {
    let reading = async { Ok(codec::list_version(&answer.await?.collect_bytes().await?)?) };
    within(Some(READING), reading).await?
}

/// Reads a list to its end, `size` objects at a time, or in one piece with 0. The server may be silent for `silence`. `query`
/// are its selectors, each after an ampersand; `get` asks for one page; `each` gets objects as they arrive, and errors about
/// those that cannot be decoded. Returns the version that the list shows.
///
/// A list always ends: it fails if the server announces further pages without an end.
pub(super) async fn read<T, B, Answer>(
    path: &str,
    query: &str,
    size: usize,
    silence: Option<Duration>,
    get: impl Fn(String) -> Answer,
    mut each: impl FnMut(Vec<T>, Vec<Undecodable>) -> Result<(), Cause>,
) -> Result<String, Cause>
where
    T: Decode,
    B: http_body::Body<Data = Bytes, Error = kube::Error> + Unpin,
    Answer: Future<Output = Result<B, Cause>>,
{
    let first = format!("{path}?limit={size}{query}");
    let mut uri = first.clone();
    let mut progress = Progress::default();
    loop {
        let mut body = get(uri).await?;
        let mut objects = 0;
        let mut reader = ListReader::default();
        while let Some(frame) = within(silence, body.frame()).await? {
            if let Ok(data) = frame?.into_data() {
                reader.feed(&data);
            }
            let (items, errors) = reader.take();
            objects += items.len() + errors.len();
            each(items, errors)?;
        }
        let end = reader.finish()?;
        if end.next.is_empty() {
            return Ok(end.version);
        }
        progress.page(objects, &end.next)?;
        uri = format!(
            "{first}&continue={}",
            utf8_percent_encode(&end.next, NON_ALPHANUMERIC)
        );
    }
}

/// Notices lists that have no end. Without it, a server that always answers the same would be asked for the next page as fast
/// as it answers.
#[derive(Default)]
struct Progress {
    /// Number of pages that announced another one.
    pages: u64,
    /// How many of the last ones were empty.
    empty: u32,
    /// The continue token of an earlier page. It is replaced after 1, 2, 4, 8 pages and so on, so that tokens that go round
    /// in a circle of any length meet it, and no others have to be kept.
    earlier: String,
}

impl Progress {
    /// Handles a page with this number of objects, and a token for the next page.
    fn page(&mut self, objects: usize, next: &str) -> Result<(), Cause> {
        self.pages += 1;
        self.empty = if objects == 0 { self.empty + 1 } else { 0 };
        let endless = |fault: &str| Err(Cause::Malformed(format!("the list has no end: {fault}")));
        if self.earlier == next {
            return endless("a page continues at a place where it was before");
        }
        if self.empty >= MOST_EMPTY {
            return endless("empty pages in a row announce further pages");
        }
        if self.pages >= MOST_PAGES {
            return endless("it has more pages than any cluster has");
        }
        if self.pages.is_power_of_two() {
            next.clone_into(&mut self.earlier);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many pages are read of those that have these numbers of objects and these tokens.
    fn read(pages: impl Iterator<Item = (usize, String)>) -> usize {
        let mut progress = Progress::default();
        pages
            .take_while(|(objects, next)| progress.page(*objects, next).is_ok())
            .count()
    }

    #[test]
    fn a_list_whose_pages_never_end_is_given_up() {
        assert_eq!(read((0..).map(|_| (500, "x".to_owned()))), 1);
        // Each page has a new token, and brings nothing.
        assert_eq!(read((0..).map(|page| (0, page.to_string()))), 2);
        // Tokens that go round in a circle.
        for length in 1..100 {
            let pages = read((0..).map(|page| (500, (page % length).to_string())));
            assert!(pages < 4 * length, "{pages} pages of {length}");
        }
        // Objects without an end.
        assert_eq!(read((0..).map(|page| (500, page.to_string()))), 19_999);
    }

    #[test]
    fn a_few_empty_pages_are_no_reason_to_give_up() {
        let pages = (0..3_000).map(|page| (usize::from(page % 3 == 0), page.to_string()));
        assert_eq!(read(pages), 3_000);
    }
}
