//! The attacks by name: what each may cost, and where its objects belong.

use clap::ValueEnum;
use std::fmt;

pub(super) const NAMESPACE: &str = "hostile";
/// Numbers of pods, from which their addresses follow, begin here: below are the neighbours'.
const FIRST_POD: u32 = 1_000_000;

/// Ways to be hostile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Attack {
    /// Nobody is hostile: what the others are compared with.
    None,
    /// 4 pods of 25,000 labels each, whose keys collide in a hash that everybody knows, and then a label more or less.
    Collisions,
    /// 10 pods of 10,000 labels, and a Service with a selector of as many keys, which changes.
    Selectors,
    /// 4 Services of 10,000 named ports, of which one changes, and pods with as many, each with one of its own, which are
    /// replaced.
    Ports,
    /// 100 Services with selectors of 20,000 pairs, all but one of them the same, and a pod that has all, of which one
    /// changes.
    Matches,
    /// 100,000 Services in one namespace.
    Services,
    /// 5,000 Services that select one pod, which flips.
    Fan,
    /// A slice that another controller edits a hundred times a second.
    Slice,
    /// Pods of the greatest size that the API takes, which change all the time.
    Large,
    /// A node with 1,000 pods, which changes its zone 50 times a second.
    Zones,
    /// 1,000 Services whose writes are refused, with the Events and the lines of the log that come of it.
    Refused,
    /// 10 Endpoints to mirror of 1.2 MB: subsets of 1,000 addresses with 130 ports that share a name. One address changes twice a
    /// second.
    Mirrored,
    /// 20 Endpoints that are refused for mirroring, of 1,000 addresses and 140 such ports in 28 KB, one of which
    /// changes each second.
    Refusals,
    /// 200 namespaces of 30 Services each, which wait to be written, since their pods change more than can be written,
    /// while the pods of a single neighbour change.
    Backlog,
    /// 5,000 Services with annotated selectors of 100 values, as many as they may have, and 10 with 33,000. A label of one
    /// changes.
    Annotated,
    /// A Service with a selector and 16,000 slices that were published for its annotation and give way, one of which changes;
    /// now and then the Service does.
    Replaced,
    /// 6 Endpoints to mirror of 1.4 MB: in half of them, 22,000 subsets of an address and a port of its own, which are
    /// refused; in the others, as many subsets as may have slices of their own. A label of one changes twice a second.
    Subsets,
    /// A webhook for 1, 2, 3 and 12 namespaces of 30 Services, whose pods flip: it refuses all writes with 429, and asks for a pause
    /// of a second.
    Throttling,
    /// The same, but it hangs for ten seconds, after which the write fails.
    Hanging,
    /// All of them in turn but the last nine, one write of each.
    All,
}

/// The most that an attack may cost, beside the limits that hold for all of them.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Bounds {
    /// Reads of the attacker's objects for each strike.
    pub(super) reads: Option<f64>,
    /// Requests that the controller sends between a neighbour's event and the request that shows it, one flip in a hundred
    /// apart.
    pub(super) requests: Option<u64>,
    /// Flips of neighbours that the controller is told of between a neighbour's event and the request that shows it, for half of
    /// the flips.
    pub(super) flips: Option<u64>,
    /// Bytes of memory for each byte of the attacker's objects.
    pub(super) memory: Option<f64>,
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl Attack {
    pub(super) const ALL: [Self; 20] = [
        Self::None,
        Self::Collisions,
        Self::Selectors,
        Self::Ports,
        Self::Matches,
        Self::Services,
        Self::Fan,
        Self::Slice,
        Self::Large,
        Self::Zones,
        Self::Refused,
        Self::Mirrored,
        Self::Refusals,
        Self::Backlog,
        Self::Annotated,
        Self::Replaced,
        Self::Subsets,
        Self::Throttling,
        Self::Hanging,
        Self::All,
    ];

    /// Returns the most that it may cost.
    pub(super) fn bounds(self) -> Bounds {
        let none = Bounds::default();
        match self {
            Self::Mirrored | Self::Subsets => Bounds {
                memory: Some(12.0),
                ..none
            },
            // A change is read once, and perhaps once more.
            Self::Refusals | Self::Replaced => Bounds {
                reads: Some(2.0),
                ..none
            },
            // A turn for each namespace and each class, and as many again.
            Self::Backlog => Bounds {
                requests: Some(1_600),
                ..none
            },
            Self::Annotated => Bounds {
                memory: Some(5.0),
                ..none
            },
            // Neighbours wait for nothing but the server.
            Self::Throttling | Self::Hanging => Bounds {
                flips: Some(5),
                ..none
            },
            _ => none,
        }
    }

    /// Returns the numbers of hostile namespaces, in one run each.
    pub(super) fn namespaces(self) -> &'static [usize] {
        match self {
            Self::Throttling | Self::Hanging => &[1, 2, 3, 12],
            _ => &[1],
        }
    }

    /// Flags that the controller needs for it.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Annotated | Self::Replaced => &["--controllers=*,custom-selector-controller"],
            _ => &[],
        }
    }
}

/// Each attack's pods have numbers of their own.
pub(super) fn pod_number(attack: Attack, number: u32) -> u32 {
    FIRST_POD + attack as u32 * 100_000 + number
}

pub(super) fn collection(resource: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{resource}")
}

/// Whether a request is for an object of the attacker.
pub(super) fn is_of_attacker(path: &str) -> bool {
    path.contains("/namespaces/hostile")
}

pub(super) fn path(resource: &str, name: &str) -> String {
    format!("{}/{name}", collection(resource))
}
