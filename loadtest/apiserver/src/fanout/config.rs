//! The parts that a cluster is made of, and the costs of its servers' work.

use std::time::Duration;

/// API servers, their watchers, and what their work costs.
#[derive(Clone, Debug)]
pub struct Config {
    /// API servers, among which watchers and changes of pods are spread. The controller talks to the first one.
    pub servers: usize,
    /// Cores of each server's machine.
    pub cores: usize,
    /// Watchers of all slices, of all servers together.
    pub watchers: usize,
    /// The behaviour of a watcher after its watch has ended.
    pub clients: Clients,
    /// The first pause of a client before it takes up a watch that was ended. Zero means that it never pauses.
    pub resume_pause: Duration,
    /// The first pause of a client before it lists. Zero means that it never pauses.
    pub list_pause: Duration,
    /// All watchers are on the last server, and the controller's own watch on the first.
    pub apart: bool,
    /// Slices in the cluster: what a list returns.
    pub slices: usize,
    /// The size of a slice in bytes, as it is sent to watchers.
    pub bytes: usize,
    /// The size of the two channels of a watcher. Without it, they follow from the length of the history, as they do
    /// in a real server: 10 to 100.
    pub channel: Option<usize>,
    /// Events of which the server keeps the history at the start. It doubles while all of it is younger than 75 s.
    pub history: usize,
    /// The controller's own watch.
    pub own: Own,
    /// Events that a server takes from its store at a time, at the start.
    pub intake: usize,
    /// How likely it is that a server takes one more at a time, each time that more was there than it took.
    pub intake_growth: f64,
    /// The costs of the work.
    pub costs: Costs,
    /// The seed from which all that is random derives.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            servers: 1,
            cores: 2,
            watchers: 300,
            clients: Clients::Resume,
            resume_pause: Duration::ZERO,
            list_pause: Duration::from_millis(800),
            apart: false,
            slices: 200,
            bytes: 12_600,
            channel: None,
            history: 400,
            own: Own::METADATA,
            intake: 4,
            intake_growth: 0.01,
            costs: Costs::default(),
            seed: 1,
        }
    }
}

impl Config {
    /// One server for so many watchers: two cores up to 300 of them, and in proportion above.
    pub fn for_watchers(watchers: usize) -> Self {
        Self {
            cores: (2.0 * (watchers as f64 / 300.0).max(1.0)).round() as usize,
            watchers,
            ..Self::default()
        }
    }
}

/// The behaviour of clients whose watch has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clients {
    /// They watch again at once, from the last version they know. They list again if the server no longer has the
    /// events since then, or if the watch was shorter than a second and brought nothing, after a pause of 0.8 to 30 s
    /// that doubles each time, and up to twice that by chance. So does client-go.
    Resume,
    /// They always list again, after such a pause.
    Relist,
}

/// The controller's own watch of slices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Own {
    /// The size of an event in bytes. Zero means that of the slice.
    pub bytes: usize,
    /// The time that it costs the server to make the event for this watch alone.
    pub transform: Duration,
    /// True if the goroutines of this watch wait for their turn as all others do. Otherwise they go first, which shows
    /// what the controller could know at best.
    pub waits: bool,
}

impl Own {
    /// A watch of metadata.
    pub const METADATA: Self = Self {
        bytes: 700,
        transform: Duration::from_micros(15),
        waits: true,
    };
    /// A watch of whole slices.
    pub const FULL: Self = Self {
        bytes: 0,
        transform: Duration::ZERO,
        waits: true,
    };
}

/// The costs of a server's work, as time of one core.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// An update of a pod's status.
    pub pod: Duration,
    /// To pass a pod's event on to the controller.
    pub pod_event: Duration,
    /// A write of a slice, besides its size.
    pub write: Duration,
    /// For each byte that is written.
    pub write_byte: Duration,
    /// The time that the store takes for a write, in which the server is not busy.
    pub store: Duration,
    /// To take an event from the store.
    pub intake: Duration,
    /// To encode an event, once for all watchers: for each byte.
    pub encode_byte: Duration,
    /// To put an event into the channels, besides the watchers.
    pub dispatch: Duration,
    /// To put it into the channel of one watcher.
    pub dispatch_watcher: Duration,
    /// To move an event from one channel of a watcher to the other.
    pub forward: Duration,
    /// To wake the goroutine that sends to a watcher, and to flush what it has sent.
    pub wake: Duration,
    /// To send an event to a watcher, besides its size.
    pub event: Duration,
    /// For each 1,000 bytes that are sent.
    pub event_kilobyte: Duration,
    /// To begin a watch.
    pub resume: Duration,
    /// To begin a list.
    pub list: Duration,
    /// For each byte of a list.
    pub list_byte: Duration,
    /// The work of other programs on the machine, first of all etcd, for a write or an update of a pod.
    pub others_write: Duration,
    /// The work of other programs on the machine, that is, the watchers, for an event or for each slice of a list.
    pub others_event: Duration,
}

impl Default for Costs {
    fn default() -> Self {
        let micros = Duration::from_micros;
        let nanos = Duration::from_nanos;
        Self {
            pod: micros(9_000),
            pod_event: micros(300),
            write: micros(4_700),
            write_byte: nanos(100),
            store: micros(2_000),
            intake: micros(300),
            encode_byte: nanos(12),
            dispatch: micros(10),
            dispatch_watcher: nanos(250),
            forward: nanos(1_500),
            wake: micros(47),
            event: micros(12),
            event_kilobyte: nanos(1_750),
            resume: micros(2_500),
            list: micros(2_000),
            list_byte: nanos(14),
            others_write: micros(3_500),
            others_event: micros(30),
        }
    }
}
