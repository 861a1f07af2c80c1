//! Recorded scenarios once more, with each Service's selector in the annotation `endpointd.io/selector` instead of its
//! spec: the same slices come of it, but for the label of their controller, and no Endpoints.
//!
//! So what a Service with the annotation publishes is held against what kube-controller-manager published for the Service
//! that is otherwise the same. Changes that the scenarios make to selectors themselves, to Endpoints and to slices
//! of other controllers mean something else here, and `tests/controller/custom.rs` has it. The scenarios in
//! `tests/goldens/custom` are of annotations alone, and their states were worked out by hand.
#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/scenarios.rs"]
mod files;
#[allow(dead_code, reason = "shared with tests that use other parts of it")]
#[path = "support/player.rs"]
mod player;

use endpointd::core::outputs::Outputs;
use player::{But, Player, QUIET};
use scenario::Scenario;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const SELECTOR: &str = "endpointd.io/selector";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// Scenarios about Endpoints and slices that were there before, and about selectors that do not count for a while: an annotation's
/// slices are deleted then, and those of kube-controller-manager stay.
const OTHERS: [&str; 5] = [
    "endpoints-preexisting",
    "restored-before-service",
    "selector-added",
    "selector-removed",
    "to-external-name",
];

#[test]
fn annotated_services_have_the_slices_of_their_twins() {
    let only = std::env::var("GOLDEN").unwrap_or_default();
    let scenarios = files::scenarios(&only);
    let recorded = scenarios.iter().filter(|scenario| {
        let name = scenario["name"].as_str().unwrap();
        !name.starts_with("mirror") && !OTHERS.contains(&name)
    });
    let (mut failed, mut played) = (Vec::new(), 0);
    for scenario in recorded {
        let twin = twin(scenario);
        let differences = play(&twin);
        played += 1;
        if !differences.is_empty() {
            println!("{}: DIFFERS", scenario["name"]);
            for difference in differences.iter().take(6) {
                println!("    {difference}");
            }
            failed.push(scenario["name"].as_str().unwrap());
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {played} differ: {failed:?}",
        failed.len()
    );
    assert!(!only.is_empty() || played >= 93, "{played} were played");
}

#[test]
fn scenarios_of_annotations() {
    let scenarios = files::scenarios_in("goldens/custom", "");
    assert!(scenarios.len() >= 2, "no scenario is missing");
    let mut differences = Vec::new();
    for scenario in &scenarios {
        let found = play(scenario).into_iter();
        differences.extend(found.map(|difference| format!("{}: {difference}", scenario["name"])));
    }
    assert!(differences.is_empty(), "{differences:#?}");
}

/// The scenario with annotations in the place of selectors.
fn twin(scenario: &Value) -> Value {
    let mut twin = scenario.clone();
    let mut selectors = BTreeMap::new();
    for step in twin["steps"].as_array_mut().unwrap() {
        for operation in step["do"].as_array_mut().unwrap() {
            let is_service = |operation: &Value, verb: &str| operation[verb]["kind"] == "Service";
            if is_service(operation, "create") {
                let name = operation["create"]["metadata"]["name"].to_string();
                annotate(&mut operation["create"], selectors.entry(name).or_default());
                let spec = &mut operation["create"]["spec"];
                if spec["clusterIP"] == "None" && spec["ipFamilies"].is_null() {
                    // Without a selector, a headless Service has both families by default.
                    spec["ipFamilies"] = json!(["IPv4"]);
                    spec["ipFamilyPolicy"] = json!("SingleStack");
                }
            }
            if is_service(operation, "patch") {
                let name = operation["patch"]["name"].to_string();
                annotate(
                    &mut operation["patch"]["patch"],
                    selectors.entry(name).or_default(),
                );
            }
        }
        for state in ["then", "endpointd"] {
            let Some(then) = step.get_mut(state) else {
                continue;
            };
            then["endpoints"] = json!([]);
            for list in ["endpointslices", "groups"] {
                let slices = then.get_mut(list).and_then(Value::as_array_mut);
                for slice in slices.into_iter().flatten() {
                    let manager = &mut slice["labels"][MANAGED_BY];
                    if *manager == "endpointslice-controller.k8s.io" {
                        *manager = json!("endpointd.io");
                    }
                }
            }
        }
    }
    twin
}

/// Moves the selector of a Service, or of a patch of one, into the annotation. `pairs` are those that it had.
fn annotate(service: &mut Value, pairs: &mut BTreeMap<String, String>) {
    let spec = service.get_mut("spec").and_then(Value::as_object_mut);
    let Some(selector) = spec.and_then(|spec| spec.remove("selector")) else {
        return;
    };
    if selector.is_null() {
        pairs.clear();
    }
    for (key, value) in selector.as_object().into_iter().flatten() {
        match value.as_str() {
            Some(value) => drop(pairs.insert(key.clone(), value.to_owned())),
            None => drop(pairs.remove(key)),
        }
    }
    let text = pairs.iter().map(|(key, value)| format!("{key}={value}"));
    let text = text.collect::<Vec<_>>().join(",");
    service["metadata"]["annotations"][SELECTOR] = if text.is_empty() { Value::Null } else { json!(text) };
}

/// Plays a scenario and returns what differs.
fn play(scenario: &Value) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = cluster::server();
        let mut options = cluster::options(Scenario(scenario).max_endpoints());
        options.settings.outputs = Outputs {
            custom: true,
            ..Outputs::NONE
        };
        let controller = cluster::controller(&server, options);
        let mut player = Player::new(scenario, &server);
        player.begin().await;
        let mut differences = Vec::new();
        for (i, step) in player.steps().iter().enumerate() {
            for operation in step["do"].as_array().unwrap() {
                player.act(operation).await;
            }
            player.settle(QUIET).await;
            let state = player.state().await;
            differences.extend(player.differences(i, &state, &But::default()));
        }
        assert!(!controller.is_finished(), "the controller has ended");
        controller.abort();
        differences
    })
}
