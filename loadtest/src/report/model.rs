//! The contents of `report.json`. Readers of older reports must go on to work: fields are added, not renamed, and
//! what an older report lacks has a default.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The version of this format, in [`Report::schema`].
pub const SCHEMA: u32 = 1;

/// All that one run measured.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Report {
    /// [`SCHEMA`] of the program that wrote it.
    pub schema: u32,
    /// The name of this run in pages and tables: the controller's, or what the user gave.
    pub title: String,
    /// The profile's name, or the profile file's.
    pub profile: String,
    /// When the run began, RFC 3339 in UTC.
    pub started: String,
    /// Seconds from the first measured change to the end of the last phase.
    pub seconds: f64,
    /// The parameters as they were in effect, defaults included: pods, namespaces, rate, seed and so on.
    pub parameters: BTreeMap<String, String>,
    /// Where it ran.
    pub machine: Machine,
    /// The versions of the programs that ran, by name: loadtest, its commit, the controller, the API server.
    pub versions: BTreeMap<String, String>,
    /// How it ended.
    pub verdict: Verdict,
    /// The phases in their order.
    pub phases: Vec<Phase>,
    /// The changes that were made to pods and Services.
    pub changes: Changes,
    /// From the API server's answer to a change until the slice that shows it arrived at a watching client.
    pub slices: Latency,
    /// The same for the Endpoints object.
    pub endpoints: Latency,
    /// Of the Service that lost the largest share of its endpoints; none where no Service had any.
    pub fewest_reachable: Option<Reachable>,
    /// How late the generator itself was: from when a change was due until it was sent.
    pub generator_lag: Latency,
    /// The writes that were made for the changes.
    pub writes: Writes,
    /// The processes that were measured.
    pub processes: Vec<Process>,
    /// Seconds from the controller's start until all objects were as they should be; none where it was running.
    pub converge_seconds: Option<f64>,
    /// Each time the controller was ended and started again.
    pub restarts: Vec<Restart>,
    /// How long the controller's own limits held back writes; none where its metrics could not be read.
    pub throttling: Option<Throttling>,
    /// What endpointd did for the sake of clients that watch slices; none where its metrics could not be read.
    pub fan_out: Option<FanOut>,
    /// The flags that the controller ran with, in their order; none where they are not known.
    pub flags: Option<Vec<String>>,
    /// The simulated kube-proxies; none where there were none.
    pub watchers: Option<Watchers>,
    /// Sandboxes that came and went; none where there were none.
    pub claims: Option<Claims>,
    /// The limits that the user set, held against the figures.
    pub budgets: Vec<Budget>,
    /// Where the run was repeated: the figures of each round, without its curves. All else in this
    /// report is that of one of them, the one whose latency is the median.
    pub rounds: Vec<Report>,
}

/// The machine that loadtest ran on.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Its cores, as the system counts them.
    pub cores: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// The system and its release.
    pub system: String,
    /// The load average of the last minute when the run began: high values mean that others were at work.
    pub load_average: f64,
}

/// How a run ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Verdict {
    /// Every object was as the oracle says it should be in the end.
    pub verified: bool,
    /// The problems that were found, a line each.
    pub problems: Vec<String>,
    /// The generator made its changes when they were due, so the latencies are the controller's.
    pub generator_kept_up: bool,
    /// Other facts that a reader should know before trusting the figures.
    pub warnings: Vec<String>,
}

/// One phase of a run, in seconds since the first measured change.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Phase {
    /// The profile that it ran.
    pub name: String,
    /// When it began.
    pub from: f64,
    /// When it ended.
    pub to: f64,
    /// How many changes it made.
    pub changes: u64,
    /// From the answer to its changes until slices showed them, without the curve. Effects of the last phase are
    /// in it to the end; later effects of an earlier one count for the next.
    pub slices: Latency,
    /// How often slices were written during it.
    pub slice_writes: WriteCounts,
    /// How many slices were written during it; none where that was not counted.
    pub slices_written: u64,
    /// How often that one of them was written that was written most.
    pub most_writes: u64,
}

/// How long the controller held back writes that were ready, because of `--kube-api-qps` or because the API server had
/// asked it to pause.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Throttling {
    /// Seconds in which a write was held back.
    pub seconds: f64,
    /// These, as a share of the time from the first measured change until everything was written.
    pub share: f64,
}

/// What endpointd did for the sake of clients that watch slices, from the first measured change on.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FanOut {
    /// Seconds in which a write waited until its own watch showed earlier ones.
    pub held_back_by_echoes: f64,
    /// Seconds in which a write waited for the budget of watchers.
    pub held_back_by_watchers: f64,
    /// Seconds from the answer to a write of a slice until its own watch showed it: half of them took no longer, as far as the
    /// buckets of its metric tell. None where there was no such write.
    pub echo_p50: Option<f64>,
    /// The same for 99 of 100.
    pub echo_p99: Option<f64>,
}

/// A limit that the user set for a figure.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Budget {
    /// The figure, as the user calls it: `slices.p99`, `cpu`.
    pub figure: String,
    /// The limit, as text.
    pub limit: String,
    /// The figure, as text.
    pub measured: String,
    /// The figure is known, and not above the limit.
    pub met: bool,
}

/// Counts of changes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Changes {
    /// Made, and acknowledged by the server.
    pub made: u64,
    /// Refused by the server.
    pub failed: u64,
}

/// Durations, in microseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Latency {
    /// How many were measured.
    pub count: u64,
    /// How many changes should have been seen and never were.
    pub never_seen: u64,
    /// How many were overtaken by a later change of the same pod before they were seen, and are not counted.
    pub overtaken: u64,
    /// The median.
    pub p50: u64,
    /// 90 of 100 were at most this.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// 999 of 1,000.
    pub p999: u64,
    /// The longest.
    pub max: u64,
    /// Over the run.
    pub over_time: Vec<LatencySample>,
}

/// The durations that ended in one interval.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LatencySample {
    /// Seconds since the first measured change, when the interval began.
    pub at: f64,
    /// How many.
    pub count: u64,
    /// The median, in microseconds.
    pub p50: u64,
    /// 99 of 100.
    pub p99: u64,
    /// The longest.
    pub max: u64,
}

/// Endpoints of a Service that could be used: slices showed them as ready, and their pods were ready and not asked to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reachable {
    /// At the first measured change.
    pub before: u64,
    /// At the worst moment since then.
    pub fewest: u64,
}

impl Reachable {
    /// The fewest, as a share of those before.
    pub fn share(self) -> f64 {
        self.fewest as f64 / self.before.max(1) as f64
    }
}

/// The writes of the controller, as a watching client saw them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Writes {
    /// Writes of `EndpointSlices`.
    pub slices: WriteCounts,
    /// Writes of Endpoints.
    pub endpoints: WriteCounts,
    /// Writes of both, for each change that was made.
    pub per_change: f64,
    /// Bytes of both, for each change that was made.
    pub bytes_per_change: f64,
}

/// Writes of one kind.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WriteCounts {
    /// Objects that were made.
    pub created: u64,
    /// Versions of objects that were there.
    pub updated: u64,
    /// Objects that were deleted.
    pub deleted: u64,
    /// Bytes of the objects as the watching client received them, as JSON.
    pub bytes: u64,
}

/// Simulated kube-proxies, each with a watch of all slices on a connection of its own. Counts are of all of them, from the
/// first measured change until all had received the last one.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Watchers {
    /// How many there were.
    pub count: u64,
    /// From the API server's answer to a change until the slice that shows it arrived at a proxy: each change counts once
    /// for each of them.
    pub latency: Latency,
    /// Watches that the API server, or the network, ended before their time.
    pub ended: u64,
    /// How many of these ends reached the proxy while changes were made: a slow one reads what was sent before first.
    pub ended_in_churn: u64,
    /// Watches that ended because they had lasted as long as they were asked to.
    pub timed_out: u64,
    /// Lists after the first one of each proxy.
    pub lists: u64,
    /// Events received, bookmarks excluded.
    pub events: u64,
    /// Bytes received, without TLS and the heads of answers.
    pub bytes: u64,
    /// These, for each second.
    pub bytes_per_second: f64,
    /// Watches of slices that the API server ended because their clients read too slowly, as its metrics say; none where
    /// they could not be read.
    pub terminated: Option<u64>,
    /// CPU time of the API server, in seconds, as its metrics say; none where they could not be read.
    pub server_cpu_seconds: Option<f64>,
}

/// Sandboxes that came and went: pods with Services of their own. The writes for them are in [`Report::writes`], and
/// the use of the controller is in [`Report::processes`].
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Claims {
    /// How many stood from the beginning to the end.
    pub alive: u64,
    /// How many were made and deleted.
    pub made: u64,
    /// From the API server's answer that a pod is ready, or that its Service is there if that comes later, until a slice
    /// shows it to a watching client.
    pub ready: Latency,
    /// From the API server's answer that a pod is told to end until no slice shows it to take traffic. Not of pods whose
    /// Service was deleted before.
    pub gone: Latency,
    /// Requests of the controller that changed slices; none where its metrics could not be read.
    pub slice_requests: Option<ByVerb>,
    /// All its requests for slices and Endpoints; none where its metrics do not tell.
    pub requests: Option<ByVerb>,
}

/// Counts by verb.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ByVerb {
    /// POST.
    pub create: u64,
    /// PUT.
    pub update: u64,
    /// DELETE.
    pub delete: u64,
    /// GET.
    pub get: u64,
}

/// A process that was measured during the run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Process {
    /// The name of its command.
    pub name: String,
    /// Its number; the last one where it was started again.
    pub pid: u32,
    /// The system never said what it used, so that the figures below are not known, whatever they say.
    pub unread: bool,
    /// CPU time during the measured part, in seconds, user and system.
    pub cpu_seconds: f64,
    /// CPU time of it for each change, in microseconds.
    pub cpu_micros_per_change: f64,
    /// CPU time before the measured part, in seconds: what converging from cold took.
    pub cold_cpu_seconds: f64,
    /// Resident bytes at the end.
    pub rss_bytes: u64,
    /// The most it ever had resident.
    pub peak_rss_bytes: u64,
    /// Over the run.
    pub over_time: Vec<ProcessSample>,
}

/// A process at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessSample {
    /// Seconds since the first measured change.
    pub at: f64,
    /// CPU time since the sample before, as a share of one core.
    pub cpu: f64,
    /// Resident bytes.
    pub rss_bytes: u64,
}

/// The controller was ended and started again.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Restart {
    /// Seconds since the first measured change, when it was ended.
    pub at: f64,
    /// By which signal.
    pub signal: String,
    /// Seconds from then until the next write of its successor was seen.
    pub without_writer_seconds: f64,
}

// === impl Machine ===

impl Machine {
    /// The one that this runs on, as far as the system tells.
    pub(crate) fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key));
            value.map(|value| value.trim_start_matches([':', '\t', ' ']).trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal:");
        let memory = memory.and_then(|text| text.strip_suffix("kB")?.trim().parse::<u64>().ok());
        let release = |name: &str| read(&format!("/proc/sys/kernel/{name}")).trim().to_owned();
        let load = read("/proc/loadavg");
        Self {
            processor: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u32),
            memory_bytes: memory.unwrap_or_default() * 1024,
            system: format!("{} {}", release("ostype"), release("osrelease")),
            load_average: load
                .split(' ')
                .next()
                .and_then(|load| load.parse().ok())
                .unwrap_or_default(),
        }
    }
}

// === impl Process ===

impl Process {
    /// A figure of what it used; none where that is not known.
    pub(crate) fn used<T>(&self, figure: impl Fn(&Self) -> T) -> Option<T> {
        (!self.unread).then(|| figure(self))
    }
}

// === impl ByVerb ===

impl ByVerb {
    /// The counts of all verbs, added up.
    pub fn all(&self) -> u64 {
        self.create + self.update + self.delete + self.get
    }
}

// === impl WriteCounts ===

impl WriteCounts {
    /// Writes of all sorts.
    pub fn all(&self) -> u64 {
        self.created + self.updated + self.deleted
    }

    /// How many of these there were not yet at an earlier time.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            created: self.created - earlier.created,
            updated: self.updated - earlier.updated,
            deleted: self.deleted - earlier.deleted,
            bytes: self.bytes - earlier.bytes,
        }
    }
}
