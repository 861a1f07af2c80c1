//! The cluster's nodes, shared by all shards.

use crate::core::nodes::{NodeDirectory, NodeTable, NodeView, ZoneView};
use parking_lot::Mutex;
use std::sync::Arc;

/// The node table that the router keeps up to date and shards look up. All clones share one table.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedNodes(pub Arc<Mutex<NodeTable>>);

impl NodeDirectory for SharedNodes {
    fn look_up(&mut self, node: &Arc<str>, namespace: &Arc<str>) -> Arc<NodeView> {
        self.0.lock().look_up(node, namespace)
    }

    fn zones(&mut self, namespace: &Arc<str>) -> ZoneView {
        self.0.lock().zones(namespace)
    }

    fn forget_zones(&mut self, namespace: &str) {
        self.0.lock().forget_zones(namespace);
    }

    fn forget(&mut self, node: &str, namespace: &str) {
        self.0.lock().forget(node, namespace);
    }
}
