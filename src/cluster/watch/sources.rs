//! The kinds that are listed and watched, and what becomes of their objects.

use super::handler::WatchHandler;
use crate::cluster::decode::{Decode, NamedNode, Namespaced};
use crate::cluster::http;
use crate::core::facts::{EndpointsFacts, EndpointsMeta, PodFacts, ServiceFacts, SliceFacts, SliceMeta};
use crate::core::inbox::{Change, Delivery};
use crate::core::namespace::Kind;

/// A kind that is listed and watched.
pub(crate) trait Source: Send + Sync + 'static {
    /// Which.
    const KIND: Kind;
    /// What a watch asks for.
    const ACCEPT: &'static str = http::JSON;
    /// Whether it is what we write: listed when what that is made of has been.
    const OUTPUT: bool = false;
    /// Restricts lists.
    const LIST: &'static str = "";
    /// Restricts watches.
    const WATCH: &'static str = "";
    /// What lists consist of.
    type Listed: Decode;
    /// What watches consist of.
    type Watched: Decode;

    /// Hands on what a list showed: each with whether it has gone while it was listed, in order.
    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<Gone>)>, epoch: u8);
    /// Hands on what a watch showed: each with whether it is gone, in order.
    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<Gone>)>, epoch: u8);
}

/// That an object is gone, as of a version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone(pub(super) u64);

/// Nodes.
#[derive(Debug)]
pub(crate) struct Nodes;

impl Source for Nodes {
    const KIND: Kind = Kind::Node;
    type Listed = NamedNode;
    type Watched = NamedNode;

    fn listed(handler: &dyn WatchHandler, items: Vec<(NamedNode, Option<Gone>)>, epoch: u8) {
        Self::watched(handler, items, epoch);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(NamedNode, Option<Gone>)>, epoch: u8) {
        for (node, gone) in items {
            match gone {
                None => handler.node_applied(&node.name, node.facts, &node.capacity, epoch),
                Some(_) => handler.node_gone(&node.name),
            }
        }
    }
}

/// Pods. The list leaves out those in a terminal phase; the watch must not, since a pod that leaves a
/// selection is shown as it was before.
#[derive(Debug)]
pub(crate) struct Pods;

impl Source for Pods {
    const KIND: Kind = Kind::Pod;
    const LIST: &'static str = "&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
    type Listed = Namespaced<PodFacts>;
    type Watched = Namespaced<PodFacts>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<Gone>)>, epoch: u8) {
        Self::watched(handler, items, epoch);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<Gone>)>, epoch: u8) {
        deliver(handler, items, |pod, gone| match gone {
            None => Change::Pod(pod, epoch),
            Some(_) => Change::PodGone(pod.name),
        });
    }
}

/// Services.
#[derive(Debug)]
pub(crate) struct Services;

impl Source for Services {
    const KIND: Kind = Kind::Service;
    type Listed = Namespaced<ServiceFacts>;
    type Watched = Namespaced<ServiceFacts>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<Gone>)>, epoch: u8) {
        Self::watched(handler, items, epoch);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<Gone>)>, epoch: u8) {
        deliver(handler, items, |service, gone| match gone {
            None => Change::Service(service, epoch),
            Some(_) => Change::ServiceGone(service.name),
        });
    }
}

/// Our slices: listed whole, since they are to be taken over; watched by their metadata, which is enough to
/// tell our own writes from those of others. A slice whose managed-by label changes leaves the selection.
#[derive(Debug)]
pub(crate) struct Slices;

impl Source for Slices {
    const KIND: Kind = Kind::Slice;
    const OUTPUT: bool = true;
    const ACCEPT: &'static str = http::METADATA;
    const LIST: &'static str =
        "&labelSelector=endpointslice.kubernetes.io%2Fmanaged-by%3Dendpointslice-controller.k8s.io";
    const WATCH: &'static str = Self::LIST;
    type Listed = Namespaced<SliceFacts>;
    type Watched = Namespaced<SliceMeta>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<Gone>)>, epoch: u8) {
        deliver(handler, items, |slice, gone| match gone {
            None => Change::Slice(Box::new(slice), epoch),
            Some(Gone(version)) => Change::SliceGone(slice.meta.name, version),
        });
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<Gone>)>, epoch: u8) {
        deliver(handler, items, |slice, gone| match gone {
            None => Change::SliceMeta(slice, epoch),
            Some(Gone(version)) => Change::SliceGone(slice.name, version),
        });
    }
}

/// Endpoints: all of them, since the object of a managed Service's name is ours whoever made it. Listed whole,
/// watched by their metadata, as slices are.
#[derive(Debug)]
pub(crate) struct Endpoints;

impl Source for Endpoints {
    const KIND: Kind = Kind::Endpoints;
    const OUTPUT: bool = true;
    const ACCEPT: &'static str = http::METADATA;
    type Listed = Namespaced<EndpointsFacts>;
    type Watched = Namespaced<EndpointsMeta>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<Gone>)>, epoch: u8) {
        deliver(handler, items, |endpoints, gone| match gone {
            None => Change::Endpoints(Box::new(endpoints), epoch),
            Some(Gone(version)) => Change::EndpointsGone(endpoints.meta.name, version),
        });
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<Gone>)>, epoch: u8) {
        deliver(handler, items, |endpoints, gone| match gone {
            None => Change::EndpointsMeta(endpoints, epoch),
            Some(Gone(version)) => Change::EndpointsGone(endpoints.name, version),
        });
    }
}

/// Slices as [`Slices`], watched whole: where every write is another's, each would have to be fetched.
#[derive(Debug)]
pub(crate) struct WholeSlices;

impl Source for WholeSlices {
    const KIND: Kind = Slices::KIND;
    const OUTPUT: bool = true;
    const LIST: &'static str = Slices::LIST;
    const WATCH: &'static str = Slices::WATCH;
    type Listed = Namespaced<SliceFacts>;
    type Watched = Namespaced<SliceFacts>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<Gone>)>, epoch: u8) {
        Slices::listed(handler, items, epoch);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<Gone>)>, epoch: u8) {
        Slices::listed(handler, items, epoch);
    }
}

/// As [`Endpoints`], watched whole.
#[derive(Debug)]
pub(crate) struct WholeEndpoints;

impl Source for WholeEndpoints {
    const KIND: Kind = Endpoints::KIND;
    const OUTPUT: bool = true;
    type Listed = Namespaced<EndpointsFacts>;
    type Watched = Namespaced<EndpointsFacts>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<Gone>)>, epoch: u8) {
        Endpoints::listed(handler, items, epoch);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<Gone>)>, epoch: u8) {
        Endpoints::listed(handler, items, epoch);
    }
}

fn deliver<T>(
    handler: &dyn WatchHandler,
    items: Vec<(Namespaced<T>, Option<Gone>)>,
    event: impl Fn(T, Option<Gone>) -> Change,
) {
    let deliveries = items.into_iter();
    let deliveries = deliveries.map(|(item, gone)| Delivery {
        namespace: item.namespace,
        event: event(item.facts, gone),
    });
    handler.deliver(deliveries.collect());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::facts::{LABEL_MANAGED_BY, MANAGED_BY};

    #[test]
    fn the_selector_of_slices_is_our_label() {
        let plain = Slices::LIST.replace("%2F", "/").replace("%3D", "=");
        assert_eq!(plain, format!("&labelSelector={LABEL_MANAGED_BY}={MANAGED_BY}"));
    }
}
