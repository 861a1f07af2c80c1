//! Slices for an annotation, which give way to others when it is gone: none goes before something takes its place, and none
//! is left behind.

use super::{Stage, WAIT};
use endpointd::core::facts::{Manager, SliceFacts};
use std::collections::BTreeSet;

impl Stage<'_> {
    /// When all is quiet, slices for an annotation are as they should be. Without the annotation they have given way, unless
    /// those that take their place hold nothing that is ready.
    pub(super) fn check_custom(&self) -> Result<(), String> {
        let server = &self.server.0;
        if self.custom_counts() {
            let (published, expected) = (server.published(), server.expected());
            if published != expected {
                return Err(format!("slices say {published:?}, and should say {expected:?}"));
            }
            return Ok(());
        }
        let of = |manager: Manager| {
            server
                .store
                .values()
                .filter(move |slice| slice.meta.manager == manager)
        };
        let stay = of(Manager::Builtin).next().is_some() && self.addresses(Manager::Builtin).is_empty();
        let left: Vec<_> = of(Manager::Custom).map(|slice| &slice.meta.name).collect();
        if !left.is_empty() && !stay {
            return Err(format!("{left:?} are left of an annotation that is gone"));
        }
        Ok(())
    }

    /// Returns whether the Service selects by its annotation.
    fn custom_counts(&self) -> bool {
        self.server.0.services.values().any(|service| service.custom)
    }

    /// Old slices go only for what takes their place, as far as the controller can know.
    pub(super) fn check_deleted(&self, at: usize, name: &str) -> Result<(), String> {
        let controller = &self.controllers[at];
        let server = &self.server.0;
        let custom = server.store.get(name).filter(|old| old.is_custom());
        let old = custom.or_else(|| server.mirrored.get(name));
        let (Some(since), Some(old)) = (self.yields, old) else {
            return Ok(());
        };
        if !controller.slices.is_empty() || !controller.inputs.is_empty() || addresses(old).next().is_none() {
            return Ok(());
        }
        let mut left = self.addresses(Manager::Custom);
        left.extend(server.mirrored.values().flat_map(addresses));
        let others = self.addresses(Manager::Builtin);
        let waited = self.now >= since + WAIT;
        let store = &mut self.server.0.store.values();
        let any = store.any(|slice| slice.meta.manager == Manager::Builtin);
        if others.len() >= left.len() || (waited && (!any || !others.is_empty())) || self.replaced {
            return Ok(());
        }
        let now = self.now.saturating_sub(since);
        Err(format!(
            "after {now:?} {left:?} is deleted, and there are {others:?}"
        ))
    }

    /// Returns whether slices of its own take the place of those that give way.
    pub(super) fn is_replaced(&self) -> bool {
        let store = self.server.0.store.values();
        let ours = store.filter(|slice| slice.meta.manager == Manager::Builtin);
        let written: usize = ours.map(|slice| slice.endpoints.len()).sum();
        self.scene.outputs.slices
            && written >= usize::from(self.pods)
            && !self.addresses(Manager::Builtin).is_empty()
    }

    /// The addresses of ready endpoints in the slices of a controller.
    pub(super) fn addresses(&self, manager: Manager) -> BTreeSet<String> {
        let slices = self.server.0.store.values();
        let slices = slices.filter(|slice| slice.meta.manager == manager);
        slices.flat_map(addresses).collect()
    }
}

/// The addresses of ready endpoints.
fn addresses(slice: &SliceFacts) -> impl Iterator<Item = String> {
    let endpoints = slice
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.ready == Some(true));
    endpoints.map(|endpoint| endpoint.addresses.join("+"))
}
