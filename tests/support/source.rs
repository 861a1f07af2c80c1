//! The Rust files of the repository.

use std::path::{Path, PathBuf};

/// The Rust files below a folder of the repository, with their text, in the order of their paths.
pub(crate) fn rust_files(under: &str) -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, out: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    walk(&path, out);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                out.push((path, text));
            }
        }
    }
    let mut out = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(under), &mut out);
    assert!(!out.is_empty(), "{under} has no Rust files");
    out.sort();
    out
}
