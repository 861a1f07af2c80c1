//! Published objects, as lists and watches show that the API server has them; and the ends of lists, of whatever kind.

use super::NamespaceState;
use crate::core::facts::{EndpointsFacts, EndpointsMeta, SliceFacts, SliceMeta};
use crate::core::namespace::Kind;
use crate::core::namespace::lifecycle::Lifecycle as _;
use crate::core::namespace::rounds::{Round, Sweep};
use crate::core::nodes::NodeDirectory;

impl NamespaceState {
    // === outputs, as the API server has them ===

    /// Applies a whole slice from the list of an epoch.
    pub fn apply_slice(&mut self, facts: SliceFacts, epoch: u8) {
        self.placement().listed(facts, epoch);
        self.pass_on();
    }

    /// Applies the metadata of a slice from a watch.
    pub fn apply_slice_meta(&mut self, meta: &SliceMeta, epoch: u8) {
        self.placement().watched(meta, epoch);
        self.pass_on();
    }

    /// Handles a slice that is no longer ours, as of a resourceVersion.
    pub fn slice_gone(&mut self, name: &str, version: u64) {
        self.placement().vanished(name, version);
        self.pass_on();
    }

    /// Applies a whole object from the list of an epoch.
    pub fn apply_endpoints(&mut self, facts: EndpointsFacts, epoch: u8) {
        self.endpoints_desk().listed(facts, epoch);
        self.pass_on();
    }

    /// Applies the metadata of an object from a watch.
    pub fn apply_endpoints_meta(&mut self, meta: &EndpointsMeta, epoch: u8) {
        self.endpoints_desk().watched(meta, epoch);
        self.pass_on();
    }

    /// Handles an object that is gone, as of a resourceVersion.
    pub fn endpoints_gone(&mut self, name: &str, version: u64) {
        self.endpoints_desk().vanished(name, version);
        self.pass_on();
    }

    /// Applies a whole slice that mirrors Endpoints, from the list of an epoch.
    pub fn apply_mirrored(&mut self, facts: SliceFacts, epoch: u8) {
        self.mirroring().listed(facts, epoch);
        self.pass_on();
    }

    /// Applies the metadata of a slice that mirrors Endpoints, from a watch.
    pub fn apply_mirrored_meta(&mut self, meta: &SliceMeta, epoch: u8) {
        self.mirroring().watched(meta, epoch);
        self.pass_on();
    }

    /// Handles a slice that no longer mirrors Endpoints, as of a resourceVersion.
    pub fn mirrored_gone(&mut self, name: &str, version: u64) {
        self.mirroring().vanished(name, version);
        self.pass_on();
    }

    // === lists ===

    /// Marks a list as pending, since another one is about to arrive: nothing is planned or written until it is
    /// complete.
    pub fn begin_list(&mut self, kind: Kind) {
        self.ctx.pending_lists.set(kind);
    }

    /// Completes the list of an epoch: what it did not show is gone. Slices that were written after it was taken
    /// (their resourceVersion is above the list's) are not in it, and stay.
    pub fn end_list(&mut self, kind: Kind, epoch: u8, version: u64, nodes: &mut dyn NodeDirectory) {
        for name in self.unlisted(kind, epoch) {
            self.begin_unlisted(kind, &name, nodes);
            self.finish_passes();
        }
        self.finish_list(kind, epoch, version);
        self.finish_passes();
    }

    /// Returns the names of the pods or Services that the list of an epoch did not show; empty for other kinds.
    pub fn unlisted(&self, kind: Kind, epoch: u8) -> Vec<Box<str>> {
        match kind {
            Kind::Pod => self.inputs.unlisted(epoch),
            Kind::Service => self.services.unlisted(epoch),
            Kind::Node | Kind::Slice | Kind::Endpoints | Kind::Mirrored => Vec::new(),
        }
    }

    /// Returns some of [`Self::unlisted`], and where to go on if there may be more. Looks at some Services, from a number on;
    /// at all pods; and at nothing for other kinds.
    pub(crate) fn some_unlisted(&self, kind: Kind, epoch: u8, from: usize) -> (Vec<Box<str>>, Option<usize>) {
        match kind {
            Kind::Service => self.services.some_unlisted(epoch, from),
            _ => (self.unlisted(kind, epoch), None),
        }
    }

    /// Removes one of [`Self::unlisted`], but leaves the visits to its pods to [`Self::step_passes`].
    pub fn begin_unlisted(&mut self, kind: Kind, name: &str, nodes: &mut dyn NodeDirectory) {
        match kind {
            Kind::Pod => self.remove_pod(name, nodes),
            Kind::Service => self.begin_removal(name),
            Kind::Node | Kind::Slice | Kind::Endpoints | Kind::Mirrored => {}
        }
    }

    /// Does the rest of [`Self::end_list`], once everything that [`Self::unlisted`] names is removed, but leaves the visits to
    /// objects to [`Self::step_passes`].
    pub fn finish_list(&mut self, kind: Kind, epoch: u8, version: u64) {
        let sweep = Sweep { kind, epoch, version };
        self.services.queue(Round::Sweep(sweep, 0));
    }
}
