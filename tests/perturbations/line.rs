//! The line between one process of the controller and the server.
//!
//! The line notes what goes through it, and follows the rules of a plan: it is cut at a request or before an event, as
//! when the process is killed; it holds back what the watch of a kind shows from a version on, and later lets it
//! through or breaks the watch; and it shows lists as they were at an older version.

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use memory_apiserver::{ApiServer, ApiService, ResponseBody, event_of, split_events};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};
use tokio::sync::watch;
use tower::{Service, ServiceExt as _};

/// The kinds that the controller lists and watches, by their plural.
pub(crate) const KINDS: [&str; 5] = ["nodes", "pods", "services", "endpointslices", "endpoints"];

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// A request that went through, or was the last that was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    pub(crate) verb: Method,
    pub(crate) path: String,
    /// The request is a list or a watch of everything.
    pub(crate) looks_around: bool,
}

/// An event that a watch showed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) kind: &'static str,
    pub(crate) version: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub(crate) change: String,
    pub(crate) name: String,
}

/// When a line is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// Instead of sending the request of this number.
    Before(usize),
    /// When the server has carried out the request of this number, and has not answered it.
    After(usize),
    /// Before the first event of a kind from this version on.
    Event(&'static str, u64),
}

/// The rules that a line follows. Versions are those of the server.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Rules {
    /// The line notes what watches show.
    pub(crate) noted: bool,
    pub(crate) cut: Option<Cut>,
    /// Events of these kinds are held back from a version on.
    pub(crate) held: BTreeMap<&'static str, u64>,
    /// Lists of these kinds show the state of a version, and watches that begin there show nothing.
    pub(crate) as_of: BTreeMap<&'static str, u64>,
}

// === impl Event ===

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}/{} at {}",
            self.change, self.kind, self.name, self.version
        )
    }
}

// === impl Rules ===

impl Rules {
    /// True if the events of a kind's watch must be looked at.
    fn concerns(&self, kind: &str) -> bool {
        let cut = matches!(self.cut, Some(Cut::Event(at, _)) if at == kind);
        cut || self.noted || self.held.contains_key(kind) || self.as_of.contains_key(kind)
    }
}

/// Clones are the same line.
#[derive(Clone)]
pub(crate) struct Line {
    server: ApiService,
    rules: Arc<watch::Sender<Rules>>,
    state: Arc<State>,
}

struct State {
    /// True once nothing goes through any more.
    dead: watch::Sender<bool>,
    /// How often the watches of a kind were broken.
    broken: watch::Sender<BTreeMap<&'static str, u64>>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    sent: Vec<Sent>,
    events: Vec<Event>,
    /// The first event that was held back.
    withheld: Option<(&'static str, u64)>,
    /// The kinds that were listed as of an older version.
    as_of: BTreeSet<&'static str>,
}

/// An open watch.
struct Flow {
    line: Line,
    kind: &'static str,
    body: http_body_util::BodyDataStream<ResponseBody>,
    /// Events that the server sent and the controller was not shown yet.
    unshown: VecDeque<Bytes>,
    /// How often watches of the kind had been broken when this one was begun.
    broken: u64,
}

// === impl Line ===

impl Line {
    pub(crate) fn new(server: &ApiServer, rules: Rules) -> Self {
        let state = State {
            dead: watch::Sender::new(false),
            broken: watch::Sender::default(),
            log: Mutex::default(),
        };
        Self {
            server: server.service(),
            rules: Arc::new(watch::Sender::new(rules)),
            state: Arc::new(state),
        }
    }

    /// Cuts the line: nothing goes through from now on, in either direction, and neither side is told.
    pub(crate) fn cut(&self) {
        self.state.dead.send_replace(true);
    }

    pub(crate) fn is_cut(&self) -> bool {
        *self.state.dead.borrow()
    }

    /// Waits until the line is cut.
    pub(crate) async fn until_cut(&self) {
        let mut dead = self.state.dead.subscribe();
        // The sender lives as long as this.
        let _ = dead.wait_for(|dead| *dead).await;
    }

    /// Lets everything through that was held back.
    pub(crate) fn release(&self) {
        self.rules.send_modify(|rules| {
            rules.held.clear();
            rules.as_of.clear();
        });
    }

    /// Breaks the watches that hold something back, which is never shown by them. New ones show everything.
    pub(crate) fn break_held(&self) {
        self.state.broken.send_modify(|broken| {
            for kind in self.rules.borrow().held.keys() {
                *broken.entry(kind).or_default() += 1;
            }
        });
        self.release();
    }

    /// The requests that were sent until now.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.state.log.lock().sent.clone()
    }

    pub(crate) fn sent_count(&self) -> usize {
        self.state.log.lock().sent.len()
    }

    /// The events that watches have shown until now.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.state.log.lock().events.clone()
    }

    /// The first event that was held back.
    pub(crate) fn withheld(&self) -> Option<(&'static str, u64)> {
        self.state.log.lock().withheld
    }

    /// The kinds that were listed as of an older version.
    pub(crate) fn shown_as_of(&self) -> BTreeSet<&'static str> {
        self.state.log.lock().as_of.clone()
    }

    async fn pass(self, request: Request<Body>) -> io::Result<Answer> {
        if self.is_cut() {
            return pending().await;
        }
        let (parts, body) = request.into_parts();
        let kind = listed_kind(&parts.uri);
        let number = {
            let mut log = self.state.log.lock();
            log.sent.push(Sent {
                verb: parts.method.clone(),
                path: parts.uri.path().to_owned(),
                looks_around: kind.is_some(),
            });
            log.sent.len() - 1
        };
        let cut = self.rules.borrow().cut;
        if cut == Some(Cut::Before(number)) {
            self.cut();
            return pending().await;
        }
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let as_of = kind.and_then(|kind| self.rules.borrow().as_of.get(kind).copied());
        let streams = query.contains("sendInitialEvents");
        // A list of one object only asks for the version.
        let lists = !query.contains("watch=1") && !query.ends_with("limit=1");
        if let (Some(kind), Some(version)) = (kind, as_of)
            && (streams || lists)
        {
            if streams {
                return Ok(not_streamed());
            }
            self.state.log.lock().as_of.insert(kind);
            return self.list_as_of(&parts, version).await;
        }
        let bytes = body.collect_bytes().await.map_err(io::Error::other)?;
        let request = Request::from_parts(parts, Full::new(bytes));
        let response = self.server.clone().oneshot(request).await?;
        if cut == Some(Cut::After(number)) {
            self.cut();
        }
        if self.is_cut() {
            return pending().await;
        }
        // A list that is streamed is a list, and is never late.
        let follows = query.contains("watch=1") && !query.contains("sendInitialEvents");
        Ok(match kind.filter(|_| follows) {
            Some(kind) => self.flow(kind, response),
            None => response.map(BodyExt::boxed_unsync),
        })
    }

    /// A watch whose events go through when they may.
    fn flow(&self, kind: &'static str, response: Response<ResponseBody>) -> Answer {
        response.map(|body| {
            let flow = Flow {
                line: self.clone(),
                kind,
                body: body.into_data_stream(),
                unshown: VecDeque::new(),
                broken: times(&self.state.broken.borrow(), kind),
            };
            let frames = futures::stream::unfold(flow, |mut flow| async move {
                let frame = flow.next().await?.map(Frame::data);
                Some((frame, flow))
            });
            StreamBody::new(frames).boxed_unsync()
        })
    }

    /// Returns the list that a request asks for as of a version.
    async fn list_as_of(&self, request: &Parts, version: u64) -> io::Result<Answer> {
        let selectors: String = request
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|part| part.starts_with("labelSelector=") || part.starts_with("fieldSelector="))
            .fold(String::new(), |query, part| query + "&" + part);
        let uri = format!(
            "{}?resourceVersion={version}&resourceVersionMatch=Exact{selectors}",
            request.uri.path()
        );
        let form = request.headers[ACCEPT].clone();
        let request = Request::get(uri).header(ACCEPT, form);
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let response = self.server.clone().oneshot(request).await?;
        assert_eq!(response.status(), StatusCode::OK, "the server remembers");
        Ok(response.map(BodyExt::boxed_unsync))
    }
}

/// Returns the answer of a server that does not stream lists.
fn not_streamed() -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422,
        "message": "sendInitialEvents: Forbidden: the WatchList feature is off",
    });
    let body = Full::new(Bytes::from(status.to_string()));
    let answer = Response::builder().status(StatusCode::UNPROCESSABLE_ENTITY);
    let answer = answer.header(CONTENT_TYPE, "application/json");
    answer
        .body(body.map_err(|never| match never {}).boxed_unsync())
        .unwrap()
}

impl Service<Request<Body>> for Line {
    type Response = Answer;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Answer>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().pass(request))
    }
}

// === impl Flow ===

impl Flow {
    /// The next event that may be shown.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let line = self.line.clone();
        let mut broken = line.state.broken.subscribe();
        let (kind, began) = (self.kind, self.broken);
        let next = tokio::select! {
            biased;
            () = line.until_cut() => None,
            _ = broken.wait_for(|broken| times(broken, kind) > began) => Some(Err(reset())),
            event = self.next_event() => Some(event?),
        };
        match next {
            None => pending().await,
            next => next,
        }
    }

    async fn next_event(&mut self) -> Option<io::Result<Bytes>> {
        // An event is taken out only when it is shown: this may be dropped at any time.
        while self.unshown.is_empty() {
            match self.body.next().await? {
                Ok(chunk) => self.unshown.extend(
                    split_events(&chunk)
                        .into_iter()
                        .map(|event| chunk.slice_ref(event)),
                ),
                Err(error) => return Some(Err(error)),
            }
        }
        let mut rules = self.line.rules.subscribe();
        if !rules.borrow().concerns(self.kind) {
            return self.unshown.pop_front().map(Ok);
        }
        let event = event(self.kind, &self.unshown[0]);
        let cut = rules.borrow().cut;
        if let (Some(event), Some(Cut::Event(kind, version))) = (&event, cut)
            && kind == event.kind
            && event.version >= version
        {
            self.line.cut();
            return pending().await;
        }
        let passes = |rules: &Rules| {
            let held = rules.held.get(self.kind);
            let later = |from: &u64| event.as_ref().is_none_or(|event| event.version >= *from);
            !held.is_some_and(later) && !rules.as_of.contains_key(self.kind)
        };
        if let Some(event) = &event
            && !passes(&rules.borrow())
        {
            let mut log = self.line.state.log.lock();
            let held = (event.kind, event.version);
            // Two watches of a kind hold theirs back in any order.
            log.withheld = Some(log.withheld.map_or(held, |first| first.min(held)));
        }
        // The sender lives as long as the line.
        let _ = rules.wait_for(passes).await;
        self.line.state.log.lock().events.extend(event);
        self.unshown.pop_front().map(Ok)
    }
}

fn times(broken: &BTreeMap<&'static str, u64>, kind: &str) -> u64 {
    broken.get(kind).copied().unwrap_or_default()
}

fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the watch is broken")
}

/// The kind that a request lists or watches everywhere.
fn listed_kind(uri: &Uri) -> Option<&'static str> {
    let kind = uri.path().rsplit('/').next()?;
    let everywhere = !uri.path().contains("/namespaces/");
    KINDS.into_iter().find(|k| everywhere && *k == kind)
}

/// Returns the event that a watch shows; none for bookmarks and errors.
fn event(kind: &'static str, event: &[u8]) -> Option<Event> {
    let (change, object) = event_of(event)?;
    if !matches!(change.as_str(), "ADDED" | "MODIFIED" | "DELETED") {
        return None;
    }
    let meta = &object["metadata"];
    Some(Event {
        kind,
        version: meta["resourceVersion"].as_str()?.parse().ok()?,
        change,
        name: meta["name"].as_str()?.to_owned(),
    })
}
