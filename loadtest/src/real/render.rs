//! Renders the manifests of the repository: overlays by `kubectl kustomize`, the chart by helm.

use super::folder::{Folder, Program, on_path};
use super::manifests::{NAMESPACE, documents};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A set of values that is for a namespace of its own.
const OWN_NAMESPACE: &str = "own-namespace";

/// Objects that are applied together.
pub(super) struct Rendered {
    pub(super) name: String,
    pub(super) objects: Vec<Value>,
}

/// The objects that a kustomization makes.
pub(super) fn kustomize(folder: &Folder, path: &Path) -> anyhow::Result<Vec<Value>> {
    let mut command = Command::new(folder.get(Program::Kubectl)?);
    let text = output(command.arg("kustomize").arg(path))?;
    documents(&text).with_context(|| format!("reading what {} makes", path.display()))
}

/// The base and all overlays, by name.
pub(super) fn overlays(folder: &Folder, deploy: &Path) -> anyhow::Result<Vec<Rendered>> {
    let mut paths = vec![deploy.join("kustomize/base")];
    paths.extend(entries(&deploy.join("kustomize/overlays"))?);
    paths
        .into_iter()
        .map(|path| {
            Ok(Rendered {
                name: name(&path),
                objects: kustomize(folder, &path)?,
            })
        })
        .collect()
}

/// Renders the chart with its default values, and with each set of values that the checks have; none if there is no helm. Also returns the namespaces that these are for.
pub(super) fn charts(deploy: &Path) -> anyhow::Result<Option<Vec<(Rendered, String)>>> {
    let Some(helm) = on_path("helm") else {
        return Ok(None);
    };
    let mut charts = Vec::new();
    let mut sets = vec![None];
    sets.extend(entries(&deploy.join("checks/values/good"))?.into_iter().map(Some));
    for set in sets {
        let of_set = set.as_deref().map_or_else(|| "default".to_owned(), name);
        let namespace = if of_set.contains(OWN_NAMESPACE) {
            "endpointd"
        } else {
            NAMESPACE
        };
        let mut command = Command::new(&helm);
        command
            .args(["template", "endpointd"])
            .arg(deploy.join("chart/endpointd"))
            .args(["--namespace", namespace]);
        if let Some(values) = &set {
            command.arg("--values").arg(values);
        }
        let text = output(&mut command)?;
        let rendered = Rendered {
            name: format!("chart, {of_set}"),
            objects: documents(&text)?,
        };
        charts.push((rendered, namespace.to_owned()));
    }
    Ok(Some(charts))
}

/// The arguments of endpointd's container, less what says where it listens.
pub(super) fn flags(objects: &[Value]) -> anyhow::Result<Vec<String>> {
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment");
    let deployment = deployment.context("there is no Deployment")?;
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let args = args.as_array().into_iter().flatten().filter_map(Value::as_str);
    let of_place = ["run", "--bind-address=", "--admin-port="];
    let kept = args.filter(|arg| !of_place.iter().any(|prefix| arg.starts_with(prefix)));
    Ok(kept.map(str::to_owned).collect())
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

fn name(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("running {program}"))?;
    ensure!(
        output.status.success(),
        "{program}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn flags_are_the_manifests_but_for_where_it_listens() {
        let deployment = json!({ "kind": "Deployment", "spec": { "template": { "spec": { "containers": [{
            "args": ["run", "--bind-address=0.0.0.0", "--admin-port=10270", "--leader-elect=true", "--dry-run"],
        }] } } } });
        let objects = [json!({ "kind": "Service" }), deployment];
        assert_eq!(flags(&objects).unwrap(), ["--leader-elect=true", "--dry-run"]);
        assert!(flags(&objects[..1]).is_err());
    }
}
