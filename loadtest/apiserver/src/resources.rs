//! Sets of kinds, as rules and the configuration name them.

use crate::kinds::Kind;
use std::fmt;

/// A set of kinds by their plural names; `events` means the events of both groups, `*` everything.
#[derive(Clone, PartialEq, Eq)]
pub struct Resources(pub(crate) Vec<String>);

// === impl Resources ===

impl Resources {
    /// All kinds.
    pub const ALL: Self = Self(Vec::new());

    pub(crate) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn contains(&self, kind: Kind) -> bool {
        let is_it = |name: &String| *name == kind.resource || *name == kind.qualified_resource();
        self.0.is_empty() || self.0.iter().any(is_it)
    }
}

impl fmt::Debug for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("*");
        }
        f.write_str(&self.0.join(","))
    }
}

/// How a server treats `application/vnd.kubernetes.protobuf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protobuf {
    /// As kube-apiserver: all kinds are answered and taken in protobuf.
    #[default]
    Enabled,
    /// These resources have JSON alone, as those of an aggregated API server may: an Accept header that names protobuf and
    /// not JSON is answered with 406, a body in protobuf with 415.
    Unsupported(Resources),
    /// Everything is answered in JSON, whatever the Accept header says, as a proxy does that does not pass the header on.
    /// Bodies in protobuf are taken.
    AcceptIgnored,
}
