//! Slices for an annotation that is gone: another controller takes the Service over before they go, and none is left behind.

use super::{LONGEST, SHORTEST, Stage};
use endpointd::core::facts::Manager;

impl Stage<'_> {
    /// When all is quiet, slices for an annotation are as they should be, and none is left of an annotation that is gone.
    pub(super) fn check_custom(&self) -> Result<(), String> {
        let server = &self.server.0;
        if self.custom_counts() {
            let (published, expected) = (server.published(), server.expected());
            if published != expected {
                return Err(format!("slices say {published:?}, and should say {expected:?}"));
            }
            return Ok(());
        }
        let custom = server.store.values().filter(|slice| slice.is_custom());
        let left: Vec<_> = custom.map(|slice| &slice.meta.name).collect();
        if !left.is_empty() {
            return Err(format!("{left:?} are left of an annotation that is gone"));
        }
        Ok(())
    }

    /// Returns whether the Service selects by its annotation.
    fn custom_counts(&self) -> bool {
        self.server.0.services.values().any(|service| service.custom)
    }

    /// The slices of an annotation that is gone stay for some time, and go only when the other controller has endpoints, or
    /// has had a long time to publish some.
    pub(super) fn check_deleted(&self, name: &str) -> Result<(), String> {
        let custom = self.server.0.store.get(name).filter(|old| old.is_custom());
        let (Some(since), Some(old)) = (self.yields, custom) else {
            return Ok(());
        };
        let waited = self.now.saturating_sub(since);
        if old.endpoints.is_empty() || waited >= LONGEST || (waited >= SHORTEST && self.replaced) {
            return Ok(());
        }
        Err(format!("{name} is deleted after {waited:?}"))
    }

    /// Returns whether slices of the other controller hold endpoints.
    pub(super) fn others_hold_endpoints(&self) -> bool {
        let mut store = self.server.0.store.values();
        store.any(|slice| slice.meta.manager == Manager::Builtin && !slice.endpoints.is_empty())
    }
}
