//! The parts of a run.

mod control_plane;

use std::path::PathBuf;

use super::{
    folder::{Folder, Program},
    table::Outcome,
};

/// A part, which can be run alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// A control plane starts, is restarted, gets an older store, and leaves nothing behind
    ControlPlane,
}

/// What all parts work with.
pub(super) struct Work {
    /// The programs, unless there is a server.
    pub(super) folder: Option<Folder>,
    pub(super) server: Option<String>,
    pub(super) quick: bool,
    /// Where logs and reports go.
    pub(super) out: PathBuf,
}

// === impl Part ===

impl Part {
    /// The programs without which it cannot be run.
    pub(super) fn needs(self) -> &'static [Program] {
        match self {
            Self::ControlPlane => &[Program::Etcd, Program::ApiServer],
        }
    }

    /// Whether an API server is all that it needs.
    pub(super) fn fits_any_server(self) -> bool {
        match self {
            Self::ControlPlane => false,
        }
    }

    pub(super) async fn run(self, work: &Work) -> anyhow::Result<Outcome> {
        match self {
            Self::ControlPlane => control_plane::run(work).await,
        }
    }
}

// === impl Work ===

impl Work {
    /// The programs. Parts that need them are not run without.
    pub(super) fn folder(&self) -> &Folder {
        self.folder
            .as_ref()
            .expect("a part that needs programs is skipped without a folder")
    }
}
