//! Nodes: the fields that are read, as serde types, and how they become facts.

use super::decode::{Decode, DecodeError, NamedNode, required, set};
use super::wire::{Condition, Str, StrMap};
use crate::core::facts::{LABEL_ZONE, NodeFacts};
use crate::core::hints::{LABEL_CONTROL_PLANE, LABEL_MASTER, NodeCapacity, milli_cpu};
use serde::Deserialize;
use std::sync::Arc;

/// A node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node<'a> {
    #[serde(borrow)]
    metadata: NodeMeta<'a>,
    status: NodeStatus<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus<'a> {
    #[serde(borrow)]
    allocatable: StrMap<'a>,
    conditions: Option<Vec<Condition<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeMeta<'a> {
    #[serde(borrow)]
    name: Str<'a>,
    resource_version: Str<'a>,
    labels: StrMap<'a>,
}

impl Decode for NamedNode {
    type Wire<'a> = Node<'a>;

    fn decode(node: Node<'_>) -> Result<Self, DecodeError> {
        let name = Arc::from(required(&node.metadata.name, "metadata.name")?);
        let zone: Option<Arc<str>> = set(node.metadata.labels.get(LABEL_ZONE)).map(Arc::from);
        let (labels, status) = (&node.metadata.labels, &node.status);
        let ready = status
            .conditions
            .iter()
            .flatten()
            .find(|condition| &*condition.kind == "Ready");
        let capacity = NodeCapacity {
            ready: ready.is_some_and(|condition| &*condition.status == "True"),
            excluded: labels.get(LABEL_CONTROL_PLANE).is_some() || labels.get(LABEL_MASTER).is_some(),
            zone: zone.clone(),
            cpu: status.allocatable.get("cpu").and_then(|cpu| milli_cpu(cpu)),
        };
        Ok(Self {
            name,
            facts: NodeFacts { zone },
            capacity,
        })
    }

    fn version_of<'w>(wire: &'w Node<'_>) -> &'w str {
        &wire.metadata.resource_version
    }
}
