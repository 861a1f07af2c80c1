//! How often others have interfered with the slices of one mirror.

/// The number of times in a row that others wrote or deleted a mirror's slices, or made some that it does not need, with no
/// change of the Endpoints in between.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Losses(u8);

impl Losses {
    /// Counts one more.
    pub(super) fn add(&mut self) {
        self.0 = self.0.saturating_add(1);
    }

    /// Takes over the count of one slice, if that is higher. Returns the count, which holds for all slices.
    pub(super) fn raise(&mut self, slice: u8) -> u8 {
        self.0 = self.0.max(slice);
        self.0
    }

    /// Lowers the count to that of a slice that was left to others for a while.
    pub(super) fn limit(&mut self, slice: u8) {
        self.0 = self.0.min(slice);
    }

    /// Begins anew: what others did before is no reason to wait.
    pub(super) fn forget(&mut self) {
        self.0 = 0;
    }

    /// Returns whether others have written since the Endpoints changed.
    pub(super) fn any(self) -> bool {
        self.0 > 0
    }
}
