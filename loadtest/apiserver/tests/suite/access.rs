//! Access control, by users and their rights.

use crate::client::{PODS, pod};
use http::{Request, header};
use http_body_util::{BodyExt, Full};
use memory_apiserver::{Access, AccessError, ApiServer, ApiService, Config};
use serde_json::{Value, json};
use tower::ServiceExt;

const ROLES: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: ns}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- apiGroups: [""]
  resources: [pods, pods/status]
  verbs: [get, list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: ["*"]
- nonResourceURLs: [/metrics, /debug/*]
  verbs: [get]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects:
- {kind: ServiceAccount, name: reader, namespace: ns}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leader, namespace: ns}
rules:
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [mine]
  verbs: [get, update, list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: leader, namespace: ns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leader}
subjects:
- {kind: ServiceAccount, name: reader}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: dangling, namespace: lost}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nowhere}
subjects:
- {kind: User, name: "system:serviceaccount:ns:reader", apiGroup: rbac.authorization.k8s.io}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: delegator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"}
subjects:
- {kind: Group, name: operators, apiGroup: rbac.authorization.k8s.io}
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

#[allow(
    clippy::needless_pass_by_value,
    reason = "bodies are made where they are sent"
)]
async fn send(
    service: ApiService,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Value,
) -> (u16, Value) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if !body.is_null() && !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let response = service
        .oneshot(request.body(Full::from(body)).unwrap())
        .await
        .unwrap();
    let status = response.status().as_u16();
    // A watch that is let in never ends.
    if path.contains("watch=") && status == 200 {
        return (status, Value::Null);
    }
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "bodies are made where they are sent"
)]
async fn ask(server: &ApiServer, token: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
    send(server.service().with_token(token), method, path, &[], body).await
}

#[tokio::test(start_paused = true)]
async fn rules_decide_by_verb_group_resource_part_name_and_namespace() {
    let server = server();
    let (status, _) = ask(
        &server,
        "t-admin",
        "POST",
        "/api/v1/namespaces",
        json!({"metadata": {"name": "ns"}}),
    )
    .await;
    assert_eq!(status, 201);
    assert_eq!(ask(&server, "t-admin", "POST", PODS, pod("p")).await.0, 201);
    let lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
    let other = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let slices = "/apis/discovery.k8s.io/v1/endpointslices";
    for (method, path, body, want) in [
        ("GET", "/api/v1/pods", Value::Null, 200),
        ("GET", "/api/v1/pods?watch=1", Value::Null, 200),
        ("GET", "/api/v1/namespaces/ns/pods/p", Value::Null, 200),
        ("GET", "/api/v1/namespaces/ns/pods/p/status", Value::Null, 200),
        ("POST", PODS, pod("q"), 403),
        ("DELETE", "/api/v1/namespaces/ns/pods/p", Value::Null, 403),
        ("DELETE", PODS, Value::Null, 403),
        ("PUT", "/api/v1/namespaces/ns/pods/p/status", pod("p"), 403),
        ("GET", "/api/v1/nodes", Value::Null, 403),
        ("GET", slices, Value::Null, 200),
        (
            "DELETE",
            "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices",
            Value::Null,
            200,
        ),
        // A Role counts in its namespace, and its names do not let a create or a whole list through.
        (
            "POST",
            lease,
            json!({"metadata": {"name": "mine"}, "spec": {}}),
            201,
        ),
        (
            "POST",
            other,
            json!({"metadata": {"name": "mine"}, "spec": {}}),
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
        ("GET", "/apis", Value::Null, 200),
        ("GET", "/apis/discovery.k8s.io/v1", Value::Null, 200),
        ("GET", "/debug/x", Value::Null, 404),
        ("GET", "/nothing", Value::Null, 403),
    ] {
        let (status, said) = ask(&server, "t-reader", method, path, body).await;
        assert_eq!(status, want, "{method} {path}: {said}");
    }
    assert_eq!(
        ask(&server, "t-admin", "GET", "/apis/batch/v1/cronjobs", Value::Null)
            .await
            .0,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn refusals_have_the_real_form() {
    let server = server();
    let (status, said) = ask(&server, "t-reader", "GET", "/api/v1/nodes", Value::Null).await;
    let user = "system:serviceaccount:ns:reader";
    assert_eq!(status, 403);
    assert_eq!(
        said,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": format!(r#"nodes is forbidden: User "{user}" cannot list resource "nodes" in API group "" at the cluster scope"#),
            "reason": "Forbidden", "details": {"kind": "nodes"}, "code": 403,
        })
    );
    let path = "/api/v1/namespaces/lost/services/web";
    let (_, said) = ask(&server, "t-reader", "GET", path, Value::Null).await;
    // A binding that leads nowhere is named.
    assert_eq!(
        said["message"],
        format!(
            r#"services "web" is forbidden: User "{user}" cannot get resource "services" in API group "" in the namespace "lost": RBAC: clusterrole.rbac.authorization.k8s.io "nowhere" not found"#
        )
    );
    assert_eq!(said["details"], json!({"name": "web", "kind": "services"}));
    let (_, said) = ask(
        &server,
        "t-reader",
        "POST",
        "/apis/apps/v1/namespaces/x/deployments",
        json!({}),
    )
    .await;
    assert_eq!(said["details"], json!({"group": "apps", "kind": "deployments"}));
    let (status, said) = ask(&server, "stolen", "GET", "/api/v1/pods", Value::Null).await;
    assert_eq!(status, 401);
    assert_eq!(
        said,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
        })
    );
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_token() {
    let server = server();
    let (status, said) = send(server.service(), "GET", "/api/v1/pods", &[], Value::Null).await;
    assert_eq!(status, 403);
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .contains(r#"User "system:anonymous" cannot list"#)
    );
    assert_eq!(
        send(server.service(), "GET", "/version", &[], Value::Null)
            .await
            .0,
        200
    );
    assert_eq!(
        send(server.service(), "GET", "/api", &[], Value::Null).await.0,
        403
    );
    server.set_access(Some(access().anonymous(false)));
    assert_eq!(
        send(server.service(), "GET", "/version", &[], Value::Null)
            .await
            .0,
        401
    );
    // A header counts before the service's own token, and a test's own client is not asked.
    let header = [("authorization", "Bearer t-admin")];
    let service = server.service().with_token("stolen");
    assert_eq!(
        send(service, "GET", "/api/v1/nodes", &header, Value::Null)
            .await
            .0,
        200
    );
    let spared = server.service_without_faults();
    assert_eq!(
        send(spared, "GET", "/api/v1/nodes", &[], Value::Null).await.0,
        200
    );
    server.set_access(None);
    assert_eq!(
        send(server.service(), "GET", "/api/v1/nodes", &[], Value::Null)
            .await
            .0,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_that_creates_needs_the_right_to_create() {
    let server = server();
    let rules = json!([{"apiGroups": [""], "resources": ["endpoints"], "verbs": ["update"]}]);
    let access = |rules: Value| {
        let api = "rbac.authorization.k8s.io/v1";
        Access::from_objects([
            json!({"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": "w"}, "rules": rules}),
            json!({"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": "w"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "w"},
                "subjects": [{"kind": "User", "name": "u"}]}),
        ])
        .unwrap()
        .user("t", "u", [])
    };
    server.set_access(Some(access(rules.clone())));
    let path = "/api/v1/namespaces/default/endpoints/e";
    let object = json!({"metadata": {"name": "e", "namespace": "default"}});
    let (status, said) = ask(&server, "t", "PUT", path, object.clone()).await;
    assert_eq!(status, 403);
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .contains("cannot create resource \"endpoints\"")
    );
    let mut both = rules;
    both[0]["verbs"] = json!(["update", "create"]);
    server.set_access(Some(access(both)));
    assert_eq!(ask(&server, "t", "PUT", path, object).await.0, 201);
}

#[tokio::test(start_paused = true)]
async fn reviews_answer_from_the_same_tables() {
    let server = server();
    let tokens = "/apis/authentication.k8s.io/v1/tokenreviews";
    let asked = |token: &str| json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
    let (status, said) = ask(&server, "t-operator", "POST", tokens, asked("t-reader")).await;
    assert_eq!(status, 201);
    assert_eq!(said["status"]["authenticated"], true);
    assert_eq!(
        said["status"]["user"],
        json!({
            "username": "system:serviceaccount:ns:reader",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"],
        })
    );
    let (status, said) = ask(&server, "t-operator", "POST", tokens, asked("stolen")).await;
    assert_eq!((status, &said["status"]["user"]), (201, &json!({})));
    assert!(said["status"].get("authenticated").is_none() && said["status"]["error"].is_string());
    let mut elsewhere = asked("t-reader");
    elsewhere["spec"]["audiences"] = json!(["vault"]);
    let (_, said) = ask(&server, "t-operator", "POST", tokens, elsewhere).await;
    assert!(said["status"].get("authenticated").is_none());
    assert_eq!(
        ask(&server, "t-reader", "POST", tokens, asked("t-reader"))
            .await
            .0,
        403
    );
    assert_eq!(
        ask(&server, "t-operator", "GET", tokens, Value::Null).await.0,
        403
    );
    assert_eq!(ask(&server, "t-admin", "GET", tokens, Value::Null).await.0, 405);

    let subjects = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let reader = "system:serviceaccount:ns:reader";
    for (spec, allowed) in [
        (
            json!({"user": reader, "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
            true,
        ),
        (
            json!({"user": reader, "nonResourceAttributes": {"path": "/metrics", "verb": "post"}}),
            false,
        ),
        (
            json!({"user": "olga", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}),
            false,
        ),
        (
            json!({"user": reader, "resourceAttributes": {"resource": "pods", "subresource": "status", "verb": "get"}}),
            true,
        ),
        (
            json!({"user": reader, "resourceAttributes": {"resource": "pods", "verb": "delete"}}),
            false,
        ),
        (
            json!({"groups": ["system:masters"], "resourceAttributes": {"resource": "x", "verb": "y"}}),
            true,
        ),
    ] {
        let body = json!({"spec": spec});
        let (status, said) = ask(&server, "t-operator", "POST", subjects, body).await;
        assert_eq!(
            (status, &said["status"]["allowed"]),
            (201, &json!(allowed)),
            "{said}"
        );
    }
    let body = json!({"spec": {"user": reader, "resourceAttributes": {"resource": "pods", "verb": "list"}}});
    let (_, said) = ask(&server, "t-operator", "POST", subjects, body).await;
    let why = r#"RBAC: allowed by ClusterRoleBinding "reader" of ClusterRole "reader" to ServiceAccount "reader/ns""#;
    assert_eq!(said["status"]["reason"], why);
    for spec in [
        json!({"user": reader}),
        json!({"resourceAttributes": {"resource": "pods", "verb": "list"}}),
        json!({"user": "u", "resourceAttributes": {"verb": "get"}, "nonResourceAttributes": {"verb": "get"}}),
    ] {
        let (status, said) = ask(&server, "t-operator", "POST", subjects, json!({"spec": spec})).await;
        assert_eq!((status, &said["reason"]), (422, &json!("Invalid")), "{said}");
    }
    let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let body = json!({"spec": {"resourceAttributes": {"resource": "pods", "verb": "watch"}}});
    let (_, said) = ask(&server, "t-reader", "POST", own, body.clone()).await;
    assert_eq!(said["status"]["allowed"], true);
    let (_, said) = ask(&server, "t-operator", "POST", own, body.clone()).await;
    assert_eq!(said["status"]["allowed"], false);
    let (_, groups) = ask(&server, "t-reader", "GET", "/apis", Value::Null).await;
    assert_eq!(groups["groups"].as_array().unwrap().len(), 6);
    // Without access control there is no user to review.
    server.set_access(None);
    assert_eq!(ask(&server, "t-reader", "POST", own, body).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn acting_as_someone_else_is_a_right_of_its_own() {
    let server = server();
    let as_reader = [("impersonate-user", "system:serviceaccount:ns:reader")];
    let admin = server.service().with_token("t-admin");
    assert_eq!(
        send(admin.clone(), "GET", "/api/v1/pods", &as_reader, Value::Null)
            .await
            .0,
        200
    );
    assert_eq!(
        send(admin, "GET", "/api/v1/nodes", &as_reader, Value::Null)
            .await
            .0,
        403
    );
    let operator = server.service().with_token("t-operator");
    let (status, said) = send(operator, "GET", "/api/v1/pods", &as_reader, Value::Null).await;
    assert_eq!(status, 403);
    assert_eq!(
        said["message"],
        r#"serviceaccounts "reader" is forbidden: User "olga" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "ns""#
    );
}

#[test]
fn objects_that_give_no_access() {
    let api = "rbac.authorization.k8s.io/v1";
    let role = |rules: Value| json!({"apiVersion": api, "kind": "Role", "metadata": {"name": "r", "namespace": "n"}, "rules": rules});
    let misspelt = role(json!([{"apigroups": [""], "verbs": ["get"]}]));
    for (object, want) in [
        (misspelt, "unknown field `apigroups`"),
        (json!("text"), "not an object"),
    ] {
        let error = Access::from_objects([object]).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
    assert!(matches!(Access::from_yaml("a: [b"), Err(AccessError::Yaml(_))));
    // A list is as good as its items, and null as good as absent.
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": null}]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [role(rules)]});
    Access::from_objects([list]).unwrap();
}
