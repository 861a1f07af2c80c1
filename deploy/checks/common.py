"""What the checks share."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart/endpointd"
# Without it the chart is not rendered, and what looks at it is left out.
HELM = shutil.which("helm")


def kustomize(directory):
    """The objects that a kustomization makes."""
    run = subprocess.run(
        ["kubectl", "kustomize", str(directory)], capture_output=True, text=True, timeout=60, check=False
    )
    if run.returncode != 0:
        raise SystemExit(f"kubectl kustomize {directory}: {run.stderr.strip().splitlines()[0]}")
    return [item for item in yaml.safe_load_all(run.stdout) if item]


def merge(into, values):
    """Lays values over others, as helm does."""
    for name, value in values.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            merge(into[name], value)
        else:
            into[name] = value
    return into


def given(overrides):
    """The values that values files and KEY=VALUE give."""
    values = {}
    for override in map(str, overrides):
        name, is_single, text = override.partition("=")
        if not is_single:
            merge(values, yaml.safe_load(pathlib.Path(override).read_text()) or {})
            continue
        value = yaml.safe_load(text)
        for part in reversed(name.split(".")):
            value = {part: value}
        merge(values, value)
    return values


def helm(*overrides, namespace="kube-system"):
    """What helm makes of the chart, as (exit code, standard output, standard error)."""
    command = [HELM, "template", "test", str(CHART), "--namespace", namespace, "--values", "-"]
    text = yaml.safe_dump(given(overrides))
    run = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    return run.returncode, run.stdout, run.stderr


def chart(*overrides, namespace="kube-system"):
    """The objects that the chart makes of values files and KEY=VALUE."""
    code, out, err = helm(*overrides, namespace=namespace)
    if code != 0:
        raise SystemExit(f"the chart does not render with {list(overrides)}: {err.strip()}")
    return [item for item in yaml.safe_load_all(out) if item]


def chart_values(*overrides):
    """The values that the chart's templates see."""
    return merge(yaml.safe_load((CHART / "values.yaml").read_text()), given(overrides))


def value_sets():
    """Every set of values that has to work: its name, its overrides, its namespace."""
    yield "default", [], "kube-system"
    for path in sorted((DEPLOY / "checks/values/good").glob("*.yaml")):
        namespace = "endpointd" if "own-namespace" in path.name else "kube-system"
        yield path.stem, [path], namespace


def overlays():
    """Every kustomization that people apply: its name and its directory."""
    yield "base", DEPLOY / "kustomize/base"
    for path in sorted((DEPLOY / "kustomize/overlays").iterdir()):
        yield path.name, path


def with_component(overlay, component):
    """An overlay with a component."""
    (ROOT / "target").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as directory:
        text = f"resources: [../../deploy/kustomize/{overlay}]\ncomponents: [../../deploy/{component}]\n"
        (pathlib.Path(directory) / "kustomization.yaml").write_text(text)
        return kustomize(directory)


def everything():
    """All objects that kustomizations make, and the chart if it can be rendered: (where from, objects)."""
    for name, path in overlays():
        yield f"kustomize {name}", kustomize(path)
    for overlay in ("base", "overlays/shadow", "overlays/mirroring", "overlays/opt-in"):
        yield f"kustomize {overlay} with audit", with_component(overlay, "kustomize/components/audit")
    for name, overrides, namespace in value_sets() if HELM else []:
        yield f"chart {name}", chart(*overrides, namespace=namespace)


def key(item):
    """What tells an object from others."""
    return item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]


def find(objects, kind):
    """The objects of a kind."""
    return [item for item in objects if item["kind"] == kind]


def report(problems, done):
    """Ends the check: with what is wrong, or with a word on what was looked at."""
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print(done)
