//! Who is told what lists and watches show.

use crate::core::facts::NodeFacts;
use crate::core::hints::NodeCapacity;
use crate::core::inbox::Delivery;
use crate::core::leadership::Demand;
use crate::core::namespace::Kind;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::watch;

/// Takes what the watches of all kinds show. The router does, for the shards; the watches know nothing of either.
pub(crate) trait WatchHandler: Send + Sync {
    /// Waits until nodes, pods and Services have been listed once. What is listed after that can be compared with
    /// them as it arrives, and need not be kept.
    fn inputs_listed(&self) -> BoxFuture<'_, ()>;

    /// Hands each shard its events in one go. Shards are made for namespaces that begin to matter.
    fn deliver(&self, deliveries: Vec<Delivery>);

    /// A node as a list or a watch shows it.
    fn node_applied(&self, name: &Arc<str>, facts: NodeFacts, capacity: &NodeCapacity, epoch: u8);

    /// A node is gone.
    fn node_gone(&self, name: &str);

    /// Another list of a kind is about to be delivered: shards plan nothing until it is whole.
    fn begin_list(&self, kind: Kind);

    /// A list of a kind is whole. It shows this version, and was asked for under this demand.
    fn end_list(&self, kind: Kind, epoch: u8, version: u64, asked: Demand);

    /// Objects of a kind are not followed any more: shards forget them, and plan nothing until they have been
    /// listed again.
    fn forget(&self, kind: Kind);

    /// A kind's view has met a demand.
    fn prove(&self, kind: Kind, demand: Demand);

    /// As [`Picture::rewound`](crate::core::leadership::picture::Picture::rewound). Returns what there is to be met then.
    fn rewound(&self, kind: Kind, under: Demand) -> Demand;

    /// What views have to meet.
    fn demands(&self) -> watch::Receiver<Demand>;
}
