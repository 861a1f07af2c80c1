//! Published objects, as lists and watches show that the API server has them; and the ends of lists, of whatever kind.

use super::NamespaceState;
use crate::core::namespace::lifecycle::Lifecycle as _;
use crate::core::namespace::rounds::{Round, Sweep};
use crate::core::namespace::{Kind, OutputEvent};
use crate::core::nodes::NodeDirectory;

impl NamespaceState {
    // === outputs, as the API server has them ===

    /// Applies an event of an object.
    pub fn apply_output(&mut self, event: OutputEvent) {
        match event {
            OutputEvent::Slice(event) => self.placement().shown(event),
            OutputEvent::Endpoints(event) => self.endpoints_desk().shown(event),
            OutputEvent::Mirrored(event) => self.mirroring().shown(event),
        }
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
