//! Attacks by objects that are large, or many: how they are made, and how they change.

use super::kinds::{Attack, collection, path, pod_number};
use super::objects;
use crate::observe::pod_ip;
use crate::oracle::Family;
use serde_json::{Value, json};

/// An object, where it belongs, and a status to patch it with.
pub(super) struct Made {
    pub(super) collection: String,
    pub(super) object: Value,
    pub(super) status: Option<(String, Value)>,
}

fn made(collection: String, object: Value) -> Made {
    Made {
        collection,
        object,
        status: None,
    }
}

/// A Service without a selector, and its Endpoints.
fn by_hand(name: &str, subsets: &Value) -> [Made; 2] {
    let mut service = objects::service(name, &json!({}), &json!({}));
    service["spec"]
        .as_object_mut()
        .expect("it has one")
        .remove("selector");
    let endpoints = json!({ "metadata": { "name": name }, "subsets": subsets });
    [
        made(collection("services"), service),
        made(collection("endpoints"), endpoints),
    ]
}

/// Ports that share a name.
fn ports(count: u64) -> Value {
    (0..count)
        .map(|number| json!({ "name": "p", "port": 1 + number, "protocol": "TCP" }))
        .collect()
}

/// About a kilobyte each, as they may be.
fn addresses(object: u32, count: usize) -> Vec<Value> {
    (0..count as u32)
        .map(|number| {
            let at = pod_number(Attack::Mirrored, object * 1_000 + number);
            let long = |length: usize| format!("{}{number:06}", "x".repeat(length - 6));
            let target = json!({
                "kind": "Pod", "namespace": "hostile", "name": long(253), "uid": long(253),
                "fieldPath": long(253),
            });
            let ip = pod_ip(at, Family::V4).to_string();
            json!({ "ip": ip, "hostname": long(63), "nodeName": long(253), "targetRef": target })
        })
        .collect()
}

/// Endpoints of one subset each, which are laid out as a slice for each of their ports and hundred addresses.
pub(super) fn mirrored(count: usize, of: usize) -> Vec<Made> {
    let subsets = |number| json!([{ "addresses": addresses(number, of), "ports": ports(130) }]);
    (0..count as u32)
        .flat_map(|number| by_hand(&format!("mirrored-{number}"), &subsets(number)))
        .collect()
}

/// One of them loses an address, or gets it back.
pub(super) fn change_mirrored(round: u64, count: u64, of: usize) -> (String, Value) {
    let (number, turn) = (round % count, round / count);
    let mut addresses = addresses(number as u32, of);
    if turn.is_multiple_of(2) {
        addresses.pop();
    }
    let patch = json!({ "subsets": [{ "addresses": addresses, "ports": ports(130) }] });
    (path("endpoints", &format!("mirrored-{number}")), patch)
}

/// Endpoints of a few bytes an address, which would stand for too many endpoints to be mirrored.
pub(super) fn refused(count: usize) -> Vec<Made> {
    let subsets = |number: u32| {
        let addresses: Vec<_> = (0..1_000)
            .map(|at| pod_number(Attack::Refusals, number * 1_000 + at))
            .map(|at| json!({ "ip": pod_ip(at, Family::V4).to_string() }))
            .collect();
        json!([{ "addresses": addresses, "ports": ports(140) }])
    };
    (0..count as u32)
        .flat_map(|number| by_hand(&format!("refused-{number}"), &subsets(number)))
        .collect()
}

/// A label of one of them changes.
pub(super) fn change_refused(round: u64, count: u64) -> (String, Value) {
    let patch = json!({ "metadata": { "labels": { "round": round.to_string() } } });
    (path("endpoints", &format!("refused-{}", round % count)), patch)
}

fn backlog_namespace(number: u64) -> String {
    format!("hostile-{number}")
}

/// Namespaces with a pod and some Services that select it.
pub(super) fn backlog(namespaces: usize, services: usize) -> Vec<Made> {
    let mut all = Vec::new();
    for number in 0..namespaces as u64 {
        let namespace = backlog_namespace(number);
        let within = format!("/api/v1/namespaces/{namespace}");
        all.push(made(
            "/api/v1/namespaces".to_owned(),
            objects::namespace(&namespace),
        ));
        let pod = objects::pod("pod", objects::NODE, &json!({ "app": "a" }), &json!({}));
        all.push(Made {
            status: Some(backlog_status(number, true, 0)),
            ..made(format!("{within}/pods"), pod)
        });
        for service in 0..services {
            let service = objects::service(&format!("svc-{service}"), &json!({}), &json!({ "app": "a" }));
            all.push(made(format!("{within}/services"), service));
        }
    }
    all
}

fn backlog_status(number: u64, ready: bool, at: u64) -> (String, Value) {
    let pod = pod_number(Attack::Backlog, number as u32);
    let path = format!("/api/v1/namespaces/{}/pods/pod/status", backlog_namespace(number));
    (path, objects::status(pod_ip(pod, Family::V4), ready, at))
}

/// The pod of one of the namespaces flips: in half of them to ready and in half to unready, so that what waits is of both
/// priorities at any time.
pub(super) fn flip_backlog(round: u64, namespaces: u64) -> (String, Value) {
    let (number, turn) = (round % namespaces, round / namespaces);
    backlog_status(number, (turn + number) % 2 == 1, 10 + turn)
}

/// A selector whose values no other has.
fn selector(number: usize, values: usize) -> String {
    let values: Vec<String> = (0..values)
        .map(|value| format!("{:x}", number * values + value))
        .collect();
    format!("app in ({}x)", values.join(","))
}

/// Services whose selectors are annotations: `count` of as many values as a selector may have, and `large` of `values`.
pub(super) fn annotated(count: usize, large: usize, values: usize) -> Vec<Made> {
    let service = |(name, selector): (String, String)| {
        let annotations = json!({ "endpointd.io/selector": selector });
        made(collection("services"), annotated_service(&name, annotations))
    };
    let small = (0..count).map(|number| (format!("annotated-{number}"), selector(number, 100)));
    let large = (0..large).map(|number| (format!("large-{number}"), selector(number, values)));
    small.chain(large).map(service).collect()
}

/// A Service without a selector, with annotations.
fn annotated_service(name: &str, annotations: Value) -> Value {
    let mut service = objects::service(name, &json!({}), &json!({}));
    service["spec"]
        .as_object_mut()
        .expect("it has one")
        .remove("selector");
    service["metadata"]["annotations"] = annotations;
    service
}

/// Endpoints whose subsets have ports of their own: with the shortest addresses that there are, or with so long ones that
/// each subset may have a slice.
pub(super) fn subsets(count: usize, of: usize) -> Vec<Made> {
    let subset = |number: usize, long: bool| {
        let at = pod_number(Attack::Subsets, number as u32);
        let mut address = json!({ "ip": pod_ip(at, Family::V4).to_string() });
        if long {
            address["nodeName"] = format!("{number:0>253}").into();
            address["hostname"] = format!("h{number:0>62}").into();
        }
        json!({ "addresses": [address], "ports": [{ "port": 1 + number }] })
    };
    let made = (0..count).flat_map(|number| {
        let long = number % 2 == 1;
        let of = if long { of / 7 } else { of };
        let subsets = (0..of).map(|at| subset(at, long)).collect();
        by_hand(&format!("subsets-{number}"), &subsets)
    });
    made.collect()
}

/// A label of one of them changes.
pub(super) fn change_subsets(round: u64, count: u64) -> (String, Value) {
    let patch = json!({ "metadata": { "labels": { "round": round.to_string() } } });
    (path("endpoints", &format!("subsets-{}", round % count)), patch)
}

/// A label of one of them changes.
pub(super) fn change_annotated(round: u64, count: u64) -> (String, Value) {
    let patch = json!({ "metadata": { "labels": { "round": round.to_string() } } });
    (path("services", &format!("annotated-{}", round % count)), patch)
}

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/hostile/endpointslices";

fn endpoints_of_replaced(number: u64, round: u64) -> Value {
    let at = pod_number(Attack::Replaced, number as u32 + (round % 2) as u32 * 50_000);
    json!([{ "addresses": [pod_ip(at, Family::V4).to_string()], "conditions": { "ready": true } }])
}

/// A Service whose selector selects nothing, and slices that were published for an annotation.
pub(super) fn replaced(count: usize) -> Vec<Made> {
    let service = objects::service("replaced", &json!({}), &json!({ "app": "none" }));
    let slices = (0..count as u64).map(|number| {
        let labels = json!({
            "kubernetes.io/service-name": "replaced", "endpointslice.kubernetes.io/managed-by": "endpointd.io",
        });
        let slice = json!({
            "metadata": { "name": format!("replaced-{number}"), "labels": labels },
            "addressType": "IPv4", "ports": [{ "port": 80 }], "endpoints": endpoints_of_replaced(number, 0),
        });
        made(SLICES.to_owned(), slice)
    });
    let service = made(collection("services"), service);
    [service].into_iter().chain(slices).collect()
}

/// One of the slices gets another address, or the Service another label.
pub(super) fn change_replaced(round: u64, count: u64) -> (String, Value) {
    if round.is_multiple_of(10) {
        let patch = json!({ "metadata": { "labels": { "round": round.to_string() } } });
        return (path("services", "replaced"), patch);
    }
    let (number, turn) = (round % count, round / count);
    let patch = json!({ "endpoints": endpoints_of_replaced(number, turn + 1) });
    (format!("{SLICES}/replaced-{number}"), patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_as_large_as_the_api_takes_and_no_larger() {
        let size = |made: &Made| made.object.to_string().len();
        let largest = |all: &[Made]| all.iter().map(size).max().unwrap();
        let mirrored = largest(&mirrored(1, 1_000));
        assert!((1_100_000..1_500_000).contains(&mirrored), "{mirrored}");
        let refused = largest(&refused(1));
        assert!((20_000..32_000).contains(&refused), "{refused}");
        // All annotations of an object together.
        let annotated = selector(9, 33_000).len();
        assert!((190_000..256 << 10).contains(&annotated), "{annotated}");
        let subsets = subsets(2, 22_000);
        for made in subsets
            .iter()
            .filter(|made| made.collection.ends_with("endpoints"))
        {
            assert!((1_000_000..1_500_000).contains(&size(made)), "{}", size(made));
        }
    }
}
