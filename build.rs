//! Finds the commit that is built, for `endpointd version`, `--version` and the metric `endpointd_build_info`.
//!
//! `ENDPOINTD_COMMIT` names it where there is no repository: in a container, or in an archive of the source. Without
//! either, the commit is `unknown`.

use std::path::Path;
use std::process::Command;

const VARIABLE: &str = "ENDPOINTD_COMMIT";

fn main() {
    println!("cargo:rerun-if-env-changed={VARIABLE}");
    // Without a file to look at, Cargo would run this script whenever any file of the package changes.
    println!("cargo:rerun-if-changed=build.rs");
    let given = std::env::var(VARIABLE).ok();
    let commit = given
        .filter(|commit| !commit.trim().is_empty())
        .or_else(from_git)
        .unwrap_or_else(|| "unknown".to_owned());
    println!("cargo:rustc-env={VARIABLE}={}", commit.trim());
}

/// Asks git, and has Cargo run this script again once another commit is checked out.
fn from_git() -> Option<String> {
    // An archive may be unpacked inside the repository of something else.
    let here = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR")?)
        .canonicalize()
        .ok()?;
    let top = Path::new(&git(&["rev-parse", "--show-toplevel"])?)
        .canonicalize()
        .ok()?;
    if here != top {
        return None;
    }
    let mut names = vec![
        "HEAD".to_owned(),
        "logs/HEAD".to_owned(),
        "packed-refs".to_owned(),
    ];
    names.extend(git(&["symbolic-ref", "--quiet", "HEAD"]));
    for name in names {
        // Cargo runs the script at each build if a file that it names is missing.
        let path = git(&["rev-parse", "--git-path", &name]);
        if let Some(path) = path.filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "HEAD"])
}

/// Returns what git prints, unless it fails or is not installed.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success() && !text.trim().is_empty()).then(|| text.trim().to_owned())
}
