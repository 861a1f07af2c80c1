//! Endpoints objects that cannot hold all addresses.

use super::*;

const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

fn differences(cluster: &Cluster) -> Vec<String> {
    lines(&cluster.check(&options(Outputs::ENDPOINTS)))
}

fn name(number: usize) -> String {
    format!("p{number:04}")
}

fn ip(number: usize) -> String {
    format!("10.2.{}.{}", number / 250, number % 250)
}

/// Pods of the Service; the first ones of them are ready.
fn pods(count: usize, ready: usize) -> Vec<Pod> {
    let pod = |number| {
        let mut pod = pod(&name(number), &ip(number));
        if number >= ready {
            pod.status.as_mut().unwrap().conditions = None;
        }
        pod
    };
    (0..count).map(pod).collect()
}

fn addresses(numbers: impl IntoIterator<Item = usize>) -> Vec<Value> {
    numbers
        .into_iter()
        .map(|number| address(&name(number), &ip(number)))
        .collect()
}

/// So many pods, and an object that holds some of them.
fn truncated(pods: Vec<Pod>, subsets: &Value) -> Cluster {
    let mut object = object(subsets);
    object
        .annotations_mut()
        .insert(OVER_CAPACITY.into(), "truncated".into());
    Cluster {
        pods,
        endpoints: vec![object],
        ..cluster()
    }
}

/// Two versions of pods, whose ports differ: `old` of them, then `new` of them, all ready.
fn two_versions(old: usize, new: usize) -> Vec<Pod> {
    let mut pods = pods(old + new, old + new);
    for pod in &mut pods[..old] {
        pod.spec.as_mut().unwrap().containers[0].ports =
            from_json(json!([{ "name": "http", "containerPort": 8000 }]));
    }
    pods
}

fn subsets_of_versions(old: impl IntoIterator<Item = usize>, new: impl IntoIterator<Item = usize>) -> Value {
    json!([
        { "addresses": addresses(old), "ports": [{ "name": "http", "port": 8000 }] },
        { "addresses": addresses(new), "ports": http() },
    ])
}

#[test]
fn a_thousand_addresses_fit() {
    let mut cluster = cluster();
    cluster.pods = pods(1000, 900);
    cluster.endpoints = vec![object(&json!([{
        "addresses": addresses(0..900),
        "notReadyAddresses": addresses(900..1000),
        "ports": http(),
    }]))];
    assert_eq!(differences(&cluster), [""; 0]);
    cluster.endpoints[0]
        .annotations_mut()
        .insert(OVER_CAPACITY.into(), "truncated".into());
    let expected = "ns/s Endpoints: differs in over-capacity: expected none, found truncated";
    assert_eq!(differences(&cluster), [expected]);
}

#[test]
fn a_truncated_object_says_so() {
    let subsets = json!([{ "addresses": addresses(0..1000), "ports": http() }]);
    let mut cluster = truncated(pods(1003, 1003), &subsets);
    assert_eq!(differences(&cluster), [""; 0]);
    for (value, found) in [(Some("warning"), "warning"), (None, "none")] {
        let annotations = cluster.endpoints[0].annotations_mut();
        match value {
            Some(value) => drop(annotations.insert(OVER_CAPACITY.into(), value.into())),
            None => drop(annotations.remove(OVER_CAPACITY)),
        }
        let expected = format!("ns/s Endpoints: differs in over-capacity: expected truncated, found {found}");
        assert_eq!(differences(&cluster), [expected]);
    }
}

#[test]
fn any_thousand_of_the_ready_addresses_will_do() {
    let some = |numbers: std::ops::Range<usize>| {
        let subsets = json!([{ "addresses": addresses(numbers), "ports": http() }]);
        differences(&truncated(pods(1003, 1003), &subsets))
    };
    assert_eq!(some(0..1000), [""; 0]);
    assert_eq!(some(3..1003), [""; 0]);
    for (range, count) in [(0..999, 999), (0..1003, 1003)] {
        let expected = format!(
            "ns/s Endpoints: truncated wrongly: subsets show [{count}] addresses that are ready, \
             expected 1000 in all and at most [1000]"
        );
        assert_eq!(some(range), [expected]);
    }
}

#[test]
fn an_address_that_is_nobodys_is_found_among_a_thousand() {
    let mut shown = addresses(0..1000);
    shown[7] = address("intruder", "10.9.9.9");
    let subsets = json!([{ "addresses": shown, "ports": http() }]);
    let found = differences(&truncated(pods(1003, 1003), &subsets));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].ends_with("of Pod ns/intruder: unexpected"), "{found:?}");
    assert!(found[1].contains("subsets show [999] addresses"), "{found:?}");
}

#[test]
fn ready_addresses_come_first() {
    let pods = || pods(1010, 990);
    let subsets = |ready: Vec<Value>, not_ready: Vec<Value>| {
        let subsets = json!([{ "addresses": ready, "notReadyAddresses": not_ready, "ports": http() }]);
        differences(&truncated(pods(), &subsets))
    };
    assert_eq!(subsets(addresses(0..990), addresses(990..1000)), [""; 0]);
    assert_eq!(subsets(addresses(0..990), addresses(1000..1010)), [""; 0]);

    let one_for_another = subsets(addresses(1..990), addresses(990..1001));
    assert_eq!(one_for_another.len(), 2, "{one_for_another:?}");
    assert!(
        one_for_another[0].ends_with("of Pod ns/p0000: missing"),
        "{one_for_another:?}"
    );
    let too_few = subsets(addresses(0..990), addresses(990..999));
    let expected = "ns/s Endpoints: truncated wrongly: subsets show [9] addresses that are not ready, \
                    expected 10 in all and at most [10]";
    assert_eq!(too_few, [expected]);
}

#[test]
fn no_others_are_published_where_ready_addresses_do_not_fit() {
    let subsets = json!([{
        "addresses": addresses(0..1000),
        "notReadyAddresses": addresses([1002]),
        "ports": http(),
    }]);
    let found = differences(&truncated(pods(1003, 1002), &subsets));
    assert_eq!(found.len(), 1, "{found:?}");
    let expected = "of Pod ns/p1002: unexpected: not even all ready addresses fit";
    assert!(found[0].ends_with(expected), "{found:?}");
}

#[test]
fn subsets_share_in_proportion_rounded_up() {
    // 200.2 and 799.8 of a thousand: rounded up, with one too many.
    let pods = || two_versions(241, 963);
    let shown = |old: usize, new: usize| {
        let subsets = subsets_of_versions(0..old, 241..241 + new);
        differences(&truncated(pods(), &subsets))
    };
    assert_eq!(shown(201, 799), [""; 0]);
    assert_eq!(shown(200, 800), [""; 0], "the order of subsets is free");
    for (old, new) in [(202, 798), (199, 801), (200, 799), (201, 800)] {
        let found = shown(old, new);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains(": truncated wrongly: subsets show ["),
            "{found:?}"
        );
        assert!(
            found[0].contains("expected 1000 in all and at most ["),
            "{found:?}"
        );
    }
}

#[test]
fn only_one_subset_gets_a_part_of_its_part() {
    // Three subsets with parts of 334 each: the last one has 332, and no two can share its loss.
    let mut pods = pods(1200, 1200);
    let port = |number: usize| 8000 + number / 400;
    for (number, pod) in pods.iter_mut().enumerate() {
        pod.spec.as_mut().unwrap().containers[0].ports =
            from_json(json!([{ "name": "http", "containerPort": port(number) }]));
    }
    let shown = |counts: [usize; 3]| {
        let subset = |(at, count): (usize, usize)| {
            let first = at * 400;
            json!({
                "addresses": addresses(first..first + count),
                "ports": [{ "name": "http", "port": port(first) }],
            })
        };
        let subsets: Vec<Value> = counts.into_iter().enumerate().map(subset).collect();
        differences(&truncated(pods.clone(), &json!(subsets)))
    };
    assert_eq!(shown([334, 334, 332]), [""; 0]);
    assert_eq!(shown([332, 334, 334]), [""; 0]);
    assert_eq!(shown([333, 333, 334]).len(), 1);
}

#[test]
fn ports_of_one_subset_lose_the_same_addresses() {
    let http = json!([{ "name": "http", "port": 8080 }]);
    let extra = json!([{ "name": "extra", "port": 7000 }]);
    let shown = |subsets: &Value| {
        let mut cluster = truncated(pods(1003, 1003), subsets);
        spec(&mut cluster).ports.as_mut().unwrap().push(from_json(
            json!({ "name": "extra", "port": 70, "targetPort": 7000 }),
        ));
        differences(&cluster)
    };
    let same = json!([
        { "addresses": addresses(0..1000), "ports": http },
        { "addresses": addresses(0..1000), "ports": extra },
    ]);
    assert_eq!(shown(&same), [""; 0]);
    let different = json!([
        { "addresses": addresses(0..1000), "ports": http },
        { "addresses": addresses(1..1001), "ports": extra },
    ]);
    let expected = "ns/s Endpoints: truncated wrongly: ports with the same addresses show different ones";
    assert_eq!(shown(&different), [expected]);
}

#[test]
fn an_address_counts_once_for_each_subset() {
    // Six hundred pods, of which half have another port besides: 600 + 300 addresses fit. With all but one of
    // them it would be 600 + 599.
    let shown = |both: usize| {
        let mut cluster = cluster();
        cluster.pods = pods(600, 600);
        for pod in &mut cluster.pods[..both] {
            pod.spec.as_mut().unwrap().containers[0].ports = from_json(json!([
                { "name": "http", "containerPort": 8080 },
                { "name": "extra", "containerPort": 7000 },
            ]));
        }
        spec(&mut cluster).ports.as_mut().unwrap().push(from_json(
            json!({ "name": "extra", "port": 70, "targetPort": "extra" }),
        ));
        cluster.endpoints = vec![object(&json!([
            { "addresses": addresses(0..600), "ports": http() },
            { "addresses": addresses(0..both), "ports": [{ "name": "extra", "port": 7000 }] },
        ]))];
        differences(&cluster)
    };
    assert_eq!(shown(300), [""; 0]);
    assert_eq!(shown(599).len(), 2, "too many, and no annotation");
}
