//! A watching client of slices, as a kube-proxy would be: it notes when each event arrives and what it shows.
//! Of Endpoints objects only the events are counted.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use futures::{AsyncBufReadExt, pin_mut};
use http::Request;
use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{task::JoinSet, time::Instant};

use super::{
    visible::{SetId, Shown, Visibility},
    world::World,
};
use crate::oracle::{Family, Outputs};

const SLICES_PATH: &str = "/apis/discovery.k8s.io/v1/endpointslices";
const ENDPOINTS_PATH: &str = "/api/v1/endpoints";
const RETRY_PAUSE: Duration = Duration::from_millis(100);
const GONE: u16 = 410;

/// Watches the outputs of the whole cluster for as long as it lives.
pub(super) struct OutputWatch {
    seen: Arc<Seen>,
    /// Ended with this.
    _tasks: JoinSet<()>,
}

/// What was seen. Written by the watching tasks, read by all.
pub(super) struct Seen {
    pub(super) visibility: Mutex<Visibility>,
    last_change: Mutex<Instant>,
    slices: Counter,
    endpoints: Counter,
}

#[derive(Default)]
struct Counter {
    events: AtomicU64,
    bytes: AtomicU64,
}

/// How much was written, as a watching client sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Writes {
    pub(super) slices: Volume,
    pub(super) endpoints: Volume,
}

/// How much was written to one sort of objects.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Volume {
    pub(super) events: u64,
    pub(super) bytes: u64,
}

/// A sort of objects to watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Slices,
    Endpoints,
}

/// A watching task's own: what each slice showed last.
struct Watcher {
    client: Client,
    output: Output,
    seen: Arc<Seen>,
    /// By namespace and name.
    services: HashMap<(String, String), usize>,
    /// By namespace and name.
    slices: HashMap<(String, String), KnownSlice>,
    version: String,
}

struct KnownSlice {
    set: Option<SetId>,
    pods: HashMap<String, Shown>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: Kind,
    #[serde(borrow)]
    object: Slice<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

#[derive(Deserialize)]
struct List<'a> {
    metadata: Metadata<'a>,
    #[serde(borrow)]
    items: Vec<Slice<'a>>,
}

/// A slice, an Endpoints object, of which only the metadata are read, or, in an event of the kind `ERROR`, a
/// status.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Slice<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
    #[serde(borrow, default)]
    address_type: Cow<'a, str>,
    #[serde(borrow, default)]
    endpoints: Option<Vec<Endpoint<'a>>>,
    #[serde(default)]
    code: Option<u16>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    namespace: Cow<'a, str>,
    #[serde(borrow, default)]
    resource_version: Cow<'a, str>,
    #[serde(borrow, default)]
    labels: Labels<'a>,
}

#[derive(Default, Deserialize)]
struct Labels<'a> {
    #[serde(borrow, default, rename = "kubernetes.io/service-name")]
    service: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Endpoint<'a> {
    #[serde(default)]
    conditions: Conditions,
    #[serde(borrow, default)]
    target_ref: Option<Target<'a>>,
}

#[derive(Default, Deserialize)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Deserialize)]
struct Target<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

// === impl OutputWatch ===

impl OutputWatch {
    /// Lists the objects that are to be watched, and watches them from then on.
    pub(super) async fn start(client: Client, world: &World, outputs: Outputs) -> anyhow::Result<Self> {
        let seen = Arc::new(Seen {
            visibility: Mutex::new(Visibility::new()),
            last_change: Mutex::new(Instant::now()),
            slices: Counter::default(),
            endpoints: Counter::default(),
        });
        let key = |index: usize| {
            let service = &world.services[index];
            (
                (world.namespaces[service.namespace].clone(), service.name.clone()),
                index,
            )
        };
        let services: HashMap<_, _> = (0..world.services.len()).map(key).collect();
        let mut tasks = JoinSet::new();
        for (output, wanted) in [
            (Output::Slices, outputs.slices),
            (Output::Endpoints, outputs.endpoints),
        ] {
            if !wanted {
                continue;
            }
            let mut watcher = Watcher {
                client: client.clone(),
                output,
                seen: Arc::clone(&seen),
                services: services.clone(),
                slices: HashMap::new(),
                version: String::new(),
            };
            watcher.list().await?;
            tasks.spawn(watcher.run());
        }
        Ok(Self { seen, _tasks: tasks })
    }

    pub(super) fn seen(&self) -> &Arc<Seen> {
        &self.seen
    }
}

// === impl Seen ===

impl Seen {
    /// When the last event arrived.
    pub(super) fn last_change(&self) -> Instant {
        *self.last_change.lock()
    }

    pub(super) fn writes(&self) -> Writes {
        Writes {
            slices: self.slices.volume(),
            endpoints: self.endpoints.volume(),
        }
    }

    fn note(&self, output: Output, line: &[u8], at: Instant) {
        *self.last_change.lock() = at;
        let counter = match output {
            Output::Slices => &self.slices,
            Output::Endpoints => &self.endpoints,
        };
        counter.events.fetch_add(1, Ordering::Relaxed);
        counter.bytes.fetch_add(line.len() as u64, Ordering::Relaxed);
    }
}

// === impl Counter ===

impl Counter {
    fn volume(&self) -> Volume {
        Volume {
            events: self.events.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

// === impl Writes ===

impl Writes {
    /// Writes to objects of all sorts.
    pub(super) fn events(&self) -> u64 {
        self.slices.events + self.endpoints.events
    }
}

impl std::ops::Sub for Writes {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            slices: self.slices - earlier.slices,
            endpoints: self.endpoints - earlier.endpoints,
        }
    }
}

// === impl Volume ===

impl std::ops::Sub for Volume {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            events: self.events - earlier.events,
            bytes: self.bytes - earlier.bytes,
        }
    }
}

// === impl Output ===

impl Output {
    fn path(self) -> &'static str {
        match self {
            Self::Slices => SLICES_PATH,
            Self::Endpoints => ENDPOINTS_PATH,
        }
    }
}

// === impl Watcher ===

impl Watcher {
    async fn run(mut self) {
        loop {
            if let Err(error) = self.watch().await {
                let (error, path) = (format!("{error:#}"), self.output.path());
                tracing::warn!(error, path, "watch: starting again");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }

    async fn list(&mut self) -> anyhow::Result<()> {
        let text = self
            .client
            .request_text(Request::get(self.output.path()).body(Vec::new())?)
            .await
            .with_context(|| format!("listing {}", self.output.path()))?;
        let list: List<'_> =
            serde_json::from_str(&text).with_context(|| format!("reading {}", self.output.path()))?;
        let now = Instant::now();
        let mut gone: HashSet<_> = self.slices.keys().cloned().collect();
        for slice in &list.items {
            gone.remove(&slice.key());
            self.apply(slice, now);
        }
        for key in gone {
            self.remove(&key, now);
        }
        self.version = list.metadata.resource_version.into_owned();
        Ok(())
    }

    /// Watches until the server ends it, which it may at any time.
    async fn watch(&mut self) -> anyhow::Result<()> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&resourceVersion={}",
            self.output.path(),
            self.version
        );
        let stream = self
            .client
            .request_stream(Request::get(path).body(Vec::new())?)
            .await?;
        pin_mut!(stream);
        let mut line = Vec::new();
        loop {
            line.clear();
            if stream.read_until(b'\n', &mut line).await? == 0 {
                return Ok(());
            }
            let now = Instant::now();
            let event: Event<'_> = serde_json::from_slice(&line).context("reading an event")?;
            let slice = &event.object;
            match event.kind {
                Kind::Added | Kind::Modified => {
                    self.seen.note(self.output, &line, now);
                    self.apply(slice, now);
                }
                Kind::Deleted => {
                    self.seen.note(self.output, &line, now);
                    self.remove(&slice.key(), now);
                }
                Kind::Bookmark => {}
                Kind::Error if slice.code == Some(GONE) => return self.list().await,
                Kind::Error => bail!("the server ended it: {}", String::from_utf8_lossy(&line)),
            }
            slice
                .metadata
                .resource_version
                .as_ref()
                .clone_into(&mut self.version);
        }
    }

    fn apply(&mut self, slice: &Slice<'_>, now: Instant) {
        if self.output == Output::Endpoints {
            return;
        }
        let set = self.set_of(slice);
        let known = self.slices.entry(slice.key()).or_insert(KnownSlice {
            set,
            pods: HashMap::new(),
        });
        let mut before = std::mem::take(&mut known.pods);
        let mut visibility = self.seen.visibility.lock();
        for endpoint in slice.endpoints.iter().flatten() {
            let Some(target) = &endpoint.target_ref else {
                continue;
            };
            let shown = endpoint.conditions.shown();
            let (name, was) = match before.remove_entry(&*target.name) {
                Some((name, was)) => (name, Some(was)),
                None => (target.name.clone().into_owned(), None),
            };
            if let Some(set) = known.set
                && was != Some(shown)
            {
                visibility.shows(set, &name, shown, was.is_none(), now);
            }
            known.pods.insert(name, shown);
        }
        if let Some(set) = known.set {
            for pod in before.keys() {
                visibility.shows_no_more(set, pod, now);
            }
        }
    }

    fn remove(&mut self, key: &(String, String), now: Instant) {
        let Some(known) = self.slices.remove(key) else {
            return;
        };
        let Some(set) = known.set else { return };
        let mut visibility = self.seen.visibility.lock();
        for pod in known.pods.keys() {
            visibility.shows_no_more(set, pod, now);
        }
    }

    fn set_of(&self, slice: &Slice<'_>) -> Option<SetId> {
        let service = slice.metadata.labels.service.as_ref()?;
        let key = (
            slice.metadata.namespace.clone().into_owned(),
            service.clone().into_owned(),
        );
        Some((*self.services.get(&key)?, Family::from_name(&slice.address_type)?))
    }
}

// === impl Slice ===

impl Slice<'_> {
    fn key(&self) -> (String, String) {
        (
            self.metadata.namespace.clone().into_owned(),
            self.metadata.name.clone().into_owned(),
        )
    }
}

// === impl Conditions ===

impl Conditions {
    fn shown(&self) -> Shown {
        Shown::Present {
            ready: self.ready.unwrap_or_default(),
            serving: self.serving.unwrap_or_default(),
            terminating: self.terminating.unwrap_or_default(),
        }
    }
}
