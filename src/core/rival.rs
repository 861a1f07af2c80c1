//! Controllers that may write the same objects as this process.

use super::object::Editor;

/// Another controller that writes the same objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rival {
    /// An endpointd that is no replica of this one.
    Endpointd,
    /// kube-controller-manager.
    Builtin,
    /// A controller that wrote exactly what this one was about to write. The server does not track who writes the object, since
    /// `managedFields` were cleared.
    Untracked,
}

impl Rival {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Endpointd, Self::Builtin, Self::Untracked];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Endpointd => "endpointd",
            Self::Builtin => "kube-controller-manager",
            Self::Untracked => "unknown",
        }
    }

    /// Returns the controller that wrote an object in a version that is none of ours. Other clients are no controllers
    /// of these objects. `settled` is true if the object was not as it should be, and is since that version: users and
    /// tools that edit an object do the reverse.
    pub(crate) fn of(editor: &Editor, settled: bool) -> Option<Self> {
        match editor {
            Editor::Endpointd => Some(Self::Endpointd),
            Editor::Other(name) if **name == *"kube-controller-manager" => Some(Self::Builtin),
            Editor::Unknown => settled.then_some(Self::Untracked),
            Editor::Other(_) => None,
        }
    }
}
