//! News of an object, as the controller takes it in: through the table of nodes, or through the inbox of its namespace.

use super::objects::Kind;
use crate::fixtures::World;
use endpointd::cluster::codec::{NamedNode, Namespaced, object};
use endpointd::core::facts::{EndpointsFacts, EndpointsMeta, PodFacts, ServiceFacts, SliceFacts, SliceMeta};
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::namespace::ObjectEvent::{Gone, Meta};
use endpointd::core::namespace::{Content, OutputEvent};

/// How an object becomes known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Means {
    /// By a list, whole.
    List,
    /// By a watch, which shows no more than the metadata of what is published: the object is then read.
    Watch,
}

/// What is learned of an object.
pub(super) enum News {
    /// Changes of the namespace.
    Changes(Vec<Change>),
    /// A node, which concerns all namespaces with pods on it.
    Node(NamedNode),
    /// A node is gone.
    NodeGone(&'static str),
}

impl News {
    /// Takes the news to the inbox of the namespace.
    pub(super) fn arrive(self, world: &mut World, pending: &mut Pending) {
        let change = match self {
            Self::Changes(changes) => {
                for change in changes {
                    pending.push(change);
                }
                return;
            }
            Self::Node(node) => {
                world.nodes.apply_capacity(&node.name, &node.capacity);
                world.nodes.apply(&node.name, node.facts, 0)
            }
            Self::NodeGone(name) => world.nodes.remove(name),
        };
        let change = change.expect("a pod of the namespace is on the node, and its zone has changed");
        pending.push(Change::Node(change.view));
        if let Some((zones, namespaces)) = world.nodes.take_zone_change() {
            assert_eq!(namespaces.len(), 1, "a Service depends on the zones");
            pending.push(Change::Zones(zones));
        }
    }
}

fn facts<T>(body: &[u8]) -> T
where
    Namespaced<T>: endpointd::cluster::codec::Decode,
{
    object::<Namespaced<T>>(body).unwrap().facts
}

/// Reads an object.
pub(super) fn read(kind: Kind, body: &[u8], means: Means) -> News {
    let listed = means == Means::List;
    News::Changes(vec![match kind {
        Kind::Pod => Change::Pod(facts::<PodFacts>(body), 0),
        Kind::Service => Change::Service(facts::<ServiceFacts>(body), 0),
        Kind::Endpoints | Kind::OwnEndpoints if listed => {
            Change::Output(OutputEvent::endpoints(facts::<EndpointsFacts>(body), 0))
        }
        Kind::Endpoints | Kind::OwnEndpoints => {
            Change::Output(OutputEvent::Endpoints(Meta(facts::<EndpointsMeta>(body), 0)))
        }
        Kind::Slice | Kind::Custom if listed => {
            Change::Output(OutputEvent::slice(facts::<SliceFacts>(body), 0))
        }
        Kind::Slice | Kind::Custom => Change::Output(OutputEvent::Slice(Meta(facts::<SliceMeta>(body), 0))),
        Kind::Mirrored if listed => Change::Output(OutputEvent::mirrored(facts::<SliceFacts>(body), 0)),
        Kind::Mirrored => Change::Output(OutputEvent::Mirrored(Meta(facts::<SliceMeta>(body), 0))),
        Kind::Node => return News::Node(object::<NamedNode>(body).unwrap()),
    }])
}

/// Deletes the object.
pub(super) fn gone(kind: Kind) -> News {
    const VERSION: u64 = 1_000_000;
    News::Changes(vec![match kind {
        Kind::Pod => Change::PodGone(kind.object().into()),
        Kind::Service => Change::ServiceGone(kind.object().into()),
        Kind::Endpoints | Kind::OwnEndpoints => {
            Change::Output(OutputEvent::Endpoints(Gone(kind.object().into(), VERSION)))
        }
        Kind::Slice | Kind::Custom => Change::Output(OutputEvent::Slice(Gone(kind.object().into(), VERSION))),
        Kind::Mirrored => Change::Output(OutputEvent::Mirrored(Gone(kind.object().into(), VERSION))),
        Kind::Node => return News::NodeGone(kind.object()),
    }])
}

/// Reads an object of a kind that is published, as the answer to a get.
pub(super) fn content(kind: Kind, body: &[u8]) -> Option<Content> {
    Some(match kind {
        Kind::Endpoints | Kind::OwnEndpoints => Content::Endpoints(Box::new(facts::<EndpointsFacts>(body))),
        Kind::Slice | Kind::Custom | Kind::Mirrored => Content::Slice(Box::new(facts::<SliceFacts>(body))),
        Kind::Pod | Kind::Service | Kind::Node => return None,
    })
}
