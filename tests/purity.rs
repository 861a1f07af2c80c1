//! The core stays pure, files stay small, and no file is orphaned.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "support/source.rs"]
mod source;

use source::rust_files;

/// Lines without their comments, so that prose may name what code may not.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.split("//").next().unwrap_or_default()))
}

/// Words that the core may not use: they name the outside world, and time that is not an argument.
const IMPURE: [&str; 22] = [
    "async ",
    ".await",
    "tokio",
    "kube::",
    "k8s_openapi",
    "ractor",
    "metrics",
    "tracing",
    "::now(",
    "Instant",
    "SystemTime",
    "std::fs",
    "std::net::Tcp",
    "std::env",
    "std::thread",
    "std::process",
    "parking_lot",
    "Mutex",
    "crate::actors",
    "crate::clock",
    "crate::cluster",
    "crate::ops",
];

fn impurities(text: &str) -> Vec<(usize, &'static str)> {
    code(text)
        // Words of ours that begin like one that is not allowed.
        .map(|(at, line)| (at, line.replace(".awaiting", "").replace(".awaits", "")))
        .flat_map(|(at, line)| {
            IMPURE
                .iter()
                .filter(move |word| line.contains(**word))
                .map(move |word| (at, *word))
        })
        .collect()
}

#[test]
fn the_core_is_pure_and_so_is_what_looks_at_it() {
    for (path, text) in rust_files("src/core").iter().chain(&rust_files("src")) {
        let path = path.to_string_lossy();
        let pure = ["/src/core", "/src/inspect"]
            .iter()
            .any(|room| path.contains(room));
        let found = impurities(text);
        assert!(!pure || found.is_empty(), "{path}: {found:?}");
    }
}

#[test]
fn impurity_is_seen() {
    assert_eq!(
        impurities("let t = clock::now();\n// tokio\nuse tokio::time;\n"),
        [(1, "::now("), (3, "tokio")]
    );
    let shells = rust_files("src/actors");
    assert!(
        shells.iter().any(|(_, text)| !impurities(text).is_empty()),
        "the check finds nothing impure in the actors, which are"
    );
}

#[test]
fn files_are_small_enough_to_read() {
    for under in [
        "src",
        "tests",
        "loadtest/src",
        "loadtest/tests",
        "loadtest/apiserver/src",
        "loadtest/apiserver/tests",
        "loadtest/scenario/src",
    ] {
        for (path, text) in rust_files(under) {
            let lines = text.lines().count();
            assert!(lines <= 650, "{} has {lines} lines", path.display());
        }
    }
}

#[test]
fn no_module_is_orphaned_and_none_is_called_mod() {
    for root in [
        "src",
        "loadtest/src",
        "loadtest/apiserver/src",
        "loadtest/scenario/src",
    ] {
        let files = rust_files(root);
        let all: String = files.iter().map(|(_, text)| text.as_str()).collect();
        for (path, _) in &files {
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert_ne!(stem, "mod", "{}", path.display());
            let declared = all.contains(&format!("mod {stem};")) || all.contains(&format!("\"{stem}.rs\""));
            assert!(
                matches!(&*stem, "lib" | "main") || declared,
                "{} is in no mod list",
                path.display()
            );
        }
    }
}

#[test]
fn the_code_speaks_of_the_project_alone() {
    for under in ["src", "tests", "benches", "loadtest"] {
        for (path, text) in rust_files(under) {
            for word in ["TODO", "FIXME", "XXX", "../shared", "/work/"] {
                let own = path.ends_with("tests/purity.rs");
                assert!(own || !text.contains(word), "{} says {word}", path.display());
            }
        }
    }
}

/// Returns the imports that rustfmt's granularity "Module" would write in another way: several modules in one statement, or
/// one module in two statements of a block.
fn odd_imports(text: &str) -> Vec<String> {
    let (mut odd, mut block, mut rest) = (Vec::new(), Vec::new(), text);
    while let Some((line, after)) = rest.split_once('\n') {
        let start = line.trim_start();
        let is_import = start.split_once("use ").is_some_and(|(before, _)| {
            before.is_empty() || (before.starts_with("pub") && before.ends_with(' '))
        });
        let Some((statement, after)) = rest.split_once(';').filter(|_| is_import) else {
            (block, rest) = (Vec::new(), after);
            continue;
        };
        rest = after.strip_prefix('\n').unwrap_or(after);
        let (module, names) = statement
            .split_once("::{")
            .or_else(|| statement.rsplit_once("::"))
            .unwrap_or((statement, ""));
        if names.contains("::") || block.contains(&module) {
            odd.push(statement.to_owned());
        }
        block.push(module);
    }
    odd
}

#[test]
fn each_import_is_of_one_module() {
    for under in ["src", "tests", "benches", "loadtest"] {
        for (path, text) in rust_files(under) {
            assert_eq!(odd_imports(&text), [""; 0], "{}", path.display());
        }
    }
}

#[test]
fn odd_imports_are_seen() {
    let text = "use a::{b, c::D};\nuse e::f;\nuse e::{\n    g,\n};\nuse h;\nuse i::{self, J};\n\npub(super) use e::k::{l::M, N};\n";
    assert_eq!(
        odd_imports(text),
        [
            "use a::{b, c::D}",
            "use e::{\n    g,\n}",
            "pub(super) use e::k::{l::M, N}"
        ]
    );
}

/// Returns what stands in backquotes in a text, outside of blocks of code.
fn quoted(text: &str) -> Vec<&str> {
    let mut in_block = false;
    let lines = text.lines().filter(|line| {
        let fence = line.starts_with("```");
        in_block ^= fence;
        !in_block && !fence
    });
    lines
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

fn is_rust(name: &str) -> bool {
    std::path::Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "rs")
}

#[test]
fn the_map_names_files_that_exist_and_each_file_of_a_namespaces_state() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let map = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let named = quoted(&map);
    let files: Vec<String> = rust_files("src")
        .iter()
        .chain(&rust_files("tests"))
        .chain(&rust_files("loadtest"))
        .map(|(path, _)| path.to_string_lossy().into_owned())
        .collect();
    for name in named.iter().filter(|name| is_rust(name)) {
        let there = files.iter().any(|path| path.ends_with(&format!("/{name}")));
        assert!(there, "ARCHITECTURE.md names {name}, which does not exist");
    }
    let stem = |name: &str| {
        name.rsplit('/')
            .next()
            .map(|name| name.trim_end_matches(".rs").to_owned())
    };
    let stems: Vec<_> = named.iter().filter_map(|name| stem(name)).collect();
    for path in files.iter().filter(|path| path.contains("/src/core/namespace/")) {
        let known = path.ends_with("/tests.rs") || stem(path).is_some_and(|stem| stems.contains(&stem));
        assert!(known, "ARCHITECTURE.md does not name {path}");
    }
}
