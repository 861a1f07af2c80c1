//! The table of kinds: one row for each kind. A kind is added here, its type in
//! `schema.txt`, its columns in `kubectl/cells.rs`, and what only it does in a module that its row names.

use crate::kinds::{Facts, Kind, NameRule, PLAIN, Role};
use crate::registry::{deployment, endpoints, event, lease, namespace, node, pod, service, slice};

/// All rows, as kinds, in the order in which discovery lists their groups.
pub(crate) fn all() -> Vec<Kind> {
    KINDS.iter().map(Kind::new).collect()
}

/// The kind of this name in a group.
#[cfg(test)]
pub(crate) fn kind(name: &str) -> Kind {
    let found = all().into_iter().find(|kind| kind.kind == name);
    found.unwrap_or_else(|| panic!("the table has no {name}"))
}

static KINDS: [Facts; 10] = [
    Facts {
        resource: "endpoints",
        singular: "endpoints",
        kind: "Endpoints",
        schema: "Endpoints",
        short_names: &["ep"],
        create_on_update: true,
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
        create_on_update: true,
        fields: &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "reason",
            "type",
        ],
        bookmark_rest: concat!(
            r#","involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"#,
            r#""eventTime":null,"reportingComponent":"","reportingInstance":"""#
        ),
        default: event::default,
        check: event::check,
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
        fields: &["status.phase"],
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
        is_of_all: true,
        role: Role::Pod,
        subresources: &["binding", "status"],
        returns_deleted: true,
        fields: &["spec.nodeName", "status.phase", "status.podIP"],
        bookmark_rest: r#","spec":{"containers":null},"status":{}"#,
        default: pod::default,
        create: pod::create,
        update: pod::update,
        check: pod::check,
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
        bookmark_rest: r#","spec":{},"status":{}"#,
        ..PLAIN
    },
    Facts {
        resource: "services",
        singular: "service",
        kind: "Service",
        schema: "Service",
        short_names: &["svc"],
        is_of_all: true,
        role: Role::Service,
        name_rule: NameRule::Label1035,
        subresources: &["status"],
        create_on_update: true,
        returns_deleted: true,
        fields: &["spec.clusterIP", "spec.type"],
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
        is_of_all: true,
        subresources: &["scale", "status"],
        bookmark_rest: concat!(
            r#","spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"#,
            r#""strategy":{}},"status":{}"#
        ),
        default: deployment::default,
        create: deployment::create,
        update: deployment::update,
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
        bookmark_rest: r#","addressType":"","endpoints":null,"ports":null"#,
        default: slice::default,
        create: slice::create,
        update: slice::update,
        check: slice::check,
        ..PLAIN
    },
];
