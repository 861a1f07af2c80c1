//! Modules import downwards only, and never in a circle.
//!
//! The layers of `src` are in [`LAYERS`]; the program's root, `lib.rs`, stands above them. Beside that, modules that stand
//! next to each other in one folder never need each other in a circle, at whatever depth. A file and the folder of its
//! name are one module there: children use what their parent holds, and the parent uses its children.

#![allow(clippy::unwrap_used)] // Tests: a panic is the failure.

#[path = "support/source.rs"]
mod source;

use source::rust_files;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The top-level modules of `src` from the lowest layer up. Each imports from lower layers only.
const LAYERS: [&[&str]; 6] = [
    &["core", "clock"],
    &["metrics"],
    &["tenant_log"],
    &["cluster", "inspect"],
    &["actors"],
    &["ops"],
];

/// A module's path below its crate's root, which is empty.
type Module = Vec<String>;

/// The modules of a crate, and of each the modules that it names.
struct Imports(BTreeMap<Module, BTreeSet<Module>>);

impl Imports {
    /// The imports of a crate's source, by path below its root, such as `actors/shard.rs`.
    fn of(files: &BTreeMap<String, String>) -> Self {
        let modules: BTreeSet<Module> = files.keys().map(|path| module(path)).collect();
        let imports = files.iter().map(|(path, text)| {
            let own = module(path);
            let named = paths(&code(text)).into_iter();
            let named = named.filter_map(|path| resolve(&own, &path, &modules));
            let others = named.filter(|other| *other != own).collect();
            (own, others)
        });
        Self(imports.collect())
    }

    /// Imports that do not lead to a lower layer.
    fn upward(&self) -> Vec<String> {
        let layer = |module: &Module| {
            let top = module.first()?;
            LAYERS.iter().position(|modules| modules.contains(&top.as_str()))
        };
        let mut found = Vec::new();
        for (own, others) in &self.0 {
            for other in others {
                let up = match (layer(own), layer(other)) {
                    (Some(at), Some(to)) => at <= to && own[0] != other[0],
                    // A module of no layer, or the root.
                    (Some(_), None) => true,
                    (None, _) => false,
                };
                if up {
                    found.push(format!("{} imports {}", own.join("::"), other.join("::")));
                }
            }
        }
        found
    }

    /// Circles among modules that stand next to each other, with an import for each step.
    fn circles(&self) -> Vec<String> {
        let mut parents: BTreeSet<Module> = BTreeSet::from([Module::new()]);
        for module in self.0.keys() {
            parents.extend((1..module.len()).map(|depth| module[..depth].to_vec()));
        }
        let mut found = Vec::new();
        for parent in parents {
            let steps = self.steps_below(&parent);
            for start in steps.keys() {
                // Each circle is found from the first of its modules.
                if let Some(circle) = circle_from(start, &steps) {
                    found.push(circle);
                }
            }
        }
        found
    }

    /// For each child of a module, its siblings that it or what is below it imports, with such an import.
    fn steps_below(&self, parent: &Module) -> BTreeMap<String, BTreeMap<String, String>> {
        let depth = parent.len();
        let child = |module: &Module| {
            (module.len() > depth && module.starts_with(parent)).then(|| module[depth].clone())
        };
        let mut steps: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (own, others) in &self.0 {
            let Some(from) = child(own) else { continue };
            for other in others {
                if let Some(to) = child(other).filter(|to| *to != from) {
                    let import = format!("{} imports {}", own.join("::"), other.join("::"));
                    steps.entry(from.clone()).or_default().insert(to, import);
                }
            }
        }
        steps
    }
}

/// The way back to a module, if there is one that leads through none that sorts before it.
fn circle_from(start: &str, steps: &BTreeMap<String, BTreeMap<String, String>>) -> Option<String> {
    let mut reached: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut waiting = vec![(start, Vec::new())];
    while let Some((at, way)) = waiting.pop() {
        for (to, import) in steps.get(at).into_iter().flatten() {
            let mut way = way.clone();
            way.push(import.as_str());
            if to == start {
                return Some(way.join("; "));
            }
            if to.as_str() > start && !reached.contains_key(to.as_str()) {
                reached.insert(to, way.clone());
                waiting.push((to, way));
            }
        }
    }
    None
}

fn module(path: &str) -> Module {
    let path = path.strip_suffix(".rs").unwrap();
    if matches!(path, "lib" | "main") {
        return Module::new();
    }
    path.split('/').map(str::to_owned).collect()
}

/// A file's code without comments, the content of strings, and a module of tests at its end.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let (mut out, mut in_string) = (String::new(), false);
    for line in text.lines() {
        let mut before = ' ';
        for (at, sign) in line.char_indices() {
            if !in_string && line[at..].starts_with("//") {
                break;
            }
            if sign == '"' && before != '\\' && before != '\'' {
                in_string = !in_string;
            }
            if !in_string {
                out.push(sign);
            }
            before = sign;
        }
        out.push('\n');
    }
    out
}

/// The paths that code names, those of `use` declarations taken apart.
fn paths(code: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = String::new();
    let mut left = code;
    while let Some(at) = left.find("use ") {
        let begins = !left[..at].ends_with(|sign: char| sign.is_alphanumeric() || sign == '_');
        let Some(end) = left[at..].find(';').filter(|_| begins) else {
            rest.push_str(&left[..at + 4]);
            left = &left[at + 4..];
            continue;
        };
        rest.push_str(&left[..at]);
        expand(&left[at + 4..at + end], &[], &mut found);
        left = &left[at + end + 1..];
    }
    rest.push_str(left);
    let words = rest.split(|sign: char| !(sign.is_alphanumeric() || matches!(sign, '_' | ':')));
    let named = words.filter(|word| word.contains("::"));
    found.extend(named.map(|path| path.split("::").map(str::to_owned).collect()));
    found
}

/// Takes a `use` tree apart: `a::{b, c::d}` names `a::b` and `a::c::d`.
fn expand(tree: &str, before: &[String], found: &mut Vec<Vec<String>>) {
    let (mut depth, mut start) = (0, 0);
    let mut branches = Vec::new();
    for (at, sign) in tree.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                branches.push(&tree[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    branches.push(&tree[start..]);
    for branch in branches
        .into_iter()
        .map(str::trim)
        .filter(|branch| !branch.is_empty())
    {
        let (path, inner) = branch
            .split_once('{')
            .map_or((branch, None), |(path, inner)| (path, Some(inner)));
        let path = path.split(" as ").next().unwrap();
        let parts = path.split("::").map(str::trim).filter(|part| !part.is_empty());
        let whole: Vec<_> = before.iter().cloned().chain(parts.map(str::to_owned)).collect();
        match inner {
            Some(inner) => expand(inner.trim_end().strip_suffix('}').unwrap(), &whole, found),
            None => found.push(whole),
        }
    }
}

/// The module that a path leads to from another one; none if that is in another crate.
fn resolve(own: &Module, path: &[String], modules: &BTreeSet<Module>) -> Option<Module> {
    let is_module = |module: &Module| modules.iter().any(|known| known.starts_with(module));
    let mut rest = path;
    let mut at = match path.first()?.as_str() {
        "crate" => {
            rest = &rest[1..];
            Module::new()
        }
        "self" => {
            rest = &rest[1..];
            own.clone()
        }
        "super" => {
            let mut at = own.clone();
            while let [first, others @ ..] = rest
                && first == "super"
            {
                at.pop();
                rest = others;
            }
            at
        }
        child => {
            let below: Module = own.iter().cloned().chain([child.to_owned()]).collect();
            if !is_module(&below) {
                return None;
            }
            own.clone()
        }
    };
    for part in rest {
        at.push(part.clone());
        if !is_module(&at) {
            at.pop();
            break;
        }
    }
    Some(at)
}

/// The source of a crate by paths below its root, without its tests.
fn source_of(root: &str) -> BTreeMap<String, String> {
    let below = Path::new(env!("CARGO_MANIFEST_DIR")).join(root);
    let files = rust_files(root).into_iter().map(|(path, text)| {
        let name = path.strip_prefix(&below).unwrap().to_str().unwrap().to_owned();
        (name, text)
    });
    files
        .filter(|(name, _)| !name.ends_with("tests.rs") && !name.contains("/tests/"))
        .collect()
}

#[test]
fn modules_import_from_lower_layers_only() {
    let imports = Imports::of(&source_of("src"));
    for top in imports.0.keys().filter_map(|module| module.first()) {
        let known = LAYERS.iter().any(|modules| modules.contains(&top.as_str()));
        assert!(known, "{top} is in no layer");
    }
    let found = imports.upward();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn modules_next_to_each_other_do_not_import_in_a_circle() {
    for root in ["src", "loadtest/src", "loadtest/apiserver/src"] {
        let found = Imports::of(&source_of(root)).circles();
        assert!(found.is_empty(), "{root}: {found:#?}");
    }
}

/// As the source is, but with a line more in one of its files.
fn with(path: &str, line: &str) -> Imports {
    let mut files = source_of("src");
    files.get_mut(path).unwrap().insert_str(0, line);
    Imports::of(&files)
}

#[test]
fn an_import_upwards_is_found_however_it_is_written() {
    for line in [
        "use crate::actors::router::Router;\n",
        "use crate::{core::time::Time, actors::router};\n",
        "use super::super::actors;\n",
        "fn of() -> crate::actors::router::Router { todo!() }\n",
    ] {
        let found = with("cluster/watch.rs", line).upward();
        assert_eq!(found.len(), 1, "{line}: {found:?}");
        assert!(found[0].starts_with("cluster::watch imports actors"), "{found:?}");
    }
    let found = with("core/time.rs", "use crate::metrics::ShardMetrics;\n").upward();
    assert_eq!(found, ["core::time imports metrics"]);
    let found = with("inspect/census.rs", "use crate::cluster::read::Reader;\n").upward();
    assert_eq!(found, ["inspect::census imports cluster::read"]);
    // Comments and strings import nothing.
    let line = "// use crate::actors::router;\nconst TEXT: &str = \"crate::actors::router\";\n";
    assert!(with("cluster/watch.rs", line).upward().is_empty());
}

#[test]
fn a_circle_is_found_with_the_imports_that_make_it() {
    let found = with("actors/shard.rs", "use super::router::Router;\n").circles();
    assert_eq!(
        found,
        ["actors::router imports actors::shard; actors::shard imports actors::router"]
    );
}
