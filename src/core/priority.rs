//! The priority of a write, and its place among those of its Service. Both depend on what changes for traffic.

/// The priority of a write.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Priority {
    /// An endpoint must stop receiving traffic.
    Remove,
    /// An endpoint can begin to receive traffic.
    Add,
    /// Anything else: labels, repacking.
    Rest,
}

impl Priority {
    /// All priorities, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Remove, Self::Add, Self::Rest];

    /// Returns the name in metrics, as their label `lane`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Remove => "remove",
            Self::Add => "add",
            Self::Rest => "rest",
        }
    }
}

/// The place of a write among those of its Service. Endpoints that move to another slice are shown there before they leave their
/// own, and so are those that take their place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Stage {
    /// The object is created.
    Create,
    /// An update that removes no endpoint.
    Add,
    /// Another update.
    Remove,
    /// The object is deleted.
    Delete,
}
