//! Recorded scenarios: what a kube-apiserver 1.36 with the controllers of kube-controller-manager 1.36 settled
//! on after each step, compared with what memory-apiserver and this controller settle on.
//!
//! Each scenario has an API server and a controller of its own, in one process on tokio's paused clock. The
//! comparison leaves out what no two runs share: UIDs, versions, timestamps, generated names, and the order of
//! endpoints, ports and subsets.
#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/normal.rs"]
mod normal;

use cluster::Api;
use normal::Compared;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::time::sleep;

/// What is compared of a scenario. All that is left out of the comparison stands here.
fn compared(scenario: &Value) -> Compared {
    let name = scenario["name"].as_str().unwrap();
    Compared {
        // The controller does not write Endpoints yet.
        endpoints: true,
        // Slices mirrored from hand-written Endpoints are the business of upstream's third controller, which this
        // one does not replace.
        slices: !name.starts_with("mirror"),
        mirrored: false,
    }
}

#[test]
fn goldens() {
    let only = std::env::var("GOLDEN").unwrap_or_default();
    let mut files: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/goldens"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension().is_some_and(|e| e == "json") && path.to_string_lossy().contains(&only)
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scenario matches GOLDEN={only}");
    let (mut failed, mut configs) = (Vec::new(), BTreeSet::new());
    for file in &files {
        let scenario: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        configs.insert(scenario["config"].as_str().unwrap_or("default").to_owned());
        let name = scenario["name"].as_str().unwrap().to_owned();
        let compared = compared(&scenario);
        let differences = play(&scenario, compared);
        let verdict = match (&differences[..], compared.slices) {
            ([], true) => "ok",
            ([], false) => "ran (slices not compared)",
            _ => "DIFFERS",
        };
        println!("{name}: {verdict}");
        for difference in differences.iter().take(12) {
            println!("    {difference}");
        }
        if !differences.is_empty() {
            failed.push(name);
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {} scenarios differ: {failed:?}",
        failed.len(),
        files.len()
    );
    if only.is_empty() {
        assert_eq!(configs.len(), 2, "scenarios of both configurations were played");
        assert!(files.len() >= 102, "no scenario is missing");
    }
}

/// Plays a scenario and returns what differs.
fn play(scenario: &Value, compared: Compared) -> Vec<String> {
    let limit: u64 = if scenario["config"] == "max4" { 4 } else { 100 };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = cluster::server();
        let controller = cluster::controller(&server, cluster::options(limit as usize));
        let api = Api(cluster::client(&server));
        let states = steps(&api, scenario).await;
        assert!(!controller.is_finished(), "the controller runs to the end");
        controller.abort();
        let free = scenario["packing"] == "free";
        let mut differences = Vec::new();
        for (i, (step, state)) in scenario["steps"]
            .as_array()
            .unwrap()
            .iter()
            .zip(states)
            .enumerate()
        {
            // Of several changes in a step, which share a write is free, and with it the trigger time.
            let changes = step["do"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|op| op["sleep"].is_null())
                .count();
            let timed = i == 0 || scenario["trigger"] == "exact" || changes <= 1;
            let want = normal::cut(&step["then"], compared, timed);
            let got = if free { normal::pack(&state) } else { state };
            let got = normal::cut(&got, compared, timed);
            let mut found = Vec::new();
            normal::differ(&want, &got, "", limit, &mut found);
            differences.extend(
                found
                    .into_iter()
                    .map(|difference| format!("step {i}{difference}")),
            );
        }
        differences
    })
}

async fn steps(api: &Api, scenario: &Value) -> Vec<Value> {
    let namespace = format!("g-{}", scenario["name"].as_str().unwrap());
    api.create(
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        "",
    )
    .await
    .unwrap();
    let (mut states, mut created) = (Vec::new(), BTreeMap::new());
    for step in scenario["steps"].as_array().unwrap() {
        let mut pods = false;
        for op in step["do"].as_array().unwrap() {
            let kind = op["create"]["kind"].as_str();
            if kind == Some("Service") && pods {
                // The controller must have seen the pods: else which of them comes first is a race.
                sleep(Duration::from_millis(300)).await;
                pods = false;
            }
            pods |= kind == Some("Pod");
            operate(api, &namespace, op).await;
        }
        let (endpoints, slices) = api.settle(&namespace, Duration::from_millis(2200)).await;
        states.push(normal::normal(api, &namespace, &endpoints, &slices, &mut created).await);
    }
    states
}

async fn operate(api: &Api, namespace: &str, op: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if let Some(object) = op.get("create") {
        api.create(object, namespace)
            .await
            .unwrap_or_else(|e| panic!("{op}: {e:?}"));
    } else if let Some(p) = op.get("patch") {
        let sub = p["sub"].as_str();
        let done = api
            .patch(&text(&p["kind"]), namespace, &text(&p["name"]), sub, &p["patch"])
            .await;
        let tolerated = p["kind"] == "Endpoints" && matches!(done, Err((404, _)));
        assert!(tolerated || done.is_ok(), "{op}: {done:?}");
    } else if let Some(d) = op.get("delete") {
        let done = api
            .delete(
                &text(&d["kind"]),
                namespace,
                &text(&d["name"]),
                d["grace"].as_u64(),
            )
            .await;
        // Endpoints are not written yet, so there may be none to delete.
        let tolerated = d["kind"] == "Endpoints" && matches!(done, Err((404, _)));
        assert!(tolerated || done.is_ok(), "{op}: {done:?}");
    } else if let Some(p) = op.get("patch_slices") {
        for slice in api.slices_of(namespace, &text(&p["service"])).await {
            let name = text(&slice["metadata"]["name"]);
            api.patch("EndpointSlice", namespace, &name, None, &p["patch"])
                .await
                .unwrap();
        }
    } else if let Some(d) = op.get("delete_slices") {
        for slice in api.slices_of(namespace, &text(&d["service"])).await {
            api.delete(
                "EndpointSlice",
                namespace,
                &text(&slice["metadata"]["name"]),
                None,
            )
            .await
            .unwrap();
        }
    } else if op.get("delete_namespace").is_some() {
        api.delete("Namespace", "", namespace, None).await.unwrap();
    } else if let Some(seconds) = op["sleep"].as_f64() {
        sleep(Duration::from_secs_f64(seconds)).await;
    } else {
        panic!("unknown operation {op}");
    }
}
