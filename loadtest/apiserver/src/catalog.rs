//! The table of kinds: one row for each kind. A kind is added here, its type in
//! `schema.txt`, its columns in `kubectl/cells.rs`, and what only it does in a module that its row names.

use crate::kinds::{Facts, Kind, NameRule, PLAIN, Role, Selectable};
use crate::registry::{deployment, endpoints, event, lease, namespace, node, pod, service, slice};

/// All rows, as kinds, in the order in which discovery lists their groups.
pub(crate) fn all() -> Vec<Kind> {
    KINDS.iter().map(Kind::new).collect()
}

/// The kind of KEP-6116, which is not merged: only a server that is told to serves it.
pub(crate) const ENDPOINT_SELECTOR: Kind = Kind::new(&Facts {
    api_version: "discovery.k8s.io/v1alpha1",
    resource: "endpointselectors",
    singular: "endpointselector",
    kind: "EndpointSelector",
    schema: "EndpointSelector",
    storage_hash: "AAAAAAAAAAE=",
    bookmark_rest: r#","spec":{"selector":{}}"#,
    ..PLAIN
});

/// The kind of this name in a group.
#[cfg(test)]
pub(crate) fn kind(name: &str) -> Kind {
    let found = all().into_iter().find(|kind| kind.kind == name);
    found.unwrap_or_else(|| panic!("the table has no {name}"))
}

static KINDS: [Facts; 11] = [
    Facts {
        resource: "endpoints",
        singular: "endpoints",
        kind: "Endpoints",
        schema: "Endpoints",
        short_names: &["ep"],
        create_on_update: true,
        storage_hash: "fWeeMqaN/OA=",
        default: endpoints::default,
        check: endpoints::check,
        ..PLAIN
    },
    Facts {
        resource: "events",
        singular: "event",
        kind: "Event",
        schema: "Event",
        short_names: &["ev"],
        name_rule: NameRule::Path,
        create_on_update: true,
        storage_hash: "r2yiGXH7wu8=",
        fields: &[
            Selectable::new("involvedObject.kind"),
            Selectable::new("involvedObject.namespace"),
            Selectable::new("involvedObject.name"),
            Selectable::new("involvedObject.uid"),
            Selectable::new("involvedObject.apiVersion"),
            Selectable::new("involvedObject.resourceVersion"),
            Selectable::new("involvedObject.fieldPath"),
            Selectable::new("reason"),
            Selectable::new("reportingComponent"),
            Selectable::at("source", &["/source/component", "/reportingComponent"]),
            Selectable::new("type"),
        ],
        bookmark_rest: concat!(
            r#","involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"#,
            r#""eventTime":null,"reportingComponent":"","reportingInstance":"""#
        ),
        default: event::default,
        check: event::check_core,
        ..PLAIN
    },
    Facts {
        resource: "namespaces",
        singular: "namespace",
        kind: "Namespace",
        schema: "Namespace",
        short_names: &["ns"],
        role: Role::Namespace,
        name_rule: NameRule::Label,
        namespaced: false,
        subresources: &["finalize", "status"],
        returns_deleted: true,
        delete_collection: false,
        storage_hash: "Q3oi5N2YM8M=",
        fields: &[Selectable::new("status.phase")],
        bookmark_rest: r#","spec":{},"status":{}"#,
        default: namespace::default,
        create: namespace::create,
        update: namespace::update,
        ..PLAIN
    },
    Facts {
        resource: "nodes",
        singular: "node",
        kind: "Node",
        schema: "Node",
        short_names: &["no"],
        namespaced: false,
        subresources: &["status"],
        storage_hash: "XwShjMxG9Fs=",
        fields: &[Selectable::flag("spec.unschedulable")],
        bookmark_rest: concat!(
            r#","spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"#,
            r#""nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","#,
            r#""containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","#,
            r#""operatingSystem":"","architecture":""}}"#
        ),
        default: node::default,
        ..PLAIN
    },
    Facts {
        resource: "pods",
        singular: "pod",
        kind: "Pod",
        schema: "Pod",
        short_names: &["po"],
        categories: &["all"],
        role: Role::Pod,
        subresources: &["binding", "status"],
        returns_deleted: true,
        storage_hash: "xPOwRZ+Yhw8=",
        fields: &[
            Selectable::new("spec.nodeName"),
            Selectable::new("spec.restartPolicy"),
            Selectable::new("spec.schedulerName"),
            Selectable::new("spec.serviceAccountName"),
            Selectable::flag("spec.hostNetwork"),
            Selectable::new("status.phase"),
            Selectable::at("status.podIP", &["/status/podIPs/0/ip", "/status/podIP"]),
            // Accepted, but never set: so it is upstream.
            Selectable::at("status.podIPs", &[]),
            Selectable::new("status.nominatedNodeName"),
        ],
        bookmark_rest: r#","spec":{"containers":null},"status":{}"#,
        default: pod::default,
        create: pod::create,
        update: pod::update,
        update_status: pod::update_status,
        check: pod::check,
        check_status: pod::check_status,
        ..PLAIN
    },
    // Limits how many objects of a kind there may be; it counts when one is created, so its status stays as it was written.
    Facts {
        resource: "resourcequotas",
        singular: "resourcequota",
        kind: "ResourceQuota",
        schema: "ResourceQuota",
        short_names: &["quota"],
        subresources: &["status"],
        storage_hash: "8uhSgffRX6w=",
        bookmark_rest: r#","spec":{},"status":{}"#,
        ..PLAIN
    },
    Facts {
        resource: "services",
        singular: "service",
        kind: "Service",
        schema: "Service",
        short_names: &["svc"],
        categories: &["all"],
        role: Role::Service,
        name_rule: NameRule::Label1035,
        subresources: &["status"],
        create_on_update: true,
        returns_deleted: true,
        storage_hash: "0/CO1lhkEBI=",
        fields: &[Selectable::new("spec.clusterIP"), Selectable::new("spec.type")],
        bookmark_rest: r#","spec":{},"status":{"loadBalancer":{}}"#,
        default: service::default,
        create: service::create,
        update: service::update,
        check: service::check,
        ..PLAIN
    },
    Facts {
        api_version: "apps/v1",
        resource: "deployments",
        singular: "deployment",
        kind: "Deployment",
        schema: "Deployment",
        short_names: &["deploy"],
        categories: &["all"],
        subresources: &["scale", "status"],
        storage_hash: "8aSe+NMegvE=",
        bookmark_rest: concat!(
            r#","spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"#,
            r#""strategy":{}},"status":{}"#
        ),
        default: deployment::default,
        create: deployment::create,
        update: deployment::update,
        check: deployment::check,
        ..PLAIN
    },
    Facts {
        api_version: "events.k8s.io/v1",
        resource: "events",
        singular: "event",
        kind: "Event",
        schema: "NewEvent",
        short_names: &["ev"],
        name_rule: NameRule::Path,
        create_on_update: true,
        storage_hash: "r2yiGXH7wu8=",
        fields: &[
            Selectable::new("regarding.kind"),
            Selectable::new("regarding.namespace"),
            Selectable::new("regarding.name"),
            Selectable::new("regarding.uid"),
            Selectable::new("regarding.apiVersion"),
            Selectable::new("regarding.resourceVersion"),
            Selectable::new("regarding.fieldPath"),
            Selectable::new("reason"),
            Selectable::new("reportingController"),
            Selectable::new("type"),
        ],
        bookmark_rest: concat!(
            r#","eventTime":null,"regarding":{},"deprecatedSource":{},"#,
            r#""deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#
        ),
        check: event::check_new,
        ..PLAIN
    },
    Facts {
        api_version: "coordination.k8s.io/v1",
        resource: "leases",
        singular: "lease",
        kind: "Lease",
        schema: "Lease",
        create_on_update: true,
        unconditional_update: false,
        storage_hash: "gqkMMb/YqFM=",
        bookmark_rest: r#","spec":{}"#,
        check: lease::check,
        ..PLAIN
    },
    Facts {
        api_version: "discovery.k8s.io/v1",
        resource: "endpointslices",
        singular: "endpointslice",
        kind: "EndpointSlice",
        schema: "EndpointSlice",
        storage_hash: "qgS0xkrxYAI=",
        bookmark_rest: r#","addressType":"","endpoints":null,"ports":null"#,
        default: slice::default,
        create: slice::create,
        update: slice::update,
        check: slice::check,
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::schema::SCHEMA;
    use crate::store::Store;

    #[test]
    fn every_row_is_whole_and_found() {
        let store = Store::new(Config::default(), all());
        let state = store.read();
        for kind in all() {
            let found = state.find(kind.group(), kind.version(), kind.resource);
            assert_eq!(found, Some(kind));
            assert_eq!(state.find_kind(kind.api_version, kind.kind), Some(kind));
            let root = &SCHEMA.structs[SCHEMA.root(kind)];
            assert!(root.field("metadata").is_some(), "{}", kind.kind);
        }
        assert_eq!(state.find_kind("apps/v1", "ReplicaSet"), None);
        assert_eq!(state.find("apps", "v2", "deployments"), None);
    }
}
