use super::{Listing, PART, Part};
use crate::cluster::codec::Namespaced;
use crate::cluster::watch::handler::WatchHandler;
use crate::core::facts::{NodeFacts, PodFacts};
use crate::core::hints::NodeCapacity;
use crate::core::inbox::{Change, Delivery};
use crate::core::lists::Demand;
use crate::core::namespace::Kind;
use crate::core::object::Output;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;

/// The names in each delivery. `None` stands for the beginning of a list.
#[derive(Default)]
struct Handler(Mutex<Vec<Option<Vec<String>>>>);

impl WatchHandler for Handler {
    fn deliver(&self, deliveries: Vec<Delivery>) {
        let names = deliveries.into_iter().map(|delivery| match delivery.change {
            Change::Pod(facts, 7) => facts.name.into(),
            other => panic!("{other:?} is not in the list"),
        });
        self.0.lock().push(Some(names.collect()));
    }

    fn begin_list(&self, _: Kind) {
        self.0.lock().push(None);
    }

    fn inputs_listed(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    fn demands(&self) -> watch::Receiver<Demand> {
        watch::channel(Demand::default()).1
    }

    fn rewound(&self, _: Kind, under: Demand) -> Demand {
        under
    }

    fn node_applied(&self, _: &Arc<str>, _: NodeFacts, _: &NodeCapacity, _: u8) {}
    fn node_gone(&self, _: &str) {}
    fn end_list(&self, _: Kind, _: u8, _: u64, _: Demand) {}
    fn watching(&self, _: Output, _: Option<u64>) {}
    fn shown(&self, _: Output, _: u64, _: Instant) {}
    fn forget(&self, _: Kind) {}
    fn prove(&self, _: Kind, _: Demand) {}
}

fn pods(numbers: std::ops::Range<usize>) -> Part<Namespaced<PodFacts>> {
    let pod = |number: usize| Namespaced {
        namespace: "n".into(),
        facts: PodFacts::bare(&number.to_string()),
    };
    numbers.map(|number| (pod(number), None)).collect()
}

#[test]
fn a_later_list_is_handed_on_in_parts() {
    let mut listing = Listing {
        passing: None,
        kept: Vec::new(),
        objects: 0,
        version: 0,
    };
    // Pages of the usual size, a few events, and a list in one piece.
    let mut end = 0;
    for size in [500; 40].into_iter().chain([1; 40]).chain([3 * PART, 1]) {
        listing.keep(pods(end..end + size));
        end += size;
    }
    let handler = Handler::default();
    listing.hand_on(&handler, Kind::Pod, 7);
    let mut handed_on = handler.0.into_inner().into_iter();
    assert_eq!(handed_on.next(), Some(None), "planning stops first");
    let parts: Vec<Vec<String>> = handed_on
        .map(|part| part.expect("the list begins once"))
        .collect();
    let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
    assert_eq!(sizes, [4000, 4000, 4000, 4000, 4000 + 40, 3 * PART, 1]);
    let names = parts.concat();
    assert!(names.into_iter().eq((0..end).map(|number| number.to_string())));
}
