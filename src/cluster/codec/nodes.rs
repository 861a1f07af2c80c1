//! Nodes: the fields that are read, and how they become facts.

use super::decode::{Decode, DecodeError, NamedNode, required, set};
use super::fields::{Condition, Quantities, Str, StrMap};
use super::message::message;
use crate::core::facts::{LABEL_ZONE, NodeFacts};
use crate::core::hints::{LABEL_CONTROL_PLANE, LABEL_MASTER, NodeCapacity, milli_cpu};
use std::sync::Arc;

/// A node.
#[derive(Debug, Default)]
pub struct Node<'a> {
    metadata: NodeMeta<'a>,
    status: NodeStatus<'a>,
}

message!('a, Node<'a> { 1 => metadata, 3 => status });

#[derive(Debug, Default)]
struct NodeStatus<'a> {
    allocatable: Quantities<'a>,
    conditions: Vec<Condition<'a>>,
}

message!('a, NodeStatus<'a> { 2 => allocatable, 4 => conditions });

#[derive(Debug, Default)]
struct NodeMeta<'a> {
    name: Str<'a>,
    resource_version: Str<'a>,
    labels: StrMap<'a>,
}

message!('a, NodeMeta<'a> { 1 => name, 6 => resource_version, 11 => labels });

impl Decode for NamedNode {
    type Wire<'a> = Node<'a>;

    fn decode(node: Node<'_>) -> Result<Self, DecodeError> {
        let name = Arc::from(required(&node.metadata.name, "metadata.name")?);
        let zone: Option<Arc<str>> = set(node.metadata.labels.get(LABEL_ZONE)).map(Arc::from);
        let (labels, status) = (&node.metadata.labels, &node.status);
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.kind.is("Ready"));
        let capacity = NodeCapacity {
            ready: ready.is_some_and(|condition| condition.status.is("True")),
            excluded: labels.get(LABEL_CONTROL_PLANE).is_some() || labels.get(LABEL_MASTER).is_some(),
            zone: zone.clone(),
            cpu: status.allocatable.0.get("cpu").and_then(|cpu| milli_cpu(cpu)),
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
