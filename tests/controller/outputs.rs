//! The effect of flags of `endpointd run`: which outputs are written, how changes are batched, and what older
//! controllers did with unready pods; and the Events that users see.

use crate::cluster;
use crate::scene::{NAMESPACE, Scene};
use endpointd::core::outputs::Outputs;
use endpointd::ops::run::Options;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

fn options(outputs: Outputs) -> Options {
    let mut options = cluster::options(100);
    options.settings.outputs = outputs;
    options
}

#[tokio::test(start_paused = true)]
async fn one_output_alone_reads_and_writes_nothing_for_the_other() {
    for (outputs, written, other) in [
        (
            Outputs {
                endpoints: true,
                slices: false,
                mirrored: false,
                custom: false,
            },
            "/endpoints",
            "/endpointslices",
        ),
        (
            Outputs {
                endpoints: false,
                slices: true,
                mirrored: false,
                custom: false,
            },
            "/endpointslices",
            "/endpoints",
        ),
    ] {
        let test = Scene::start(options(outputs)).await;
        test.node("n0", Some("z0")).await;
        test.pod(1, "n0", true).await;
        test.service(json!({}), json!({})).await;
        test.rest().await;
        test.flip(1, false, 1).await;
        test.rest().await;
        test.service_gone().await;
        test.rest().await;
        // `/endpoints/...` and `/endpointslices/...`: the separator tells them apart.
        let ends = |of: &str| [format!("{of}?"), format!("{of}/"), of.to_owned()];
        let touches = |of: &str| {
            let requests = test.server.requests().into_iter();
            let of = of.to_owned();
            requests
                .filter(move |r| {
                    let [query, item, end] = ends(&of);
                    r.path.contains(&query) || r.path.contains(&item) || r.path.ends_with(&end)
                })
                .count()
        };
        assert!(touches(written) >= 4, "{outputs:?}: list, watch, create, update");
        assert_eq!(touches(other), 0, "{outputs:?}");
        // Endpoints do not depend on nodes, but their number tells how many proxies watch.
        assert!(test.reads("/nodes") > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_period_lets_changes_wait_for_each_other_but_not_for_ever() {
    let mut options = options(Outputs::ALL);
    options.pacing.endpoints_batch = Duration::from_secs(2);
    let test = Scene::start(options).await;
    test.node("n0", Some("z0")).await;
    for number in 1..=20 {
        test.pod(number, "n0", true).await;
    }
    test.service(json!({}), json!({})).await;
    test.rest().await;
    let first = test.writes("/namespaces/default/endpoints");
    assert_eq!(
        (
            test.writes("/endpointslices"),
            first - test.writes("/endpointslices")
        ),
        (1, 1),
        "a new object does not wait for the batch period"
    );

    // Ten seconds of flips, each at a time of its own.
    for number in 1..=20 {
        test.flip(number, false, number).await;
        sleep(Duration::from_millis(500)).await;
    }
    sleep(Duration::from_secs(3)).await;
    let slices = test.writes("/endpointslices") - 1;
    let endpoints = test.writes("/namespaces/default/endpoints") - test.writes("/endpointslices") - 1;
    assert_eq!(slices, 20, "slices are not batched here");
    assert!(
        (4..=6).contains(&endpoints),
        "there is one write in two seconds: {endpoints}"
    );
    assert_eq!(
        (
            test.addresses("addresses").await,
            test.addresses("notReadyAddresses").await
        ),
        (0, 20)
    );
}

#[tokio::test(start_paused = true)]
async fn the_annotation_of_older_controllers_counts_only_where_the_flag_says_so() {
    const ANNOTATION: &str = "service.alpha.kubernetes.io/tolerate-unready-endpoints";
    // The flag, the annotation, the field: whether an unready pod is among the addresses.
    for (flag, annotation, field, tolerated) in [
        (false, Some("true"), false, false),
        (true, Some("true"), false, true),
        (true, Some("T"), false, true),
        (true, Some("false"), true, false),
        (true, Some("yes"), true, true),
        (true, None, true, true),
        (false, Some("false"), true, true),
    ] {
        let mut options = options(Outputs::ALL);
        options.settings.legacy_tolerate_unready = flag;
        let test = Scene::start(options).await;
        test.node("n0", Some("z0")).await;
        test.pod(1, "n0", false).await;
        let annotations = annotation.map_or(json!({}), |value| json!({ANNOTATION: value}));
        test.service(annotations, json!({"publishNotReadyAddresses": field}))
            .await;
        test.rest().await;
        let case = format!("{flag} {annotation:?} {field}");
        assert_eq!(
            test.addresses("addresses").await,
            usize::from(tolerated),
            "{case}"
        );
        assert_eq!(
            test.addresses("notReadyAddresses").await,
            usize::from(!tolerated),
            "{case}"
        );
        // The annotation never concerned slices.
        let slices = test.api.slices_of(NAMESPACE, "s").await.unwrap();
        assert_eq!(slices[0]["endpoints"][0]["conditions"]["ready"], field, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn hints_that_come_and_go_are_reported_once_per_family_and_reason() {
    let test = Scene::start(options(Outputs::ALL)).await;
    test.node("n0", Some("z0")).await;
    test.node("n1", Some("z1")).await;
    for (number, node) in [(1, "n0"), (2, "n1"), (3, "n0"), (4, "n1")] {
        test.pod(number, node, true).await;
    }
    let dual = json!({"ipFamilyPolicy": "RequireDualStack"});
    test.service(json!({"service.kubernetes.io/topology-mode": "Auto"}), dual)
        .await;
    test.rest().await;
    let reported = |events: &[Value]| {
        let mut reported: Vec<_> = events
            .iter()
            .map(|event| {
                let message = event["message"].as_str().unwrap();
                let family = message.rsplit_once("addressType: ").unwrap().1.to_owned();
                let count = event["count"].as_u64().unwrap();
                (event["reason"].as_str().unwrap().to_owned(), family, count)
            })
            .collect();
        reported.sort();
        reported
    };
    let event = |reason: &str, family: &str| (reason.to_owned(), family.to_owned(), 1);
    let (enabled, disabled) = ("TopologyAwareHintsEnabled", "TopologyAwareHintsDisabled");
    let on = [event(enabled, "IPv4"), event(enabled, "IPv6")];
    let events = test.events().await;
    assert_eq!(reported(&events), on);
    assert_eq!(events[0]["source"]["component"], "endpoint-slice-controller");
    assert_eq!(events[0]["involvedObject"]["kind"], "Service");

    // A node without a zone makes them go; with upstream, each sync would say so again.
    test.node("n2", None).await;
    test.rest().await;
    for seconds in 1..20 {
        test.flip(1, seconds % 2 == 0, seconds).await;
        test.rest().await;
    }
    let off = [
        event(disabled, "IPv4"),
        event(disabled, "IPv6"),
        on[0].clone(),
        on[1].clone(),
    ];
    assert_eq!(reported(&test.events().await), off);
    test.flip(1, true, 30).await;
    test.rest().await;
    test.api.delete("Node", "", "n2", None).await.unwrap();
    sleep(Duration::from_secs(5)).await;
    let counts: Vec<_> = reported(&test.events().await)
        .into_iter()
        .map(|(.., count)| count)
        .collect();
    assert_eq!(counts, [1, 1, 2, 2], "enabled a second time, in both families");
}
