//! Pods with a Service of their own, as sandboxes, notebooks and previews are, for benchmarks and for the tests that count
//! what one of them costs.

use crate::fixtures::{pod, service};
use endpointd::core::address::Family;
use endpointd::core::facts::{EndpointFacts, Extras, Manager, PodFacts, ServiceFacts, SliceFacts, SliceMeta};
use endpointd::core::ids::Uid;
use endpointd::core::outputs::Outputs;
use endpointd::core::ports::SlicePort;

/// Everything but mirrors: a Service that is gone costs nothing there.
pub(crate) const OUTPUTS: Outputs = Outputs {
    slices: true,
    endpoints: true,
    mirrored: false,
    custom: false,
};

pub(crate) fn name(number: u32) -> String {
    format!("sandbox-{number:06}")
}

pub(crate) fn pod_of(number: u32, ready: bool) -> PodFacts {
    pod(number, &[("sandbox", &name(number))], ready)
}

/// A headless Service, as such platforms make them.
pub(crate) fn service_of(number: u32) -> ServiceFacts {
    ServiceFacts {
        uid: Uid::from(format!("{number:08x}-0000-4000-8000-000000000001").as_str()),
        ..service(&name(number), &[("sandbox", &name(number))])
    }
}

/// A slice with the endpoint of one of them, as another process has written it.
pub(crate) fn slice_of(number: u32) -> SliceFacts {
    let service = service_of(number);
    let pod = pod_of(number, true);
    let manager = Manager::Builtin;
    SliceFacts {
        meta: SliceMeta {
            name: format!("{}-abcde", service.name).into(),
            service: service.name.clone(),
            manager,
            uid: Uid::from(format!("{number:08x}-0000-4000-8000-000000000002").as_str()),
            version: u64::from(number) + 1,
            owner: service.uid.into(),
            deleting: false,
        },
        created: None,
        labels: [
            ("kubernetes.io/service-name", &*service.name),
            ("endpointslice.kubernetes.io/managed-by", manager.as_str()),
            ("service.kubernetes.io/headless", ""),
        ]
        .into_iter()
        .collect(),
        extras: Extras::default(),
        family: Some(Family::V4),
        ports: std::iter::empty::<SlicePort>().collect(),
        endpoints: vec![EndpointFacts {
            addresses: vec![pod.v4.expect("it has one").to_string().into()],
            ready: Some(true),
            serving: Some(true),
            terminating: Some(false),
            pod_uid: Some(pod.uid),
            ..EndpointFacts::default()
        }],
    }
}
