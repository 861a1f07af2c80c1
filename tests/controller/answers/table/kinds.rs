//! The kinds of requests that the controller makes, each with the scene that makes it send them.

use super::{Kind, MOST, Scene};
use crate::constant::{Constant, Picks};
use crate::gate::Sent;
use http::Method;

const fn kind(name: &'static str, picks: Picks, scene: Scene) -> Kind {
    Kind {
        name,
        picks,
        others: &[],
        answers: &Constant::ALL,
        scene,
        most: MOST,
    }
}

fn is(sent: &Sent, verb: &Method, kind: &str) -> bool {
    sent.verb == *verb && sent.kind() == kind
}

fn streams(sent: &Sent, kind: &str) -> bool {
    is(sent, &Method::GET, kind) && sent.lists() && sent.watch
}

fn pages(sent: &Sent, kind: &str) -> bool {
    is(sent, &Method::GET, kind) && sent.lists() && !sent.watch
}

fn watches(sent: &Sent, kind: &str) -> bool {
    is(sent, &Method::GET, kind) && sent.watch && !sent.lists()
}

fn looks(sent: &Sent, kind: &str) -> bool {
    is(sent, &Method::GET, kind) && sent.name().is_none()
}

fn reads_version(sent: &Sent) -> bool {
    sent.verb == Method::GET && !sent.watch && sent.query.ends_with("limit=1")
}

fn gets(sent: &Sent, kind: &str) -> bool {
    is(sent, &Method::GET, kind) && sent.name().is_some()
}

const LEASE: &str = "/leases/endpointd";

/// The kinds of requests, but those about Leases.
pub(super) const KINDS: &[Kind] = &[
    kind("streamed list of nodes", |s| streams(s, "nodes"), Scene::Start),
    kind("streamed list of pods", |s| streams(s, "pods"), Scene::Start),
    kind(
        "streamed list of slices",
        |s| streams(s, "endpointslices"),
        Scene::Start,
    ),
    kind(
        "streamed list of endpoints",
        |s| streams(s, "endpoints"),
        Scene::Start,
    ),
    Kind {
        others: &[(|s| streams(s, "pods"), Constant::Status(400))],
        ..kind("page of pods", |s| pages(s, "pods"), Scene::Start)
    },
    Kind {
        others: &[(|s| streams(s, "nodes"), Constant::Status(400))],
        ..kind("page of nodes", |s| pages(s, "nodes"), Scene::Start)
    },
    // They are not streamed.
    kind("page of services", |s| pages(s, "services"), Scene::Start),
    Kind {
        others: &[(|s| streams(s, "endpoints"), Constant::Status(400))],
        ..kind("page of endpoints", |s| pages(s, "endpoints"), Scene::Start)
    },
    Kind {
        others: &[(|s| streams(s, "endpointslices"), Constant::Status(400))],
        // For both kinds of slices.
        most: 2 * MOST,
        ..kind("page of slices", |s| pages(s, "endpointslices"), Scene::Start)
    },
    kind("watch of nodes", |s| watches(s, "nodes"), Scene::Start),
    kind("watch of pods", |s| watches(s, "pods"), Scene::Start),
    kind("watch of services", |s| watches(s, "services"), Scene::Start),
    // For both kinds of slices.
    Kind {
        most: 2 * MOST,
        ..kind("watch of slices", |s| watches(s, "endpointslices"), Scene::Start)
    },
    kind("watch of endpoints", |s| watches(s, "endpoints"), Scene::Start),
    Kind {
        others: &[(|s| watches(s, "pods"), Constant::Status(500))],
        ..kind(
            "version of pods",
            |s| reads_version(s) && s.kind() == "pods",
            Scene::Start,
        )
    },
    // All that reads a kind, so that watches and versions agree.
    kind("reads of nodes", |s| looks(s, "nodes"), Scene::Start),
    kind("reads of pods", |s| looks(s, "pods"), Scene::Start),
    kind("reads of services", |s| looks(s, "services"), Scene::Start),
    Kind {
        most: 2 * MOST,
        ..kind("reads of slices", |s| looks(s, "endpointslices"), Scene::Start)
    },
    kind("reads of endpoints", |s| looks(s, "endpoints"), Scene::Start),
    kind("get of slices", |s| gets(s, "endpointslices"), Scene::Edited),
    kind("get of endpoints", |s| gets(s, "endpoints"), Scene::Edited),
    kind("get of a service", |s| gets(s, "services"), Scene::Leftover),
    kind(
        "post of slices",
        |s| is(s, &Method::POST, "endpointslices"),
        Scene::Service,
    ),
    kind(
        "post of endpoints",
        |s| is(s, &Method::POST, "endpoints"),
        Scene::Service,
    ),
    kind(
        "put of slices",
        |s| is(s, &Method::PUT, "endpointslices"),
        Scene::Pod,
    ),
    kind(
        "put of endpoints",
        |s| is(s, &Method::PUT, "endpoints"),
        Scene::Pod,
    ),
    kind(
        "delete of slices",
        |s| is(s, &Method::DELETE, "endpointslices"),
        Scene::Stray,
    ),
    kind(
        "delete of endpoints",
        |s| is(s, &Method::DELETE, "endpoints"),
        Scene::Gone,
    ),
    kind("post of events", |s| is(s, &Method::POST, "events"), Scene::Told),
    kind(
        "patch of events",
        |s| is(s, &Method::PATCH, "events"),
        Scene::ToldAgain,
    ),
];

/// Requests about Endpoints to mirror, and about the slices that do.
pub(super) const MIRRORED: &[Kind] = &[
    kind(
        "get of endpoints to mirror",
        |s| gets(s, "endpoints"),
        Scene::Mirrored,
    ),
    kind(
        "get of endpoints that are too large to mirror",
        |s| gets(s, "endpoints"),
        Scene::Refused,
    ),
    kind(
        "post of mirrored slices",
        |s| is(s, &Method::POST, "endpointslices"),
        Scene::NewMirrored,
    ),
    kind(
        "put of mirrored slices",
        |s| is(s, &Method::PUT, "endpointslices"),
        Scene::Mirrored,
    ),
    kind(
        "delete of mirrored slices",
        |s| is(s, &Method::DELETE, "endpointslices"),
        Scene::GoneMirrored,
    ),
];

/// Requests about the slices of a Service whose selector is an annotation.
pub(super) const ANNOTATED: &[Kind] = &[
    kind(
        "post of slices of an annotated service",
        |s| is(s, &Method::POST, "endpointslices"),
        Scene::NewAnnotated,
    ),
    kind(
        "put of slices of an annotated service",
        |s| is(s, &Method::PUT, "endpointslices"),
        Scene::Annotated,
    ),
    kind(
        "delete of slices of an annotated service",
        |s| is(s, &Method::DELETE, "endpointslices"),
        Scene::StrayAnnotated,
    ),
];

/// Requests of the election, which tries every two seconds, and watches once a second at most.
pub(super) const ELECTION: &[Kind] = &[
    // A new leader's proof.
    election("streamed list of pods", |s| streams(s, "pods")),
    election("get of the lease", |s| {
        s.verb == Method::GET && s.path.ends_with(LEASE)
    }),
    election("post of the lease", |s| {
        s.verb == Method::POST && s.kind() == "leases"
    }),
    election("put of the lease", |s| {
        s.verb == Method::PUT && s.kind() == "leases"
    }),
    election("watch of the lease", |s| s.watch && s.kind() == "leases"),
];

const fn election(name: &'static str, picks: Picks) -> Kind {
    Kind {
        most: 100,
        ..kind(name, picks, Scene::Elected)
    }
}
