//! Access control, by users and their rights.

use crate::client::{Api, PODS, pod};
use memory_apiserver::{Access, AccessError, ApiServer, Config};
use serde_json::{Value, json};

const ROLES: &str = r#"
{kind: ServiceAccount, metadata: {name: reader, namespace: ns}}
---
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods, pods/status], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: ["*"]}
- {nonResourceURLs: [/metrics, /debug/*], verbs: [get]}
---
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: ns}]
---
kind: Role
metadata: {name: leader, namespace: ns}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: [create]}
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [mine], verbs: [get, update, list]}
---
kind: RoleBinding
metadata: {name: leader, namespace: ns}
roleRef: {kind: Role, name: leader}
subjects: [{kind: ServiceAccount, name: reader}]
---
kind: RoleBinding
metadata: {name: dangling, namespace: lost}
roleRef: {kind: ClusterRole, name: nowhere}
subjects: [{kind: User, name: "system:serviceaccount:ns:reader"}]
---
kind: ClusterRoleBinding
metadata: {name: delegator}
roleRef: {kind: ClusterRole, name: "system:auth-delegator"}
subjects: [{kind: Group, name: operators}]
"#;

fn access() -> Access {
    Access::from_yaml(ROLES)
        .unwrap()
        .service_account("t-reader", "ns", "reader")
        .user("t-admin", "admin", ["system:masters"])
        .user("t-operator", "olga", ["operators"])
}

fn server() -> ApiServer {
    ApiServer::new(Config::default().access(access()).gc(false))
}

/// The server as the holder of a token sees it.
fn holding(server: &ApiServer, token: &str) -> Api {
    Api {
        service: server.service().with_token(token),
        server: server.clone(),
    }
}

#[tokio::test(start_paused = true)]
async fn rules_decide_by_verb_group_resource_part_name_and_namespace() {
    let server = server();
    let (admin, reader) = (holding(&server, "t-admin"), holding(&server, "t-reader"));
    admin
        .create("/api/v1/namespaces", json!({"metadata": {"name": "ns"}}))
        .await;
    admin.create(PODS, pod("p")).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
    let mine = json!({"metadata": {"name": "mine"}, "spec": {}});
    for (method, path, body, want) in [
        ("GET", "/api/v1/pods", Value::Null, 200),
        ("GET", "/api/v1/pods?watch=1&timeoutSeconds=1", Value::Null, 200),
        ("GET", "/api/v1/namespaces/ns/pods/p/status", Value::Null, 200),
        ("POST", PODS, pod("q"), 403),
        ("DELETE", "/api/v1/namespaces/ns/pods/p", Value::Null, 403),
        ("DELETE", PODS, Value::Null, 403),
        ("PUT", "/api/v1/namespaces/ns/pods/p/status", pod("p"), 403),
        ("GET", "/api/v1/nodes", Value::Null, 403),
        (
            "DELETE",
            "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices",
            Value::Null,
            200,
        ),
        // A Role counts in its namespace, and its names do not let a create or a whole list through.
        ("POST", lease, mine.clone(), 201),
        (
            "POST",
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            mine,
            403,
        ),
        ("GET", &format!("{lease}/mine"), Value::Null, 200),
        ("GET", &format!("{lease}/yours"), Value::Null, 403),
        ("GET", lease, Value::Null, 403),
        (
            "GET",
            &format!("{lease}?fieldSelector=metadata.name%3Dmine"),
            Value::Null,
            200,
        ),
        // A user without the right gets 403 for a resource that is not served, too.
        ("GET", "/apis/batch/v1/cronjobs", Value::Null, 403),
        ("GET", "/apis/discovery.k8s.io/v1", Value::Null, 200),
        ("GET", "/debug/x", Value::Null, 404),
        ("GET", "/nothing", Value::Null, 403),
    ] {
        let answer = reader.call(method, path, body).await;
        assert_eq!(answer.status, want, "{method} {path}: {}", answer.body);
    }
    assert!(admin.is_gone("/apis/batch/v1/cronjobs").await);
}

#[tokio::test(start_paused = true)]
async fn refusals_have_the_real_form() {
    let server = server();
    let user = "system:serviceaccount:ns:reader";
    // A binding that leads nowhere is named.
    let path = "/api/v1/namespaces/lost/services/web";
    let said = holding(&server, "t-reader").call("GET", path, Value::Null).await;
    let message = format!(
        r#"services "web" is forbidden: User "{user}" cannot get resource "services" in API group "" in the namespace "lost": RBAC: clusterrole.rbac.authorization.k8s.io "nowhere" not found"#
    );
    assert_eq!(
        said.body,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
            "reason": "Forbidden", "details": {"name": "web", "kind": "services"}, "code": 403,
        })
    );
    let said = holding(&server, "stolen")
        .call("GET", "/api/v1/pods", Value::Null)
        .await;
    assert_eq!(
        (said.status, &said.body["message"]),
        (401, &json!("Unauthorized"))
    );
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_token() {
    let server = server();
    let anyone = Api {
        service: server.service(),
        server: server.clone(),
    };
    let status = async |path: &str| anyone.call("GET", path, Value::Null).await.status;
    assert_eq!(
        (
            status("/version").await,
            status("/api").await,
            status("/api/v1/pods").await
        ),
        (200, 403, 403)
    );
    server.set_access(Some(access().anonymous(false)));
    assert_eq!(status("/version").await, 401);
    // A header counts before the service's own token, and a test's own client is not asked.
    let header = [("authorization", "Bearer t-admin")];
    let stolen = holding(&server, "stolen");
    assert_eq!(stolen.raw("GET", "/api/v1/nodes", &header, b"").await.status, 200);
    anyone.spared().get("/api/v1/nodes").await;
    server.set_access(None);
    assert_eq!(status("/api/v1/nodes").await, 200);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_creates_needs_the_right_to_create() {
    let server = server();
    let path = "/api/v1/namespaces/default/endpoints/e";
    for (verbs, want) in [(&["update"][..], 403), (&["update", "create"], 201)] {
        let rules =
            json!([{"apiGroups": [""], "resources": ["endpoints"], "verbs": verbs, "resourceNames": null}]);
        let subjects = json!([{"kind": "User", "name": "u"}]);
        let role_ref = json!({"kind": "ClusterRole", "name": "w"});
        let items = json!([
            {"kind": "ClusterRole", "metadata": {"name": "w"}, "rules": rules},
            {"kind": "ClusterRoleBinding", "metadata": {"name": "w"}, "roleRef": role_ref, "subjects": subjects},
        ]);
        // A list is as good as its items, and null as good as absent.
        let access = Access::from_objects([json!({"kind": "List", "items": items})]).unwrap();
        server.set_access(Some(access.user("t", "u", [])));
        let answer = holding(&server, "t")
            .call("PUT", path, json!({"metadata": {"name": "e"}}))
            .await;
        assert_eq!(answer.status, want, "{}", answer.body);
    }
    let misspelt = json!({"kind": "Role", "metadata": {"name": "r"}, "rules": [{"apigroups": [""]}]});
    let error = Access::from_objects([misspelt]).unwrap_err().to_string();
    assert!(error.contains("unknown field `apigroups`"), "{error}");
    assert!(matches!(Access::from_yaml("a: [b"), Err(AccessError::Yaml(_))));
}

#[tokio::test(start_paused = true)]
async fn reviews_answer_from_the_same_tables() {
    let server = server();
    let (reader, operator) = (holding(&server, "t-reader"), holding(&server, "t-operator"));
    let tokens = "/apis/authentication.k8s.io/v1/tokenreviews";
    let asked = |token: &str| json!({"kind": "TokenReview", "spec": {"token": token}});
    let user = json!({
        "username": "system:serviceaccount:ns:reader",
        "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
    });
    let said = operator.create(tokens, asked("t-reader")).await;
    assert_eq!(said["status"], json!({"authenticated": true, "user": user}));
    let said = operator.create(tokens, asked("stolen")).await;
    assert_eq!(said["status"]["user"], json!({}));
    assert!(said["status"].get("authenticated").is_none() && said["status"]["error"].is_string());
    assert_eq!(reader.call("POST", tokens, asked("t-reader")).await.status, 403);

    let subjects = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let reader_name = "system:serviceaccount:ns:reader";
    let metrics = |verb: &str| json!({"path": "/metrics", "verb": verb});
    let delete = json!({"resource": "pods", "verb": "delete"});
    let status = json!({"resource": "pods", "subresource": "status", "verb": "get"});
    for (spec, allowed) in [
        (
            json!({"user": reader_name, "nonResourceAttributes": metrics("get")}),
            true,
        ),
        (
            json!({"user": reader_name, "nonResourceAttributes": metrics("post")}),
            false,
        ),
        (
            json!({"user": "olga", "nonResourceAttributes": metrics("get")}),
            false,
        ),
        (json!({"user": reader_name, "resourceAttributes": status}), true),
        (json!({"user": reader_name, "resourceAttributes": delete}), false),
        (
            json!({"groups": ["system:masters"], "resourceAttributes": delete}),
            true,
        ),
    ] {
        let said = operator.create(subjects, json!({"spec": spec})).await;
        assert_eq!(said["status"]["allowed"], allowed, "{said}");
    }
    for spec in [
        json!({"user": "u"}),
        json!({"resourceAttributes": delete}),
        json!({"user": "u", "resourceAttributes": delete, "nonResourceAttributes": metrics("get")}),
    ] {
        let answer = operator.call("POST", subjects, json!({"spec": spec})).await;
        assert_eq!(answer.status, 422, "{}", answer.body);
    }
    let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let body = json!({"spec": {"resourceAttributes": {"resource": "pods", "verb": "watch"}}});
    assert_eq!(reader.create(own, body.clone()).await["status"]["allowed"], true);
    assert_eq!(
        operator.create(own, body.clone()).await["status"]["allowed"],
        false
    );
    // Without access control there is no user to review.
    server.set_access(None);
    assert_eq!(reader.call("POST", own, body).await.status, 404);
}
