//! The interface through which lists and watches hand on objects.

use crate::core::facts::NodeFacts;
use crate::core::hints::NodeCapacity;
use crate::core::inbox::Delivery;
use crate::core::lists::Demand;
use crate::core::namespace::Kind;
use crate::core::object::Output;
use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// Receives the objects that the watches of all kinds show. The router implements it; the watches know neither the router nor
/// the shards.
pub(crate) trait WatchHandler: Send + Sync {
    /// Waits until nodes, pods and Services have been listed once. Objects that are listed after that can be compared
    /// with them as they arrive, and need not be kept.
    fn inputs_listed(&self) -> BoxFuture<'_, ()>;

    /// Hands each shard its changes all at once. Creates shards for namespaces that need one now.
    fn deliver(&self, deliveries: Vec<Delivery>);

    /// Applies a node from a list or a watch.
    fn node_applied(&self, name: &Arc<str>, facts: NodeFacts, capacity: &NodeCapacity, epoch: u8);

    /// Removes a node.
    fn node_gone(&self, name: &str);

    /// Announces that another list of a kind is about to be delivered: shards plan nothing until it is complete.
    fn begin_list(&self, kind: Kind);

    /// Announces that a list of a kind is complete. It shows this version, and was asked for under this demand.
    fn end_list(&self, kind: Kind, epoch: u8, version: u64, asked: Demand);

    /// Announces that the watch of an output was opened and shows what comes after this version, or that it has ended.
    fn watching(&self, output: Output, from: Option<u64>);

    /// Announces that the watch of an output has shown everything up to a version, in bytes that arrived at that time.
    fn shown(&self, output: Output, version: u64, at: Instant);

    /// Announces that a kind is not followed any more: shards forget its objects, and plan nothing until they have been
    /// listed again.
    fn forget(&self, kind: Kind);

    /// Announces that a kind's view has met a demand.
    fn prove(&self, kind: Kind, demand: Demand);

    /// See [`ListState::rewound`](crate::core::lists::list_state::ListState::rewound). Returns the demand to meet then.
    fn rewound(&self, kind: Kind, under: Demand) -> Demand;

    /// Subscribes to the demands that views have to meet.
    fn demands(&self) -> watch::Receiver<Demand>;
}
