//! Where a run keeps its files: logs and reports, which stay, and data, which goes.

use anyhow::Context;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed with all that is in it when this is dropped.
pub(super) struct TemporaryFolder(PathBuf);

/// Ports of loopback that nothing listens on, found all at once so that no two are the same. Another program may take one
/// before it is used.
pub(super) fn free_ports<const N: usize>() -> anyhow::Result<[u16; N]> {
    let mut listeners = Vec::new();
    for _ in 0..N {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("looking for a free port")?;
        listeners.push(listener);
    }
    let mut ports = [0; N];
    for (port, listener) in ports.iter_mut().zip(&listeners) {
        *port = listener.local_addr()?.port();
    }
    Ok(ports)
}

// === impl TemporaryFolder ===

impl TemporaryFolder {
    /// Makes one that only its owner may read.
    pub(super) fn create(name: &str) -> anyhow::Result<Self> {
        use std::os::unix::fs::DirBuilderExt;

        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("loadtest-real-{}-{number}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("creating {}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A process that was killed a moment ago may still have put a file there.
        for _ in 0..10 {
            match std::fs::remove_dir_all(&self.0) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                _ => return,
            }
        }
        eprintln!("warning: {} could not be removed", self.0.display());
    }
}

/// Copies a folder and all that is in it.
pub(super) fn copy_folder(from: &Path, to: &Path) -> anyhow::Result<()> {
    let what = || format!("copying {} to {}", from.display(), to.display());
    std::fs::create_dir_all(to).with_context(what)?;
    for entry in std::fs::read_dir(from).with_context(what)? {
        let entry = entry.with_context(what)?;
        let target = to.join(entry.file_name());
        if entry.file_type().with_context(what)?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target).with_context(what)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_folder_goes_with_what_is_in_it_and_a_copy_is_whole() {
        let folder = TemporaryFolder::create("test").unwrap();
        let path = folder.path().to_owned();
        std::fs::create_dir_all(path.join("a/b")).unwrap();
        std::fs::write(path.join("a/b/c"), "content").unwrap();
        copy_folder(&path.join("a"), &path.join("copy")).unwrap();
        let copied = std::fs::read_to_string(path.join("copy/b/c")).unwrap();
        drop(folder);
        assert_eq!((copied.as_str(), path.exists()), ("content", false));
    }
}
