//! Properties of the core over random histories: pods, Services and nodes come, change and go, users tamper with
//! slices, requests fail, answers are lost, and events arrive late.

use crate::lifecycle::first_slice;
use crate::model::{self, Fate, Model, PodSpec, ServiceSpec};
use crate::ops::{Op, any_op, cluster_op, happen, notice, pod, service, start, take_over};
use endpointd::core::address::Family;
use endpointd::core::body::Request;
use endpointd::core::facts::{LABEL_MANAGED_BY, SliceFacts};
use endpointd::core::namespace::{Kind, OutputEvent, PendingLists, WorkItem};
use endpointd::core::object::Output;
use endpointd::core::outputs::Outputs;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Checks what holds whenever everything has come to rest.
fn check_at_rest(model: &mut Model, seed: u64) -> Result<(), TestCaseError> {
    let (expected, published) = (model.expected(), model.published());
    prop_assert_eq!(&published, &expected, "the server has the expected endpoints");
    prop_assert_eq!(model.published_endpoints(), model.expected_endpoints());
    prop_assert!(
        model
            .endpoints
            .iter()
            // Afterwards, as after a start, nothing shows that an object without our label was its Service's.
            // And one that users, or a request of an earlier term, made about when its Service went may be seen only
            // later, and is left alone then.
            .all(|(name, object)| model.services.contains_key(name)
                || (model.stood_by && !object.meta.ours)
                || model
                    .custom
                    .union(&model.orphans)
                    .any(|uid| *uid == object.meta.uid.to_string())),
        "Endpoints have gone with their Services"
    );

    prop_assert_eq!(model.published_mirrored(), model.expected_mirrored());

    prop_assert_eq!(model.check_balanced_hints(), Ok(()));

    // A plan applied is a plan finished.
    prop_assert_eq!(model.plan(), []);

    // Incremental equals rebuilt; and a start on a converged cluster writes nothing, in whatever order it is
    // listed.
    let mut fresh = model.restarted(seed);
    // But for Endpoints that were left alone above: one that has our label since a write of an earlier term, which was
    // carried out after their Service went, is deleted at the next start.
    let (left, items): (Vec<_>, Vec<_>) = fresh.plan().into_iter().partition(|item| {
        item.object.output == Output::Endpoints && !model.services.contains_key(&item.object.name)
    });
    prop_assert_eq!(items, [], "a state built afresh finds nothing to do");
    fresh.converge();
    prop_assert_eq!(fresh.writes, left.len() as u64);

    // The same once more, with every Service seen again.
    for service in fresh.services.clone().into_values() {
        fresh.state.apply_service(service, 0);
    }
    prop_assert_eq!(fresh.plan(), []);
    Ok(())
}

pub(super) fn plain_service(name: u8) -> ServiceSpec {
    ServiceSpec {
        name,
        ..ServiceSpec::plain()
    }
}

/// However long standing by lasts: what has gone leaves nothing behind.
#[test]
fn standing_by_does_not_grow() {
    let mut model = start(2);
    model.stand_by();
    for name in (0..=u8::MAX).cycle().take(2000) {
        model.pod(
            PodSpec {
                name,
                ..PodSpec::plain()
            }
            .facts(),
        );
        model.service(plain_service(name).facts());
        assert_eq!(model.plan(), []);
        model.pod_gone(&format!("pod-{name}"));
        model.service_gone(&format!("svc-{name}"));
        assert_eq!(model.plan(), []);
    }
    assert!(model.state.is_empty(), "its shard can be retired");
}

/// Changes that move endpoints of one Service from slice to slice.
fn moving_op() -> impl Strategy<Value = Op> {
    let pod = (0..6u8, 0..4u8, prop::bool::weighted(0.8));
    let pod = pod.prop_map(|(name, ports, ready)| {
        let node = Some(name % 3);
        Op::Pod(PodSpec {
            name,
            node,
            ready,
            ports,
            ..PodSpec::plain()
        })
    });
    let ports = (0..4u8).prop_map(|ports| {
        Op::Service(ServiceSpec {
            ports,
            ..ServiceSpec::plain()
        })
    });
    prop_oneof![
        4 => pod,
        4 => ports,
        1 => (0..6u8).prop_map(Op::PodGone),
        1 => (0..3u8, 0..2u8).prop_map(|(node, zone)| Op::Node(node, Some(zone))),
        1 => (0..3u8).prop_map(Op::NodeGone),
    ]
}

fn moving_fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Carried),
        3 => Just(Fate::Rejected),
        1 => Just(Fate::CarriedUnanswered),
        1 => Just(Fate::Lost),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Invariants 1, 3, 5, 6 and 8, and of 7 the limit and the uniqueness of endpoints: after any history the
    /// server has what an independent recompute says, and a state built afresh from the same objects agrees.
    /// Each grant checks that one object never has two requests out.
    #[test]
    fn any_history_ends_in_the_right_state(ops in vec(any_op(), 1..60), limit in 1..4usize, seed: u64) {
        let mut model = start(limit);
        for op in &ops {
            happen(&mut model, op);
        }
        take_over(&mut model);
        notice(&mut model);
        model.converge();
        check_at_rest(&mut model, seed)?;
    }

    /// Invariants 5 and 11: a process that has stood by while another wrote does, taking over, just what one that
    /// starts then would do: what the other left, and nothing if that was nothing.
    #[test]
    fn taking_over_writes_the_difference(
        before in vec(cluster_op(), 1..30), during in vec(cluster_op(), 0..30), left in vec(cluster_op(), 0..4),
        limit in 1..4usize, seed: u64,
    ) {
        let mut model = start(limit);
        for op in &before {
            happen(&mut model, op);
        }
        model.converge();
        let mut other = model.restarted(seed);
        model.stand_by();
        // Both see what happens in the cluster; only one writes, and in the end it no longer does.
        let seen = |op: &&Op| !matches!(op, Op::Plan | Op::Grant(_) | Op::Answer(..) | Op::Watch);
        for op in during.iter().filter(seen) {
            happen(&mut model, op);
            happen(&mut other, op);
            other.converge();
        }
        for op in left.iter().filter(seen) {
            happen(&mut model, op);
            happen(&mut other, op);
        }
        (model.store, model.endpoints) = (other.store.clone(), other.endpoints.clone());
        model.mirrored = other.mirrored.clone();
        model.version = other.version;

        let mut fresh = model.restarted_in_order();
        fresh.converge();
        take_over(&mut model);
        let (items, before) = (model.plan(), model.writes);
        if left.iter().all(|op| !seen(&op)) {
            prop_assert_eq!(items, [], "all is as it should be");
        }
        model.converge();
        prop_assert_eq!(model.writes - before, fresh.writes);
        check_at_rest(&mut model, seed)?;
    }

    /// Make before break: whatever requests are answered, and in whatever order they are sent, no write unpublishes an endpoint
    /// that stays (the model checks each write that is carried out).
    #[test]
    fn no_write_unpublishes_what_stays(
        steps in vec((moving_op(), vec((any::<u8>(), moving_fate()), 0..8)), 1..30), limit in 1..4usize, seed: u64,
    ) {
        let mut model = start(limit);
        for name in 0..5 {
            happen(&mut model, &Op::Pod(PodSpec { name, node: Some(name % 3), ..PodSpec::plain() }));
        }
        happen(&mut model, &Op::Service(ServiceSpec::plain()));
        model.converge();
        for (op, turns) in &steps {
            happen(&mut model, op);
            happen(&mut model, &Op::Plan);
            for (at, fate) in turns {
                happen(&mut model, &Op::Grant(*at));
                happen(&mut model, &Op::Answer(*at, *fate));
                happen(&mut model, &Op::Plan);
            }
        }
        model.converge();
        check_at_rest(&mut model, seed)?;
    }

    /// Invariant 7: an endpoint stays in its slice unless its port group changes.
    #[test]
    fn an_endpoint_stays_in_its_slice(ops in vec(cluster_op(), 1..40), limit in 1..4usize) {
        let mut model = start(limit);
        let mut before = BTreeMap::new();
        for op in &ops {
            happen(&mut model, op);
            model.converge();
            let after = places(&model);
            for (endpoint, (slice, ports)) in &before {
                if let Some((now, ports_now)) = after.get(endpoint) && ports == ports_now {
                    prop_assert_eq!(slice, now, "{:?} has moved", endpoint);
                }
            }
            before = after;
        }
    }

    /// Invariant 7: of what one plan writes for a Service, creates go first, then updates that only add, then
    /// updates that take away, then deletes.
    #[test]
    fn a_plan_adds_before_it_takes_away(ops in vec(cluster_op(), 1..40), limit in 1..4usize) {
        let mut model = start(limit);
        for op in &ops {
            happen(&mut model, op);
            if matches!(op, Op::Plan | Op::Grant(_) | Op::Answer(..) | Op::Watch) {
                continue;
            }
            let items = model.plan();
            let mut ranks: BTreeMap<Arc<str>, u8> = BTreeMap::new();
            let mut written = BTreeSet::new();
            // Slices of another controller wait for those that take their place.
            let now = |item: &WorkItem| item.object.output == Output::Slice;
            for item in items.into_iter().filter(now) {
                let at = model.pending.iter().position(|name| *name == item.object).unwrap();
                let Some(request) = model.grant(at) else { continue };
                // A slice that is not published here is read only to know what it holds, and nothing waits for that.
                let not_ours = |slice: &SliceFacts| {
                    let service = model.services.get(&slice.meta.service);
                    service.is_none_or(|service| !service.is_managed() || !slice.is_for(service))
                };
                if matches!(request, Request::Fetch) && model.store.get(&*item.object.name).is_some_and(not_ours) {
                    continue;
                }
                let (service, rank) = rank(&model, &item.object.name, &request);
                let pods = pods_in(&request);
                // A slice that keeps endpoints until others show them takes nothing away, and may come after these.
                if pods.iter().any(|pod| written.contains(&(service.clone(), pod.clone()))) {
                    continue;
                }
                written.extend(pods.into_iter().map(|pod| (service.clone(), pod)));
                let last = ranks.entry(service).or_default();
                prop_assert!(*last <= rank, "{:?} out of order after {}", request, last);
                *last = rank;
            }
            model.converge();
        }
    }

    /// Invariant 8: a Service deleted and made again, however fast, starts anew, and takes nothing over.
    #[test]
    fn a_service_made_again_replaces_all_slices(
        pods in vec(pod(), 1..8), service in service(), seen_gone: bool, converge_between: bool, seed: u64,
    ) {
        let mut model = start(2);
        for pod in &pods {
            model.pod(pod.facts());
        }
        let first = ServiceSpec { generation: 0, ..service.clone() };
        model.service(first.facts());
        model.converge();
        let old: BTreeSet<_> = model.store.keys().cloned().collect();
        if seen_gone {
            model.service_gone(&format!("svc-{}", service.name));
            if converge_between {
                model.converge();
            }
        }
        model.service(ServiceSpec { generation: 1, ..service }.facts());
        model.converge();
        if first.selector.is_some() {
            prop_assert!(model.store.keys().all(|name| !old.contains(name)), "an old slice was kept");
        }
        check_at_rest(&mut model, seed)?;
    }

    /// Invariant 12: nothing is planned before all kinds have been listed whole, in whatever order they come,
    /// nor while one is listed again; and what a list leaves out is gone before the next plan.
    #[test]
    fn no_plan_before_the_lists_are_whole(
        ops in vec(cluster_op(), 1..40), gone in vec(any::<bool>(), 12), order in Just(Kind::ALL).prop_shuffle(), seed: u64,
    ) {
        let mut old = start(2);
        for op in &ops {
            happen(&mut old, op);
        }
        old.converge();
        // A restart: each kind's list is followed by a plan, which must be empty; `restarted` checks that.
        let mut model = old.restarted(seed);
        prop_assert_eq!(model.plan(), []);

        // Some pods vanish while no watch runs.
        let names: Vec<_> = model.pods.keys().cloned().collect();
        for (name, _) in names.iter().zip(&gone).filter(|(_, gone)| **gone) {
            model.pods.remove(name);
        }
        model.epoch += 1;
        for kind in order {
            model.state.begin_list(kind);
        }
        for kind in order {
            match kind {
                Kind::Node => {}
                Kind::Pod => {
                    for pod in model.pods.clone().into_values() {
                        model.pod(pod);
                        prop_assert_eq!(model.plan(), []);
                    }
                }
                Kind::Service => {
                    for service in model.services.clone().into_values() {
                        model.service(service);
                        prop_assert_eq!(model.plan(), []);
                    }
                }
                Kind::Slice => {
                    for slice in model.store.clone().into_values().filter(model::is_ours) {
                        model.state.apply_output(OutputEvent::slice(slice, model.epoch));
                    }
                }
                Kind::Endpoints => {
                    for endpoints in model.endpoints.clone().into_values() {
                        model.state.apply_output(OutputEvent::endpoints(endpoints, model.epoch));
                    }
                }
                Kind::Mirrored => {
                    for slice in model.mirrored.clone().into_values().filter(SliceFacts::is_mirrored) {
                        model.state.apply_output(OutputEvent::mirrored(slice, model.epoch));
                    }
                }
            }
            prop_assert_eq!(model.plan(), [], "nothing is planned while a list is awaited");
            model.state.end_list(kind, model.epoch, model.version, &mut model.nodes);
        }
        model.converge();
        prop_assert_eq!(model.published(), model.expected());
    }
}

/// Where each endpoint is: by Service, family and pod, the slice and its ports.
fn places(model: &Model) -> BTreeMap<(String, Family, String), (Box<str>, String)> {
    let mut places = BTreeMap::new();
    for slice in model.store.values() {
        for endpoint in &slice.endpoints {
            let pod = endpoint.pod_uid.as_ref().unwrap().to_string();
            let group = format!("{:?} {:?}", slice.meta.owner, slice.meta.manager);
            let key = (group, slice.family.unwrap(), pod);
            places.insert(key, (slice.meta.name.clone(), format!("{:?}", slice.ports)));
        }
    }
    places
}

/// The Service that a request is for, and its place in the order.
fn rank(model: &Model, name: &str, request: &Request) -> (Arc<str>, u8) {
    let pods = |slice: &SliceFacts| slice.endpoints.iter().map(|e| e.pod.clone()).collect::<Vec<_>>();
    let service = |name: &str| Arc::from(name.rsplit_once('-').unwrap().0);
    match request {
        Request::Create(_) | Request::Fetch | Request::Probe => (service(name), 0),
        Request::Update(body) => {
            let new =
                endpointd::cluster::codec::object::<endpointd::cluster::codec::Namespaced<SliceFacts>>(body);
            let (old, new) = (&model.store[name], new.unwrap().facts);
            // With its ports, a slice loses all that it had under the old ones.
            let takes_away = pods(old)
                .iter()
                .any(|pod| old.ports != new.ports || !pods(&new).contains(pod));
            (service(name), if takes_away { 2 } else { 1 })
        }
        Request::Delete(_) => (service(name), 3),
    }
}

/// The pods of a slice that is to be written.
fn pods_in(request: &Request) -> Vec<String> {
    let (Request::Create(body) | Request::Update(body)) = request else {
        return Vec::new();
    };
    let slice = memory_apiserver::object_of(body).unwrap();
    let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
    endpoints
        .iter()
        .map(|endpoint| endpoint["targetRef"]["name"].to_string())
        .collect()
}

/// One Service with one slice with one endpoint, at rest.
fn one_slice() -> Model {
    let mut model = start(3);
    model.pod(PodSpec::plain().facts());
    model.service(ServiceSpec::plain().facts());
    model.converge();
    model
}

#[test]
fn a_slice_given_to_another_manager_is_left_to_it_and_replaced() {
    let mut model = one_slice();
    let (_, mut slice) = first_slice(&model);
    slice.labels = slice.labels.project(|key| key != LABEL_MANAGED_BY);
    model.put_slice(slice.clone());
    model.converge();
    assert_eq!(model.store.len(), 2, "another slice has its endpoints");
    assert_eq!(model.store[&slice.meta.name].endpoints, slice.endpoints);
    assert_eq!(model.published(), model.expected());
    let told = model.state.take_notices();
    let given = told
        .iter()
        .filter(|notice| notice.message.contains("was given to another controller"));
    assert_eq!(given.count(), 1, "{told:?}");
}

#[test]
fn a_slice_given_away_and_back_keeps_its_endpoints() {
    let mut model = one_slice();
    let (name, ours) = first_slice(&model);
    let mut theirs = ours.clone();
    theirs.labels = theirs.labels.project(|key| key != LABEL_MANAGED_BY);
    theirs.meta.version = model.version;
    model.put_slice(theirs);
    model.converge();
    model.put_slice(ours);
    model.converge();
    assert_eq!(model.published(), model.expected());
    assert_eq!(
        model.store.keys().collect::<Vec<_>>(),
        [&name],
        "the slice is updated, not replaced"
    );
}

#[test]
fn nothing_is_written_on_half_a_picture() {
    let mut model = one_slice();
    model.pod(
        PodSpec {
            ready: false,
            ..PodSpec::plain()
        }
        .facts(),
    );
    let items = model.plan();
    assert_eq!(items.len(), 2, "the slice and the Endpoints");
    // A list begins before the write leaves, and meanwhile the Service selects something else.
    model.state.begin_list(Kind::Pod);
    model.service(
        ServiceSpec {
            selector: Some(1),
            ..ServiceSpec::plain()
        }
        .facts(),
    );
    for _ in 0..2 {
        assert_eq!(model.grant(0), None, "the Service has not been evaluated since");
    }
    assert_eq!(model.plan(), []);
    model.service(ServiceSpec::plain().facts());
    model.epoch += 1;
    model.pod(
        PodSpec {
            ready: false,
            ..PodSpec::plain()
        }
        .facts(),
    );
    model
        .state
        .end_list(Kind::Pod, model.epoch, model.version, &mut model.nodes);
    assert_eq!(model.plan().len(), 2, "what was held is due again");
    model.converge();
    assert_eq!(model.published(), model.expected());
}

#[test]
fn holds_are_by_kind() {
    let mut pending_lists = PendingLists::all(Outputs::ALL);
    for kind in Kind::ALL {
        assert!(pending_lists.any() && pending_lists.has(kind));
        pending_lists.clear(kind);
    }
    assert!(!pending_lists.any());
}

/// Endpoints that were on their way while another process took over are seen once their Service has gone.
#[test]
fn endpoints_that_arrive_late_go_with_their_service() {
    let mut model = start(1);
    model.service(plain_service(1).facts());
    model.let_wait_end();
    let items = model.plan();
    let at = items
        .iter()
        .position(|item| item.object.output == Output::Endpoints)
        .unwrap();
    model.grant(at);
    model.stand_by();
    take_over(&mut model);
    let name = model.late.keys().next().unwrap().clone();
    model.answer(&name, model::Fate::Carried);
    model.service_gone("svc-1");
    model.plan();
    model.converge();
    check_at_rest(&mut model, 0).unwrap();
}

/// Endpoints of a Service that names no families show the first address of a pod, of whichever family: a pod becomes a member
/// that was none, and leaves when it goes.
#[test]
fn a_service_that_names_no_families_any_more_takes_in_pods_of_the_other() {
    let mut model = start(1);
    model.service(plain_service(0).facts());
    let other = PodSpec {
        v4: false,
        v6: true,
        ..PodSpec::plain()
    };
    model.pod(other.facts());
    model.converge();
    let unnamed = ServiceSpec {
        families: [false, false],
        ..plain_service(0)
    };
    for service in [unnamed.clone(), plain_service(0), unnamed] {
        model.service(service.facts());
        model.converge();
        check_at_rest(&mut model, 0).unwrap();
    }
    happen(&mut model, &Op::PodGone(0));
    model.converge();
    check_at_rest(&mut model, 0).unwrap();
}
