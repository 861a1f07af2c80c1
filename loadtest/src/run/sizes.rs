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
    /// Number of nodes, in three zones; by default one for 100 pods, at least 3 and at most 200
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
    /// Services of every sort, one of them large.
    Demo,
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
            Self::Even => (2_000, None, 10),
            Self::Demo => (5_000, Some(200), 10),
            Self::Sandbox => {
                let alive = given.alive.unwrap_or(1_000);
                (alive, Some(alive * (1 + usize::from(given.cluster_ip))), 1)
            }
        };
        ensure!(
            self == Self::Sandbox || (given.alive.is_none() && !given.cluster_ip),
            "only sandboxes are alive: --alive and --cluster-ip mean nothing here"
        );
        if self == Self::Sandbox {
            ensure!(
                given.pods.is_none() && given.services.is_none(),
                "each sandbox has a pod and its Services: give --alive, not --pods nor --services"
            );
            ensure!(
                given.namespaces.is_none_or(|namespaces| namespaces == 1),
                "this profile works in one namespace: --namespaces means nothing here"
            );
        }
        let pods = given.pods.unwrap_or(pods);
        let namespaces = given.namespaces.unwrap_or(namespaces);
        let services = given.services.or(services);
        let services = services.unwrap_or_else(|| (pods / 50).max(namespaces));
        if self != Self::Demo {
            ensure!(
                services >= namespaces,
                "{services} Services are too few for {namespaces} namespaces"
            );
        }
        Ok(Sizes {
            pods,
            namespaces,
            services,
            nodes: given.nodes.unwrap_or_else(|| (pods / 100).clamp(3, 200)),
        })
    }
}
