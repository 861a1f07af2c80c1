//! Controllers that may write the same objects as this process.

use super::object::Editor;

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

    /// Returns the controller that wrote an object in a version that is none of ours. Other clients are no controllers of
    /// these objects.
    pub(crate) fn of(editor: &Editor) -> Option<Self> {
        match editor {
            Editor::Endpointd => Some(Self::Endpointd),
            Editor::Other(name) if **name == *"kube-controller-manager" => Some(Self::Builtin),
            Editor::Unknown | Editor::Other(_) => None,
        }
    }
}
