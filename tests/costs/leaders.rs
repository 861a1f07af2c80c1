//! Services that publish only the holder of a Lease: what one of them costs does not grow with what others have in the
//! namespace.

use crate::fixtures::{CUSTOM, pod};
use crate::processor::Processor;
use crate::replacements::{Costs, other};
use crate::tenants::assert_near_linear;
use endpointd::cluster::codec::{Namespaced, object};
use endpointd::core::facts::ServiceFacts;
use endpointd::core::followed_leases::lease::{LeaseChange, LeaseEvent, LeaseFacts, LeaseRequest};
use endpointd::core::inbox::Change;
use endpointd::core::lease::Record;
use endpointd::core::namespace::PendingLists;
use serde_json::json;
use std::time::Duration;

/// A Service that follows a Lease.
fn led(name: &str, lease: &str) -> ServiceFacts {
    let body = json!({
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": {"endpointd.io/leader": lease}},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]},
    });
    let body = object::<Namespaced<ServiceFacts>>(body.to_string().as_bytes());
    body.unwrap().facts
}

/// A Lease that a pod has renewed so many times.
fn held(lease: &str, holder: &str, renewals: u64) -> LeaseFacts {
    LeaseFacts {
        name: lease.into(),
        version: 1 + renewals,
        record: Record {
            holder: holder.to_owned(),
            seconds: 15,
            transitions: i32::try_from(renewals).unwrap(),
            ..Record::default()
        },
    }
}

/// Has something learned of the Leases that a namespace has asked for.
fn learn(costs: &mut Costs, generation: u64, event: LeaseEvent) {
    let at = Duration::from_secs(1);
    let change = LeaseChange {
        generation,
        at,
        event,
    };
    costs.apply(vec![Change::Leases(change)]);
}

/// Returns the number under which a namespace asks to follow its Leases.
fn generation(costs: &mut Costs) -> u64 {
    let requests = costs.world.state.take_lease_requests();
    let mut follows = requests.iter().filter_map(|request| match request {
        LeaseRequest::Follow(generation) => Some(*generation),
        LeaseRequest::Read(..) | LeaseRequest::Leave => None,
    });
    follows.next().unwrap()
}

/// A Service whose leader is published, with slices of another controller of which none holds anything.
fn beside_others(many: usize) -> Duration {
    let mut costs = Costs::new(CUSTOM, PendingLists::NONE);
    let holder = pod(1, &[], true);
    costs.world.apply(holder.clone());
    costs.apply(vec![Change::Service(led("s", "l"), 0)]);
    let generation = generation(&mut costs);
    learn(&mut costs, generation, LeaseEvent::Begun);
    learn(
        &mut costs,
        generation,
        LeaseEvent::Listed(vec![held("l", &holder.name, 0)]),
    );
    learn(
        &mut costs,
        generation,
        LeaseEvent::Seen(held("l", &holder.name, 1)),
    );
    assert_eq!(costs.world.state.totals().endpoints, 1);
    let start = Processor::now();
    for number in 0..many {
        costs.appear(other(number, number as u64 + 1));
    }
    let took = start.elapsed();
    costs.assert_linear(many, 2);
    assert_eq!(costs.reads, many);
    assert_eq!(costs.world.state.totals().endpoints, 1);
    took
}

#[test]
fn a_leader_is_judged_without_a_look_at_each_slice_of_another_controller() {
    assert_near_linear("slices", 20, || beside_others(1000), || beside_others(20_000));
}
