//! Controllers that may write the same objects as this process.

/// Another controller that writes the same objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rival {
    /// An endpointd that is no replica of this one.
    Endpointd,
    /// kube-controller-manager.
    Builtin,
}

impl Rival {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Endpointd, Self::Builtin];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Endpointd => "endpointd",
            Self::Builtin => "kube-controller-manager",
        }
    }

    /// Returns the controller that wrote an object, by the client that `managedFields` name as the last, if that is not
    /// endpointd. Other clients are no controllers of these objects.
    pub(crate) fn of(editor: Option<&str>) -> Option<Self> {
        match editor {
            None => Some(Self::Endpointd),
            Some("kube-controller-manager") => Some(Self::Builtin),
            Some(_) => None,
        }
    }
}
