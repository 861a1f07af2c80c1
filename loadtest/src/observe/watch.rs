//! A watching client of slices and Endpoints objects.

use super::PodNumber;
use super::visible::{SetId, Shown, Visibility};
use super::wire::{Event, Kind, List, Object};
use crate::oracle::{Family, Outputs};
use crate::report::model::WriteCounts;
use anyhow::{Context, bail};
use futures::{AsyncBufReadExt, pin_mut};
use http::Request;
use kube::Client;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

const SLICES_PATH: &str = "/apis/discovery.k8s.io/v1/endpointslices";
const ENDPOINTS_PATH: &str = "/api/v1/endpoints";
const RETRY_PAUSE: Duration = Duration::from_millis(100);
const GONE: u16 = 410;

/// Watches the outputs of the whole cluster, or those of a label, for as long as it lives.
pub(crate) struct OutputWatch {
    seen: Arc<Seen>,
    /// Ended with this.
    _tasks: JoinSet<()>,
}

/// The objects to watch.
pub(crate) struct Scope {
    pub(crate) outputs: Outputs,
    /// `KEY=VALUE` that the objects have; all objects if there is none.
    pub(crate) label: Option<String>,
    /// The Services that matter, by namespace and name: their positions in the world, and the family of their
    /// Endpoints.
    pub(crate) services: HashMap<(String, String), (usize, Family)>,
}

/// Everything that was seen. Written by the watching tasks, read by all.
pub(crate) struct Seen {
    pub(crate) slices: Mutex<Visibility>,
    pub(crate) endpoints: Mutex<Visibility>,
    events: Mutex<Events>,
}

/// When events arrived, and how much they wrote.
struct Events {
    last: Instant,
    /// The first event since one was asked for.
    next: Option<Instant>,
    writes: Writes,
    /// How often each slice was written since this count was asked for, by namespace and name.
    each_slice: Option<HashMap<(String, String), u32>>,
    /// How many slices, and how many Endpoints objects, there are.
    present: [usize; 2],
}

/// How much was written, as a watching client sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Writes {
    pub(crate) slices: WriteCounts,
    pub(crate) endpoints: WriteCounts,
}

/// A sort of objects to watch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    Slices,
    Endpoints,
}

/// A watching task's own: what each object showed last.
struct Watcher {
    client: Client,
    output: Output,
    selection: String,
    seen: Arc<Seen>,
    services: Arc<HashMap<(String, String), (usize, Family)>>,
    /// By namespace and name.
    known: HashMap<(String, String), Known>,
    version: String,
}

/// The last contents of an object.
struct Known {
    set: SetId,
    /// A kube-proxy is shown it.
    is_proxied: bool,
    /// By number.
    pods: Vec<(PodNumber, Shown)>,
}

// === impl OutputWatch ===

impl OutputWatch {
    /// Lists the objects that are to be watched, and watches them from then on.
    pub(crate) async fn start(client: Client, scope: Scope) -> anyhow::Result<Self> {
        let Scope {
            outputs,
            label,
            services,
        } = scope;
        let seen = Arc::new(Seen::new());
        let services = Arc::new(services);
        let selection = label.map_or_else(String::new, |label| {
            format!("labelSelector={}&", label.replace('/', "%2F").replace('=', "%3D"))
        });
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
                selection: selection.clone(),
                seen: Arc::clone(&seen),
                services: Arc::clone(&services),
                known: HashMap::new(),
                version: String::new(),
            };
            watcher.list().await?;
            tasks.spawn(watcher.run());
        }
        Ok(Self { seen, _tasks: tasks })
    }

    pub(crate) fn seen(&self) -> &Arc<Seen> {
        &self.seen
    }
}

// === impl Seen ===

impl Seen {
    pub(crate) fn new() -> Self {
        Self {
            slices: Mutex::new(Visibility::new()),
            endpoints: Mutex::new(Visibility::new()),
            events: Mutex::new(Events {
                last: Instant::now(),
                next: None,
                writes: Writes::default(),
                each_slice: None,
                present: [0; 2],
            }),
        }
    }

    /// How many slices, and how many Endpoints objects, there are.
    pub(crate) fn present(&self) -> [usize; 2] {
        self.events.lock().present
    }

    /// When the last event arrived.
    pub(crate) fn last_change(&self) -> Instant {
        self.events.lock().last
    }

    pub(crate) fn writes(&self) -> Writes {
        self.events.lock().writes
    }

    /// Waits for the first event from now on, in the background: [`Seen::next_change`] has it then.
    pub(crate) fn expect_change(&self) {
        self.events.lock().next = None;
    }

    /// Counts the writes of each slice from now on; [`Seen::writes_of_slices`] ends that.
    pub(crate) fn count_slices(&self) {
        self.events.lock().each_slice = Some(HashMap::new());
    }

    /// How often each slice was written that was written at all, since that is counted.
    pub(crate) fn writes_of_slices(&self) -> Vec<u32> {
        let counts = self.events.lock().each_slice.take();
        counts.into_iter().flat_map(HashMap::into_values).collect()
    }

    /// When the first event arrived since it was last asked for.
    pub(crate) fn next_change(&self) -> Option<Instant> {
        self.events.lock().next
    }

    fn of(&self, output: Output) -> &Mutex<Visibility> {
        match output {
            Output::Slices => &self.slices,
            Output::Endpoints => &self.endpoints,
        }
    }

    fn set_present(&self, output: Output, count: usize) {
        self.events.lock().present[output as usize] = count;
    }

    /// An output changed.
    #[cfg(test)]
    pub(crate) fn changed(&self, at: Instant) {
        self.events.lock().last = at;
    }

    fn note(&self, output: Output, event: &Event<'_>, line: &[u8], at: Instant) {
        let mut events = self.events.lock();
        events.last = at;
        events.next.get_or_insert(at);
        let counts = match output {
            Output::Slices => &mut events.writes.slices,
            Output::Endpoints => &mut events.writes.endpoints,
        };
        counts.bytes += line.len() as u64;
        *match event.kind {
            Kind::Added => &mut counts.created,
            Kind::Deleted => &mut counts.deleted,
            _ => &mut counts.updated,
        } += 1;
        if output == Output::Slices
            && let Some(each) = &mut events.each_slice
        {
            *each.entry(event.object.key()).or_default() += 1;
        }
    }
}

// === impl Writes ===

impl Writes {
    /// Writes to objects of all sorts.
    pub(crate) fn all(&self) -> u64 {
        self.slices.all() + self.endpoints.all()
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            slices: self.slices.since(&earlier.slices),
            endpoints: self.endpoints.since(&earlier.endpoints),
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
            .request_text(
                Request::get(format!("{}?{}", self.output.path(), self.selection)).body(Vec::new())?,
            )
            .await
            .with_context(|| format!("listing {}", self.output.path()))?;
        let list: List<'_> =
            serde_json::from_str(&text).with_context(|| format!("reading {}", self.output.path()))?;
        let now = Instant::now();
        let mut gone: HashSet<_> = self.known.keys().cloned().collect();
        for object in &list.items {
            gone.remove(&object.key());
            self.apply(object, now);
        }
        let version = list.metadata.version();
        for key in gone {
            self.remove(&key, version, now);
        }
        self.seen.set_present(self.output, self.known.len());
        self.version = list.metadata.resource_version.into_owned();
        Ok(())
    }

    /// Watches until the server ends it, which it may at any time.
    async fn watch(&mut self) -> anyhow::Result<()> {
        let path = format!(
            "{}?{}watch=true&allowWatchBookmarks=true&resourceVersion={}",
            self.output.path(),
            self.selection,
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
            let object = &event.object;
            match event.kind {
                Kind::Added | Kind::Modified => {
                    self.seen.note(self.output, &event, &line, now);
                    self.apply(object, now);
                }
                Kind::Deleted => {
                    self.seen.note(self.output, &event, &line, now);
                    self.remove(&object.key(), object.metadata.version(), now);
                }
                Kind::Bookmark => {}
                Kind::Error if object.code == Some(GONE) => return self.list().await,
                Kind::Error => bail!("the server ended it: {}", String::from_utf8_lossy(&line)),
            }
            self.seen.set_present(self.output, self.known.len());
            object
                .metadata
                .resource_version
                .as_ref()
                .clone_into(&mut self.version);
        }
    }

    fn apply(&mut self, object: &Object<'_>, now: Instant) {
        let Some(set) = self.set_of(object) else { return };
        let after = object.pods();
        let known = self.known.entry(object.key()).or_insert(Known {
            set,
            is_proxied: false,
            pods: Vec::new(),
        });
        let before = std::mem::replace(&mut known.pods, after);
        // One that a kube-proxy is no longer shown is told as deleted, at the same version.
        let was_proxied = std::mem::replace(&mut known.is_proxied, object.is_proxied());
        let version = object.metadata.version();
        let version = version.filter(|_| was_proxied || known.is_proxied);
        let mut seen = self.seen.of(self.output).lock();
        seen.arrived(version);
        seen.turns(known.set, &before, &known.pods, now);
    }

    fn remove(&mut self, key: &(String, String), version: Option<u64>, now: Instant) {
        if let Some(known) = self.known.remove(key) {
            let mut seen = self.seen.of(self.output).lock();
            seen.arrived(version.filter(|_| known.is_proxied));
            seen.turns(known.set, &known.pods, &[], now);
        }
    }

    fn set_of(&self, object: &Object<'_>) -> Option<SetId> {
        let namespace = object.metadata.namespace.clone().into_owned();
        match self.output {
            Output::Slices => {
                let key = (namespace, object.service()?.to_owned());
                Some((
                    self.services.get(&key)?.0,
                    Family::from_name(&object.address_type)?,
                ))
            }
            Output::Endpoints => {
                let key = (namespace, object.metadata.name.clone().into_owned());
                self.services.get(&key).copied()
            }
        }
    }
}
