//! The kinds that are listed and watched, and how their objects are handed on.

use super::handler::WatchHandler;
use crate::cluster::codec::{Decode, NamedNode, Namespaced};
use crate::cluster::http::Form;
use crate::core::facts::{EndpointsFacts, EndpointsMeta, PodFacts, ServiceFacts, SliceFacts, SliceMeta};
use crate::core::inbox::{Change, Delivery};
use crate::core::namespace::{EndpointsEvent, Kind, ObjectEvent, OutputEvent, SliceEvent};

/// The pods that lists show: none in a terminal phase. A watch must not leave these out, since it would show a pod that
/// leaves a field selection as it was before.
const LIVE_PODS: &str = "&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
/// Managed slices. One whose managed-by label changes leaves the selection.
const SLICES: &str =
    "&labelSelector=endpointslice.kubernetes.io%2Fmanaged-by%3Dendpointslice-controller.k8s.io";
/// Slices that mirror Endpoints.
const MIRRORED: &str =
    "&labelSelector=endpointslice.kubernetes.io%2Fmanaged-by%3Dendpointslicemirroring-controller.k8s.io";
/// Slices of all controllers that publish for Services: those of others beside ours are told of.
pub(super) const ALL_SLICES: &str = "&labelSelector=endpointslice.kubernetes.io%2Fmanaged-by+in+%28endpointd.io%2C\
    endpointslice-controller.k8s.io%2Cendpointslicemirroring-controller.k8s.io%29";

/// The objects that are listed and watched, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    /// Their kind.
    pub(crate) kind: Kind,
    /// The form that a watch asks for. Lists always show whole objects, since outputs may be adopted.
    pub(super) watched: Form,
    /// Set if a list as the beginning of a watch has all that a plain list has.
    pub(super) streams: bool,
    /// Query parameters that restrict lists.
    pub(super) list: &'static str,
    /// Query parameters that restrict watches.
    pub(super) watch: &'static str,
}

impl Source {
    /// Returns the source of a kind. `custom` says whether slices of all controllers are followed. `whole` has outputs watched
    /// whole: their metadata is enough to tell our own writes from others', but where another controller does the
    /// writing, each of its writes would need a refetch.
    pub(crate) fn of(kind: Kind, custom: bool, whole: bool) -> Self {
        let (list, watch) = match kind {
            Kind::Pod => (LIVE_PODS, ""),
            Kind::Slice if custom => (ALL_SLICES, ALL_SLICES),
            Kind::Slice => (SLICES, SLICES),
            Kind::Mirrored => (MIRRORED, MIRRORED),
            // All Endpoints objects, since the one with the name of a managed Service is managed, no matter which client
            // created it.
            Kind::Node | Kind::Service | Kind::Endpoints => ("", ""),
        };
        Self {
            kind,
            watched: if kind.is_output() && !whole {
                Form::Metadata
            } else {
                Form::Whole
            },
            // See `ServiceFacts::keep_families`.
            streams: kind != Kind::Service,
            list,
            watch,
        }
    }
}

/// Marks an object as deleted, as of a version.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeletedAt(pub(super) u64);

/// An object of a list or a watch.
pub(super) trait Item: Decode {
    /// Hands on objects of a kind in order, each with whether it was deleted. `epoch` is the number of the list that they are of, or follow.
    fn hand_on(handler: &dyn WatchHandler, kind: Kind, items: Vec<(Self, Option<DeletedAt>)>, epoch: u8);
}

impl Item for NamedNode {
    fn hand_on(handler: &dyn WatchHandler, _: Kind, items: Vec<(Self, Option<DeletedAt>)>, epoch: u8) {
        for (node, gone) in items {
            match gone {
                None => handler.node_applied(&node.name, node.facts, &node.capacity, epoch),
                Some(_) => handler.node_gone(&node.name),
            }
        }
    }
}

impl<T: Changing> Item for Namespaced<T>
where
    Self: Decode,
{
    fn hand_on(handler: &dyn WatchHandler, kind: Kind, items: Vec<(Self, Option<DeletedAt>)>, epoch: u8) {
        let deliveries = items.into_iter().map(|(item, gone)| Delivery {
            namespace: item.namespace,
            change: item.facts.change(kind, gone, epoch),
        });
        handler.deliver(deliveries.collect());
    }
}

/// Facts of an object in a namespace.
pub(super) trait Changing {
    /// Returns the change that the object of this kind means for its namespace.
    fn change(self, kind: Kind, gone: Option<DeletedAt>, epoch: u8) -> Change;
}

impl Changing for PodFacts {
    fn change(self, _: Kind, gone: Option<DeletedAt>, epoch: u8) -> Change {
        match gone {
            None => Change::Pod(self, epoch),
            Some(_) => Change::PodGone(self.name),
        }
    }
}

impl Changing for ServiceFacts {
    fn change(self, _: Kind, gone: Option<DeletedAt>, epoch: u8) -> Change {
        match gone {
            None => Change::Service(self, epoch),
            Some(_) => Change::ServiceGone(self.name),
        }
    }
}

impl Changing for SliceFacts {
    fn change(self, kind: Kind, gone: Option<DeletedAt>, epoch: u8) -> Change {
        of_slice(
            kind,
            match gone {
                None => ObjectEvent::Whole(Box::new(self), epoch),
                Some(DeletedAt(version)) => ObjectEvent::Gone(self.meta.name, version),
            },
        )
    }
}

impl Changing for SliceMeta {
    fn change(self, kind: Kind, gone: Option<DeletedAt>, epoch: u8) -> Change {
        of_slice(
            kind,
            match gone {
                None => ObjectEvent::Meta(self, epoch),
                Some(DeletedAt(version)) => ObjectEvent::Gone(self.name, version),
            },
        )
    }
}

fn of_slice(kind: Kind, event: SliceEvent) -> Change {
    Change::Output(match kind {
        Kind::Mirrored => OutputEvent::Mirrored(event),
        _ => OutputEvent::Slice(event),
    })
}

impl Changing for EndpointsFacts {
    fn change(self, _: Kind, gone: Option<DeletedAt>, epoch: u8) -> Change {
        Change::Output(OutputEvent::Endpoints(match gone {
            None => EndpointsEvent::Whole(Box::new(self), epoch),
            Some(DeletedAt(version)) => EndpointsEvent::Gone(self.meta.name.as_ref().into(), version),
        }))
    }
}

impl Changing for EndpointsMeta {
    fn change(self, _: Kind, gone: Option<DeletedAt>, epoch: u8) -> Change {
        Change::Output(OutputEvent::Endpoints(match gone {
            None => EndpointsEvent::Meta(self, epoch),
            Some(DeletedAt(version)) => EndpointsEvent::Gone(self.name.as_ref().into(), version),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::facts::{CUSTOM_MANAGED_BY, LABEL_MANAGED_BY, MANAGED_BY, MIRRORED_BY};

    #[test]
    fn slices_are_selected_by_the_labels_of_their_controllers() {
        let all = format!("+in+({CUSTOM_MANAGED_BY},{MANAGED_BY},{MIRRORED_BY})");
        for (kind, custom, controllers) in [
            (Kind::Slice, false, format!("={MANAGED_BY}")),
            (Kind::Slice, true, all),
            (Kind::Mirrored, false, format!("={MIRRORED_BY}")),
        ] {
            let source = Source::of(kind, custom, false);
            let plain = percent_encoding::percent_decode_str(source.list).decode_utf8_lossy();
            assert_eq!(plain, format!("&labelSelector={LABEL_MANAGED_BY}{controllers}"));
            assert_eq!(source.watch, source.list);
        }
    }
}
