//! The columns of each kind, and the cells that stand at no one place of an object.

use super::{config, event, network, node, pod};
use crate::json::{list, number, text};
use crate::kinds::Kind;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::borrow::Cow;

/// A column of a table. `kubectl get` shows those of priority 0, and all with `-o wide`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) wide: bool,
    /// `string`, `integer`, `number`, `boolean` or `date`; `age` is a date that is announced as a string.
    pub(super) shape: &'static str,
    /// Where the cell's value is found, as a JSON path.
    pub(super) path: &'static str,
}

/// Makes the cells of an object whose columns have no path.
type Cells = fn(&Value, Timestamp) -> Vec<Value>;

/// The columns of a table in the order of the cells, and how those without a path are made.
pub(super) fn of(kind: Kind) -> (Cow<'static, [Column]>, Option<Cells>) {
    if let Some(version) = kind.custom {
        let own = list(version, "/additionalPrinterColumns");
        if !own.is_empty() {
            let columns = std::iter::once(Column::NAME).chain(own.iter().map(custom));
            return (columns.collect(), None);
        }
    }
    let found = KINDS.iter().find(|(name, ..)| *name == kind.schema);
    found.map_or((Cow::Borrowed(PLAIN), None), |(_, columns, cells)| {
        (Cow::Borrowed(*columns), *cells)
    })
}

/// A column of a custom resource, as its definition has it.
fn custom(column: &'static Value) -> Column {
    Column {
        wide: number(column, "/priority") > 0,
        shape: text(column, "/type"),
        path: text(column, "/jsonPath"),
        ..narrow(text(column, "/name"), text(column, "/description"))
    }
}

const PLAIN: &[Column] = &[Column::NAME, Column::AGE];

/// The kinds that have other columns, by their types.
static KINDS: [(&str, &[Column], Option<Cells>); 13] = [
    (
        "ConfigMap",
        &[
            Column::NAME,
            narrow("Data", "How many entries there are."),
            Column::AGE,
        ],
        Some(config::configmap),
    ),
    (
        "Endpoints",
        &[
            Column::NAME,
            narrow("Endpoints", "The ready addresses with their ports."),
            Column::AGE,
        ],
        Some(network::endpoints),
    ),
    ("Event", EVENT_COLUMNS, Some(event::core)),
    (
        "Namespace",
        &[
            Column::NAME,
            narrow("Status", "Where the namespace is in its life.").of(".status.phase"),
            Column::AGE,
        ],
        None,
    ),
    (
        "Node",
        &[
            Column::NAME,
            narrow(
                "Status",
                "Whether the node is ready, and whether pods may be bound to it.",
            ),
            narrow("Roles", "The roles of the node."),
            Column::AGE,
            narrow("Version", "The version of the node's kubelet.").of(".status.nodeInfo.kubeletVersion"),
            wide("Internal-IP", "The address of the node within the cluster."),
            wide("External-IP", "The address of the node outside of the cluster."),
            wide("OS-Image", "The operating system of the node."),
            wide("Kernel-Version", "The kernel of the node."),
            wide(
                "Container-Runtime",
                "The container runtime of the node and its version.",
            ),
        ],
        Some(node::row),
    ),
    (
        "Pod",
        &[
            Column::NAME,
            narrow("Ready", "How many of the pod's containers are ready."),
            narrow("Status", "What the containers of the pod are doing, in a word."),
            narrow(
                "Restarts",
                "How often containers were restarted, and how long ago the last one was.",
            ),
            Column::AGE,
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
        ],
        Some(pod::row),
    ),
    (
        "Secret",
        &[
            Column::NAME,
            narrow("Type", "How the data is meant to be used.").of(".type"),
            narrow("Data", "How many entries there are."),
            Column::AGE,
        ],
        Some(config::secret),
    ),
    (
        "Service",
        &[
            Column::NAME,
            narrow("Type", "How the service is exposed.").of(".spec.type"),
            narrow("Cluster-IP", "The address of the service within the cluster."),
            narrow(
                "External-IP",
                "The addresses of the service outside of the cluster.",
            ),
            narrow("Port(s)", "The ports of the service."),
            Column::AGE,
            wide("Selector", "The labels of the pods behind the service."),
        ],
        Some(network::service),
    ),
    (
        "Deployment",
        &[
            Column::NAME,
            narrow("Ready", "How many of the wanted pods are ready."),
            narrow("Up-to-date", "How many pods have the present template."),
            narrow("Available", "How many pods have been ready for long enough."),
            Column::AGE,
            wide("Containers", "The names of the template's containers."),
            wide("Images", "The images of the template's containers."),
            wide("Selector", "The labels of the pods."),
        ],
        Some(config::deployment),
    ),
    ("NewEvent", EVENT_COLUMNS, Some(event::new)),
    (
        "CustomResourceDefinition",
        &[
            Column::NAME,
            narrow("Created At", "When the definition was made.").of(".metadata.creationTimestamp"),
        ],
        None,
    ),
    (
        "Lease",
        &[
            Column::NAME,
            narrow("Holder", "Who holds the lease.").of(".spec.holderIdentity"),
            Column::AGE,
        ],
        None,
    ),
    (
        "EndpointSlice",
        &[
            Column::NAME,
            narrow("AddressType", "What the addresses of the slice are.").of(".addressType"),
            narrow("Ports", "The ports of all endpoints of the slice."),
            narrow("Endpoints", "The addresses of the slice."),
            Column::AGE,
        ],
        Some(network::slice),
    ),
];

/// The events of both groups are shown alike.
const EVENT_COLUMNS: &[Column] = &[
    narrow("Last Seen", "How long ago the event was seen last."),
    narrow("Type", "Whether the event is normal or a warning.").of(".type"),
    narrow("Reason", "Why the event came about, in a word.").of(".reason"),
    narrow("Object", "The object the event is about."),
    wide("Subobject", "The part of the object the event is about."),
    wide("Source", "Who reports the event."),
    narrow("Message", "What happened."),
    wide("First Seen", "How long ago the event was seen first."),
    wide("Count", "How often the event was seen."),
    Column {
        wide: true,
        ..Column::NAME
    },
];

// === impl Column ===

impl Column {
    pub(super) const NAME: Self = Self {
        path: ".metadata.name",
        ..narrow("Name", "The name of the object, unique within its namespace.")
    };
    pub(super) const AGE: Self = Self {
        path: ".metadata.creationTimestamp",
        shape: "age",
        ..narrow("Age", "How long ago the object was created.")
    };

    /// The same column with a value that stands at this place.
    pub(super) const fn of(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    /// The column as a table announces it.
    pub(super) fn value(&self) -> Value {
        json!({
            "name": self.name,
            "type": if self.shape == "age" { "string" } else { self.shape },
            "format": if self.name == "Name" { "name" } else { "" },
            "description": self.about,
            "priority": i32::from(self.wide),
        })
    }
}

pub(super) const fn narrow(name: &'static str, about: &'static str) -> Column {
    Column {
        name,
        about,
        wide: false,
        shape: "string",
        path: "",
    }
}

pub(super) const fn wide(name: &'static str, about: &'static str) -> Column {
    Column {
        wide: true,
        ..narrow(name, about)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;

    #[test]
    fn every_column_without_a_path_has_a_cell() {
        for kind in catalog::all() {
            let (columns, cells) = of(kind);
            let own = cells.map_or(0, |cells| cells(&json!({}), Timestamp::UNIX_EPOCH).len());
            let without_path = columns.iter().filter(|column| column.path.is_empty());
            assert_eq!(own, without_path.count(), "{}", kind.kind);
        }
        for (name, ..) in KINDS {
            let is_here = catalog::all().iter().any(|kind| kind.schema == name);
            assert!(is_here, "{name} is a kind");
        }
    }
}
