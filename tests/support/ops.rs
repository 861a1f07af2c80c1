//! Strategies for all that can happen in and around a namespace.

use crate::model::{
    self, CustomSpec, EndpointsTamper, Fate, MirroredTamper, Model, PodSpec, ServiceSpec, WatchEvent,
};
use endpointd::core::body::Request;
use endpointd::core::facts::{OwnerReference, Owners, SliceFacts};
use endpointd::core::hints::HintMode;
use endpointd::core::ids::Uid;
use endpointd::core::labels::Labels;
use endpointd::core::namespace::{Kind, OutputEvent};
use proptest::option;
use proptest::prelude::*;

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Pod(PodSpec),
    PodGone(u8),
    Service(ServiceSpec),
    ServiceGone(u8),
    Node(u8, Option<u8>),
    NodeGone(u8),
    Tamper(u8, Tamper),
    TamperEndpoints(u8, EndpointsTamper),
    /// A user writes the Endpoints of a Service.
    Custom(u8, CustomSpec),
    TamperMirrored(u8, MirroredTamper),
    /// The state plans.
    Plan,
    /// A pending object is granted.
    Grant(u8),
    /// A request in flight meets its fate.
    Answer(u8, Fate),
    /// The watch of slices shows an event. If there is none, time passes for what waits a moment.
    Watch,
    /// The slices are listed anew, and the watch goes on from there.
    Relist,
    /// The same of Endpoints.
    RelistEndpoints,
    /// The same of mirrored slices.
    RelistMirrored,
    /// The state stands by: it forgets slices and Endpoints, and what happens to them is not shown.
    StandBy,
    /// The state no longer stands by.
    TakeOver,
    /// The server is backed up.
    BackUp,
    /// The server is restored from its backup.
    Restore,
    /// The watches notice that it was.
    Notice,
}

/// Changes that users make to slices.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tamper {
    Delete,
    DropEndpoint,
    DoubleEndpoint,
    WrongAddress,
    ExtraLabel,
    Disown,
    OtherService,
    OtherPorts,
    /// Another Service is named as an owner, ahead of the one that is.
    SecondOwner,
    /// Another slice gets the same endpoints.
    Copy,
}

pub(crate) fn pod() -> impl Strategy<Value = PodSpec> {
    let place = (
        option::weighted(0.9, 0..3u8),
        prop::bool::weighted(0.8),
        any::<bool>(),
    );
    let bits = (
        prop::bool::weighted(0.7),
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.1),
    );
    let rest = (
        0..4u8,
        option::weighted(0.2, 0..3u8),
        option::weighted(0.8, 1..50u8),
    );
    (0..9u8, 0..3u8, 0..8u8, place, bits, rest).prop_map(
        |(name, generation, labels, (node, v4, v6), (ready, terminating, terminal), (ports, host, time))| {
            PodSpec {
                name,
                generation,
                labels,
                node,
                v4,
                v6,
                ready,
                terminating,
                terminal,
                ports,
                host,
                time,
            }
        },
    )
}

pub(crate) fn service() -> impl Strategy<Value = ServiceSpec> {
    let bits = (any::<[bool; 2]>(), prop::bool::weighted(0.2), any::<bool>());
    let hints = prop_oneof![4 => Just(HintMode::None), 1 => Just(HintMode::SameZone), 1 => Just(HintMode::SameNode), 2 => Just(HintMode::Auto)];
    (
        0..3u8,
        0..2u8,
        option::weighted(0.7, 0..32u8),
        0..4u8,
        bits,
        0..8u8,
        (hints, prop::bool::weighted(0.1), option::weighted(0.3, 0..8u8)),
    )
        .prop_map(
            |(
                name,
                generation,
                selector,
                ports,
                (families, publish_not_ready, headless),
                labels,
                (hints, external, annotation),
            )| {
                ServiceSpec {
                    name,
                    generation,
                    selector,
                    ports,
                    families,
                    publish_not_ready,
                    labels,
                    headless,
                    hints,
                    external,
                    annotation,
                }
            },
        )
}

fn custom() -> impl Strategy<Value = CustomSpec> {
    let subset = (0..16u8, 0..16u8, 0..4u8);
    let flags = [0.1, 0.05, 0.2].map(prop::bool::weighted);
    (proptest::collection::vec(subset, 0..4), 0..8u8, flags).prop_map(
        |(subsets, labels, [skip, leader, again])| CustomSpec {
            subsets,
            labels,
            skip,
            leader,
            again,
        },
    )
}

pub(crate) fn cluster_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => pod().prop_map(Op::Pod),
        3 => (0..9u8).prop_map(Op::PodGone),
        4 => service().prop_map(Op::Service),
        1 => (0..3u8).prop_map(Op::ServiceGone),
        4 => (0..3u8, custom()).prop_map(|(service, custom)| Op::Custom(service, custom)),
        2 => (0..3u8, option::of(0..2u8)).prop_map(|(node, zone)| Op::Node(node, zone)),
        1 => (0..3u8).prop_map(Op::NodeGone),
        6 => Just(Op::Plan),
        4 => any::<u8>().prop_map(Op::Grant),
        4 => any::<u8>().prop_map(|at| Op::Answer(at, Fate::Carried)),
        3 => Just(Op::Watch),
    ]
}

pub(crate) fn any_op() -> impl Strategy<Value = Op> {
    let tamper = prop_oneof![
        Just(Tamper::Delete),
        Just(Tamper::DropEndpoint),
        Just(Tamper::DoubleEndpoint),
        Just(Tamper::WrongAddress),
        Just(Tamper::ExtraLabel),
        Just(Tamper::Disown),
        Just(Tamper::OtherService),
        Just(Tamper::OtherPorts),
        Just(Tamper::SecondOwner),
        Just(Tamper::Copy),
    ];
    let endpoints_tamper = prop_oneof![
        Just(EndpointsTamper::Delete),
        Just(EndpointsTamper::DropSubset),
        Just(EndpointsTamper::WrongAddress),
        Just(EndpointsTamper::NotReady),
        Just(EndpointsTamper::ExtraLabel),
        Just(EndpointsTamper::NoLabels),
        Just(EndpointsTamper::OverCapacity),
        Just(EndpointsTamper::ForeignAnnotation),
        Just(EndpointsTamper::Reorder),
    ];
    let mirrored_tamper = prop_oneof![
        Just(MirroredTamper::Delete),
        Just(MirroredTamper::DropEndpoint),
        Just(MirroredTamper::ExtraLabel),
        Just(MirroredTamper::ExtraAnnotation),
        Just(MirroredTamper::Disown),
        Just(MirroredTamper::OtherPorts),
        Just(MirroredTamper::Copy),
        Just(MirroredTamper::OtherManager),
    ];
    let fate = prop_oneof![
        Just(Fate::CarriedUnanswered),
        Just(Fate::Lost),
        Just(Fate::Throttled),
        Just(Fate::Rejected),
        Just(Fate::TooLarge),
        Just(Fate::Disputed),
        Just(Fate::CarriedDisputed),
    ];
    prop_oneof![
        20 => cluster_op(),
        3 => (any::<u8>(), tamper).prop_map(|(at, tamper)| Op::Tamper(at, tamper)),
        3 => (any::<u8>(), endpoints_tamper).prop_map(|(at, tamper)| Op::TamperEndpoints(at, tamper)),
        3 => (any::<u8>(), mirrored_tamper).prop_map(|(at, tamper)| Op::TamperMirrored(at, tamper)),
        3 => (any::<u8>(), fate).prop_map(|(at, fate)| Op::Answer(at, fate)),
        1 => Just(Op::Relist),
        1 => Just(Op::RelistEndpoints),
        1 => Just(Op::RelistMirrored),
        1 => Just(Op::StandBy),
        2 => Just(Op::TakeOver),
        1 => Just(Op::BackUp),
        1 => Just(Op::Restore),
        1 => Just(Op::Notice),
    ]
}

/// Nodes first: a cluster without any publishes nothing.
pub(crate) fn start(limit: usize) -> Model {
    let mut model = Model::new(limit);
    for node in 0..2 {
        model.node(node, Some(node));
    }
    model
}

pub(crate) fn happen(model: &mut Model, op: &Op) {
    match op {
        Op::Pod(pod) => model.pod(pod.facts()),
        Op::PodGone(name) => model.pod_gone(&format!("pod-{name}")),
        Op::Service(service) => model.service(service.facts()),
        Op::ServiceGone(name) => model.service_gone(&format!("svc-{name}")),
        Op::Node(name, zone) => model.node(*name, *zone),
        Op::NodeGone(name) => model.node_gone(*name),
        Op::Tamper(at, tamper) => {
            let names: Vec<_> = model.store.keys().cloned().collect();
            if let Some(name) = names.get(usize::from(*at) % names.len().max(1)) {
                tamper_with(model, name, *tamper);
            }
        }
        Op::TamperEndpoints(at, tamper) => {
            let names: Vec<_> = model.endpoints.keys().cloned().collect();
            if let Some(name) = names.get(usize::from(*at) % names.len().max(1)) {
                model.tamper_with_endpoints(name, *tamper);
            }
        }
        Op::Custom(service, custom) => {
            let name = format!("svc-{service}").into();
            // Endpoints without a Service do not matter here.
            if model.services.contains_key(&name) {
                model.custom_endpoints(&name, custom);
            }
        }
        Op::TamperMirrored(at, tamper) => {
            let names: Vec<_> = model.mirrored.keys().cloned().collect();
            if let Some(name) = names.get(usize::from(*at) % names.len().max(1)) {
                model.tamper_with_mirrored(name, *tamper);
            }
        }
        Op::Plan => drop(model.plan()),
        Op::Grant(at) => {
            if !model.pending.is_empty() {
                model.grant(usize::from(*at) % model.pending.len());
            }
        }
        Op::Answer(at, fate) => {
            let out = model.in_flight.keys().chain(model.late.keys());
            let names: Vec<_> = out.cloned().collect();
            if let Some(name) = names.get(usize::from(*at) % names.len().max(1)) {
                model.answer(name, *fate);
            }
        }
        Op::Watch | Op::Relist | Op::RelistEndpoints | Op::RelistMirrored
            if model.stands_by || model.restored => {}
        Op::Watch => {
            if model.watch.is_empty() {
                model.let_wait_end();
            }
            model.watch_one();
        }
        Op::Relist => relist_slices(model),
        Op::RelistEndpoints => relist_endpoints(model),
        Op::RelistMirrored => relist_mirrored(model),
        Op::StandBy => model.stand_by(),
        Op::TakeOver => take_over(model),
        Op::BackUp => model.back_up(),
        Op::Restore => model.restore(),
        Op::Notice => notice(model),
    }
}

/// The watches of slices and Endpoints have ended, and their next lists show versions that are lower than before.
pub(crate) fn notice(model: &mut Model) {
    if model.restored && !model.stands_by {
        model.restored = false;
        model.watch.clear();
        model.forget();
        relist_slices(model);
        relist_endpoints(model);
        relist_mirrored(model);
    }
}

/// A state that stands by begins to write.
pub(crate) fn take_over(model: &mut Model) {
    if std::mem::take(&mut model.stands_by) {
        model.watch.clear();
        model.restored = false;
        relist_slices(model);
        relist_endpoints(model);
        relist_mirrored(model);
    }
}

pub(crate) fn tamper_with(model: &mut Model, name: &str, tamper: Tamper) {
    let mut slice = model.store[name].clone();
    match tamper {
        Tamper::Delete => return model.delete_slice(name),
        Tamper::DropEndpoint => drop(slice.endpoints.pop()),
        Tamper::DoubleEndpoint => slice.endpoints.extend(slice.endpoints.first().cloned()),
        Tamper::WrongAddress => {
            if let Some(endpoint) = slice.endpoints.first_mut() {
                endpoint.addresses = vec!["192.0.2.1".into()];
            }
        }
        Tamper::ExtraLabel => {
            slice.labels = slice.labels.iter().chain([("extra", "1")]).collect::<Labels>();
        }
        Tamper::Disown => {
            slice.meta.owner = Owners::default();
            slice.extras.owners.clear();
        }
        Tamper::SecondOwner => share(&mut slice),
        Tamper::OtherService => slice.meta.service = "svc-0".into(),
        Tamper::OtherPorts => slice.ports = Vec::new().into(),
        Tamper::Copy => return model.copy_slice(name),
    }
    model.put_slice(slice);
}

/// The slice's owners with another Service before them, as a decoder has them.
fn share(slice: &mut SliceFacts) {
    let Some(service) = slice.meta.service.strip_prefix("svc-") else {
        return;
    };
    let uids = [0, 1].map(|generation| Uid::from(format!("svc-{service}-{generation}").as_str()));
    let Some(own) = uids.iter().find(|uid| slice.meta.owner.includes(uid)) else {
        return;
    };
    let reference = |uid: &str| OwnerReference {
        api_version: "v1".into(),
        kind: "Service".into(),
        name: "svc".into(),
        uid: uid.into(),
        controller: None,
        block_owner_deletion: None,
    };
    slice.extras.owners = vec![reference("another"), reference(&own.to_string())];
    slice.meta.owner = Owners::from_iter([Uid::from("another"), own.clone()]);
}

pub(crate) fn relist_slices(model: &mut Model) {
    let of_slices = |event: &WatchEvent| matches!(event, WatchEvent::Seen(_) | WatchEvent::Gone(..));
    model.watch.retain(|event| !of_slices(event));
    model.epoch = model.epoch.wrapping_add(1);
    model.state.begin_list(Kind::Slice);
    // Objects that were due before must wait: nothing leaves on half a picture.
    // Each has one turn: one whose last request is still on its way goes on waiting.
    for _ in 0..model.pending.len() {
        let request = model.grant(0);
        assert!(
            matches!(request, None | Some(Request::Fetch | Request::Probe)),
            "{request:?}"
        );
    }
    let slices: Vec<SliceFacts> = model
        .store
        .values()
        .filter(|slice| model::is_ours(slice))
        .cloned()
        .collect();
    for slice in slices {
        model.state.apply_output(OutputEvent::slice(slice, model.epoch));
        assert_eq!(model.plan(), [], "nothing is planned while a list arrives");
    }
    model
        .state
        .end_list(Kind::Slice, model.epoch, model.version, &mut model.nodes);
}

pub(crate) fn relist_endpoints(model: &mut Model) {
    let of_endpoints =
        |event: &WatchEvent| matches!(event, WatchEvent::Endpoints(_) | WatchEvent::EndpointsGone(..));
    model.watch.retain(|event| !of_endpoints(event));
    model.epoch = model.epoch.wrapping_add(1);
    model.state.begin_list(Kind::Endpoints);
    for endpoints in model.endpoints.clone().into_values() {
        model
            .state
            .apply_output(OutputEvent::endpoints(endpoints, model.epoch));
    }
    assert_eq!(model.plan(), [], "nothing is planned while a list arrives");
    model
        .state
        .end_list(Kind::Endpoints, model.epoch, model.version, &mut model.nodes);
}

pub(crate) fn relist_mirrored(model: &mut Model) {
    let of_mirrored =
        |event: &WatchEvent| matches!(event, WatchEvent::Mirrored(_) | WatchEvent::MirroredGone(..));
    model.watch.retain(|event| !of_mirrored(event));
    model.epoch = model.epoch.wrapping_add(1);
    model.state.begin_list(Kind::Mirrored);
    let slices = model.mirrored.values().filter(|slice| slice.is_mirrored());
    for slice in slices.cloned().collect::<Vec<_>>() {
        model
            .state
            .apply_output(OutputEvent::mirrored(slice, model.epoch));
    }
    assert_eq!(model.plan(), [], "nothing is planned while a list arrives");
    model
        .state
        .end_list(Kind::Mirrored, model.epoch, model.version, &mut model.nodes);
}
