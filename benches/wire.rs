//! Decoding and encoding: what is left when everything else costs nothing.

#[path = "support/fixtures.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod fixtures;
#[path = "support/goals.rs"]
#[allow(dead_code)] // Other benchmarks use more of it.
mod goals;

use criterion::Criterion;
use endpointd::cluster::codec::{self, ListReader, Namespaced, Protobuf};
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
    let watch = capture("pods.watch.pb");
    let objects = codec::events(&watch).filter_map(|event| Some(event.ok()?.object));
    let pods: Vec<_> = objects
        .filter(|object| codec::object::<Namespaced<PodFacts>>(object).is_ok())
        .collect();
    assert!(!pods.is_empty(), "the capture shows pods");
    let lines = capture("pods.watch.jsonl");
    let json: Vec<_> = lines
        .split(|byte| *byte == b'\n')
        .filter_map(|line| {
            let event: serde_json::Value = serde_json::from_slice(line).ok()?;
            let object = &event["object"];
            object["metadata"]["name"]
                .is_string()
                .then(|| object.to_string().into_bytes())
        })
        .collect();
    assert_eq!(pods.len(), json.len(), "both captures show the same");
    let bytes: usize = pods.iter().map(|pod| pod.len()).sum();
    println!("decode: pods of {:.0} bytes", bytes as f64 / pods.len() as f64);
    let decoded = |runs| {
        repeated(runs, || {
            for pod in &pods {
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
    let time = measure(&mut group, "pods of a watch to facts", decoded);
    goals.note(
        "decode: one pod to facts",
        time.map(|ns| ns / 1000.0 / pods.len() as f64),
        " µs",
    );
    if time.is_some() {
        against(goals, "objects of a watch", Box::new(decoded), Box::new(whole));
    }
    measure(&mut group, "pods of a watch to k8s_openapi", whole);
}

fn decode_list(criterion: &mut Criterion, goals: &mut Goals) {
    let mut group = criterion.benchmark_group("decode");
    let [json, list] = ["pods.list.json", "pods.list.pb"].map(capture);
    let decoded = |runs| {
        repeated(runs, || {
            let mut reader = ListReader::<Namespaced<PodFacts>>::default();
            reader.feed(&list);
            reader.take()
        })
    };
    let whole = |runs| {
        repeated(runs, || {
            serde_json::from_slice::<List<Pod>>(&json).expect("it is a list")
        })
    };
    if measure(&mut group, "a list to facts", decoded).is_some() {
        against(goals, "a list", Box::new(decoded), Box::new(whole));
    }
    measure(&mut group, "a list to k8s_openapi", whole);
}

fn against<'a>(
    goals: &mut Goals,
    what: &str,
    facts: Box<dyn FnMut(u64) -> Duration + 'a>,
    whole: Box<dyn FnMut(u64) -> Duration + 'a>,
) {
    let [facts, whole] = in_turns(10, [facts, whole]);
    let what = format!("decode: k8s_openapi's Pod from JSON over facts, {what}, in turns");
    goals.at_least(&what, ratio(Some(whole), Some(facts)), 5.0, "x");
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
    let build = || {
        Protobuf.slice(SliceBody {
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
    let body = build();
    let json = memory_apiserver::object_of(&body).expect("a body is an object");
    let whole: EndpointSlice = serde_json::from_value(json).expect("a body is a slice");
    assert_eq!(whole.endpoints.as_ref().map(Vec::len), Some(100));
    println!("body: 100 endpoints are {} bytes", body.len());
    let theirs = measure(&mut group, "100 endpoints from k8s_openapi", |runs| {
        repeated(runs, || serde_json::to_vec(&whole).expect("it can be written"))
    });
    let ours = measure(&mut group, "100 endpoints from facts", |runs| {
        repeated(runs, build)
    });
    goals.note(
        "body: serialising a k8s_openapi EndpointSlice to JSON that is there already, over building the bytes from facts",
        ratio(theirs, ours),
        "x",
    );
    goals.note("body: one endpoint of a slice", ours.map(|ns| ns / 100.0), " ns");
}
