//! The classes of writes: the priority of a write, and whether it is of a slice or of Endpoints.

/// The number of classes.
pub(in crate::core::publish) const CLASSES: usize = 6;

/// The classes, the most urgent first.
pub(super) const REMOVALS: usize = 0;
pub(super) const ADDITIONS: usize = 1;
pub(super) const ENDPOINTS_REMOVALS: usize = 2;
pub(super) const ENDPOINTS_ADDITIONS: usize = 3;
pub(super) const REST: usize = 4;
pub(super) const ENDPOINTS_REST: usize = 5;

/// Some of the classes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Classes(u8);

impl Classes {
    /// The number of sets of classes.
    pub(super) const SETS: usize = 1 << CLASSES;
    /// No class.
    pub const NONE: Self = Self(0);
    /// Every class.
    pub const ALL: Self = Self((1 << CLASSES) - 1);
    /// The removals of slices.
    pub const SLICE_REMOVALS: Self = Self(1 << REMOVALS);
    /// The removals and additions of slices.
    pub(super) const SLICE_CHANGES: Self = Self(1 << REMOVALS | 1 << ADDITIONS);
    /// Everything else that is written to slices.
    pub const SLICE_OTHERS: Self = Self(1 << ADDITIONS | 1 << REST);
    /// All writes of slices.
    pub const SLICES: Self = Self::SLICE_REMOVALS.or(Self::SLICE_OTHERS);
    /// The removals of Endpoints.
    pub const ENDPOINTS_REMOVALS: Self = Self(1 << ENDPOINTS_REMOVALS);
    /// Everything else that is written to Endpoints.
    pub const ENDPOINTS_OTHERS: Self = Self(1 << ENDPOINTS_ADDITIONS | 1 << ENDPOINTS_REST);
    /// All writes of Endpoints.
    pub(super) const ENDPOINTS: Self = Self::ENDPOINTS_REMOVALS.or(Self::ENDPOINTS_OTHERS);

    /// Returns the classes that are in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these classes without the others.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Returns the classes that are in both.
    #[must_use]
    pub(in crate::core::publish) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns these classes and one more.
    #[must_use]
    pub(in crate::core::publish) const fn with(self, class: usize) -> Self {
        Self(self.0 | 1 << class)
    }

    pub(in crate::core::publish) const fn has(self, class: usize) -> bool {
        self.0 & 1 << class != 0
    }

    /// Returns the classes, the most urgent first.
    pub(in crate::core::publish) fn iter(self) -> impl Iterator<Item = usize> {
        (0..CLASSES).filter(move |class| self.has(*class))
    }

    /// Returns a number below [`Self::SETS`] that no other set of classes has.
    pub(in crate::core::publish) const fn number(self) -> usize {
        self.0 as usize
    }
}
