//! The files of recorded scenarios.

use serde_json::Value;

/// The recorded scenarios whose file's name contains this, by name.
pub(crate) fn scenarios(only: &str) -> Vec<Value> {
    scenarios_in("goldens", only)
}

/// The scenarios in a folder of the tests, as [`scenarios`].
pub(crate) fn scenarios_in(folder: &str, only: &str) -> Vec<Value> {
    let directory = format!("{}/tests/{folder}", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter(|path| path.file_name().unwrap().to_string_lossy().contains(only))
        .collect();
    files.sort();
    let read = |path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    files.into_iter().map(read).collect()
}

/// The scenario of a name.
pub(crate) fn scenario(name: &str) -> Value {
    let found = scenarios(name)
        .into_iter()
        .find(|scenario| scenario["name"] == *name);
    found.unwrap_or_else(|| panic!("there is no scenario {name}"))
}
