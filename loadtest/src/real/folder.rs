//! The folder with the programs of a control plane.

use anyhow::{Context, ensure};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that is run, and not part of this repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    Etcd,
    ApiServer,
    ControllerManager,
    /// Renders overlays. It asks nothing of a cluster, so one on the PATH will do as well.
    Kubectl,
}

/// The programs that are there.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    path: PathBuf,
    kubectl: Option<PathBuf>,
}

// === impl Program ===

impl Program {
    pub(super) const ALL: [Self; 4] = [
        Self::Etcd,
        Self::ApiServer,
        Self::ControllerManager,
        Self::Kubectl,
    ];

    fn file(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kubectl => "kubectl",
        }
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.file())
    }
}

// === impl Folder ===

impl Folder {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let path = std::path::absolute(path)?;
        ensure!(path.is_dir(), "{shown} is not a folder");
        let own = path.join(Program::Kubectl.file());
        let kubectl = if own.is_file() {
            Some(own)
        } else {
            on_path(Program::Kubectl.file())
        };
        Ok(Self { path, kubectl })
    }

    /// Where a program is, if it is there.
    pub(super) fn find(&self, program: Program) -> Option<PathBuf> {
        if program == Program::Kubectl {
            return self.kubectl.clone();
        }
        Some(self.path.join(program.file())).filter(|path| path.is_file())
    }

    /// Where a program is that is needed.
    pub(super) fn get(&self, program: Program) -> anyhow::Result<PathBuf> {
        let found = self.find(program);
        found.with_context(|| format!("there is no {program} in {}", self.path.display()))
    }

    /// Returns the programs among these that are missing.
    pub(super) fn missing(&self, needed: &[Program]) -> Vec<Program> {
        let needed = needed.iter().copied();
        needed.filter(|program| self.find(*program).is_none()).collect()
    }

    /// Returns the version that a program says it is, such as `v1.36.2`.
    pub(super) fn version(&self, program: Program) -> anyhow::Result<String> {
        let path = self.get(program)?;
        let mut command = Command::new(&path);
        match program {
            Program::Kubectl => command.args(["version", "--client"]),
            _ => command.arg("--version"),
        };
        let output = command
            .output()
            .with_context(|| format!("running {}", path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version = version_in(&text);
        version.with_context(|| format!("{} does not say which version it is: {text:?}", path.display()))
    }
}

/// A program on the PATH.
pub(super) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// The first word of a text that looks like a version.
fn version_in(text: &str) -> Option<String> {
    text.split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.contains('.') && word.starts_with(|first: char| first.is_ascii_digit()))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        let found = |text| version_in(text);
        assert_eq!(found("Kubernetes v1.36.2\n").as_deref(), Some("1.36.2"));
        assert_eq!(
            found("etcd Version: 3.6.4\nGit SHA: 5400cdc\n").as_deref(),
            Some("3.6.4")
        );
        assert_eq!(
            found("Client Version: v1.33.4\nKustomize Version: v5.6.0\n").as_deref(),
            Some("1.33.4")
        );
        assert_eq!(found("usage: what.ever\n"), None);
    }
}
