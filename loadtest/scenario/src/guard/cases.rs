//! Requests, each with what the policy should decide.

use super::requests::{
    MANAGED_BY, Request, SERVICE_NAME, create, delete, empty, label, large, of, set, slice, unlabel, unset,
    update,
};
use serde_json::{Value, json};

// Words of the validations' messages, each in one message only.
const EXCLUDED: &str = "in this namespace";
const API_SERVER: &str = "default/kubernetes";
/// Words of the message about labels of other managers.
pub const MANAGER: &str = "switched on";
const OWNER: &str = "controlling owner";
const TARGET: &str = "targetRef";
const CREATES: &str = "may create";
const RELABELS: &str = "take that label away";
const EDITS: &str = "may change endpoints";
/// Words of all messages, in the order of the validations.
pub const MESSAGES: [&str; 8] = [
    EXCLUDED, API_SERVER, MANAGER, OWNER, TARGET, CREATES, RELABELS, EDITS,
];

// Labels of managers.
/// endpointslice-controller's.
pub const SLICES: &str = "endpointslice-controller.k8s.io";
/// endpointslice-mirroring-controller's.
pub const MIRRORED: &str = "endpointslicemirroring-controller.k8s.io";
/// custom-selector-controller's.
pub const CUSTOM: &str = "endpointd.io";
const FOREIGN: &str = "controller.example.com";

/// The namespace that the policy is adapted to exclude.
pub const EXCLUDED_NAMESPACE: &str = "payments";

/// The user that endpointd is.
pub const ENDPOINTD: &str = "system:serviceaccount:kube-system:endpointd";
const NAMESAKE: &str = "system:serviceaccount:default:endpointd";
const ADMIN: &str = "kubernetes-admin";
const BUILT_IN: &str = "system:serviceaccount:kube-system:endpointslice-controller";
const GARBAGE_COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";
/// Not every authenticator gives a name.
const NAMELESS: &str = "";

/// Words of the messages that refuse a request, or `None` if the policy does not look at it.
pub type Expected = Option<&'static [&'static str]>;

/// A request, and what the policy should decide.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of the case, for the messages of tests.
    pub name: String,
    /// The request.
    pub request: Request,
    /// The decision.
    pub expected: Expected,
}

/// Cases, in an order that means nothing.
#[derive(Clone, Debug, Default)]
pub struct Cases(pub Vec<Case>);

impl Cases {
    fn add(&mut self, name: impl Into<String>, request: Request, expected: Expected) {
        self.0.push(Case {
            name: name.into(),
            request,
            expected,
        });
    }

    fn skips(&mut self, name: impl Into<String>, request: Request) {
        self.add(name, request, None);
    }

    /// Adds a request that is allowed.
    pub fn allows(&mut self, name: impl Into<String>, request: Request) {
        self.add(name, request, Some(&[]));
    }

    /// Adds a request that is refused, with these words in its messages.
    pub fn refuses(&mut self, words: &'static [&'static str], name: impl Into<String>, request: Request) {
        self.add(name, request, Some(words));
    }

    /// The same cases for a policy that looks at every request.
    #[must_use]
    pub fn without_match_conditions(mut self) -> Self {
        for case in &mut self.0 {
            case.expected = case.expected.or(Some(&[]));
        }
        self
    }
}

/// All cases but the large ones.
pub fn all() -> Cases {
    let mut cases = Cases::default();
    endpointd_in_bounds(&mut cases);
    endpointd_takes_and_gives(&mut cases);
    endpointd_and_custom_slices(&mut cases);
    endpointd_where_it_may_not(&mut cases);
    for user in [ADMIN, BUILT_IN, NAMESAKE, NAMELESS] {
        others_and_the_label(&mut cases, user);
        others_edit(&mut cases, user);
    }
    for user in [ADMIN, GARBAGE_COLLECTOR, NAMESPACE_CONTROLLER] {
        others_in_bounds(&mut cases, user);
    }
    let own = of(&unlabel(&slice(FOREIGN), MANAGED_BY), "default", "kubernetes");
    cases.skips(
        "the API server's slice",
        update("system:apiserver", own.clone(), own),
    );
    cases
}

fn endpointd_in_bounds(cases: &mut Cases) {
    for manager in [SLICES, MIRRORED, CUSTOM] {
        let full = slice(manager);
        let unready = set(&full, "/endpoints/0/conditions/ready", false);
        cases.allows(format!("creates {manager}"), create(ENDPOINTD, full.clone()));
        cases.allows(
            format!("creates empty {manager}"),
            create(ENDPOINTD, empty(&full)),
        );
        cases.allows(
            format!("updates {manager}"),
            update(ENDPOINTD, full.clone(), unready),
        );
        cases.allows(
            format!("empties {manager}"),
            update(ENDPOINTD, full.clone(), empty(&full)),
        );
        cases.allows(format!("deletes {manager}"), delete(ENDPOINTD, full));
    }
    let mirrored = set(&slice(MIRRORED), "/metadata/ownerReferences/0/kind", "Endpoints");
    let mirrored = unset(&mirrored, "/endpoints/0/targetRef");
    cases.allows("mirrors what is no pod", create(ENDPOINTD, mirrored));

    let custom = slice(CUSTOM);
    let mut shared = custom.clone();
    let other = json!({"apiVersion": "example.com/v1", "kind": "Backup", "name": "b", "uid": "b"});
    let owners = shared["metadata"]["ownerReferences"]
        .as_array_mut()
        .expect("the slice of the cases has owners");
    owners.insert(0, other);
    cases.allows("keeps another owner", update(ENDPOINTD, shared.clone(), shared));
    let disowned = unset(&unlabel(&custom, SERVICE_NAME), "/metadata/ownerReferences");
    cases.allows(
        "repairs what was disowned",
        update(ENDPOINTD, disowned.clone(), custom.clone()),
    );
    cases.allows("deletes what was disowned", delete(ENDPOINTD, disowned));
    let bad = unset(&custom, "/endpoints/0/targetRef");
    cases.allows("repairs a target", update(ENDPOINTD, bad.clone(), custom.clone()));
    cases.allows("deletes a bad target", delete(ENDPOINTD, bad));
    cases.allows(
        "shop/kubernetes",
        create(ENDPOINTD, of(&custom, "shop", "kubernetes")),
    );
    cases.allows("default/web", create(ENDPOINTD, of(&custom, "default", "web")));
}

fn endpointd_takes_and_gives(cases: &mut Cases) {
    let bare = unlabel(&unlabel(&slice(CUSTOM), MANAGED_BY), SERVICE_NAME);
    for (name, theirs) in [("foreign", slice(FOREIGN)), ("unlabelled", bare)] {
        for manager in [SLICES, MIRRORED, CUSTOM] {
            let taken = update(ENDPOINTD, theirs.clone(), slice(manager));
            let given = update(ENDPOINTD, slice(manager), theirs.clone());
            cases.refuses(&[MANAGER], format!("takes {name} as {manager}"), taken);
            cases.refuses(&[MANAGER], format!("makes {manager} {name}"), given);
        }
        let same = update(ENDPOINTD, theirs.clone(), theirs.clone());
        cases.refuses(&[MANAGER], format!("updates {name}"), same);
        cases.refuses(
            &[MANAGER],
            format!("creates {name}"),
            create(ENDPOINTD, theirs.clone()),
        );
        cases.refuses(&[MANAGER], format!("deletes {name}"), delete(ENDPOINTD, theirs));
    }
}

fn endpointd_and_custom_slices(cases: &mut Cases) {
    let custom = slice(CUSTOM);
    let owner =
        |field: &str, value: Value| set(&custom, &format!("/metadata/ownerReferences/0/{field}"), value);
    for (name, bad) in [
        ("no owner", unset(&custom, "/metadata/ownerReferences")),
        ("another Service as owner", owner("name", "db".into())),
        ("Endpoints as owner", owner("kind", "Endpoints".into())),
        (
            "Knative's Service as owner",
            owner("apiVersion", "serving.knative.dev/v1".into()),
        ),
        (
            "an owner that does not control",
            owner("controller", false.into()),
        ),
        (
            "an owner like others",
            unset(&custom, "/metadata/ownerReferences/0/controller"),
        ),
        ("no Service's name", unlabel(&custom, SERVICE_NAME)),
        ("another Service's name", label(&custom, SERVICE_NAME, "db")),
    ] {
        cases.refuses(
            &[OWNER],
            format!("creates with {name}"),
            create(ENDPOINTD, bad.clone()),
        );
        cases.refuses(
            &[OWNER],
            format!("updates to {name}"),
            update(ENDPOINTD, custom.clone(), bad),
        );
    }
    for (name, bad) in [
        ("no target", unset(&custom, "/endpoints/1/targetRef")),
        (
            "another namespace",
            set(&custom, "/endpoints/1/targetRef/namespace", "db"),
        ),
        ("no namespace", unset(&custom, "/endpoints/1/targetRef/namespace")),
        ("a Node", set(&custom, "/endpoints/1/targetRef/kind", "Node")),
        ("no kind", unset(&custom, "/endpoints/1/targetRef/kind")),
    ] {
        cases.refuses(
            &[TARGET],
            format!("creates with {name}"),
            create(ENDPOINTD, bad.clone()),
        );
        cases.refuses(
            &[TARGET],
            format!("updates to {name}"),
            update(ENDPOINTD, custom.clone(), bad),
        );
    }
}

fn endpointd_where_it_may_not(cases: &mut Cases) {
    for manager in [SLICES, MIRRORED, CUSTOM] {
        let web = of(&slice(manager), "default", "web");
        let api = of(&slice(manager), "default", "kubernetes");
        cases.refuses(
            &[API_SERVER],
            format!("creates {manager}"),
            create(ENDPOINTD, api.clone()),
        );
        let (to, from) = (
            update(ENDPOINTD, web.clone(), api.clone()),
            update(ENDPOINTD, api.clone(), web),
        );
        cases.refuses(&[API_SERVER], format!("moves {manager} there"), to);
        cases.refuses(&[API_SERVER], format!("moves {manager} away"), from);
        cases.refuses(
            &[API_SERVER],
            format!("deletes {manager}"),
            delete(ENDPOINTD, api),
        );

        let there = of(&slice(manager), "payments", "web");
        let same = update(ENDPOINTD, there.clone(), there.clone());
        cases.refuses(
            &[EXCLUDED],
            format!("creates {manager} in payments"),
            create(ENDPOINTD, there.clone()),
        );
        cases.refuses(&[EXCLUDED], format!("updates {manager} in payments"), same);
        cases.refuses(
            &[EXCLUDED],
            format!("deletes {manager} in payments"),
            delete(ENDPOINTD, there),
        );
    }
    // The API server labels its own slice with nothing but the Service's name.
    let own = of(&unlabel(&slice(FOREIGN), MANAGED_BY), "default", "kubernetes");
    cases.refuses(
        &[API_SERVER, MANAGER],
        "deletes the API server's slice",
        delete(ENDPOINTD, own),
    );
    let there = of(&slice(FOREIGN), "payments", "web");
    cases.refuses(
        &[EXCLUDED, MANAGER],
        "creates foreign in payments",
        create(ENDPOINTD, there),
    );
}

fn others_and_the_label(cases: &mut Cases, user: &'static str) {
    let custom = slice(CUSTOM);
    let bare = unlabel(&unlabel(&custom, MANAGED_BY), SERVICE_NAME);
    for (name, theirs) in [
        ("built-in", slice(SLICES)),
        ("foreign", slice(FOREIGN)),
        ("unlabelled", bare),
    ] {
        let taken = label(&theirs, MANAGED_BY, CUSTOM);
        cases.skips(format!("{user:?} creates {name}"), create(user, theirs.clone()));
        cases.skips(
            format!("{user:?} updates {name}"),
            update(user, theirs.clone(), empty(&theirs)),
        );
        cases.skips(format!("{user:?} deletes {name}"), delete(user, theirs.clone()));
        let (add, remove) = (
            update(user, theirs.clone(), taken.clone()),
            update(user, taken, theirs),
        );
        cases.refuses(&[RELABELS], format!("{user:?} labels {name}"), add);
        cases.refuses(&[RELABELS], format!("{user:?} makes it {name}"), remove);
    }
    let emptied = update(user, custom.clone(), empty(&slice(FOREIGN)));
    cases.refuses(&[RELABELS, EDITS], format!("{user:?} takes and edits"), emptied);
    let there = of(&custom, "payments", "web");
    cases.refuses(
        &[CREATES],
        format!("{user:?} creates empty"),
        create(user, empty(&custom)),
    );
    cases.refuses(&[CREATES], format!("{user:?} creates"), create(user, custom));
    cases.refuses(
        &[CREATES],
        format!("{user:?} creates in payments"),
        create(user, there),
    );
}

fn others_edit(cases: &mut Cases, user: &'static str) {
    let custom = slice(CUSTOM);
    let mut turned = custom.clone();
    turned["endpoints"]
        .as_array_mut()
        .expect("the slice of the cases has endpoints")
        .reverse();
    let hints = json!({"forZones": [{"name": "b"}]});
    for (name, edited) in [
        (
            "an address",
            set(&custom, "/endpoints/1/addresses", json!(["10.9.9.9"])),
        ),
        (
            "a condition",
            set(&custom, "/endpoints/1/conditions/ready", false),
        ),
        ("a target", set(&custom, "/endpoints/1/targetRef/name", "db-0")),
        ("hints", set(&custom, "/endpoints/0/hints", hints)),
        ("the order", turned),
        ("all endpoints", set(&custom, "/endpoints", json!([]))),
        ("a port", set(&custom, "/ports/0/port", 9090)),
        ("all ports", set(&custom, "/ports", json!([]))),
        ("the family", set(&custom, "/addressType", "IPv6")),
    ] {
        let back = update(user, edited.clone(), custom.clone());
        cases.refuses(
            &[EDITS],
            format!("{user:?} edits {name}"),
            update(user, custom.clone(), edited),
        );
        cases.refuses(&[EDITS], format!("{user:?} edits {name} back"), back);
    }
}

fn others_in_bounds(cases: &mut Cases, user: &'static str) {
    let custom = slice(CUSTOM);
    // As it may have been published before there was a guard.
    let bad = set(&custom, "/endpoints/0/targetRef/kind", "Node");
    for slice in [&custom, &bad, &empty(&custom)] {
        cases.allows(format!("{user:?} deletes"), delete(user, slice.clone()));
        for (name, updated) in [
            ("nothing", slice.clone()),
            (
                "an annotation",
                set(slice, "/metadata/annotations", json!({"a": "b"})),
            ),
            ("a label", label(slice, "team", "network")),
            (
                "a finalizer",
                set(slice, "/metadata/finalizers", json!(["foregroundDeletion"])),
            ),
            ("its owner", unset(slice, "/metadata/ownerReferences")),
            ("the Service's name", unlabel(slice, SERVICE_NAME)),
        ] {
            cases.allows(
                format!("{user:?} updates {name}"),
                update(user, slice.clone(), updated),
            );
        }
    }
}

/// Slices as large as the API allows. They take time, so they are tried once.
pub fn large_slices() -> Cases {
    let mut cases = Cases::default();
    let full = large(CUSTOM, "zone", "a");
    let edited = large(CUSTOM, "zone", "b");
    let node = large(CUSTOM, "targetRef", json!({"kind": "Node", "name": "n"}));
    cases.allows("fills a slice", create(ENDPOINTD, full.clone()));
    cases.refuses(&[TARGET], "its last endpoint is a Node", create(ENDPOINTD, node));
    cases.refuses(
        &[EDITS],
        "edits its last endpoint",
        update(ADMIN, full.clone(), edited),
    );
    cases.allows(
        "labels it",
        update(ADMIN, full.clone(), label(&full, "team", "network")),
    );
    cases.allows("deletes it", delete(GARBAGE_COLLECTOR, full));
    cases
}
