//! All writes, in order.

/// A change of a pod that a write shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Noted {
    /// When the pod changed, in nanoseconds.
    pub since: u64,
    pub removal: bool,
}

/// The writes by their version, which counts from one.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions {
    all: Vec<Version>,
    changes: Vec<Noted>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub object: u32,
    pub bytes: u32,
    /// When it was written.
    pub at: u64,
    /// The range of its changes in `changes`.
    from: u32,
    to: u32,
}

impl Versions {
    /// Adds a write and returns its version.
    pub(super) fn push(&mut self, object: usize, bytes: usize, changes: &[Noted], at: u64) -> u32 {
        let from = self.changes.len() as u32;
        self.changes.extend_from_slice(changes);
        self.all.push(Version {
            object: object as u32,
            bytes: bytes as u32,
            at,
            from,
            to: self.changes.len() as u32,
        });
        self.last()
    }

    /// Returns the last version, zero if there is none.
    pub(super) fn last(&self) -> u32 {
        self.all.len() as u32
    }

    pub(super) fn get(&self, version: u32) -> Version {
        self.all[version as usize - 1]
    }

    pub(super) fn changes(&self, version: u32) -> &[Noted] {
        let Version { from, to, .. } = self.get(version);
        &self.changes[from as usize..to as usize]
    }
}
