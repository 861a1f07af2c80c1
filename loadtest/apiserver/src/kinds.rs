//! The kinds this server keeps, and what differs between them.

/// A kind of object. The order is that of the tables and of discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Endpoints,
    Event,
    Namespace,
    Node,
    Pod,
    Service,
    NewEvent,
    Lease,
    EndpointSlice,
}

/// The facts of a kind.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) short_names: &'static [&'static str],
    pub(crate) in_all: bool,
    pub(crate) namespaced: bool,
    pub(crate) subresources: &'static [&'static str],
    pub(crate) create_on_update: bool,
    pub(crate) unconditional_update: bool,
    /// Whether a delete answers with the object instead of a Status.
    pub(crate) returns_deleted: bool,
    pub(crate) delete_collection: bool,
    pub(crate) storage_hash: &'static str,
    /// Selectable fields beside metadata.name and metadata.namespace.
    pub(crate) fields: &'static [&'static str],
    /// What a bookmark carries beside the metadata.
    pub(crate) bookmark_rest: &'static str,
}

impl Kind {
    pub(crate) const ALL: [Self; 9] = [
        Self::Endpoints,
        Self::Event,
        Self::Namespace,
        Self::Node,
        Self::Pod,
        Self::Service,
        Self::NewEvent,
        Self::Lease,
        Self::EndpointSlice,
    ];

    pub(crate) fn facts(self) -> &'static Facts {
        &FACTS[self as usize]
    }

    pub(crate) fn find(group: &str, resource: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|k| k.facts().group == group && k.facts().resource == resource)
    }

    /// The kind an object reference means.
    pub(crate) fn of_reference(api_version: &str, kind: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|k| k.facts().kind == kind && k.api_version() == api_version)
    }

    /// `v1` or `group/v1`.
    pub(crate) fn api_version(self) -> &'static str {
        match self.facts().group {
            "discovery.k8s.io" => "discovery.k8s.io/v1",
            "coordination.k8s.io" => "coordination.k8s.io/v1",
            "events.k8s.io" => "events.k8s.io/v1",
            _ => "v1",
        }
    }

    /// `endpointslices.discovery.k8s.io`, as messages name a resource.
    pub(crate) fn qualified_resource(self) -> String {
        qualified(self.facts().resource, self.facts().group)
    }

    /// `EndpointSlice.discovery.k8s.io`, as messages name a kind.
    pub(crate) fn qualified_kind(self) -> String {
        qualified(self.facts().kind, self.facts().group)
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

const BASE: Facts = Facts {
    group: "",
    resource: "",
    singular: "",
    kind: "",
    short_names: &[],
    in_all: false,
    namespaced: true,
    subresources: &[],
    create_on_update: false,
    unconditional_update: true,
    returns_deleted: false,
    delete_collection: true,
    storage_hash: "",
    fields: &[],
    bookmark_rest: "",
};

const EVENT_FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

const NEW_EVENT_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

static FACTS: [Facts; 9] = [
    Facts {
        resource: "endpoints",
        singular: "endpoints",
        kind: "Endpoints",
        short_names: &["ep"],
        create_on_update: true,
        storage_hash: "fWeeMqaN/OA=",
        ..BASE
    },
    Facts {
        resource: "events",
        singular: "event",
        kind: "Event",
        short_names: &["ev"],
        create_on_update: true,
        storage_hash: "r2yiGXH7wu8=",
        fields: EVENT_FIELDS,
        bookmark_rest: concat!(
            r#","involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"#,
            r#""eventTime":null,"reportingComponent":"","reportingInstance":"""#
        ),
        ..BASE
    },
    Facts {
        resource: "namespaces",
        singular: "namespace",
        kind: "Namespace",
        short_names: &["ns"],
        namespaced: false,
        subresources: &["finalize", "status"],
        returns_deleted: true,
        delete_collection: false,
        storage_hash: "Q3oi5N2YM8M=",
        fields: &["status.phase"],
        bookmark_rest: r#","spec":{},"status":{}"#,
        ..BASE
    },
    Facts {
        resource: "nodes",
        singular: "node",
        kind: "Node",
        short_names: &["no"],
        namespaced: false,
        subresources: &["status"],
        storage_hash: "XwShjMxG9Fs=",
        fields: &["spec.unschedulable"],
        bookmark_rest: concat!(
            r#","spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"#,
            r#""nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","#,
            r#""containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","#,
            r#""operatingSystem":"","architecture":""}}"#
        ),
        ..BASE
    },
    Facts {
        resource: "pods",
        singular: "pod",
        kind: "Pod",
        short_names: &["po"],
        in_all: true,
        subresources: &["status"],
        returns_deleted: true,
        storage_hash: "xPOwRZ+Yhw8=",
        fields: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.podIPs",
            "status.nominatedNodeName",
        ],
        bookmark_rest: r#","spec":{"containers":null},"status":{}"#,
        ..BASE
    },
    Facts {
        resource: "services",
        singular: "service",
        kind: "Service",
        short_names: &["svc"],
        in_all: true,
        subresources: &["status"],
        create_on_update: true,
        returns_deleted: true,
        storage_hash: "0/CO1lhkEBI=",
        fields: &["spec.clusterIP", "spec.type"],
        bookmark_rest: r#","spec":{},"status":{"loadBalancer":{}}"#,
        ..BASE
    },
    Facts {
        group: "events.k8s.io",
        resource: "events",
        singular: "event",
        kind: "Event",
        short_names: &["ev"],
        create_on_update: true,
        storage_hash: "r2yiGXH7wu8=",
        fields: NEW_EVENT_FIELDS,
        bookmark_rest: concat!(
            r#","eventTime":null,"regarding":{},"deprecatedSource":{},"#,
            r#""deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#
        ),
        ..BASE
    },
    Facts {
        group: "coordination.k8s.io",
        resource: "leases",
        singular: "lease",
        kind: "Lease",
        create_on_update: true,
        unconditional_update: false,
        storage_hash: "gqkMMb/YqFM=",
        bookmark_rest: r#","spec":{}"#,
        ..BASE
    },
    Facts {
        group: "discovery.k8s.io",
        resource: "endpointslices",
        singular: "endpointslice",
        kind: "EndpointSlice",
        storage_hash: "qgS0xkrxYAI=",
        bookmark_rest: r#","addressType":"","endpoints":null,"ports":null"#,
        ..BASE
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_order() {
        for (i, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, i);
            assert_eq!(Kind::find(kind.facts().group, kind.facts().resource), Some(kind));
        }
        assert_eq!(
            Kind::of_reference("discovery.k8s.io/v1", "EndpointSlice"),
            Some(Kind::EndpointSlice)
        );
        assert_eq!(Kind::of_reference("apps/v1", "ReplicaSet"), None);
    }
}
