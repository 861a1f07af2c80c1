//! The columns of the kinds.

use crate::kinds::Kind;
use serde_json::{Value, json};

/// A column. What is not narrow is shown by `kubectl get -o wide` only.
#[derive(Debug)]
pub(crate) struct Column {
    name: &'static str,
    about: &'static str,
    narrow: bool,
}

const fn narrow(name: &'static str, about: &'static str) -> Column {
    Column {
        name,
        about,
        narrow: true,
    }
}

const fn wide(name: &'static str, about: &'static str) -> Column {
    Column {
        name,
        about,
        narrow: false,
    }
}

const NAME: Column = narrow("Name", "The name of the object, unique within its namespace.");
const AGE: Column = narrow("Age", "How long ago the object was created.");

static POD: [Column; 9] = [
    NAME,
    narrow("Ready", "How many of the pod's containers are ready."),
    narrow("Status", "What the containers of the pod are doing, in a word."),
    narrow(
        "Restarts",
        "How often containers were restarted, and how long ago the last one was.",
    ),
    AGE,
    wide("IP", "The first address of the pod."),
    wide("Node", "The node the pod is bound to."),
    wide(
        "Nominated Node",
        "The node on which room is being made for the pod.",
    ),
    wide(
        "Readiness Gates",
        "How many of the pod's own readiness conditions are true.",
    ),
];

static SERVICE: [Column; 7] = [
    NAME,
    narrow("Type", "How the service is exposed."),
    narrow("Cluster-IP", "The address of the service within the cluster."),
    narrow(
        "External-IP",
        "The addresses of the service outside of the cluster.",
    ),
    narrow("Port(s)", "The ports of the service."),
    AGE,
    wide("Selector", "The labels of the pods behind the service."),
];

static NODE: [Column; 10] = [
    NAME,
    narrow(
        "Status",
        "Whether the node is ready, and whether pods may be bound to it.",
    ),
    narrow("Roles", "The roles of the node."),
    AGE,
    narrow("Version", "The version of the node's kubelet."),
    wide("Internal-IP", "The address of the node within the cluster."),
    wide("External-IP", "The address of the node outside of the cluster."),
    wide("OS-Image", "The operating system of the node."),
    wide("Kernel-Version", "The kernel of the node."),
    wide(
        "Container-Runtime",
        "The container runtime of the node and its version.",
    ),
];

static ENDPOINTS: [Column; 3] = [
    NAME,
    narrow("Endpoints", "The ready addresses with their ports."),
    AGE,
];

static SLICE: [Column; 5] = [
    NAME,
    narrow("AddressType", "What the addresses of the slice are."),
    narrow("Ports", "The ports of all endpoints of the slice."),
    narrow("Endpoints", "The addresses of the slice."),
    AGE,
];

static NAMESPACE: [Column; 3] = [NAME, narrow("Status", "Where the namespace is in its life."), AGE];

static LEASE: [Column; 3] = [NAME, narrow("Holder", "Who holds the lease."), AGE];

static EVENT: [Column; 10] = [
    narrow("Last Seen", "How long ago the event was seen last."),
    narrow("Type", "Whether the event is normal or a warning."),
    narrow("Reason", "Why the event came about, in a word."),
    narrow("Object", "The object the event is about."),
    wide("Subobject", "The part of the object the event is about."),
    wide("Source", "Who reports the event."),
    narrow("Message", "What happened."),
    wide("First Seen", "How long ago the event was seen first."),
    wide("Count", "How often the event was seen."),
    wide("Name", "The name of the event."),
];

/// The columns of a kind, in the order of its cells.
pub(crate) fn of(kind: Kind) -> &'static [Column] {
    match kind {
        Kind::Pod => &POD,
        Kind::Service => &SERVICE,
        Kind::Node => &NODE,
        Kind::Endpoints => &ENDPOINTS,
        Kind::EndpointSlice => &SLICE,
        Kind::Namespace => &NAMESPACE,
        Kind::Lease => &LEASE,
        Kind::Event | Kind::NewEvent => &EVENT,
    }
}

impl Column {
    pub(crate) fn value(&self) -> Value {
        json!({
            "name": self.name,
            "type": "string",
            "format": if self.name == "Name" { "name" } else { "" },
            "description": self.about,
            "priority": i32::from(!self.narrow),
        })
    }
}
