//! How large a run's cluster is: how many of everything there are, and how pods are dealt out to Services.

use crate::figures::number;
use crate::parse::count;
use anyhow::ensure;
use serde::Deserialize;
use std::fmt;

/// Larger clusters are refused.
pub(super) const MAX_PODS: usize = 2_000_000;
pub(super) const MAX_NAMESPACES: usize = 5_000;
pub(super) const MAX_SERVICES: usize = 200_000;
pub(super) const MAX_NODES: usize = 10_000;

/// Pods of one Service, as upstream's own load tests deal them out: so many groups are large, middling, small.
const MIX_GROUPS: [(usize, f64); 3] = [(250, 0.25), (30, 0.25), (5, 0.5)];

/// How many of everything there are; each profile has defaults of its own.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct SizeFlags {
    /// Number of pods; the default depends on the profile
    #[arg(long, value_parser = count(MAX_PODS as u64))]
    pub(super) pods: Option<usize>,
    /// Number of namespaces; the default depends on the profile
    #[arg(long, value_parser = count(MAX_NAMESPACES as u64))]
    pub(super) namespaces: Option<usize>,
    /// Number of Services; the default depends on the profile
    #[arg(long, value_parser = count(MAX_SERVICES as u64))]
    pub(super) services: Option<usize>,
    /// sandbox: number of sandboxes that stand all the time, each a pod with a Service of its own
    #[arg(long, value_parser = count(MAX_SERVICES as u64 / 2))]
    pub(super) alive: Option<usize>,
    /// sandbox: beside its headless Service, each sandbox has one with a cluster IP
    #[arg(long)]
    pub(super) cluster_ip: bool,
    /// Number of nodes, in three zones; by default one for 100 pods, at least 3 and at most 200 (mega: one for 200 pods)
    #[arg(long, value_parser = count(MAX_NODES as u64))]
    pub(super) nodes: Option<usize>,
}

/// How Services and pods are dealt out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Layout {
    /// Services of equal size in all namespaces.
    #[default]
    Even,
    /// One set of pods, with a Service that has a cluster IP and a headless one.
    HugeService,
    /// Many Services over the same pods, in one namespace.
    ManyServices,
    /// Services of the sizes that [`mix_groups`] gives.
    Mix,
    /// Services of every sort, one of them large.
    Demo,
    /// Services without a selector, and their Endpoints; "pods" are addresses in these.
    Mirror,
    /// As even, but each Service publishes only the holder of a Lease.
    Leader,
    /// As even, in the proportions of a very large cluster.
    Mega,
    /// Pods with Services of their own, in one namespace: a headless one, and perhaps one with a cluster IP.
    Sandbox,
}

/// How many of everything there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) pods: usize,
    pub(super) namespaces: usize,
    pub(super) services: usize,
    pub(super) nodes: usize,
}

// === impl Sizes ===

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |count: usize| number(count as u64);
        write!(
            f,
            "{} pods, {} services, {} namespaces, {} nodes",
            number(self.pods),
            number(self.services),
            number(self.namespaces),
            number(self.nodes)
        )
    }
}

// === impl Layout ===

impl Layout {
    /// Its pods differ in their names, labels, nodes and status alone.
    pub(super) fn has_like_pods(self) -> bool {
        self != Self::Demo
    }

    /// Decides the sizes that are not given. Most Services have some dozens of pods; few, large ones must be asked for.
    pub(super) fn sizes(self, given: &SizeFlags) -> anyhow::Result<Sizes> {
        let (pods, services, namespaces) = match self {
            Self::Even | Self::Leader => (2_000, None, 10),
            Self::HugeService => (5_000, Some(2), 1),
            Self::ManyServices => (100, Some(200), 1),
            Self::Mix => (5_000, None, 10),
            Self::Demo => (5_000, Some(200), 10),
            Self::Mirror => (
                200_000,
                Some(given.pods.map_or(1_000, |pods| (pods / 200).max(10))),
                10,
            ),
            Self::Mega => {
                let pods = given.pods.unwrap_or(1_000_000);
                let namespaces = given.namespaces.unwrap_or((pods / 500).max(1));
                (pods, Some((pods / 100).max(namespaces)), namespaces)
            }
            Self::Sandbox => {
                let alive = given.alive.unwrap_or(1_000);
                (alive, Some(alive * (1 + usize::from(given.cluster_ip))), 1)
            }
        };
        let nodes = match self {
            Self::Mega => |pods: usize| (pods / 200).max(3),
            _ => |pods: usize| (pods / 100).clamp(3, 200),
        };
        ensure!(
            self == Self::Sandbox || (given.alive.is_none() && !given.cluster_ip),
            "only sandboxes are alive: --alive and --cluster-ip mean nothing here"
        );
        match self {
            Self::Sandbox => ensure!(
                given.pods.is_none() && given.services.is_none(),
                "each sandbox has a pod and its Services: give --alive, not --pods nor --services"
            ),
            Self::HugeService => {
                ensure!(
                    given.services.is_none(),
                    "a huge service is two Services: --services means nothing here"
                );
            }
            Self::Mix => ensure!(
                given.services.is_none(),
                "the mix decides how many Services there are: --services means nothing here"
            ),
            Self::Even | Self::ManyServices | Self::Demo | Self::Mirror | Self::Leader | Self::Mega => {}
        }
        if matches!(self, Self::HugeService | Self::ManyServices | Self::Sandbox) {
            ensure!(
                given.namespaces.is_none_or(|namespaces| namespaces == 1),
                "this profile works in one namespace: --namespaces means nothing here"
            );
        }
        let pods = given.pods.unwrap_or(pods);
        let namespaces = given.namespaces.unwrap_or(namespaces);
        let services = match self {
            Self::Mix => mix_groups(pods).len(),
            _ => given
                .services
                .or(services)
                .unwrap_or_else(|| (pods / 50).max(namespaces)),
        };
        if !matches!(self, Self::Mix | Self::Demo) {
            ensure!(
                services >= namespaces,
                "{services} Services are too few for {namespaces} namespaces"
            );
        }
        Ok(Sizes {
            pods,
            namespaces,
            services,
            nodes: given.nodes.unwrap_or_else(|| nodes(pods)),
        })
    }
}

/// How many pods each group of a mix has.
pub(super) fn mix_groups(pods: usize) -> Vec<usize> {
    let mut groups = Vec::new();
    for (size, share) in MIX_GROUPS {
        let count = (pods as f64 * share / size as f64).round() as usize;
        groups.extend(std::iter::repeat_n(size, count));
    }
    // The last group gets the rest, or gives up what is too much.
    let mut dealt = groups.iter().sum::<usize>();
    while dealt > pods {
        let last = groups.pop().expect("more than nothing is dealt out");
        dealt -= last;
    }
    if dealt < pods {
        groups.push(pods - dealt);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mega_cluster_keeps_its_proportions() {
        let of = |pods| {
            let given = SizeFlags {
                pods,
                ..SizeFlags::default()
            };
            let sizes = Layout::Mega.sizes(&given).unwrap();
            (sizes.pods, sizes.services, sizes.namespaces, sizes.nodes)
        };
        assert_eq!(of(None), (1_000_000, 10_000, 2_000, 5_000));
        assert_eq!(of(Some(10_000)), (10_000, 100, 20, 50));
        assert_eq!(of(Some(100)), (100, 1, 1, 3));
    }

    #[test]
    fn a_mix_has_groups_of_three_sizes_and_loses_no_pod() {
        for pods in [1, 7, 100, 300, 5_000, 20_001] {
            assert_eq!(mix_groups(pods).iter().sum::<usize>(), pods, "{pods}");
        }
        let groups = mix_groups(5_000);
        for (size, _) in MIX_GROUPS {
            assert!(groups.contains(&size), "{size}");
        }
    }
}
