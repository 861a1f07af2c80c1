"""Kustomize and the chart make the same objects, apart from labels that Helm's habits add. Needs helm."""

import copy
import json

import common

PAIRS = [
    ("base", []),
    ("ha", ["replicas=3"]),
    (
        "mirroring",
        [
            "replicas=3",
            "controllers=endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller",
        ],
    ),
    ("opt-in", ["replicas=3", "mode=opt-in"]),
    ("control-plane", ["replicas=3", "controlPlane.enabled=true"]),
    ("shadow", ["shadow=true"]),
    ("monitoring", ["serviceMonitor.enabled=true", "prometheusRule.enabled=true", "dashboard.enabled=true"]),
    ("guard", ["guard.enabled=true"]),
    ("kustomize/components/audit", ["audit.enabled=true"]),
]
# Not overlays, but components, which are added to the base.
COMPONENTS = ["monitoring", "guard", "kustomize/components/audit"]


def plain(objects):
    """Objects without the labels on them; labels that select are kept."""
    out = {}
    for item in copy.deepcopy(objects):
        item["metadata"].pop("labels", None)
        if item["kind"] == "Deployment":
            item["spec"]["template"]["metadata"].pop("labels")
        if item["kind"] == "CronJob":
            item["spec"]["jobTemplate"]["metadata"].pop("labels")
            item["spec"]["jobTemplate"]["spec"]["template"]["metadata"].pop("labels")
        # The order of rules means nothing.
        if "rules" in item and item["kind"].endswith("Role"):
            item["rules"].sort(key=json.dumps)
        out[common.key(item)] = item
    return out


def differences(left, right, path=""):
    """Where two values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted(set(left) | set(right)):
            if name not in left or name not in right:
                yield f"{path}.{name} is only in {'kustomize' if name in left else 'the chart'}"
            else:
                yield from differences(left[name], right[name], f"{path}.{name}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, pair in enumerate(zip(left, right)):
            yield from differences(*pair, f"{path}[{index}]")
    elif left != right:
        yield f"{path}: {left!r} and {right!r}"


def compare(kustomized, rendered):
    """What differs between two sets of objects."""
    left, right = plain(kustomized), plain(rendered)
    for key in sorted(set(left) ^ set(right)):
        yield f"{'/'.join(key)} is only in {'kustomize' if key in left else 'the chart'}"
    for key in sorted(set(left) & set(right)):
        yield from differences(left[key], right[key], "/".join(key))


def main():
    """Compares all pairs, and sees to it that a difference would be found."""
    problems, count = [], 0
    directories = dict(common.overlays())
    for name, overrides in PAIRS:
        kustomized = common.with_component("base", name) if name in COMPONENTS else common.kustomize(directories.pop(name))
        count += len(kustomized)
        problems += [f"{name}: {problem}" for problem in compare(kustomized, common.chart(*overrides))]
    problems += [f"overlay {name} is compared with nothing" for name in directories]
    for override in ["replicas=2", "logFormat=text", "networkPolicy.enabled=false", "resources.limits.memory=2Gi"]:
        if not list(compare(common.kustomize(common.DEPLOY / "kustomize/base"), common.chart(override))):
            problems.append(f"{override} would not be found")
    common.report(problems, f"{len(PAIRS)} pairs, {count} objects")


main()
