//! A gate between a controller under test and its server. It notes every request, and on demand holds back
//! what watches show, holds or refuses requests, or loses their answers. The test's own client does not pass here.

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kube::client::Body;
use memory_apiserver::{ApiServer, ApiService, object_of, split_events};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::future::pending;
use std::io::Write as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::watch;
use tower::{Service, ServiceExt as _};

/// More requests than any test has a use for. On a paused clock, a client that asks without a pause would never end.
const MOST: usize = 50_000;
/// More bytes of answers than any test has a use for; the log keeps them.
const MOST_BYTES: usize = 256 << 20;

/// An answer to a request, which may break off.
pub(crate) type Answer = Response<UnsyncBoxBody<Bytes, std::io::Error>>;

/// Answers requests in the server's place.
pub(crate) type Stub =
    Arc<dyn Fn(&Sent) -> Option<Pin<Box<dyn Future<Output = Answer> + Send>>> + Send + Sync>;

/// A request of the controller.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) verb: Method,
    pub(crate) path: String,
    pub(crate) watch: bool,
    /// The options of the request.
    pub(crate) query: String,
    pub(crate) body: Value,
    /// Length of the body in bytes, in whatever encoding it was sent.
    pub(crate) size: usize,
    /// None until it is answered.
    pub(crate) status: Option<u16>,
    /// The object that the server answered with, where the answer was one.
    pub(crate) answer: Value,
}

impl Sent {
    /// The plural of its kind, and the object's name where the path has one.
    fn target(&self) -> (&str, Option<&str>) {
        let parts: Vec<&str> = self.path.trim_start_matches('/').split('/').collect();
        if parts[0] == "apis" && parts.len() < 4 {
            return ("discovery", None);
        }
        // api/v1 or apis/group/version, then namespaces/NAME for what is in one.
        let rest = &parts[if parts[0] == "api" { 2 } else { 3 }..];
        let rest = if rest[0] == "namespaces" && rest.len() > 2 {
            &rest[2..]
        } else {
            rest
        };
        (rest[0], rest.get(1).copied())
    }

    /// The plural of its kind.
    pub(crate) fn kind(&self) -> &str {
        self.target().0
    }

    /// The name of the object that it is about.
    pub(crate) fn name(&self) -> Option<&str> {
        self.target().1.or_else(|| self.body["metadata"]["name"].as_str())
    }

    /// True for a list or a watch.
    fn looks_around(&self) -> bool {
        self.verb == Method::GET && self.target().1.is_none()
    }

    /// True for a list of all objects of a kind, whole or by pages, and not of one to see a version.
    pub(crate) fn lists(&self) -> bool {
        let streamed = self.query.contains("sendInitialEvents=true");
        self.looks_around() && (streamed || !(self.watch || self.query.ends_with("limit=1")))
    }

    /// `GET /api/v1/pods?limit=1 -> 200`.
    pub(crate) fn line(&self) -> String {
        format!("{} {}?{} -> {:?}", self.verb, self.path, self.query, self.status)
    }

    /// `PUT endpoints 200`.
    pub(crate) fn outline(&self) -> String {
        let status = self.status.map_or("-".to_owned(), |status| status.to_string());
        format!("{} {} {status}", self.verb, self.kind())
    }
}

/// The fate of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The request is not carried out, and answered with this status.
    Refused(u16),
    /// The request is not carried out: the server takes its namespace for one that is being deleted.
    Terminating,
    /// The request is carried out, and answered with this status all the same.
    Lost(u16),
    /// The request is not carried out, and something before the server answers with this status and a page.
    Page(u16),
    /// The request is not carried out, and answered as by an API server that does not know the path: since 1.38 with a
    /// Status whose reason is that of a missing object.
    UnknownPath,
    /// The request is neither carried out nor answered.
    Unheard,
    /// The request is carried out and never answered.
    Unanswered,
    /// The request is carried out when the test releases it.
    Held,
    /// The request is carried out, and answered when the test releases it.
    AnswerHeld,
}

#[derive(Debug)]
struct Rule {
    verb: Method,
    kind: &'static str,
    fate: Fate,
}

/// How much of a kind's watch may pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    Open,
    /// So many events.
    Counted(usize),
}

/// Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    server: Arc<Mutex<ApiService>>,
    /// How often another server has taken the place of the one before.
    switched: Arc<watch::Sender<u64>>,
    state: Arc<Mutex<State>>,
    flows: Arc<watch::Sender<BTreeMap<String, Flow>>>,
    /// Kinds of which lists and watches are refused, each with the status.
    barred: Arc<watch::Sender<BTreeMap<String, u16>>>,
    released: Arc<watch::Sender<u64>>,
}

#[derive(Default)]
struct State {
    log: Vec<Sent>,
    rules: Vec<Rule>,
    stub: Option<Stub>,
    taken: usize,
    /// Bytes of the answers in the log, as they were sent.
    bytes: usize,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

impl Gate {
    /// Before a server, and open.
    pub(crate) fn new(server: &ApiServer) -> Self {
        Self {
            server: Arc::new(Mutex::new(server.service())),
            switched: Arc::new(watch::Sender::new(0)),
            state: Arc::default(),
            flows: Arc::new(watch::Sender::new(BTreeMap::new())),
            barred: Arc::new(watch::Sender::new(BTreeMap::new())),
            released: Arc::new(watch::Sender::new(0)),
        }
    }

    /// From now on a kind's watch shows nothing.
    pub(crate) fn hold(&self, kind: &str) {
        self.flows.send_modify(|flows| {
            flows.insert(kind.to_owned(), Flow::Counted(0));
        });
    }

    /// Lets one more event of a held kind through.
    pub(crate) fn step(&self, kind: &str) {
        self.flows.send_modify(|flows| {
            if let Some(Flow::Counted(n)) = flows.get_mut(kind) {
                *n += 1;
            }
        });
    }

    /// A kind's watch shows everything again, what was held back in one go.
    pub(crate) fn open(&self, kind: &str) {
        self.flows.send_modify(|flows| {
            flows.insert(kind.to_owned(), Flow::Open);
        });
    }

    /// Another server takes the place of the one before, whose watches end.
    pub(crate) fn switch(&self, server: &ApiServer) {
        *self.server.lock() = server.service();
        self.switched.send_modify(|n| *n += 1);
    }

    /// Ends the watches of a kind, and refuses its lists and watches with this status from now on.
    pub(crate) fn bar(&self, kind: &str, code: u16) {
        self.barred.send_modify(|barred| {
            barred.insert(kind.to_owned(), code);
        });
    }

    /// Lets lists and watches of a kind pass again.
    pub(crate) fn unbar(&self, kind: &str) {
        self.barred.send_modify(|barred| {
            barred.remove(kind);
        });
    }

    /// The next request of this kind that no earlier rule takes meets this fate.
    pub(crate) fn next(&self, verb: Method, kind: &'static str, fate: Fate) {
        self.state.lock().rules.push(Rule { verb, kind, fate });
    }

    /// From now on, what this answers does not reach the server.
    pub(crate) fn stub(&self, stub: Stub) {
        self.state.lock().stub = Some(stub);
    }

    /// Lets everything go that is held by now.
    pub(crate) fn release(&self) {
        self.released.send_modify(|n| *n += 1);
    }

    /// How many fates have not been met yet.
    pub(crate) fn unmet(&self) -> usize {
        self.state.lock().rules.len()
    }

    /// The requests since the last time, without lists, watches and Events.
    pub(crate) fn take(&self) -> Vec<Sent> {
        let mut sent = self.take_all();
        sent.retain(|sent| !sent.looks_around() && sent.kind() != "events");
        sent
    }

    /// The requests since the last time.
    pub(crate) fn take_all(&self) -> Vec<Sent> {
        let mut state = self.state.lock();
        let until = state.log.len();
        let from = std::mem::replace(&mut state.taken, until);
        state.log[from..].to_vec()
    }

    async fn pass(self, request: Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let bytes = body.collect_bytes().await.unwrap();
        let sent = Sent {
            verb: parts.method.clone(),
            path: parts.uri.path().to_owned(),
            watch: parts.uri.query().is_some_and(|query| query.contains("watch=1")),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            size: bytes.len(),
            body: object_of(&bytes).unwrap_or_default(),
            status: None,
            answer: Value::Null,
        };
        let (at, fate) = {
            let mut state = self.state.lock();
            let meets =
                |rule: &Rule| rule.verb == sent.verb && rule.kind == sent.kind() && !sent.looks_around();
            let rule = state.rules.iter().position(meets);
            let fate = rule.map(|at| state.rules.remove(at).fate);
            state.log.push(sent.clone());
            if state.log.len() > MOST || state.bytes > MOST_BYTES {
                let last: Vec<String> = state.log.iter().rev().take(8).map(Sent::line).collect();
                // A panic would be met by the client that asks, and might be taken for a failure to be tried again. The test
                // runner keeps what `eprintln!` prints until the test ends, which it does not.
                let _ = writeln!(std::io::stderr(), "it asks all the time: {last:#?}");
                std::process::abort();
            }
            (state.log.len() - 1, fate)
        };
        let stubbed = {
            let stub = self.state.lock().stub.clone();
            stub.and_then(|stub| stub(&sent))
        };
        if let Some(answer) = stubbed {
            let answer = answer.await;
            self.note(at, answer.status().as_u16(), &[]);
            return answer;
        }
        let mut released = self.released.subscribe();
        let barred = self.barred.borrow().get(sent.kind()).copied();
        if let Some(code) = barred.filter(|_| sent.looks_around()) {
            self.note(at, code, &[]);
            return status(code, &sent);
        }
        match fate {
            Some(Fate::Refused(code)) => {
                self.note(at, code, &[]);
                return status(code, &sent);
            }
            Some(Fate::Terminating) => {
                self.note(at, 403, &[]);
                return terminating(&sent);
            }
            Some(Fate::Page(code)) => {
                self.note(at, code, &[]);
                return page(code);
            }
            Some(Fate::UnknownPath) => {
                self.note(at, 404, &[]);
                return unknown_path();
            }
            Some(Fate::Unheard) => return pending().await,
            Some(Fate::Held) => released.changed().await.unwrap(),
            _ => {}
        }
        let forwarded = Request::from_parts(parts, Full::new(bytes));
        let server = self.server.lock().clone();
        let response = server.oneshot(forwarded).await.unwrap();
        if sent.watch {
            return self.gated(sent.kind().to_owned(), response);
        }
        let (head, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        match fate {
            Some(Fate::Unanswered) => return pending().await,
            Some(Fate::Lost(code)) => {
                self.note(at, code, &[]);
                return status(code, &sent);
            }
            Some(Fate::AnswerHeld) => released.changed().await.unwrap(),
            _ => {}
        }
        self.note(
            at,
            head.status.as_u16(),
            if sent.looks_around() { &[] } else { &body },
        );
        Response::from_parts(head, whole(body))
    }

    fn note(&self, at: usize, status: u16, answer: &[u8]) {
        let mut state = self.state.lock();
        state.bytes += answer.len();
        let sent = &mut state.log[at];
        sent.status = Some(status);
        sent.answer = object_of(answer).unwrap_or_default();
    }

    /// A watch whose events pass when the gate lets them.
    fn gated(&self, kind: String, response: Response<memory_apiserver::ResponseBody>) -> Answer {
        let (head, body) = response.into_parts();
        let (mut barred, mut switched) = (self.barred.subscribe(), self.switched.subscribe());
        let start = (body.into_data_stream(), VecDeque::new(), self.flows.clone());
        let barring = kind.clone();
        let passed = futures::stream::unfold(start, move |(mut body, mut events, flows)| {
            let kind = kind.clone();
            async move {
                if events.is_empty() {
                    let chunk = body.next().await?.unwrap();
                    events.extend(split_events(&chunk).into_iter().map(<[u8]>::to_vec));
                }
                let passes = |flows: &BTreeMap<String, Flow>| flows.get(&kind) != Some(&Flow::Counted(0));
                let mut watched = flows.subscribe();
                watched.wait_for(passes).await.unwrap();
                let mut piece: Vec<u8> = events.pop_front()?;
                let counted = flows.send_if_modified(|flows| match flows.get_mut(&kind) {
                    Some(Flow::Counted(n)) => {
                        *n -= 1;
                        true
                    }
                    _ => false,
                });
                if !counted {
                    piece.extend(events.drain(..).flatten());
                }
                Some((Ok(Frame::data(Bytes::from(piece))), (body, events, flows)))
            }
        });
        let passed = passed.take_until(async move {
            // The gate outlives what passes it.
            tokio::select! {
                _ = barred.wait_for(|barred| barred.contains_key(&barring)) => {}
                _ = switched.changed() => {}
            }
        });
        Response::from_parts(head, StreamBody::new(passed).boxed_unsync())
    }
}

/// As an API server refuses: it names what the request is about.
fn status(code: u16, sent: &Sent) -> Answer {
    let reason = match code {
        409 => "Conflict",
        403 => "Forbidden",
        422 => "Invalid",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code,
        "details": {"name": sent.name().unwrap_or_default(), "kind": sent.kind()},
    });
    let mut response = Response::new(whole(Bytes::from(body.to_string())));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

/// As an API server refuses to create something in a namespace that is being deleted.
fn terminating(sent: &Sent) -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403,
        "details": {"name": sent.body["metadata"]["name"], "kind": sent.kind(),
            "causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]},
    });
    let mut response = Response::new(whole(Bytes::from(body.to_string())));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
}

/// As a proxy answers that does not know where a request should go.
fn page(code: u16) -> Answer {
    let body = Bytes::from_static(b"<html><head><title>Not here</title></head></html>\n");
    let mut response = Response::new(whole(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}

/// The answer to a path that is not served, which names no object.
pub(crate) fn unknown_path() -> Answer {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound",
        "message": "the server could not find the requested resource", "code": 404,
    });
    let mut response = Response::new(whole(Bytes::from(body.to_string())));
    *response.status_mut() = StatusCode::NOT_FOUND;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn whole(body: Bytes) -> UnsyncBoxBody<Bytes, std::io::Error> {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

impl Service<Request<Body>> for Gate {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let gate = self.clone();
        Box::pin(async move { Ok(gate.pass(request).await) })
    }
}
