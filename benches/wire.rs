//! Decoding and encoding: what is left when everything else costs nothing.

#[path = "support/fixtures.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod fixtures;
#[path = "support/goals.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod goals;

use criterion::Criterion;
use endpointd::cluster::codec::{self, Encoding, ListReader, Namespaced};
use endpointd::core::body::{Encode as _, EndpointBody, Metadata, PodReference, SliceBody, Subject};
use endpointd::core::facts::PodFacts;
use endpointd::core::hints::Hint;
use endpointd::core::ids::Uid;
use endpointd::core::object::Remote;
use endpointd::core::ports::resolve;
use endpointd::core::slices::Conditions;
use fixtures::{app_pod, app_service};
use goals::{Goals, in_turns, measure, ratio, timed};
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use mimalloc::MiMalloc;
use std::hint::black_box;
use std::net::IpAddr;
use std::time::Duration;

/// As the program has it.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let mut goals = Goals::default();
    decode_pods(&mut criterion, &mut goals);
    decode_list(&mut criterion, &mut goals);
    body(&mut criterion, &mut goals);
    criterion.final_summary();
    goals.print();
}

/// Bytes that a kube-apiserver 1.36 sent.
fn capture(name: &str) -> Vec<u8> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/loadtest/apiserver/tests/wire/");
    std::fs::read(format!("{dir}{name}")).expect("the captures are in the repository")
}

fn repeated<T>(runs: u64, mut routine: impl FnMut() -> T) -> Duration {
    let mut total = Duration::ZERO;
    timed(&mut total, || {
        for _ in 0..runs {
            black_box(routine());
        }
    });
    total
}

fn decode_pods(criterion: &mut Criterion, goals: &mut Goals) {
    let mut group = criterion.benchmark_group("decode");
    let [json, protobuf] = ["pods.watch.jsonl", "pods.watch.pb"].map(capture);
    let [json, protobuf] = [&json, &protobuf].map(|watch| {
        let objects = codec::events(watch).filter_map(|event| Some(event.ok()?.object));
        let pods: Vec<_> = objects
            .filter(|object| codec::object::<Namespaced<PodFacts>>(object).is_ok())
            .collect();
        assert!(!pods.is_empty(), "the capture shows pods");
        pods
    });
    let [in_json, in_protobuf] = [&json, &protobuf].map(|pods| {
        let bytes: usize = pods.iter().map(|pod| pod.len()).sum();
        bytes as f64 / pods.len() as f64
    });
    println!("decode: pods of {in_json:.0} bytes in JSON, {in_protobuf:.0} in protobuf");
    goals.at_most(
        "decode: bytes of a watched pod, protobuf over JSON",
        Some(in_protobuf / in_json),
        0.75,
        "x",
    );

    let decoded = |pods: &[&[u8]], runs| {
        repeated(runs, || {
            for pod in pods {
                black_box(codec::object::<Namespaced<PodFacts>>(pod).expect("it did before"));
            }
        })
    };
    let whole = |runs| {
        repeated(runs, || {
            for pod in &json {
                black_box(serde_json::from_slice::<Pod>(pod).expect("it is a pod"));
            }
        })
    };
    let encodings = [("JSON", &json, 3.0), ("protobuf", &protobuf, 5.0)];
    for (name, pods, goal) in encodings {
        let time = measure(&mut group, &format!("pods of a watch to facts, {name}"), |runs| {
            decoded(pods, runs)
        });
        goals.note(
            &format!("decode: one pod to facts, {name}"),
            time.map(|ns| ns / 1000.0 / pods.len() as f64),
            " µs",
        );
        if time.is_some() {
            let what = format!("objects of a watch, {name}");
            against(
                goals,
                &what,
                goal,
                Box::new(|runs| decoded(pods, runs)),
                Box::new(whole),
            );
        }
    }
    measure(&mut group, "pods of a watch to k8s_openapi", whole);
}

fn decode_list(criterion: &mut Criterion, goals: &mut Goals) {
    let mut group = criterion.benchmark_group("decode");
    let [json, protobuf] = ["pods.list.json", "pods.list.pb"].map(capture);
    let decoded = |list: &[u8], runs| {
        repeated(runs, || {
            let mut reader = ListReader::<Namespaced<PodFacts>>::default();
            reader.feed(list);
            reader.take()
        })
    };
    let whole = |runs| {
        repeated(runs, || {
            serde_json::from_slice::<List<Pod>>(&json).expect("it is a list")
        })
    };
    for (name, list, goal) in [("JSON", &json, 3.0), ("protobuf", &protobuf, 5.0)] {
        let time = measure(&mut group, &format!("a list to facts, {name}"), |runs| {
            decoded(list, runs)
        });
        if time.is_some() {
            let what = format!("a list, {name}");
            against(
                goals,
                &what,
                goal,
                Box::new(|runs| decoded(list, runs)),
                Box::new(whole),
            );
        }
    }
    measure(&mut group, "a list to k8s_openapi", whole);
}

fn against<'a>(
    goals: &mut Goals,
    what: &str,
    goal: f64,
    facts: Box<dyn FnMut(u64) -> Duration + 'a>,
    whole: Box<dyn FnMut(u64) -> Duration + 'a>,
) {
    let [facts, whole] = in_turns(10, [facts, whole]);
    let what = format!("decode: k8s_openapi's Pod from JSON over facts, {what}, in turns");
    goals.at_least(&what, ratio(Some(whole), Some(facts)), goal, "x");
}

fn body(criterion: &mut Criterion, goals: &mut Goals) {
    let mut group = criterion.benchmark_group("body");
    let service = app_service(0);
    let pods: Vec<_> = (0..100).map(|number| app_pod(0, number, 50, true)).collect();
    let ports = resolve(&service.ports, &[]);
    let remote = Remote {
        uid: Uid::Uuid([7; 16]),
        version: 123_456,
    };
    let build = |mut encoding: Encoding| {
        encoding.slice(SliceBody {
            metadata: Metadata {
                namespace: "ns",
                name: "app-0-x2b4c",
                subject: Subject::SliceOf(&service),
                remote: Some(&remote),
                extras: None,
                trigger: None,
                clear_managed_fields: false,
                truncated: false,
            },
            address_type: "IPv4",
            ports: &ports,
            endpoints: pods.iter().map(|pod| EndpointBody {
                ip: IpAddr::V4(pod.v4.expect("fixtures have an address")),
                conditions: Conditions::new(true, true, false),
                hostname: None,
                node: pod.node.as_deref(),
                zone: Some("zone-1"),
                target: PodReference {
                    name: &pod.name,
                    uid: &pod.uid,
                },
                hints: Hint::default(),
            }),
        })
    };
    let [json, protobuf] = [Encoding::Json, Encoding::Protobuf].map(build);
    let whole: EndpointSlice = serde_json::from_slice(&json).expect("a body is a slice");
    assert_eq!(whole.endpoints.as_ref().map(Vec::len), Some(100));
    println!(
        "body: 100 endpoints are {} bytes in JSON, {} in protobuf",
        json.len(),
        protobuf.len()
    );
    let share = protobuf.len() as f64 / json.len() as f64;
    goals.at_most(
        "body: bytes of a slice, protobuf over JSON",
        Some(share),
        0.5,
        "x",
    );
    let theirs = measure(&mut group, "100 endpoints from k8s_openapi", |runs| {
        repeated(runs, || serde_json::to_vec(&whole).expect("it can be written"))
    });
    for (name, encoding) in [("JSON", Encoding::Json), ("protobuf", Encoding::Protobuf)] {
        let ours = measure(&mut group, &format!("100 endpoints from facts, {name}"), |runs| {
            repeated(runs, || build(encoding))
        });
        goals.note(
            &format!(
                "body: serialising a k8s_openapi EndpointSlice that is there already, over building the bytes from facts, {name}"
            ),
            ratio(theirs, ours),
            "x",
        );
        goals.note(
            &format!("body: one endpoint of a slice, {name}"),
            ours.map(|ns| ns / 100.0),
            " ns",
        );
    }
}
