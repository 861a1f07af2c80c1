//! The server without a socket, and the one gate every request passes.

use crate::accept::{Accepted, Body as Sent, Form, Media, Offer, body_media, negotiate, of_refusals};
use crate::access::{self, Access, Admitted, Attributes, Review};
use crate::body::ResponseBody;
use crate::config::Config;
use crate::delete::{self, Deleted, Options};
use crate::faults::{
    Active, Ask, Caller, Ending, Failure, Fate, FaultPlan, FaultRecord, Faults, answer, attend, cut, faulty,
    lost, no_streaming_lists,
};
use crate::journal::JournalEntry;
use crate::kubectl::Style;
use crate::list::{self, not_future, parse_version};
use crate::listener::{Arrival, Listener};
use crate::object::key_of;
use crate::query::Query;
use crate::reply::{Reply, document, refused, respond, written};
use crate::route::{ObjectTarget, Sub, Target, target};
use crate::status::{Answer, Refusal};
use crate::store::Store;
use crate::write::{self, Write};
use crate::{catalog, gc, patches, seed, watch};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use parking_lot::{Mutex, RwLock};
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The largest body of a request, which is etcd's limit with room.
const MOST_BYTES: usize = 3 * 1024 * 1024;

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
    access: Arc<RwLock<Option<Arc<Access>>>>,
    listener: Listener,
}

/// The server as a tower service, for [`kube::Client::new`](https://docs.rs/kube) or a listener.
#[derive(Clone, Debug)]
pub struct ApiService {
    server: ApiServer,
    caller: Caller,
    token: Option<Arc<str>>,
}

/// A request under a fault plan, recorded when it is over.
struct Passage<'a> {
    server: &'a ApiServer,
    parts: &'a Parts,
    status: u16,
    applied: bool,
    faults: Vec<String>,
}

// === impl ApiServer ===

impl ApiServer {
    /// A server with the namespaces every cluster has. Its garbage collector and its namespace controller are spawned,
    /// so that this must be called within a tokio runtime; without both ([`Config::gc`]) it need not.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, if it spawns.
    pub fn new(mut config: Config) -> Self {
        let collects = config.gc || config.empties_namespaces();
        let access = config.access.take().map(Arc::new);
        let store = Arc::new(Store::new(config, catalog::all()));
        let first = ["default", "kube-node-lease", "kube-public", "kube-system"]
            .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
        seed::load(&store, &first).expect("an empty store takes namespaces");
        if collects {
            tokio::spawn(gc::run(Arc::downgrade(&store), Arc::clone(&store.collector)));
        }
        Self {
            store,
            log: Arc::default(),
            faults: Arc::default(),
            access: Arc::new(RwLock::new(access)),
            listener: Listener::default(),
        }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The server as a tower service.
    pub fn service(&self) -> ApiService {
        self.service_of(Caller::Header)
    }

    /// The server as the tower service of a client of this name, which rules of a fault plan can tell from others.
    pub fn service_as(&self, client: &str) -> ApiService {
        self.service_of(Caller::Named(client.into()))
    }

    /// The server as a tower service that no fault plan and no access rule reaches: a test's own client.
    pub fn service_without_faults(&self) -> ApiService {
        self.service_of(Caller::Spared)
    }

    fn service_of(&self, caller: Caller) -> ApiService {
        ApiService {
            server: self.clone(),
            caller,
            token: None,
        }
    }

    /// From now on requests meet these rules; none lets everyone do everything. Watches that are open go on, as they
    /// do in a cluster.
    pub fn set_access(&self, access: Option<Access>) {
        *self.access.write() = access.map(Arc::new);
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

    /// Returns the faults that the plan injected since it was set, in order: the latest 100,000 of them. They stay
    /// there when the plan is cleared.
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

    /// All changes so far, in their order; none unless `config.journal` is set.
    pub fn journal(&self) -> Vec<JournalEntry> {
        self.store.read().journal.clone().unwrap_or_default()
    }

    /// Has `listen` hear of each request from now on, on the thread that answers it; false if another one does already.
    pub fn on_request(&self, listen: impl Fn(&Arrival<'_>) + Send + Sync + 'static) -> bool {
        self.listener.set(Box::new(listen))
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
        token: Option<&str>,
        request: Request<B>,
    ) -> io::Result<Response<ResponseBody>>
    where
        B: Body<Data = Bytes>,
        B::Error: Into<BoxError>,
    {
        let (parts, body) = request.into_parts();
        let body = match Limited::new(body, MOST_BYTES).collect().await {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
                Err(Refusal::too_large(MOST_BYTES))
            }
            Err(error) => Err(Refusal::bad_request(format!(
                "the body could not be read: {error}"
            ))),
        };
        if let Ok(body) = &body {
            let (method, path) = (&parts.method, parts.uri.path());
            self.listener.hear(&Arrival { method, path, body });
        }
        let generation = self.faults.generation();
        if Faults::is_set(generation)
            && let Some((generation, plan)) = self.faults.active()
            && let Ok(body) = &body
            && let Some(ask) = Ask::new(&parts, body, caller, &self.store)
        {
            // Boxed, so that requests without a plan do not carry its size.
            let admitted = self.admit(caller, token, &parts);
            return Box::pin(self.pass_under(generation, plan, ask, &parts, body, admitted)).await;
        }
        let mut response = body
            .and_then(|body| self.apply(&parts, &body, self.admit(caller, token, &parts)?))
            .unwrap_or_else(|refusal| self.refuse(&parts, &refusal));
        if response.body().is_watch()
            && let Some(ask) = Ask::new(&parts, &[], caller, &self.store)
        {
            let faults = Arc::clone(&self.faults);
            response = response
                .map(|body| body.wrap_watch(|pieces| attend(pieces, faults, generation, Arc::new(ask))));
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
        admitted: Answer<Admitted>,
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
            Some((_, Fate::NoStreamingLists)) => return passage.end(Ok(no_streaming_lists(&ask))),
            _ => {}
        }
        let mut response = admitted
            .and_then(|admitted| self.apply(parts, body, admitted))
            .unwrap_or_else(|refusal| self.refuse(parts, &refusal));
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
        if response.body().is_watch() {
            let ask = Arc::new(ask);
            let hits = hit.watch;
            if !hits.is_empty() && !plan.is_lifted() {
                passage
                    .faults
                    .extend(hits.iter().map(|(rule, ..)| plan.label(*rule)));
                let ask = Arc::clone(&ask);
                response = response.map(|body| body.wrap_watch(|pieces| faulty(pieces, plan, ask, hits)));
            }
            let faults = Arc::clone(&self.faults);
            response = response.map(|body| body.wrap_watch(|pieces| attend(pieces, faults, generation, ask)));
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

    /// Returns the user that sends this request, if access is controlled; refused when the request authenticates as no
    /// user, or the user may not send it.
    fn admit(&self, caller: &Caller, token: Option<&str>, parts: &Parts) -> Answer<Admitted> {
        if matches!(caller, Caller::Spared) {
            return Ok(None);
        }
        let Some(access) = self.access.read().clone() else {
            return Ok(None);
        };
        let user = access.authenticate(&parts.headers, token)?;
        access.authorise(&user, &Attributes::of(parts))?;
        Ok(Some((access, user)))
    }

    fn refuse(&self, parts: &Parts, refusal: &Refusal) -> Response<ResponseBody> {
        let config = &self.store.config;
        let offer = match target(parts.uri.path(), &self.store.read()) {
            Target::Object(target) => Offer::of(target.kind, &config.protobuf),
            _ => Offer::general(&config.protobuf),
        };
        refused(refusal, of_refusals(&parts.headers, offer))
    }

    fn apply(&self, parts: &Parts, body: &Bytes, admitted: Admitted) -> Answer<Response<ResponseBody>> {
        let query = Query::parse(parts.uri.query());
        let named = target(parts.uri.path(), &self.store.read());
        let target = match named {
            Target::Object(target) => target,
            Target::Plain(plain) => {
                let reviews = self.access.read().is_some();
                let document = document(parts, &plain, self.store.read().kinds(), reviews)?;
                return respond(document, Accepted::JSON);
            }
            Target::Review(kind) => {
                let offer = Offer::general(&self.store.config.protobuf);
                let accepted = negotiate(&parts.headers, offer)?;
                return respond(self.review(parts, kind, body, offer, admitted)?, accepted);
            }
            Target::Nothing => return Err(Refusal::no_such_path()),
        };
        let offer = Offer::of(target.kind, &self.store.config.protobuf);
        let mut accepted = negotiate(&parts.headers, offer)?;
        if let Form::Table(style) = &mut accepted.form {
            *style = Style::of(query.text("includeObject"), self.store.clock.now());
        }
        if let Some((access, user)) = &admitted
            && matches!(parts.method, Method::PUT | Method::PATCH)
            && self
                .store
                .get(target.kind, &key_of(&target.namespace, &target.name))
                .is_none()
        {
            // A PUT or PATCH of an absent object would create it, so it needs the right to create as well.
            access.authorise(user, &Attributes::of(parts).with_verb("create"))?;
        }
        respond(
            self.object(parts, &target, &query, (offer, accepted), body)?,
            accepted,
        )
    }

    fn review(
        &self,
        parts: &Parts,
        review: Review,
        body: &[u8],
        offer: Offer,
        admitted: Admitted,
    ) -> Answer<Reply> {
        // A test's own client asks for reviews as a user who may do everything.
        let (access, user) = if let Some(admitted) = admitted {
            admitted
        } else {
            let access = self.access.read().clone().ok_or_else(Refusal::no_such_path)?;
            (access, access::User::default())
        };
        if parts.method != Method::POST {
            return Err(Refusal::method_not_allowed());
        }
        let media = body_media(&parts.headers, offer.takes_protobuf())?;
        let sent = Sent { bytes: body, media };
        let answer = access::answer(&access, &user, review, sent)?;
        Ok(Reply::Made(StatusCode::CREATED, answer))
    }

    fn object(
        &self,
        parts: &Parts,
        target: &ObjectTarget,
        query: &Query,
        (offer, accepted): (Offer, Accepted),
        body: &Bytes,
    ) -> Answer<Reply> {
        let store = &self.store;
        let kind = target.kind;
        if query.get("dryRun").is_some() {
            return Err(Refusal::bad_request("this server has no dry runs"));
        }
        let write = Write {
            store,
            target,
            query,
            manager: manager(parts, query),
        };
        match target.sub {
            Sub::Binding => return crate::parts::bind(write, parts, body),
            Sub::Scale => return crate::parts::scale(write, parts, body),
            Sub::Main | Sub::Status | Sub::Finalize => {}
        }
        let collection = target.name.is_empty();
        // A collection of all namespaces can only be read.
        let sent_as = || body_media(&parts.headers, offer.takes_protobuf());
        // Options are of a group of their own, which has protobuf whatever is deleted.
        let options = || {
            let protobuf = offer != Offer::JsonOnly;
            let media = if body.is_empty() {
                Media::Json
            } else {
                body_media(&parts.headers, protobuf)?
            };
            Options::parse(Sent { bytes: body, media })
        };
        let everywhere = collection && kind.namespaced && target.namespace.is_empty();
        match (&parts.method, collection) {
            (&Method::GET, true) if query.flag("watch") => {
                Ok(Reply::Stream(watch::start(store, target, query, accepted)?))
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
                let media = sent_as()?;
                Ok(written(write::create(write, Sent { bytes: body, media })?))
            }
            (&Method::PUT, false) => {
                let media = sent_as()?;
                let replacement = write.replacement(Sent { bytes: body, media })?;
                Ok(written(write::update(write, &replacement)?))
            }
            (&Method::PATCH, false) if target.sub != Sub::Finalize => {
                let change = patches::read(parts, query, body)?;
                Ok(written(write::update(write, &change)?))
            }
            (&Method::DELETE, false) if target.sub == Sub::Main => {
                match delete::delete(store, target, &options()?)? {
                    Deleted::Gone(object) if !kind.returns_deleted => {
                        Ok(Reply::Made(StatusCode::OK, delete::success(&object)))
                    }
                    Deleted::Gone(object) | Deleted::Pending(object) => {
                        Ok(Reply::Object(StatusCode::OK, object))
                    }
                }
            }
            (&Method::DELETE, true) if kind.delete_collection && !everywhere => {
                let options = options()?;
                Ok(Reply::List(delete::delete_all(store, target, query, &options)?))
            }
            _ => Err(Refusal::method_not_allowed()),
        }
    }
}

/// Returns the manager of a write: the one that the request names, or else the client's name.
fn manager<'a>(parts: &'a Parts, query: &'a Query) -> &'a str {
    match query.text("fieldManager") {
        "" => {
            let agent = parts.headers.get(header::USER_AGENT);
            let agent = agent.and_then(|agent| agent.to_str().ok()).unwrap_or("");
            match agent.split('/').next() {
                Some("") | None => "unknown",
                Some(name) => name,
            }
        }
        manager => manager,
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

// === impl ApiService ===

impl ApiService {
    /// The same service, whose requests carry this bearer token unless they carry one of their own.
    #[must_use]
    pub fn with_token(mut self, token: &str) -> Self {
        self.token = Some(token.into());
        self
    }
}

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
        let Self {
            server,
            caller,
            token,
        } = self.clone();
        Box::pin(async move { server.pass(&caller, token.as_deref(), request).await })
    }
}
