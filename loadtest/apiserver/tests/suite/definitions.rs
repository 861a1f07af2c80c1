//! Definitions of custom resources that come into each other's way, and what is left of those that change.

use crate::client::Api;
use crate::custom::{CRDS, WIDGETS, served, widget, widgets};
use memory_apiserver::Config;
use serde_json::{Value, json};

const WIDGETS_CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

fn condition<'a>(definition: &'a Value, kind: &str) -> &'a Value {
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|c| c["type"] == kind).unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn field_names_of_custom_resources_are_escaped() {
    let api = served().await;
    let mut odd = widget("a");
    odd["x\"y\\"] = json!({"z\"": 1});
    api.create(WIDGETS, odd).await;
    let seen = api.get(&format!("{WIDGETS}/a")).await;
    assert_eq!(seen["x\"y\\"], json!({"z\"": 1}));
    let patched = api
        .patch(&format!("{WIDGETS}/a"), json!({"spec": {"size": 2}}))
        .await;
    assert_eq!(patched["x\"y\\"]["z\""], 1);
    assert_eq!(names(&api.get(WIDGETS).await), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn fields_are_selected_in_whichever_version_objects_were_written() {
    let api = Api::plain().await;
    let mut crd = widgets();
    // The same fields at other places of the lists.
    crd["spec"]["versions"][0]["selectableFields"] =
        json!([{"jsonPath": ".spec.size"}, {"jsonPath": ".spec.color"}]);
    api.create(CRDS, crd).await;
    let mut red = widget("red");
    red["spec"]["color"] = "red".into();
    api.create(WIDGETS, red.clone()).await;
    let beta = WIDGETS.replace("/v1/", "/v1beta1/");
    red["metadata"]["name"] = "beta".into();
    red["apiVersion"] = "example.com/v1beta1".into();
    api.create(&beta, red).await;
    api.create(WIDGETS, widget("blue")).await;
    for path in [WIDGETS, &beta] {
        let found = api.get(&format!("{path}?fieldSelector=spec.color%3Dred")).await;
        assert_eq!(names(&found), ["beta", "red"], "{path}");
    }
    let found = api.get(&format!("{beta}?fieldSelector=spec.size%3D1")).await;
    assert_eq!(names(&found), ["beta", "blue", "red"]);
    let mut watch = api
        .watch(&format!(
            "{beta}?watch=1&fieldSelector=spec.color%3Dred,metadata.name%3Dred"
        ))
        .await;
    assert_eq!(watch.told().await, "ADDED red");
}

#[tokio::test(start_paused = true)]
async fn a_field_that_becomes_selectable_is_found_in_older_objects() {
    let api = served().await;
    api.create(WIDGETS, widget("a")).await;
    let mut crd = api.get(WIDGETS_CRD).await;
    for version in [0, 1] {
        let fields = crd["spec"]["versions"][version]["selectableFields"].as_array_mut();
        fields.unwrap().insert(0, json!({"jsonPath": ".spec.size"}));
    }
    api.put(WIDGETS_CRD, crd).await;
    let found = api.get(&format!("{WIDGETS}?fieldSelector=spec.size%3D1")).await;
    assert_eq!(names(&found), ["a"]);
    let found = api.get(&format!("{WIDGETS}?fieldSelector=spec.color%3D1")).await;
    assert_eq!(names(&found), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_not_served_takes_its_objects_along() {
    let api = served().await;
    api.create(WIDGETS, widget("a")).await;
    let mut crd = api.get(WIDGETS_CRD).await;
    for version in [0, 1] {
        crd["spec"]["versions"][version]["served"] = false.into();
    }
    api.put(WIDGETS_CRD, crd).await;
    assert!(api.is_gone(WIDGETS).await);
    api.delete(WIDGETS_CRD, Value::Null).await;
    assert!(api.is_gone(WIDGETS_CRD).await);
    // The definition has another scope now, by which also a namespace and a dump find its objects.
    let mut crd = widgets();
    crd["spec"]["scope"] = "Cluster".into();
    api.create(CRDS, crd).await;
    let all = "/apis/example.com/v1/widgets";
    assert_eq!(names(&api.get(all).await), [""; 0]);
    api.create(all, widget("b")).await;
    assert!(api.server.dump().contains("name: b"));
}

#[tokio::test(start_paused = true)]
async fn names_that_another_definition_holds_are_not_accepted() {
    let api = served().await;
    let mut other = widgets();
    other["metadata"]["name"] = "things.example.com".into();
    other["spec"]["names"] = json!({"plural": "things", "kind": "Widget", "shortNames": ["wd", "th"]});
    let made = api.create(CRDS, other.clone()).await;
    let (accepted, established) = (condition(&made, "NamesAccepted"), condition(&made, "Established"));
    assert_eq!(
        (&accepted["status"], &accepted["reason"], &accepted["message"]),
        (
            &json!("False"),
            &json!("ListKindConflict"),
            &json!("\"WidgetList\" is already in use")
        )
    );
    assert_eq!(
        (&established["status"], &established["reason"]),
        (&json!("False"), &json!("NotAccepted"))
    );
    assert_eq!(
        made["status"]["acceptedNames"],
        json!({"plural": "things"}),
        "the rest is taken"
    );
    let things = WIDGETS.replace("widgets", "things");
    assert!(api.is_gone(&things).await);
    // The same names in another group are free.
    let mut elsewhere = other.clone();
    elsewhere["metadata"]["name"] = "things.example.org".into();
    elsewhere["spec"]["group"] = "example.org".into();
    let made = api.create(CRDS, elsewhere).await;
    assert_eq!(condition(&made, "Established")["status"], "True");
    // With the first definition its names become free.
    api.delete(WIDGETS_CRD, Value::Null).await;
    let seen = api.get(&format!("{CRDS}/things.example.com")).await;
    assert_eq!(condition(&seen, "NamesAccepted")["status"], "True");
    assert_eq!(condition(&seen, "Established")["status"], "True");
    assert_eq!(seen["status"]["acceptedNames"], seen["spec"]["names"]);
    assert_eq!(names(&api.get(&things).await), [""; 0]);
    // And it stays established when it asks for a name that is taken.
    let mut gadgets = widgets();
    gadgets["metadata"]["name"] = "cogs.example.com".into();
    gadgets["spec"]["names"] = json!({"plural": "cogs", "kind": "Cog"});
    api.create(CRDS, gadgets).await;
    let path = format!("{CRDS}/things.example.com");
    let patched = api
        .patch(&path, json!({"spec": {"names": {"shortNames": ["cogs"]}}}))
        .await;
    assert_eq!(
        condition(&patched, "NamesAccepted")["reason"],
        "ShortNamesConflict"
    );
    assert_eq!(condition(&patched, "Established")["status"], "True");
    assert_eq!(names(&api.get(&things).await), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn groups_of_others_are_refused() {
    let api = Api::plain().await;
    let slices = "/apis/discovery.k8s.io/v1/endpointslices";
    let mut crd = widgets();
    crd["metadata"] = json!({
        "name": "endpointslices.discovery.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    });
    crd["spec"]["group"] = "discovery.k8s.io".into();
    crd["spec"]["names"] = json!({"plural": "endpointslices", "kind": "EndpointSlice"});
    let refused = api.refused("POST", CRDS, crd).await;
    assert_eq!(refused["details"]["causes"][0]["field"], "spec.group");
    assert_eq!(names(&api.get(slices).await), [""; 0]);

    let mut crd = widgets();
    crd["metadata"]["name"] = "widgets.x-k8s.io".into();
    crd["spec"]["group"] = "x-k8s.io".into();
    api.create(CRDS, crd.clone()).await;
    crd["metadata"]["name"] = "widgets.test.k8s.io".into();
    crd["spec"]["group"] = "test.k8s.io".into();
    let field = "metadata.annotations[api-approved.kubernetes.io]";
    for (approval, reason) in [
        (Value::Null, Some("FieldValueRequired")),
        (
            json!({"api-approved.kubernetes.io": "me"}),
            Some("FieldValueInvalid"),
        ),
        (json!({"api-approved.kubernetes.io": "unapproved"}), None),
    ] {
        crd["metadata"]["annotations"] = approval;
        match reason {
            Some(reason) => {
                let refused = api.refused("POST", CRDS, crd.clone()).await;
                let cause = &refused["details"]["causes"][0];
                assert_eq!(
                    (&cause["field"], &cause["reason"]),
                    (&json!(field), &json!(reason))
                );
            }
            None => drop(api.create(CRDS, crd.clone()).await),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_that_objects_are_stored_in_is_not_dropped() {
    let api = served().await;
    let store_in = async |beta: bool| {
        let mut crd = api.get(WIDGETS_CRD).await;
        crd["spec"]["versions"][0]["storage"] = beta.into();
        crd["spec"]["versions"][1]["storage"] = (!beta).into();
        api.put(WIDGETS_CRD, crd).await["status"]["storedVersions"].clone()
    };
    assert_eq!(store_in(true).await, json!(["v1", "v1beta1"]));
    assert_eq!(
        store_in(false).await,
        json!(["v1", "v1beta1"]),
        "each of them once"
    );
    let mut crd = api.get(WIDGETS_CRD).await;
    crd["spec"]["versions"].as_array_mut().unwrap().remove(0);
    let refused = api.refused("PUT", WIDGETS_CRD, crd).await;
    let cause = &refused["details"]["causes"][0];
    assert_eq!(refused["code"], 422);
    assert_eq!(
        (&cause["field"], &cause["message"]),
        (
            &json!("status.storedVersions[1]"),
            &json!("Invalid value: \"v1beta1\": must appear in spec.versions")
        )
    );
    // Once nothing is stored in it any more, it can go.
    let migrated = json!({"status": {"storedVersions": ["v1"]}});
    api.patch(&format!("{WIDGETS_CRD}/status"), migrated).await;
    let mut crd = api.get(WIDGETS_CRD).await;
    crd["spec"]["versions"].as_array_mut().unwrap().remove(0);
    api.put(WIDGETS_CRD, crd).await;
}

#[tokio::test(start_paused = true)]
async fn dependents_go_with_the_definition_of_their_owner() {
    let api = Api::new(Config::default().seed(1).object(&widgets())).await;
    let owner = api.create(WIDGETS, widget("owner")).await;
    let reference = json!([{
        "apiVersion": "example.com/v1", "kind": "Widget", "name": "owner", "uid": owner["metadata"]["uid"],
    }]);
    let maps = "/api/v1/namespaces/ns/configmaps";
    let map = json!({"metadata": {"name": "owned", "ownerReferences": reference}});
    api.create(maps, map).await;
    api.delete(WIDGETS_CRD, Value::Null).await;
    let within = std::time::Duration::from_secs(5);
    api.server
        .wait_for("configmaps", "ns/owned", within, Value::is_null)
        .await
        .unwrap();
}
