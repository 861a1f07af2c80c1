//! One proxy: its list, its watch, and what it counts.

use super::frames::{Event, Frames, Listing};
use super::resume::{Outcome, Request, Resumption};
use super::shared::{Own, Shared};
use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body::Body as _;
use kube::Client;
use kube::client::Body;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep, sleep_until};

/// The slices that kube-proxy asks for (`newProxyServer` of Kubernetes 1.36): none of headless Services, and none that
/// are for another proxy.
const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=\
                      %21service.kubernetes.io%2Fheadless%2C%21service.kubernetes.io%2Fservice-proxy-name";
const LIST_MEDIA: &str = "application/vnd.kubernetes.protobuf";
const WATCH_MEDIA: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// The same of endpointd's own watch: its slices, and their metadata alone.
const OWN_SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=\
                          endpointslice.kubernetes.io%2Fmanaged-by%3Dendpointslice-controller.k8s.io";
const METADATA_LIST: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;\
                             drop=metadata.managedFields";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;\
                        drop=metadata.managedFields";
/// By which the requests are known in the server's log.
const USER_AGENT: &str = "loadtest-proxy";
/// How long watches are asked to last: as by client-go, up to twice this.
const WATCH_SECONDS: u32 = 300;
/// A server that ends a watch at its time may do so a little earlier.
const EARLY: Duration = Duration::from_secs(1);
/// A watch that lasted for this long began well, even if it told of nothing.
const SHORT: Duration = Duration::from_secs(1);
const GONE: u64 = 410;

/// The slices that are watched, and how much of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum View {
    /// As kube-proxy.
    Proxy,
    /// As endpointd, which tells from this watch how late others are.
    Echo,
}

/// One of the simulated kube-proxies, or another watching client that goes on as they do.
pub(super) struct Proxy {
    client: Client,
    view: View,
    shared: Arc<Shared>,
    own: Arc<Own>,
    resumption: Resumption,
    /// The version to go on from.
    version: u64,
    pace: Pace,
    /// Held until its watch has begun, so that not all begin at once.
    starting: Option<OwnedSemaphorePermit>,
}

/// How fast a proxy reads.
struct Pace {
    /// Bytes in a second; as fast as they come if there is none.
    rate: Option<u64>,
    free_at: Instant,
}

// === impl View ===

impl View {
    fn slices(self) -> &'static str {
        match self {
            Self::Proxy => SLICES,
            Self::Echo => OWN_SLICES,
        }
    }

    fn list_media(self) -> &'static str {
        match self {
            Self::Proxy => LIST_MEDIA,
            Self::Echo => METADATA_LIST,
        }
    }

    fn watch_media(self) -> &'static str {
        match self {
            Self::Proxy => WATCH_MEDIA,
            Self::Echo => METADATA,
        }
    }
}

// === impl Proxy ===

impl Proxy {
    pub(super) fn new(
        client: Client,
        view: View,
        shared: Arc<Shared>,
        own: Arc<Own>,
        starting: OwnedSemaphorePermit,
    ) -> Self {
        Self {
            client,
            view,
            own,
            resumption: Resumption::new(shared.relists),
            version: 0,
            pace: Pace {
                rate: shared.rate,
                free_at: Instant::now(),
            },
            starting: Some(starting),
            shared,
        }
    }

    /// Lists and watches until it is dropped.
    pub(super) async fn run(mut self) {
        let mut rng = fastrand::Rng::new();
        let mut request = Request::List;
        loop {
            let asked = match request {
                Request::List => self.list().await.map(|()| Outcome::Listed),
                Request::Watch => self.watch(rng.u32(WATCH_SECONDS..2 * WATCH_SECONDS)).await,
            };
            let outcome = asked.unwrap_or_else(|error| {
                tracing::debug!("a proxy goes on after an error: {error:#}");
                self.shared.failed(error);
                Outcome::Refused
            });
            let (next, pause) = self.resumption.after(outcome, Instant::now(), rng.f64());
            sleep(pause).await;
            request = next;
        }
    }

    async fn list(&mut self) -> anyhow::Result<()> {
        let again = self.version > 0;
        let path = format!("{}&resourceVersion=0", self.view.slices());
        let (response, _) = ask(&self.client, &path, self.view.list_media()).await?;
        if response.status() != StatusCode::OK {
            bail!("a list of slices was answered with {}", response.status());
        }
        let mut body = response.into_body();
        let mut listing = Listing::default();
        while let Some(piece) = next_piece(&mut body).await? {
            self.shared.received(piece.len());
            let fed = listing.feed(&piece);
            fed.map_err(|_| anyhow::anyhow!("the server's list of slices is not protobuf"))?;
            self.pace.read(piece.len()).await;
        }
        self.version = listing.version.context("a list of slices ended early")?;
        let mut timeline = self.own.timeline.lock();
        timeline.reach(self.version, Instant::now());
        timeline.slices = listing.slices;
        drop(timeline);
        if again {
            self.shared.listed_again();
        }
        Ok(())
    }

    /// Watches for so many seconds, or until the server or the network ends it. Fails if it did not begin.
    async fn watch(&mut self, seconds: u32) -> anyhow::Result<Outcome> {
        let path = format!(
            "{}&watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={}",
            self.view.slices(),
            self.version
        );
        let (response, began) = ask(&self.client, &path, self.view.watch_media()).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::GONE => return Ok(Outcome::Expired),
            status => bail!("a watch of slices was answered with {status}"),
        }
        if let Some(starting) = self.starting.take() {
            drop(starting);
            self.shared.began();
        }
        let mut body = response.into_body();
        let mut frames = Frames::default();
        let mut told = false;
        loop {
            let piece = next_piece(&mut body).await;
            let now = Instant::now();
            let lasted = now.saturating_duration_since(began);
            let is_whole = piece.is_ok();
            let Ok(Some(piece)) = piece else {
                if is_whole && lasted + EARLY >= Duration::from_secs(seconds.into()) {
                    self.shared.timed_out();
                    return Ok(Outcome::TimedOut);
                }
                self.shared.ended();
                return Ok(Outcome::Ended {
                    told: told || lasted >= SHORT,
                });
            };
            self.shared.received(piece.len());
            let fed = self.take(&mut frames, &piece, now);
            let error = match fed {
                Ok(None) => {
                    told = true;
                    self.pace.read(piece.len()).await;
                    continue;
                }
                Ok(Some(GONE)) => Outcome::Expired,
                Ok(Some(_)) | Err(()) => Outcome::Broken,
            };
            // One that is refused so at its beginning did not run.
            if told || error == Outcome::Broken {
                self.shared.ended();
            }
            return Ok(error);
        }
    }

    /// Takes the events of a piece; answers with the code of an error among them.
    fn take(&mut self, frames: &mut Frames, piece: &[u8], now: Instant) -> Result<Option<u64>, ()> {
        let (mut events, mut slices, mut error) = (0, 0_i64, None);
        let mut version = self.version;
        let fed = frames.feed(piece, |event| {
            version = match event {
                Event::Error(code) => {
                    error.get_or_insert(code);
                    return;
                }
                Event::Bookmark(version) => version,
                Event::Added(version) => {
                    events += 1;
                    slices += 1;
                    version
                }
                Event::Modified(version) => {
                    events += 1;
                    version
                }
                Event::Deleted(version) => {
                    events += 1;
                    slices -= 1;
                    version
                }
            };
        });
        self.version = version;
        self.shared.told(events);
        let mut timeline = self.own.timeline.lock();
        timeline.reach(version, now);
        timeline.slices = timeline.slices.saturating_add_signed(slices);
        drop(timeline);
        fed.map(|()| error).map_err(|_| ())
    }
}

/// How many slices the proxies should know, as the API server says now.
pub(super) async fn slices_now(client: &Client) -> anyhow::Result<u64> {
    let (response, _) = ask(client, SLICES, LIST_MEDIA).await?;
    if response.status() != StatusCode::OK {
        bail!("a list of slices was answered with {}", response.status());
    }
    let mut body = response.into_body();
    let mut listing = Listing::default();
    while let Some(piece) = next_piece(&mut body).await? {
        let fed = listing.feed(&piece);
        fed.map_err(|_| anyhow::anyhow!("the server's list of slices is not protobuf"))?;
    }
    Ok(listing.slices)
}

/// The head of an answer, and when it came.
async fn ask(client: &Client, path: &str, media: &str) -> anyhow::Result<(Response<Body>, Instant)> {
    let request = http::Request::get(path)
        .header(header::ACCEPT, media)
        .header(header::USER_AGENT, USER_AGENT)
        .body(Body::empty())?;
    let response = client.send(request).await?;
    Ok((response, Instant::now()))
}

/// The next data of an answer; none at its end.
async fn next_piece(body: &mut Body) -> anyhow::Result<Option<Bytes>> {
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await;
        match frame.transpose().context("reading an answer")? {
            None => return Ok(None),
            Some(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

// === impl Pace ===

impl Pace {
    /// Waits until so many bytes have taken their time.
    async fn read(&mut self, bytes: usize) {
        let Some(rate) = self.rate else { return };
        let now = Instant::now();
        self.free_at = self.free_at.max(now) + Duration::from_secs_f64(bytes as f64 / rate as f64);
        sleep_until(self.free_at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_proxy_reads_no_faster_than_it_is_told() {
        let start = Instant::now();
        let mut slow = Pace {
            rate: Some(1_000),
            free_at: start,
        };
        for _ in 0..10 {
            slow.read(500).await;
        }
        assert_eq!(Instant::now().saturating_duration_since(start).as_secs(), 5);
        tokio::time::advance(Duration::from_secs(60)).await;
        let later = Instant::now();
        slow.read(2_000).await;
        let took = Instant::now().saturating_duration_since(later).as_secs();
        assert_eq!(took, 2, "it does not make up for a time without data");
    }
}
