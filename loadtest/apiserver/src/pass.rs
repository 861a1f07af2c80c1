//! The server without a socket, and the one gate every request passes.

use crate::accept::{Form, negotiate};
use crate::body::ResponseBody;
use crate::config::Config;
use crate::delete::{self, Deleted, Options};
use crate::faults::{
    Active, Ask, Caller, Ending, Failure, Fate, FaultPlan, FaultRecord, Faults, answer, cut, faulty, lost,
    no_streaming_lists,
};
use crate::kinds::Kind;
use crate::list::{self, List, not_future, parse_version};
use crate::object::{Object, key_of};
use crate::route::{ObjectTarget, Plain, Query, Sub, Target, target};
use crate::status::{Answer, Refusal};
use crate::store::Store;
use crate::write::{self, Change};
use crate::{discovery, gc, registry, watch};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use parking_lot::Mutex;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A request that was answered, or that a fault left without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The status of the answer; 0 when none was given.
    pub status: u16,
    /// The version of the store when the answer began.
    pub resource_version: u64,
    /// When the answer began, on tokio's clock since the server's start.
    pub at: Duration,
    /// Whether the store took the request, whatever the client was told.
    pub applied: bool,
    /// The faults that hit the request, as [`Fault`](crate::Fault) prints them; of a watch, those it has before it.
    pub faults: Vec<String>,
}

/// An API server: its objects and the handling of requests, without a socket. Clones share everything.
#[derive(Clone, Debug)]
pub struct ApiServer {
    store: Arc<Store>,
    log: Arc<Mutex<VecDeque<RequestRecord>>>,
    faults: Arc<Faults>,
}

/// The server as a tower service, for [`kube::Client::new`](https://docs.rs/kube) or a listener.
#[derive(Clone, Debug)]
pub struct ApiService {
    server: ApiServer,
    caller: Caller,
}

/// A request under a fault plan, recorded when it is over.
struct Passage<'a> {
    server: &'a ApiServer,
    parts: &'a Parts,
    status: u16,
    applied: bool,
    faults: Vec<String>,
}

/// An answer before it has its form.
enum Reply {
    Object(StatusCode, Arc<Object>),
    Json(StatusCode, serde_json::Value),
    Text(&'static str),
    List(List),
    Stream(ResponseBody),
}

// === impl ApiServer ===

impl ApiServer {
    /// A server with the namespaces every cluster has. With `config.gc` its collector is spawned, so that this must
    /// be called within a tokio runtime.
    ///
    /// # Panics
    ///
    /// With `config.gc`, outside of a tokio runtime.
    pub fn new(config: Config) -> Self {
        let collects = config.gc;
        let store = Arc::new(Store::new(config));
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let target = ObjectTarget {
                kind: Kind::Namespace,
                namespace: String::new(),
                name: String::new(),
                sub: Sub::Main,
            };
            let body = json!({"metadata": {"name": name}}).to_string();
            write::create(&store, &target, &Query::default(), body.as_bytes())
                .expect("an empty store takes the first namespaces");
        }
        if collects {
            tokio::spawn(gc::run(Arc::downgrade(&store), Arc::clone(&store.collector)));
        }
        Self {
            store,
            log: Arc::default(),
            faults: Arc::default(),
        }
    }

    /// The server as a tower service.
    pub fn service(&self) -> ApiService {
        self.service_of(Caller::Header)
    }

    /// The server as the tower service of a client of this name, which rules of a fault plan can tell from others.
    pub fn service_as(&self, client: &str) -> ApiService {
        self.service_of(Caller::Named(client.into()))
    }

    /// The server as a tower service that no fault plan reaches: a test's own client.
    pub fn service_without_faults(&self) -> ApiService {
        self.service_of(Caller::Spared)
    }

    fn service_of(&self, caller: Caller) -> ApiService {
        ApiService {
            server: self.clone(),
            caller,
        }
    }

    /// From now on requests and watches, those that are open included, meet the faults of this plan. It replaces one
    /// that was set before, and what that did.
    pub fn set_faults(&self, plan: FaultPlan) {
        self.faults.set(plan);
        // Open watches look for the plan when they are polled.
        self.store.wake_all();
    }

    /// From now on everything answers normally. Requests that wait or hang go on from where they are, watches tell at
    /// once what they held back and go on.
    pub fn clear_faults(&self) {
        self.faults.clear();
    }

    /// What the plan did since it was set, in order: the latest 100,000 of it. It stays there when the plan is cleared.
    pub fn faults_injected(&self) -> Vec<FaultRecord> {
        self.faults.latest().map_or_else(Vec::new, |plan| plan.records())
    }

    /// How often the plan did what, by the faults' names; faults that never happened are not in it.
    pub fn fault_counts(&self) -> BTreeMap<String, u64> {
        self.faults
            .latest()
            .map_or_else(BTreeMap::new, |plan| plan.counts())
    }

    /// The latest requests, in the order in which their answers began; at most `config.request_log` of them.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.log.lock().iter().cloned().collect()
    }

    /// The version of the last change.
    pub fn resource_version(&self) -> u64 {
        self.store.read().rv
    }

    /// Forgets the history, as a compaction of the real server's store: watches and continued lists of older versions
    /// are answered with 410 from now on, and watchers that have not read all of it are cut off.
    pub fn compact(&self) {
        self.store.write().compact();
    }

    /// A kubeconfig for the server at `url`.
    pub fn kubeconfig(url: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: memory\n  cluster:\n    server: {url}\ncontexts:\n\
             - name: memory\n  context:\n    cluster: memory\n    user: memory\n    namespace: default\n\
             current-context: memory\nusers:\n- name: memory\n  user: {{}}\n"
        )
    }

    /// Answers a request. All requests pass here, and nowhere else. An error is a connection lost without an answer.
    pub(crate) async fn pass<B>(
        &self,
        caller: &Caller,
        request: Request<B>,
    ) -> io::Result<Response<ResponseBody>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let limit = self.store.config.max_body;
        let body = match Limited::new(body, limit).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
                Err(Refusal::too_large(limit))
            }
            Err(error) => Err(Refusal::bad_request(format!(
                "the body could not be read: {error}"
            ))),
        };
        let generation = self.faults.generation();
        if Faults::is_set(generation)
            && let Some((generation, plan)) = self.faults.active()
            && let Ok(body) = &body
            && let Some(ask) = Ask::new(&parts, body, caller)
        {
            // Boxed, so that requests without a plan do not carry its size.
            return Box::pin(self.pass_under(generation, plan, ask, &parts, body)).await;
        }
        let mut response = body
            .and_then(|body| self.apply(&parts, &body))
            .unwrap_or_else(|refusal| refused(&refusal));
        if let Some(watch) = response.body_mut().open_watch()
            && let Some(ask) = Ask::new(&parts, &[], caller)
        {
            watch.attend(Arc::clone(&self.faults), generation, Arc::new(ask));
        }
        let status = response.status();
        self.record(&parts, status.as_u16(), status.is_success(), Vec::new());
        Ok(response)
    }

    /// Answers a request under a fault plan: what delays, fails or loses it comes before and after the one call of
    /// `apply`.
    async fn pass_under(
        &self,
        generation: u64,
        plan: Arc<Active>,
        ask: Ask,
        parts: &Parts,
        body: &Bytes,
    ) -> io::Result<Response<ResponseBody>> {
        let hit = plan.draw(&ask);
        let mut passage = Passage {
            server: self,
            parts,
            status: 0,
            applied: false,
            faults: Vec::new(),
        };
        if let Some(rule) = hit.compact {
            passage.faults.push(plan.note(rule, &ask));
            self.compact();
        }
        for (rule, time) in hit.before {
            passage.faults.push(plan.note(rule, &ask));
            plan.pause(time).await;
        }
        let mut fate = hit.fate.filter(|_| !plan.is_lifted());
        if let Some((rule, Fate::Before(_) | Fate::NoStreamingLists)) = fate {
            passage.faults.push(plan.note(rule, &ask));
        }
        match &fate {
            Some((_, Fate::Before(failure))) => {
                if let Some(end) = self.fail(*failure, &plan, &ask).await {
                    return passage.end(end);
                }
                fate = None;
            }
            Some((_, Fate::NoStreamingLists)) => return passage.end(Ok(no_streaming_lists())),
            _ => {}
        }
        let mut response = self
            .apply(parts, body)
            .unwrap_or_else(|refusal| refused(&refusal));
        passage.applied = response.status().is_success();
        for (rule, time) in hit.after {
            passage.faults.push(plan.note(rule, &ask));
            plan.pause(time).await;
        }
        if let Some((rule, fate)) = fate.filter(|_| !plan.is_lifted()) {
            passage.faults.push(plan.note(rule, &ask));
            match fate {
                Fate::After(failure) => {
                    if let Some(end) = self.fail(failure, &plan, &ask).await {
                        return passage.end(end);
                    }
                }
                Fate::CutAnswer(rng) => response = response.map(|body| cut(body, rng)),
                Fate::Before(_) | Fate::NoStreamingLists => {}
            }
        }
        if let Some(watch) = response.body_mut().open_watch() {
            let ask = Arc::new(ask);
            watch.attend(Arc::clone(&self.faults), generation, Arc::clone(&ask));
            let hits = hit.watch;
            if !hits.is_empty() && !plan.is_lifted() {
                passage
                    .faults
                    .extend(hits.iter().map(|(rule, ..)| plan.label(*rule)));
                watch.wrap(|pieces| faulty(pieces, plan, ask, hits));
            }
        }
        passage.end(Ok(response))
    }

    /// How a request ends that fails; none when it hung and the plan was lifted, so that it goes on.
    async fn fail(
        &self,
        failure: Failure,
        plan: &Active,
        ask: &Ask,
    ) -> Option<io::Result<Response<ResponseBody>>> {
        match failure {
            Failure::Reset => Some(Err(lost(Ending::Reset))),
            Failure::Closed => Some(Err(lost(Ending::Closed))),
            Failure::Hang => {
                plan.until_lifted().await;
                None
            }
            failure => answer(failure, ask, self.resource_version()).map(Ok),
        }
    }

    fn record(&self, parts: &Parts, status: u16, applied: bool, faults: Vec<String>) {
        let keep = self.store.config.request_log;
        if keep == 0 {
            return;
        }
        let record = RequestRecord {
            method: parts.method.to_string(),
            path: parts.uri.path_and_query().map_or("/", |p| p.as_str()).to_owned(),
            status,
            resource_version: self.resource_version(),
            at: self.store.clock.offset(),
            applied,
            faults,
        };
        let mut log = self.log.lock();
        if log.len() == keep {
            log.pop_front();
        }
        log.push_back(record);
    }

    fn apply(&self, parts: &Parts, body: &Bytes) -> Answer<Response<ResponseBody>> {
        let query = Query::parse(parts.uri.query());
        let target = match target(parts.uri.path()) {
            Target::Object(target) => target,
            Target::Plain(plain) => {
                return respond(document(parts, &plain)?, Form::Whole);
            }
            Target::Nothing => return Err(Refusal::no_such_path()),
        };
        let form = negotiate(&parts.headers)?;
        respond(self.object(parts, &target, &query, form, body)?, form)
    }

    fn object(
        &self,
        parts: &Parts,
        target: &ObjectTarget,
        query: &Query,
        form: Form,
        body: &Bytes,
    ) -> Answer<Reply> {
        let store = &self.store;
        let facts = target.kind.facts();
        let collection = target.name.is_empty();
        // A collection of all namespaces can only be read.
        let everywhere = collection && facts.namespaced && target.namespace.is_empty();
        match (&parts.method, collection) {
            (&Method::GET, true) if query.flag("watch") => {
                Ok(Reply::Stream(watch::start(store, target, query, form)?))
            }
            (&Method::GET, true) => Ok(Reply::List(list::collect(store, target, query)?)),
            (&Method::GET, false) if target.sub != Sub::Finalize => {
                not_future(parse_version(query.text("resourceVersion"))?, &store.read())?;
                let key = key_of(&target.namespace, &target.name);
                let found = store.get(target.kind, &key);
                let object = found.ok_or_else(|| Refusal::not_found(target.kind, &target.name))?;
                Ok(Reply::Object(StatusCode::OK, object))
            }
            (&Method::POST, true) if !everywhere => {
                json_body(parts, &["application/json"])?;
                Ok(written(write::create(store, target, query, body)?))
            }
            (&Method::PUT, false) => {
                json_body(parts, &["application/json"])?;
                let value = registry::decode(target.kind, body)?;
                Ok(written(write::update(
                    store,
                    target,
                    query,
                    &Change::Replace(value),
                )?))
            }
            (&Method::PATCH, false) if target.sub != Sub::Finalize => {
                json_body(parts, &["application/merge-patch+json"])?;
                let patch: serde_json::Value = serde_json::from_slice(body)
                    .map_err(|error| Refusal::bad_request(format!("error decoding patch: {error}")))?;
                if !patch.is_object() {
                    return Err(Refusal::bad_request(
                        "error decoding patch: a merge patch must be an object",
                    ));
                }
                Ok(written(write::update(
                    store,
                    target,
                    query,
                    &Change::Merge(patch),
                )?))
            }
            (&Method::DELETE, false) if target.sub == Sub::Main => {
                match delete::delete(store, target, &Options::parse(query, body)?)? {
                    Deleted::Gone(object) if !facts.returns_deleted => {
                        Ok(Reply::Json(StatusCode::OK, delete::success(&object)))
                    }
                    Deleted::Gone(object) | Deleted::Pending(object) => {
                        Ok(Reply::Object(StatusCode::OK, object))
                    }
                }
            }
            (&Method::DELETE, true) if facts.delete_collection && !everywhere => {
                let options = Options::parse(query, body)?;
                Ok(Reply::List(delete::delete_all(store, target, query, &options)?))
            }
            _ => Err(Refusal::method_not_allowed()),
        }
    }
}

// === impl Passage ===

impl Passage<'_> {
    fn end(mut self, end: io::Result<Response<ResponseBody>>) -> io::Result<Response<ResponseBody>> {
        self.status = end.as_ref().map_or(0, |response| response.status().as_u16());
        end
    }
}

impl Drop for Passage<'_> {
    /// Also when the client went away before it was answered.
    fn drop(&mut self) {
        let faults = std::mem::take(&mut self.faults);
        self.server.record(self.parts, self.status, self.applied, faults);
    }
}

fn document(parts: &Parts, plain: &Plain) -> Answer<Reply> {
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Err(Refusal::method_not_allowed());
    }
    if *plain == Plain::Health {
        return Ok(Reply::Text("ok"));
    }
    negotiate(&parts.headers)?;
    let host = parts
        .headers
        .get(header::HOST)
        .and_then(|h| h.to_str().ok())
        .unwrap_or("127.0.0.1");
    let document = discovery::document(plain, host).ok_or_else(Refusal::no_such_path)?;
    Ok(Reply::Json(StatusCode::OK, document))
}

fn written((object, created): write::Written) -> Reply {
    Reply::Object(
        if created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        },
        object,
    )
}

fn json_body(parts: &Parts, accepted: &[&str]) -> Answer<()> {
    let given = parts
        .headers
        .get(header::CONTENT_TYPE)
        .and_then(|h| h.to_str().ok())
        .unwrap_or("");
    let media = given.split(';').next().unwrap_or("").trim();
    let plain = media.is_empty() && accepted[0] == "application/json";
    if plain || accepted.iter().any(|a| a.eq_ignore_ascii_case(media)) {
        Ok(())
    } else {
        Err(Refusal::unsupported_media(&accepted.join(", ")))
    }
}

fn respond(reply: Reply, form: Form) -> Answer<Response<ResponseBody>> {
    let (status, media, body) = match reply {
        Reply::Object(status, object) => {
            if form == Form::MetadataList {
                let mut refusal = Refusal::not_acceptable();
                refusal.message = format!(
                    "you requested PartialObjectMetadataList, but the requested object is not a list (*{})",
                    object.kind.facts().kind
                );
                return Err(refusal);
            }
            let body = if form == Form::Metadata {
                let mut out = BytesMut::new();
                object.write(&mut out, true);
                out.extend_from_slice(b"\n");
                out.freeze()
            } else {
                object.bytes.clone()
            };
            (status, "application/json", ResponseBody::whole(body))
        }
        Reply::Json(status, value) => (status, "application/json", json_line(&value)),
        Reply::Text(text) => (
            StatusCode::OK,
            "text/plain; charset=utf-8",
            ResponseBody::whole(text),
        ),
        Reply::List(list) => (StatusCode::OK, "application/json", list.body(form)?),
        Reply::Stream(body) => (StatusCode::OK, "application/json", body),
    };
    Ok(response(status, media, body))
}

fn json_line(value: &serde_json::Value) -> ResponseBody {
    ResponseBody::whole(format!("{value}\n"))
}

pub(crate) fn response(
    status: StatusCode,
    media: &'static str,
    body: ResponseBody,
) -> Response<ResponseBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("no-cache, private"),
    );
    response
}

pub(crate) fn refused(refusal: &Refusal) -> Response<ResponseBody> {
    let status =
        StatusCode::from_u16(refusal.code).expect("refusals carry the statuses written in this crate");
    let mut response = response(status, "application/json", json_line(&refusal.status()));
    if let Some(seconds) = refusal.retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

// === impl ApiService ===

impl<B> tower::Service<Request<B>> for ApiService
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    /// A lost connection, which only a fault plan causes.
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { server, caller } = self.clone();
        Box::pin(async move { server.pass(&caller, request).await })
    }
}
