//! The kinds that are listed and watched, and how their objects are handed on.

use super::handler::WatchHandler;
use crate::cluster::codec::{Decode, NamedNode, Namespaced};
use crate::cluster::encodings::Form;
use crate::core::facts::{EndpointsFacts, EndpointsMeta, PodFacts, ServiceFacts, SliceFacts, SliceMeta};
use crate::core::inbox::{Change, Delivery};
use crate::core::namespace::{Kind, ObjectEvent, OutputEvent};
use tokio::time::Instant;

/// A kind that is listed and watched.
pub(crate) trait Source: Send + Sync + 'static {
    /// The kind.
    const KIND: Kind;
    /// The form that a watch asks for.
    const WATCHED: Form = Form::Whole;
    /// Set for outputs, which are listed once the inputs have been.
    const OUTPUT: bool = false;
    /// Set if a list as the beginning of a watch has all that a plain list has.
    const STREAMS: bool = true;
    /// Query parameters that restrict lists.
    const LIST: &'static str = "";
    /// Query parameters that restrict watches.
    const WATCH: &'static str = "";
    /// The items of lists.
    type Listed: Decode;
    /// The items of watches.
    type Watched: Decode;

    /// Hands on the items of a list in order, each with whether it was deleted while it was listed.
    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<DeletedAt>)>, seen: Seen);
    /// Hands on the items of a watch in order, each with whether it was deleted.
    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<DeletedAt>)>, seen: Seen);
}

/// The list or watch that shows objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The number of the list.
    pub(super) epoch: u8,
    /// When the bytes arrived that show them.
    pub(super) at: Instant,
}

impl Seen {
    /// A list of which a part was just read.
    pub(super) fn now(epoch: u8) -> Self {
        let at = Instant::now();
        Self { epoch, at }
    }
}

/// Marks an object as deleted, as of a version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeletedAt(pub(super) u64);

/// Nodes.
#[derive(Debug)]
pub(crate) struct Nodes;

impl Source for Nodes {
    const KIND: Kind = Kind::Node;
    type Listed = NamedNode;
    type Watched = NamedNode;

    fn listed(handler: &dyn WatchHandler, items: Vec<(NamedNode, Option<DeletedAt>)>, seen: Seen) {
        Self::watched(handler, items, seen);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(NamedNode, Option<DeletedAt>)>, seen: Seen) {
        for (node, gone) in items {
            match gone {
                None => handler.node_applied(&node.name, node.facts, &node.capacity, seen.epoch),
                Some(_) => handler.node_gone(&node.name),
            }
        }
    }
}

/// Pods. The list leaves out pods in a terminal phase. The watch must not: a pod that leaves a field selection is shown
/// as it was before.
#[derive(Debug)]
pub(crate) struct Pods;

impl Source for Pods {
    const KIND: Kind = Kind::Pod;
    const LIST: &'static str = "&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
    type Listed = Namespaced<PodFacts>;
    type Watched = Namespaced<PodFacts>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<DeletedAt>)>, seen: Seen) {
        Self::watched(handler, items, seen);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<DeletedAt>)>, seen: Seen) {
        deliver(handler, seen, items, |pod, gone| match gone {
            None => Change::Pod(pod, seen.epoch),
            Some(_) => Change::PodGone(pod.name),
        });
    }
}

/// Services.
#[derive(Debug)]
pub(crate) struct Services;

impl Source for Services {
    const KIND: Kind = Kind::Service;
    /// See [`ServiceFacts::keep_families`].
    const STREAMS: bool = false;
    type Listed = Namespaced<ServiceFacts>;
    type Watched = Namespaced<ServiceFacts>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<DeletedAt>)>, seen: Seen) {
        Self::watched(handler, items, seen);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<DeletedAt>)>, seen: Seen) {
        deliver(handler, seen, items, |service, gone| match gone {
            None => Change::Service(service, seen.epoch),
            Some(_) => Change::ServiceGone(service.name),
        });
    }
}

/// Managed slices. Lists show them whole, since they may be adopted; the watch shows their metadata, which is enough to
/// tell our own writes from others'. A slice whose managed-by label changes leaves the selection.
#[derive(Debug)]
pub(crate) struct Slices;

impl Source for Slices {
    const KIND: Kind = Kind::Slice;
    const OUTPUT: bool = true;
    const WATCHED: Form = Form::Metadata;
    const LIST: &'static str =
        "&labelSelector=endpointslice.kubernetes.io%2Fmanaged-by%3Dendpointslice-controller.k8s.io";
    const WATCH: &'static str = Self::LIST;
    type Listed = Namespaced<SliceFacts>;
    type Watched = Namespaced<SliceMeta>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<DeletedAt>)>, seen: Seen) {
        deliver(handler, seen, items, |slice, gone| match gone {
            None => Change::Output(OutputEvent::Slice(ObjectEvent::Whole(
                Box::new(slice),
                seen.epoch,
            ))),
            Some(DeletedAt(version)) => Change::Output(OutputEvent::Slice(ObjectEvent::Gone(
                slice.meta.name.into(),
                version,
            ))),
        });
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<DeletedAt>)>, seen: Seen) {
        deliver(handler, seen, items, |slice, gone| match gone {
            None => Change::Output(OutputEvent::Slice(ObjectEvent::Meta(slice, seen.epoch))),
            Some(DeletedAt(version)) => {
                Change::Output(OutputEvent::Slice(ObjectEvent::Gone(slice.name.into(), version)))
            }
        });
    }
}

/// All Endpoints objects, since the one with the name of a managed Service is managed, no matter which client created
/// it. Listed whole, watched by their metadata, as slices are.
#[derive(Debug)]
pub(crate) struct Endpoints;

impl Source for Endpoints {
    const KIND: Kind = Kind::Endpoints;
    const OUTPUT: bool = true;
    const WATCHED: Form = Form::Metadata;
    type Listed = Namespaced<EndpointsFacts>;
    type Watched = Namespaced<EndpointsMeta>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<DeletedAt>)>, seen: Seen) {
        deliver(handler, seen, items, |endpoints, gone| match gone {
            None => Change::Output(OutputEvent::Endpoints(ObjectEvent::Whole(
                Box::new(endpoints),
                seen.epoch,
            ))),
            Some(DeletedAt(version)) => Change::Output(OutputEvent::Endpoints(ObjectEvent::Gone(
                endpoints.meta.name.into(),
                version,
            ))),
        });
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<DeletedAt>)>, seen: Seen) {
        deliver(handler, seen, items, |endpoints, gone| match gone {
            None => Change::Output(OutputEvent::Endpoints(ObjectEvent::Meta(endpoints, seen.epoch))),
            Some(DeletedAt(version)) => Change::Output(OutputEvent::Endpoints(ObjectEvent::Gone(
                endpoints.name.into(),
                version,
            ))),
        });
    }
}

/// Slices that mirror Endpoints, listed and watched as [`Slices`] are.
#[derive(Debug)]
pub(crate) struct Mirrored;

impl Source for Mirrored {
    const KIND: Kind = Kind::Mirrored;
    const OUTPUT: bool = true;
    const WATCHED: Form = Form::Metadata;
    const LIST: &'static str =
        "&labelSelector=endpointslice.kubernetes.io%2Fmanaged-by%3Dendpointslicemirroring-controller.k8s.io";
    const WATCH: &'static str = Self::LIST;
    type Listed = Namespaced<SliceFacts>;
    type Watched = Namespaced<SliceMeta>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<DeletedAt>)>, seen: Seen) {
        deliver(handler, seen, items, |slice, gone| match gone {
            None => Change::Output(OutputEvent::Mirrored(ObjectEvent::Whole(
                Box::new(slice),
                seen.epoch,
            ))),
            Some(DeletedAt(version)) => Change::Output(OutputEvent::Mirrored(ObjectEvent::Gone(
                slice.meta.name.into(),
                version,
            ))),
        });
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<DeletedAt>)>, seen: Seen) {
        deliver(handler, seen, items, |slice, gone| match gone {
            None => Change::Output(OutputEvent::Mirrored(ObjectEvent::Meta(slice, seen.epoch))),
            Some(DeletedAt(version)) => Change::Output(OutputEvent::Mirrored(ObjectEvent::Gone(
                slice.name.into(),
                version,
            ))),
        });
    }
}

/// Slices of all controllers that publish for Services: those of others beside ours are told of.
#[derive(Debug)]
pub(crate) struct AllSlices;

impl Source for AllSlices {
    const KIND: Kind = Slices::KIND;
    const OUTPUT: bool = true;
    const WATCHED: Form = Slices::WATCHED;
    const LIST: &'static str = "&labelSelector=endpointslice.kubernetes.io%2Fmanaged-by+in+%28endpointd.io%2C\
        endpointslice-controller.k8s.io%2Cendpointslicemirroring-controller.k8s.io%29";
    const WATCH: &'static str = Self::LIST;
    type Listed = Namespaced<SliceFacts>;
    type Watched = Namespaced<SliceMeta>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<DeletedAt>)>, seen: Seen) {
        Slices::listed(handler, items, seen);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<DeletedAt>)>, seen: Seen) {
        Slices::watched(handler, items, seen);
    }
}

/// Slices as [`AllSlices`], watched whole.
#[derive(Debug)]
pub(crate) struct WholeAllSlices;

impl Source for WholeAllSlices {
    const KIND: Kind = Slices::KIND;
    const OUTPUT: bool = true;
    const LIST: &'static str = AllSlices::LIST;
    const WATCH: &'static str = AllSlices::WATCH;
    type Listed = Namespaced<SliceFacts>;
    type Watched = Namespaced<SliceFacts>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<DeletedAt>)>, seen: Seen) {
        Slices::listed(handler, items, seen);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<DeletedAt>)>, seen: Seen) {
        Slices::listed(handler, items, seen);
    }
}

/// Slices as [`Slices`], watched whole: where another controller does the writing, each write would need a refetch.
#[derive(Debug)]
pub(crate) struct WholeSlices;

impl Source for WholeSlices {
    const KIND: Kind = Slices::KIND;
    const OUTPUT: bool = true;
    const LIST: &'static str = Slices::LIST;
    const WATCH: &'static str = Slices::WATCH;
    type Listed = Namespaced<SliceFacts>;
    type Watched = Namespaced<SliceFacts>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<DeletedAt>)>, seen: Seen) {
        Slices::listed(handler, items, seen);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<DeletedAt>)>, seen: Seen) {
        Slices::listed(handler, items, seen);
    }
}

/// Endpoints as [`Endpoints`], watched whole.
#[derive(Debug)]
pub(crate) struct WholeEndpoints;

impl Source for WholeEndpoints {
    const KIND: Kind = Endpoints::KIND;
    const OUTPUT: bool = true;
    type Listed = Namespaced<EndpointsFacts>;
    type Watched = Namespaced<EndpointsFacts>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<DeletedAt>)>, seen: Seen) {
        Endpoints::listed(handler, items, seen);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<DeletedAt>)>, seen: Seen) {
        Endpoints::listed(handler, items, seen);
    }
}

/// Slices as [`Mirrored`], watched whole.
#[derive(Debug)]
pub(crate) struct WholeMirrored;

impl Source for WholeMirrored {
    const KIND: Kind = Mirrored::KIND;
    const OUTPUT: bool = true;
    const LIST: &'static str = Mirrored::LIST;
    const WATCH: &'static str = Mirrored::WATCH;
    type Listed = Namespaced<SliceFacts>;
    type Watched = Namespaced<SliceFacts>;

    fn listed(handler: &dyn WatchHandler, items: Vec<(Self::Listed, Option<DeletedAt>)>, seen: Seen) {
        Mirrored::listed(handler, items, seen);
    }

    fn watched(handler: &dyn WatchHandler, items: Vec<(Self::Watched, Option<DeletedAt>)>, seen: Seen) {
        Mirrored::listed(handler, items, seen);
    }
}

fn deliver<T>(
    handler: &dyn WatchHandler,
    seen: Seen,
    items: Vec<(Namespaced<T>, Option<DeletedAt>)>,
    event: impl Fn(T, Option<DeletedAt>) -> Change,
) {
    let deliveries = items.into_iter();
    let deliveries = deliveries.map(|(item, gone)| Delivery {
        namespace: item.namespace,
        event: event(item.facts, gone),
    });
    handler.deliver(deliveries.collect(), seen.at);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::facts::{LABEL_MANAGED_BY, MANAGED_BY, MIRRORED_BY};

    #[test]
    fn the_selector_of_slices_is_our_label() {
        for (list, controller) in [(Slices::LIST, MANAGED_BY), (Mirrored::LIST, MIRRORED_BY)] {
            let plain = list.replace("%2F", "/").replace("%3D", "=");
            assert_eq!(plain, format!("&labelSelector={LABEL_MANAGED_BY}={controller}"));
        }
    }
}
