//! Custom resources: from their definition to their end.

use crate::client::{Api, Watch};
use memory_apiserver::{ApiServer, Config};
use serde_json::{Value, json};

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/ns/widgets";
const GADGETS: &str = "/apis/example.com/v1/gadgets";
const APPLY: &str = "application/apply-patch+yaml";

pub(crate) fn widgets() -> Value {
    let columns = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1},
    ]);
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}},
            "additionalPrinterColumns": columns, "selectableFields": [{"jsonPath": ".spec.color"}],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [version("v1beta1", false), version("v1", true)],
        },
    })
}

pub(crate) fn gadgets() -> Value {
    json!({
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    })
}

pub(crate) fn widget(name: &str) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 1}})
}

pub(crate) async fn served() -> Api {
    let api = Api::plain().await;
    api.create(CRDS, widgets()).await;
    api.create(CRDS, gadgets()).await;
    api
}

#[tokio::test(start_paused = true)]
async fn a_definition_is_established_and_discovered() {
    let api = Api::plain().await;
    assert!(api.is_gone(WIDGETS).await);
    assert!(api.is_gone("/apis/example.com").await);
    let made = api.create(CRDS, widgets()).await;
    assert_eq!(made["spec"]["names"]["listKind"], "WidgetList");
    assert_eq!(made["spec"]["names"]["singular"], "widget");
    assert_eq!(made["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    let conditions = made["status"]["conditions"].as_array().unwrap();
    for kind in ["NamesAccepted", "Established"] {
        assert!(
            conditions
                .iter()
                .any(|c| c["type"] == kind && c["status"] == "True"),
            "{made}"
        );
    }
    let group = api.get("/apis/example.com").await;
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(group["versions"][1]["groupVersion"], "example.com/v1beta1");
    let resources = api.get("/apis/example.com/v1").await;
    let entry = &resources["resources"][0];
    assert_eq!(
        (
            &entry["name"],
            &entry["kind"],
            &entry["shortNames"],
            &entry["namespaced"]
        ),
        (&json!("widgets"), &json!("Widget"), &json!(["wd"]), &json!(true))
    );
    assert_eq!(resources["resources"][1]["name"], "widgets/status");
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_listed_watched_patched_and_deleted() {
    let api = served().await;
    let mut watch: Watch = api.watch(&format!("{WIDGETS}?watch=1")).await;
    let made = api.create(WIDGETS, widget("a")).await;
    assert_eq!(
        (&made["metadata"]["generation"], &made["spec"]),
        (&json!(1), &json!({"size": 1}))
    );
    let path = format!("{WIDGETS}/a");
    let patched = api
        .patch(&path, json!({"spec": {"deep": {"x": [1, 2], "gone": null}}}))
        .await;
    assert_eq!(patched["spec"], json!({"size": 1, "deep": {"x": [1, 2]}}));
    assert_eq!(patched["metadata"]["generation"], 2);
    let operation = br#"[{"op": "replace", "path": "/spec/deep/x/1", "value": 3}]"#;
    let answer = api
        .raw(
            "PATCH",
            &path,
            &[("content-type", "application/json-patch+json")],
            operation,
        )
        .await;
    assert_eq!(answer.body["spec"]["deep"]["x"], json!([1, 3]));
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(api.raw("PATCH", &path, &strategic, b"{}").await.status, 415);
    // An update names the version it is of.
    assert_eq!(api.refused("PUT", &path, widget("a")).await["reason"], "Invalid");
    let mut full = api.get(&path).await;
    full["spec"] = json!({"size": 5});
    assert_eq!(api.put(&path, full.clone()).await["spec"], json!({"size": 5}));
    assert_eq!(api.refused("PUT", &path, full).await["reason"], "Conflict");
    let list = api.get("/apis/example.com/v1/widgets").await;
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("WidgetList"), &json!("example.com/v1"))
    );
    assert_eq!(list["items"][0]["kind"], "Widget");
    api.delete(&path, Value::Null).await;
    let mut told = Vec::new();
    while told.last() != Some(&json!("DELETED")) {
        let event = watch.next().await.unwrap();
        assert_eq!(event["object"]["kind"], "Widget");
        told.push(event["type"].clone());
    }
    assert_eq!(told, ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]);
    // Without a namespace.
    api.create(GADGETS, json!({"metadata": {"name": "g"}, "status": {"a": 1}}))
        .await;
    assert_eq!(api.get(&format!("{GADGETS}/g")).await["status"], json!({"a": 1}));
    assert!(api.is_gone(&format!("{GADGETS}/g/status")).await);
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_apart_when_the_definition_says_so() {
    let api = served().await;
    let mut given = widget("a");
    given["status"] = json!({"early": true});
    assert!(api.create(WIDGETS, given).await.get("status").is_none());
    let (path, status) = (format!("{WIDGETS}/a"), format!("{WIDGETS}/a/status"));
    let both = json!({"spec": {"size": 9}, "status": {"ready": true}, "metadata": {"labels": {"a": "b"}}});
    let patched = api.patch(&status, both.clone()).await;
    assert_eq!(
        (&patched["spec"], &patched["status"]),
        (&json!({"size": 1}), &json!({"ready": true}))
    );
    assert_eq!(
        (
            &patched["metadata"]["generation"],
            patched["metadata"].get("labels")
        ),
        (&json!(1), None)
    );
    let patched = api
        .patch(&path, json!({"spec": {"size": 2}, "status": {"ready": false}}))
        .await;
    assert_eq!(
        (&patched["spec"], &patched["status"]),
        (&json!({"size": 2}), &json!({"ready": true}))
    );
    assert_eq!(patched["metadata"]["generation"], 2);
}

#[tokio::test(start_paused = true)]
async fn fields_are_owned_one_by_one() {
    let api = served().await;
    let path = format!("{WIDGETS}/a");
    let apply = async |manager: &str, spec: Value| {
        let mut body = widget("a");
        body["spec"] = spec;
        let path = format!("{path}?fieldManager={manager}");
        let body = body.to_string().into_bytes();
        api.raw("PATCH", &path, &[("content-type", APPLY)], &body).await
    };
    assert_eq!(apply("one", json!({"size": 1, "list": [1]})).await.status, 201);
    assert_eq!(
        apply("two", json!({"color": "red", "map": {"x": 1}}))
            .await
            .status,
        200
    );
    let conflict = apply("two", json!({"color": "red", "size": 2})).await;
    assert_eq!(conflict.status, 409);
    assert_eq!(conflict.body["details"]["causes"][0]["field"], ".spec.size");
    // A field that its only owner no longer applies goes; the rest stays.
    let left = apply("two", json!({"color": "blue"})).await.body;
    assert_eq!(left["spec"], json!({"size": 1, "list": [1], "color": "blue"}));
    let managers = left["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers
            .iter()
            .any(|m| m["manager"] == "two" && m["fieldsV1"]["f:spec"]["f:color"] == json!({}))
    );
}

#[tokio::test(start_paused = true)]
async fn each_version_shows_the_same_objects() {
    let api = served().await;
    api.create(WIDGETS, widget("a")).await;
    let beta = WIDGETS.replace("/v1/", "/v1beta1/");
    let seen = api.get(&format!("{beta}/a")).await;
    assert_eq!(seen["apiVersion"], "example.com/v1beta1");
    assert_eq!(
        api.get(&beta).await["items"][0]["apiVersion"],
        "example.com/v1beta1"
    );
    let patched = api
        .patch(&format!("{beta}/a"), json!({"spec": {"size": 4}}))
        .await;
    assert_eq!(patched["apiVersion"], "example.com/v1beta1");
    let seen = api.get(&format!("{WIDGETS}/a")).await;
    assert_eq!(
        (&seen["apiVersion"], &seen["spec"]["size"]),
        (&json!("example.com/v1"), &json!(4))
    );
    assert_eq!(
        seen["metadata"]["resourceVersion"],
        patched["metadata"]["resourceVersion"]
    );
    assert_eq!(
        api.refused("POST", &beta, widget("b")).await["reason"],
        "BadRequest"
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_takes_its_objects_along() {
    let api = served().await;
    api.create(WIDGETS, widget("a")).await;
    api.create(GADGETS, json!({"metadata": {"name": "g"}})).await;
    let mut watch = api.watch(&format!("{WIDGETS}?watch=1&resourceVersion=1")).await;
    api.delete(&format!("{CRDS}/widgets.example.com"), Value::Null)
        .await;
    assert!(api.is_gone(&format!("{CRDS}/widgets.example.com")).await);
    assert!(api.is_gone(WIDGETS).await);
    assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
    assert_eq!(watch.next().await.unwrap()["type"], "DELETED");
    assert!(
        watch.next().await.is_none(),
        "the watch ends with what it watches"
    );
    // The other definition of the group is as it was, and the same one may come back, empty.
    assert_eq!(api.get(GADGETS).await["items"].as_array().unwrap().len(), 1);
    api.create(CRDS, widgets()).await;
    assert_eq!(api.get(WIDGETS).await["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_the_definition_up() {
    let api = served().await;
    let mut held = widget("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    api.create(WIDGETS, held).await;
    let (path, definition) = (format!("{WIDGETS}/a"), format!("{CRDS}/widgets.example.com"));
    api.delete(&definition, Value::Null).await;
    let seen = api.get(&definition).await;
    assert_eq!(
        seen["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    assert!(api.get(&path).await["metadata"]["deletionTimestamp"].is_string());
    let refused = api.refused("POST", WIDGETS, widget("b")).await;
    assert_eq!(refused["reason"], "MethodNotAllowed");
    api.patch(&path, json!({"metadata": {"finalizers": null}})).await;
    assert!(api.is_gone(&definition).await);
    assert!(api.is_gone(WIDGETS).await);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_definition_is_refused() {
    let api = served().await;
    let wrong = |pointer: &str, value: Value| {
        let mut crd = gadgets();
        crd["metadata"]["name"] = "others.example.com".into();
        crd["spec"]["names"]["plural"] = "others".into();
        *crd.pointer_mut(pointer).unwrap() = value;
        crd
    };
    for (crd, field) in [
        (wrong("/metadata/name", json!("x.example.com")), "metadata.name"),
        (wrong("/spec/scope", json!("Galaxy")), "spec.scope"),
        (wrong("/spec/versions/0/storage", json!(false)), "spec.versions"),
        (
            wrong("/spec/versions/0/schema", json!({})),
            "spec.versions[0].schema.openAPIV3Schema",
        ),
    ] {
        let refused = api.refused("POST", CRDS, crd).await;
        assert_eq!(
            (&refused["code"], &refused["details"]["causes"][0]["field"]),
            (&json!(422), &json!(field))
        );
    }
    let scope = json!({"spec": {"scope": "Cluster"}});
    let refused = api
        .refused("PATCH", &format!("{CRDS}/widgets.example.com"), scope)
        .await;
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.scope");
}

#[tokio::test(start_paused = true)]
async fn owners_and_namespaces_reach_custom_resources() {
    let api = Api::new(Config::default().seed(1).object(&widgets())).await;
    let owner = api.create(WIDGETS, widget("owner")).await;
    let reference = json!([{
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    let map = json!({"metadata": {"name": "owned", "ownerReferences": reference}});
    api.create("/api/v1/namespaces/ns/configmaps", map).await;
    api.create(WIDGETS, widget("other")).await;
    api.delete(&format!("{WIDGETS}/owner"), Value::Null).await;
    let within = std::time::Duration::from_secs(5);
    api.server
        .wait_for("configmaps", "ns/owned", within, Value::is_null)
        .await
        .unwrap();
    api.delete("/api/v1/namespaces/ns", Value::Null).await;
    api.server
        .wait_for("widgets.example.com", "ns/other", within, Value::is_null)
        .await
        .unwrap();
}

#[test]
fn a_server_without_a_runtime_takes_definitions_too() {
    let server =
        ApiServer::new(Config::default().gc(false).object(&widgets()).objects(
            "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: a}\nstatus: {ready: true}\n",
        ));
    assert!(server.dump().contains("ready: true"));
}
