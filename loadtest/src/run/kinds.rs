//! Sorts of Services. The demo has an example of each; the other layouts have plain and headless ones.

use crate::objects::{Families, V4, V4_V6, V6, V6_V4};

/// How near Services of the sort [`Kind::Near`] want their clients, in turn.
pub(super) const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

/// The sorts in the order in which the demo deals them out, again and again, after the large Service.
const DEALT: [Kind; 26] = [
    Kind::NamedPort,
    Kind::MultiPort,
    Kind::Headless,
    Kind::Overlapping,
    Kind::Balanced,
    Kind::DualStack,
    Kind::Near,
    Kind::NotReady,
    Kind::Ipv6,
    Kind::HeadlessNoPorts,
    Kind::MultiKey,
    Kind::PreferDualStack,
    Kind::NoPods,
    Kind::NoSelector,
    Kind::ExternalName,
    Kind::TwoProtocols,
    Kind::Sidecar,
    Kind::Near,
    Kind::NamedPort,
    Kind::Balanced,
    Kind::Headless,
    Kind::Near,
    Kind::Overlapping,
    Kind::Plain,
    Kind::Plain,
    Kind::Plain,
];

/// A sort of Services, and of the pods that were made for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Large,
    Plain,
    /// Its pods have that port under different numbers.
    NamedPort,
    MultiPort,
    Headless,
    HeadlessNoPorts,
    /// Selects pods that another Service selects, too.
    Overlapping,
    MultiKey,
    /// Both families, IPv4 first.
    DualStack,
    /// Both families if there are, and IPv6 first.
    PreferDualStack,
    /// IPv6 alone, of pods that have nothing else.
    Ipv6,
    /// Shares its endpoints over zones by their CPU.
    Balanced,
    /// Wants its clients near, in one way or another.
    Near,
    NotReady,
    NoPods,
    NoSelector,
    ExternalName,
    TwoProtocols,
    Sidecar,
}

// === impl Kind ===

impl Kind {
    /// The sort of the demo's Service of that number.
    pub(super) fn dealt(number: usize) -> Self {
        match number.checked_sub(1) {
            None => Self::Large,
            Some(number) => DEALT[number % DEALT.len()],
        }
    }

    /// The families of its slices and of its own pods, the first one first.
    pub(super) fn families(self) -> Families {
        match self {
            Self::DualStack => V4_V6,
            Self::PreferDualStack => V6_V4,
            Self::Ipv6 => V6,
            _ => V4,
        }
    }

    /// Its slices and its Endpoints follow from its selector.
    pub(super) fn has_selector(self) -> bool {
        !matches!(self, Self::NoSelector | Self::ExternalName)
    }

    pub(super) fn family_policy(self) -> Option<&'static str> {
        match self {
            Self::DualStack => Some("RequireDualStack"),
            Self::PreferDualStack => Some("PreferDualStack"),
            Self::Ipv6 => Some("SingleStack"),
            _ => None,
        }
    }

    /// Pods are published as ready before they are.
    pub(super) fn publishes_not_ready(self) -> bool {
        self == Self::NotReady
    }

    pub(super) fn is_headless(self) -> bool {
        matches!(self, Self::Headless | Self::HeadlessNoPorts | Self::NotReady)
    }

    /// Its pods have names in DNS.
    pub(super) fn names_pods(self) -> bool {
        matches!(self, Self::Headless | Self::HeadlessNoPorts)
    }

    /// Some of its pods are of an older version, with other ports.
    pub(super) fn has_old_pods(self) -> bool {
        matches!(self, Self::NamedPort | Self::MultiPort)
    }

    /// The beginning of the names of such Services.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Large => "gateway",
            Self::Plain => "web",
            Self::NamedPort => "api",
            Self::MultiPort => "orders",
            Self::Headless => "db",
            Self::HeadlessNoPorts => "members",
            Self::Overlapping => "overlap",
            Self::MultiKey => "stable",
            Self::DualStack => "dual",
            Self::PreferDualStack => "six-four",
            Self::Ipv6 => "six",
            Self::Balanced => "balanced",
            Self::Near => "near",
            Self::NotReady => "peers",
            Self::NoPods => "empty",
            Self::NoSelector => "manual",
            Self::ExternalName => "external",
            Self::TwoProtocols => "dns",
            Self::Sidecar => "mesh",
        }
    }
}
