//! Mirroring of Endpoints: what is read for it, how mirrored slices give way to others, what users hear of it, and what
//! happens where another controller mirrors too.

mod words;

use crate::cluster::{self, Api};
use crate::world::{NS, World, ip, items, outlines, pod, text};
use endpointd::core::outputs::Outputs;
use memory_apiserver::ApiServer;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

const SECOND: Duration = Duration::from_secs(1);
const MIRRORED_BY: &str = "endpointslicemirroring-controller.k8s.io";

const MIRRORING: Outputs = Outputs {
    endpoints: false,
    slices: false,
    mirrored: true,
    custom: false,
};

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
    })
}

fn subsets(addresses: &[&str]) -> Value {
    let addresses: Vec<_> = addresses.iter().map(|ip| json!({ "ip": ip })).collect();
    json!([{"addresses": addresses, "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}])
}

fn endpoints(addresses: &[&str]) -> Value {
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "s"}, "subsets": subsets(addresses)})
}

async fn mirrored(api: &Api) -> Vec<Value> {
    let slices = api.slices_of(NS, "s").await.unwrap().into_iter();
    let of = |slice: &Value| text(&slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]);
    slices.filter(|slice| of(slice) == MIRRORED_BY).collect()
}

fn addresses(slices: &[Value]) -> Vec<String> {
    let endpoints = slices.iter().flat_map(|slice| items(&slice["endpoints"]));
    let mut found: Vec<_> = endpoints
        .map(|endpoint| text(&endpoint["addresses"][0]))
        .collect();
    found.sort();
    found
}

/// A controller that has mirrored one address.
async fn mirroring(outputs: Outputs) -> World {
    let mut world = World::new(100);
    world.options.settings.outputs = outputs;
    world.make(service()).await;
    world.make(endpoints(&["10.9.0.1"])).await;
    world.start_up().await;
    assert_eq!(addresses(&mirrored(&world.api).await), ["10.9.0.1"]);
    world
}

#[tokio::test(start_paused = true)]
async fn an_edit_costs_a_read_and_a_write_and_other_endpoints_are_not_read() {
    let world = mirroring(Outputs::ALL).await;
    let mut web = crate::world::service();
    web["metadata"]["name"] = json!("web");
    world.make(web).await;
    world.pods(1).await;
    world.rest().await;
    world
        .patch("Endpoints", "s", json!({"subsets": subsets(&["10.9.0.2"])}))
        .await;
    let sent = outlines(&world.rest().await);
    assert_eq!(sent, ["GET endpoints 200", "PUT endpointslices 200"]);
    world.flip("p1", false, 1).await;
    let sent = outlines(&world.rest().await);
    assert!(sent.iter().all(|sent| !sent.starts_with("GET")), "{sent:?}");
    assert_eq!(addresses(&mirrored(&world.api).await), ["10.9.0.2"]);
}

#[tokio::test(start_paused = true)]
async fn endpoints_whose_mark_was_overwritten_are_mirrored_when_the_selector_goes() {
    let mut world = World::new(100);
    world.options.settings.outputs = Outputs::ALL;
    let mut service = crate::world::service();
    service["metadata"]["name"] = json!("s");
    world.make(service).await;
    world.pods(1).await;
    world.start_up().await;
    let skip = json!({"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}});
    world.patch("Endpoints", "s", skip).await;
    let sent = outlines(&world.rest().await);
    assert_eq!(
        sent,
        ["GET endpoints 200", "PUT endpoints 200"],
        "the label is removed"
    );
    world
        .patch("Service", "s", json!({"spec": {"selector": null}}))
        .await;
    world.rest().await;
    assert_eq!(addresses(&mirrored(&world.api).await).len(), 1);
}

/// As kube-controller-manager 1.36 does.
#[tokio::test(start_paused = true)]
async fn a_selector_ends_the_mirroring_until_it_goes() {
    let world = mirroring(MIRRORING).await;
    world
        .patch("Service", "s", json!({"spec": {"selector": {"app": "a"}}}))
        .await;
    sleep(SECOND).await;
    assert_eq!(mirrored(&world.api).await.len(), 0);
    // And they come back with the Endpoints, which no client has changed.
    world
        .patch("Service", "s", json!({"spec": {"selector": null}}))
        .await;
    sleep(SECOND).await;
    assert_eq!(addresses(&mirrored(&world.api).await), ["10.9.0.1"]);
}

/// Until the slices for the selector are there, the mirrored ones carry the traffic.
#[tokio::test(start_paused = true)]
async fn a_selector_never_leaves_a_service_without_slices() {
    use memory_apiserver::{Fault, FaultPlan, Latency, Rule, Stage, Verb};
    let world = mirroring(Outputs::ALL).await;
    world.nodes(1).await;
    let mut made = pod("a", &ip(1), "n1");
    made["metadata"]["labels"] = json!({"app": "a"});
    world.make(made).await;
    world.rest().await;
    let slow = Fault::Delay(Stage::Before, Latency::Constant(3 * SECOND));
    let rule = Rule::on(Verb::Create, "endpointslices").fault(slow);
    world.server.set_faults(FaultPlan::new(1).rule(rule));
    let api = Api(kube::Client::new(world.server.service_without_faults(), NS));
    let patch = json!({"spec": {"selector": {"app": "a"}}});
    api.patch("Service", NS, "s", None, &patch).await.unwrap();
    for _ in 0..80 {
        sleep(SECOND / 10).await;
        assert!(!api.slices_of(NS, "s").await.unwrap().is_empty());
    }
    assert_eq!(mirrored(&api).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn mirrored_slices_of_an_external_name_go_at_once() {
    let world = mirroring(Outputs::ALL).await;
    let external =
        json!({"spec": {"type": "ExternalName", "externalName": "example.com", "clusterIP": null}});
    world.patch("Service", "s", external).await;
    sleep(SECOND).await;
    assert_eq!(mirrored(&world.api).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn endpoints_made_again_keep_their_slice_under_the_new_owner() {
    let mut world = mirroring(Outputs::ALL).await;
    world.stop().await;
    let before = mirrored(&world.api).await;
    world.delete("Endpoints", "s").await;
    let made = world.make(endpoints(&["10.9.0.1"])).await;
    world.start_up().await;
    let after = mirrored(&world.api).await;
    assert_eq!(after[0]["metadata"]["uid"], before[0]["metadata"]["uid"]);
    let owner = &after[0]["metadata"]["ownerReferences"];
    assert_eq!(owner[0]["uid"], made["metadata"]["uid"]);
    assert_eq!(items(owner).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn ports_that_share_a_name_are_mirrored_in_slices_of_their_own() {
    let mut world = World::new(100);
    world.options.settings.outputs = MIRRORING;
    world.make(service()).await;
    // Endpoints may have these: a name need not be unique in a subset, nor be there in subsets of one port.
    let unnamed = |port: u16| json!({"addresses": [{"ip": "10.9.0.9"}], "ports": [{"port": port}]});
    let named = json!({"addresses": [{"ip": "10.9.0.1"}, {"ip": "10.9.0.2"}], "ports": [
        {"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns", "port": 53}, {"name": "http", "port": 80},
    ]});
    let mut endpoints = endpoints(&[]);
    endpoints["subsets"] = json!([named, unnamed(80), unnamed(443)]);
    world.make(endpoints).await;
    let sent = outlines(&world.start_up().await);
    let refused: Vec<_> = sent.iter().filter(|sent| sent.contains(" 4")).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let slices = mirrored(&world.api).await;
    let ports = |slice: &Value| {
        let spell = |port: &Value| {
            format!(
                "{}:{}/{}",
                text(&port["name"]),
                port["port"],
                text(&port["protocol"])
            )
        };
        items(&slice["ports"]).map(spell).collect::<Vec<_>>().join(" ")
    };
    let mut shown: Vec<_> = slices
        .iter()
        .map(|slice| (ports(slice), items(&slice["endpoints"]).count()))
        .collect();
    shown.sort();
    let expected = [
        (":443/TCP", 1),
        (":80/TCP", 1),
        ("dns:53/TCP http:80/TCP", 2),
        ("dns:53/UDP", 2),
    ];
    assert_eq!(shown, expected.map(|(ports, count)| (ports.to_owned(), count)));
}

#[tokio::test(start_paused = true)]
async fn deletes_do_not_wait_for_a_batch_that_they_are_not_part_of() {
    let mut world = World::new(100);
    world.options.settings.outputs = MIRRORING;
    world.options.pacing.mirrored_batch = 30 * SECOND;
    world.make(service()).await;
    // Some addresses, each with its port.
    let split = |ports: &[u16]| -> Value {
        let subset = |port: &u16| json!({"addresses": [{"ip": format!("10.9.0.{port}")}], "ports": [{"name": "http", "port": port}]});
        ports.iter().map(subset).collect()
    };
    let mut made = endpoints(&[]);
    made["subsets"] = split(&[1, 2, 3]);
    world.make(made).await;
    world.start_up().await;
    assert_eq!(mirrored(&world.api).await.len(), 3);
    world
        .patch("Endpoints", "s", json!({"subsets": split(&[1, 2])}))
        .await;
    world.rest().await;
    assert_eq!(
        mirrored(&world.api).await.len(),
        2,
        "nothing else is to be written"
    );

    // The address of one slice is shown by the other one first, whose update waits.
    let joined = json!([
        {"addresses": [{"ip": "10.9.0.1"}, {"ip": "10.9.0.2"}], "ports": [{"name": "http", "port": 2}]},
    ]);
    world.patch("Endpoints", "s", json!({"subsets": joined})).await;
    world.rest().await;
    assert_eq!(mirrored(&world.api).await.len(), 2);
    sleep(30 * SECOND).await;
    let slices = mirrored(&world.api).await;
    assert_eq!((slices.len(), addresses(&slices).len()), (1, 2));

    world.delete("Endpoints", "s").await;
    world.rest().await;
    assert_eq!(mirrored(&world.api).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_for_endpoints_that_are_being_deleted() {
    let world = mirroring(Outputs::ALL).await;
    world
        .patch(
            "Endpoints",
            "s",
            json!({"metadata": {"finalizers": ["example.com/x"]}}),
        )
        .await;
    world.delete("Endpoints", "s").await;
    world
        .patch(
            "Endpoints",
            "s",
            json!({"subsets": subsets(&["10.9.0.2", "fd00:9::1"])}),
        )
        .await;
    world.rest().await;
    assert_eq!(addresses(&mirrored(&world.api).await), ["10.9.0.2"]);
    world
        .patch("Endpoints", "s", json!({"metadata": {"finalizers": null}}))
        .await;
    world.rest().await;
    assert_eq!(mirrored(&world.api).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn addresses_beyond_the_limit_are_told_once_and_again_when_their_number_changes() {
    let mut world = World::new(100);
    world.options.settings.max_mirrored = 2;
    world.make(service()).await;
    world.start_up().await;
    let told = async |world: &World| -> Vec<String> {
        let events = world.events().await;
        let of = |event: &&Value| event["source"]["component"] == "endpoint-slice-mirroring-controller";
        events
            .iter()
            .filter(of)
            .map(|event| format!("{} {}", text(&event["reason"]), text(&event["message"])))
            .collect()
    };
    world.make(endpoints(&["10.9.0.1", "10.9.0.2", "10.9.0.3"])).await;
    world.rest().await;
    let first = "TooManyAddressesToMirror A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped";
    assert_eq!(told(&world).await, [first]);
    world
        .patch("Endpoints", "s", json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    world.rest().await;
    assert_eq!(told(&world).await, [first]);
    world
        .patch(
            "Endpoints",
            "s",
            json!({"subsets": subsets(&["10.9.0.1", "10.9.0.2", "10.9.0.3", "10.9.0.4"])}),
        )
        .await;
    world.rest().await;
    assert_eq!(told(&world).await.len(), 2);
    assert_eq!(addresses(&mirrored(&world.api).await), ["10.9.0.1", "10.9.0.2"]);
}

/// Returns the number of writes to the server in the meantime.
async fn writes(server: &ApiServer, time: Duration) -> u64 {
    let before = server.resource_version();
    sleep(time).await;
    server.resource_version() - before
}

#[tokio::test(start_paused = true)]
async fn two_that_mirror_on_one_cluster_end_in_quiet() {
    let server = cluster::server();
    let api = Api(cluster::client(&server));
    let controllers = [1, 2].map(|seed| {
        let mut options = cluster::options(100);
        (options.settings.outputs, options.settings.seed) = (MIRRORING, seed);
        cluster::controller(&server, options)
    });
    api.create(&service(), NS).await.unwrap();
    api.create(&endpoints(&["10.9.0.1"]), NS).await.unwrap();
    sleep(20 * SECOND).await;
    for addresses in [
        &["10.9.0.2", "fd00:9::1"][..],
        &["10.9.0.3"],
        &["10.9.0.4", "10.9.0.5"],
    ] {
        let patch = json!({"subsets": subsets(addresses)});
        api.patch("Endpoints", NS, "s", None, &patch).await.unwrap();
        sleep(20 * SECOND).await;
    }
    assert_eq!(writes(&server, 120 * SECOND).await, 0);
    assert_eq!(addresses(&mirrored(&api).await), ["10.9.0.4", "10.9.0.5"]);
    assert!(controllers.iter().all(|controller| !controller.is_finished()));
}

/// As the controller of kube-controller-manager would where the two disagree.
#[tokio::test(start_paused = true)]
async fn slices_that_somebody_deletes_again_and_again_come_back_ever_later() {
    for edits in [false, true] {
        let mut world = mirroring(MIRRORING).await;
        let end = Instant::now() + 3600 * SECOND;
        let mut theirs = 0;
        while Instant::now() < end {
            for slice in mirrored(&world.api).await {
                let name = text(&slice["metadata"]["name"]);
                if edits && addresses(std::slice::from_ref(&slice)) != ["192.0.2.1"] {
                    let other =
                        json!({"endpoints": [{"addresses": ["192.0.2.1"], "conditions": {"ready": true}}]});
                    world.patch("EndpointSlice", &name, other).await;
                    theirs += 1;
                } else if !edits {
                    world.delete("EndpointSlice", &name).await;
                    theirs += 1;
                }
            }
            sleep(SECOND / 2).await;
        }
        assert!((15..40).contains(&theirs), "{theirs} in an hour, edits: {edits}");
        // A change of the Endpoints is written all the same, and at once.
        world
            .patch("Endpoints", "s", json!({"subsets": subsets(&["10.9.0.2"])}))
            .await;
        sleep(2 * SECOND).await;
        assert_eq!(addresses(&mirrored(&world.api).await), ["10.9.0.2"]);
        world.stop().await;
    }
}

/// Slices that another client makes again and again beside ours are deleted ever later.
#[tokio::test(start_paused = true)]
async fn slices_that_somebody_makes_again_and_again_are_deleted_ever_later() {
    let world = mirroring(MIRRORING).await;
    let copy = mirrored(&world.api).await.remove(0);
    let end = Instant::now() + 3600 * SECOND;
    let mut made = 0;
    while Instant::now() < end {
        if mirrored(&world.api).await.len() < 2 {
            let mut copy = copy.clone();
            let meta = &copy["metadata"];
            copy["metadata"] = json!({
                "name": format!("zzz-{made}"), "labels": meta["labels"], "ownerReferences": meta["ownerReferences"],
            });
            copy["apiVersion"] = json!("discovery.k8s.io/v1");
            copy["kind"] = json!("EndpointSlice");
            world.make(copy).await;
            made += 1;
        }
        sleep(SECOND / 2).await;
    }
    assert!((15..40).contains(&made), "{made} in an hour");
}
