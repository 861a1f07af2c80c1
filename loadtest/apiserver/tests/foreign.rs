//! The test that the README shows, of a controller that knows nothing of this crate.
#![allow(clippy::unwrap_used, reason = "all of this is tests")]

use memory_apiserver::{ApiServer, Config};
use std::time::Duration;

/// A controller from outside of this project: each Widget gets a `ConfigMap` of its name that tells its size.
mod widgets {
    use futures::TryStreamExt;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{
        Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, WatchEvent, WatchParams,
    };
    use kube::{Client, ResourceExt};
    use serde_json::json;

    pub(crate) const CRD: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
";

    pub(crate) async fn run(client: Client) {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
        let widgets: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let events = widgets.watch(&WatchParams::default(), "0").await.unwrap();
        tokio::pin!(events);
        while let Some(event) = events.try_next().await.unwrap() {
            let (WatchEvent::Added(widget) | WatchEvent::Modified(widget)) = event else {
                continue;
            };
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &widget.namespace().unwrap());
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": widget.name_any()},
                "data": {"size": widget.data["spec"]["size"].to_string()},
            });
            let params = PatchParams::apply("widgets");
            maps.patch(&widget.name_any(), &params, &Patch::Apply(map))
                .await
                .unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_widget_gets_a_config_map() {
    let server = ApiServer::new(Config::default().objects(widgets::CRD));
    let controller = tokio::spawn(widgets::run(server.client()));
    server
        .load("{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {size: 3}}")
        .unwrap();
    let within = Duration::from_secs(5);
    let made = server.wait_for("configmaps", "default/a", within, |map| {
        map["data"]["size"] == "3"
    });
    assert!(made.await.is_ok(), "{}", server.dump());
    controller.abort();
}
