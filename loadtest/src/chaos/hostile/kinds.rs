//! The attacks by name: what each may cost, and where its objects belong.

use clap::ValueEnum;
use std::fmt;

pub(super) const NAMESPACE: &str = "hostile";
/// Numbers of pods, from which their addresses follow, begin here: below are the neighbours'.
const FIRST_POD: u32 = 1_000_000;

/// Ways to be hostile.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Attack {
    /// Nobody is hostile: what the attacks are compared with.
    None,
    /// 4 pods of 25,000 labels each, whose keys collide in a hash that everybody knows, and then a label more or less.
    Collisions,
    /// 4 Services of 10,000 named ports, of which one changes, and pods with as many, each with one of its own, which are
    /// replaced.
    Ports,
    /// 100,000 Services in one namespace.
    Services,
    /// 10 Endpoints to mirror of 1.2 MB: subsets of 1,000 addresses with 130 ports that share a name. One address changes twice a
    /// second.
    Mirrored,
    /// 200 namespaces of 30 Services each, which wait to be written, since their pods change more than can be written,
    /// while the pods of a single neighbour change.
    Backlog,
    /// A webhook for 1, 2, 3 and 12 namespaces of 30 Services, whose pods flip: it hangs for ten seconds, after which the write
    /// fails.
    Hanging,
}

/// The most that an attack may cost, beside the limits that hold for all of them.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Bounds {
    /// Writes that the controller sends between a neighbour's flip and the request that shows it, one flip in a hundred apart.
    pub(super) requests: Option<u64>,
    /// Flips of other neighbours between a neighbour's flip and the request that shows it, for half of the flips.
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
    /// Returns the most that it may cost.
    pub(super) fn bounds(self) -> Bounds {
        let mut bounds = Bounds::default();
        match self {
            Self::Mirrored => bounds.memory = Some(12.0),
            // A turn for each namespace and each class, and as many again.
            Self::Backlog => bounds.requests = Some(1_600),
            // Neighbours wait for nothing but the server.
            Self::Hanging => bounds.flips = Some(5),
            _ => {}
        }
        bounds
    }

    /// Returns the numbers of hostile namespaces, in one run each.
    pub(super) fn namespaces(self) -> &'static [usize] {
        match self {
            Self::Hanging => &[1, 2, 3, 12],
            _ => &[1],
        }
    }

    /// Writes a second.
    pub(super) fn rate(self) -> f64 {
        match self {
            // The server takes as long for them as the controller.
            Self::Mirrored => 2.0,
            Self::Backlog => 40.0,
            _ => 20.0,
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

pub(super) fn path(resource: &str, name: &str) -> String {
    format!("{}/{name}", collection(resource))
}
