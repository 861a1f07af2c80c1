//! The changes of Nodes.

use super::{FollowUp, History};
use crate::chaos::api::{Ask, Resource};
use crate::chaos::world::{self, World};
use crate::objects::object;
use serde_json::{Value, json};

/// How long a deleted Node stays away at the most, in milliseconds.
const AWAY_MS: u64 = 12_000;

impl History {
    pub(super) async fn create_node(&mut self) {
        let name = World::node_name(&mut self.rng);
        let labels = world::node_labels(&mut self.rng);
        self.restore_node(name, labels).await;
    }

    /// Makes a Node, unless it is there.
    pub(super) async fn restore_node(&mut self, name: String, labels: Value) {
        if !self.world.nodes.insert(name.clone()) {
            return;
        }
        let ask = Ask::create(Resource::Nodes, "", object("Node", &name, labels));
        self.write("create node", ask).await;
        self.report_node(&name).await;
    }

    async fn report_node(&mut self, name: &str) {
        let patch = world::node_status(&mut self.rng);
        let ask = Ask::patch_status(Resource::Nodes, "", name, patch);
        self.write("report node", ask).await;
    }

    pub(super) async fn change_node(&mut self) {
        let Some(name) = self.rng.choice(&self.world.nodes).cloned() else {
            return;
        };
        if self.rng.bool() {
            self.report_node(&name).await;
        } else {
            let patch = json!({ "metadata": { "labels": world::zone_labels(&mut self.rng) } });
            let ask = Ask::patch(Resource::Nodes, "", &name, patch);
            self.write("move node", ask).await;
        }
    }

    /// A Node goes. Mostly it comes back.
    pub(super) async fn lose_node(&mut self) {
        if let Some(name) = self.rng.choice(&self.world.nodes).cloned() {
            let returns = self.rng.u32(..4) > 0;
            self.delete_node(name, returns).await;
        }
    }

    /// All Nodes go, and come back.
    pub(super) async fn lose_all_nodes(&mut self) {
        for name in self.world.nodes.clone() {
            self.delete_node(name, true).await;
        }
    }

    /// A Node that returns does so as it was, or in another zone.
    async fn delete_node(&mut self, name: String, returns: bool) {
        let node = self.api.read(&Resource::Nodes.path("", &name)).await;
        let labels = match node {
            Ok(mut node) if self.rng.bool() => node["metadata"]["labels"].take(),
            _ => world::node_labels(&mut self.rng),
        };
        self.world.nodes.remove(&name);
        let ask = Ask::delete(Resource::Nodes, "", &name, Value::Null);
        self.write("delete node", ask).await;
        if returns {
            self.follow_up(AWAY_MS, FollowUp::Node { name, labels });
        }
    }
}
