//! Selectors in annotations: each is at its limit of values, and there are as many Services as a namespace has room for.

use crate::allocator::Memory;
use crate::fixtures::World;
use crate::protobuf;
use endpointd::core::facts::ServiceFacts;
use endpointd::core::inbox::{Change, Pending};
use endpointd::core::outputs::Outputs;
use endpointd::core::work::TurnBudget;
use serde_json::json;
use std::fmt::Write as _;

/// The number of Services, some of which fill the tables to just above a size at which these grow.
const SERVICES: [usize; 3] = [1000, 3700, 5000];
/// The values of a selector.
const VALUES: usize = 99;
/// Bytes of memory for each byte of the selectors.
const TIMES: usize = 5;

/// Bytes of memory that may be taken besides.
const FIXED: usize = 4 << 10;

/// Writes the nth value of a Service's selector.
type Value = fn(&mut String, usize, usize);

/// A text of two letters.
fn letters(value: usize) -> String {
    let letter = |at: usize| char::from(b'a' + (at % 26) as u8);
    [letter(value), letter(value / 26)].into_iter().collect()
}

/// The selectors: what comes before and after the values, and each value.
const SHAPES: [(&str, &str, &str, Value); 8] = [
    ("values of their own", "k in (", ")", |text, service, value| {
        write!(text, "{:x}", service * VALUES + value).unwrap();
    }),
    ("values that all share", "k in (", ")", |text, _, value| {
        write!(text, "{value}").unwrap();
    }),
    ("excluded values", "k notin (", ")", |text, service, value| {
        write!(text, "{:x}", service * VALUES + value).unwrap();
    }),
    ("excluded keys", "", "", |text, _, value| {
        write!(text, "!{}", letters(value)).unwrap();
    }),
    ("keys", "", "", |text, _, value| text.push_str(&letters(value))),
    ("keys of their own", "", "", |text, service, value| {
        write!(text, "{:x}", service * VALUES + value).unwrap();
    }),
    ("pairs", "", "", |text, service, value| {
        write!(text, "{}={service:x}", letters(value)).unwrap();
    }),
    ("bounds", "", "", |text, service, value| {
        write!(text, "{}>{service}", letters(value)).unwrap();
    }),
];

/// The controller of such selectors runs in this process.
const CUSTOM: Outputs = Outputs {
    custom: true,
    ..Outputs::ALL
};

/// Returns the most memory that a namespace takes while it takes in Services with such selectors at once, and the memory
/// that it takes afterwards.
fn memory(outputs: Outputs, services: usize, selector: impl Fn(usize) -> String) -> [usize; 2] {
    let mut world = World::new(outputs, 1);
    world.settle();
    let memory = Memory::measure();
    let mut pending = Pending::default();
    for number in 0..services {
        let service = json!({
            "metadata": {
                "name": format!("s{number}"), "namespace": "ns", "uid": format!("u{number}"),
                "annotations": {"endpointd.io/selector": selector(number)},
            },
            "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
        });
        let service: ServiceFacts = protobuf::facts("Service", &service);
        pending.push(Change::Service(service, 0));
    }
    let mut applying = pending.begin();
    while !applying.step(&mut world.state, &mut world.nodes, &mut TurnBudget::for_a_turn()) {}
    drop(applying);
    [memory.peak(), memory.live()]
}

/// The selectors of so many Services, by shape.
fn selectors(shape: usize) -> impl Fn(usize) -> String {
    let (_, start, end, value) = SHAPES[shape];
    move |service| {
        let mut text = start.to_owned();
        for at in 0..VALUES {
            if at > 0 {
                text.push(',');
            }
            value(&mut text, service, at);
        }
        text.push_str(end);
        // This requirement tells them apart.
        write!(text, ",u{service}").unwrap();
        text
    }
}

/// Returns the shapes whose memory exceeds so many bytes for each byte of the selectors, at most and afterwards.
fn excess(outputs: Outputs, times: [usize; 2]) -> Vec<String> {
    let mut excess = Vec::new();
    for services in SERVICES {
        // All differ, as the others do, and are as short as that allows.
        let plain = memory(outputs, services, |service| format!("u{service}"));
        for (shape, (name, ..)) in SHAPES.iter().enumerate() {
            let selector = selectors(shape);
            let bytes: usize = (0..services).map(|service| selector(service).len()).sum();
            let taken = memory(outputs, services, selector);
            let [peak, live] = [0, 1].map(|at| taken[at].saturating_sub(plain[at]));
            let label = format!(
                "{services} Services with {name}: {bytes} bytes, {:.1} times at most, {:.1} times afterwards",
                peak as f64 / bytes as f64,
                live as f64 / bytes as f64
            );
            println!("{label}");
            if peak > times[0] * bytes || live > times[1] * bytes + FIXED {
                excess.push(label);
            }
        }
    }
    excess
}

#[test]
fn selectors_of_many_values_take_a_small_multiple_of_their_text() {
    let excess = excess(CUSTOM, [TIMES; 2]);
    assert!(excess.is_empty(), "{excess:#?}");
}

/// Their texts wait until they are taken in, and go then.
#[test]
fn selectors_that_another_process_is_to_use_are_neither_parsed_nor_kept() {
    let excess = excess(Outputs::ALL, [2, 0]);
    assert!(excess.is_empty(), "{excess:#?}");
}
