"""helm lints the chart, renders what the renderer here renders, and refuses what the schema refuses."""

import subprocess

import common
import yaml


def helm(*arguments):
    """Runs helm."""
    return subprocess.run(["helm", *arguments], capture_output=True, text=True, timeout=60, check=False)


def flags(overrides):
    """Our way of naming values, in helm's words."""
    for override in overrides:
        yield from ("--values", str(override)) if "=" not in str(override) else ("--set", override)


def main():
    """Compares all sets of values."""
    problems, count = [], 0
    lint = helm("lint", "--strict", str(common.CHART))
    if lint.returncode != 0:
        problems.append(lint.stdout + lint.stderr)
    for name, overrides, namespace in common.value_sets():
        run = helm("template", "test", str(common.CHART), "--namespace", namespace, *flags(overrides))
        if run.returncode != 0:
            problems.append(f"{name}: {run.stderr.strip()}")
            continue
        count += 1
        theirs = {common.key(item): item for item in yaml.safe_load_all(run.stdout) if item}
        ours = {common.key(item): item for item in common.chart(*overrides, namespace=namespace)}
        problems += [f"{name}: {key} differs" for key in sorted(set(theirs) | set(ours)) if theirs.get(key) != ours.get(key)]
    for path in sorted((common.DEPLOY / "checks/values/bad").glob("*.yaml")):
        for number, document in enumerate(path.read_text().split("---\n")):
            scratch = common.ROOT / "target" / f"helm-{path.stem}-{number}.yaml"
            scratch.parent.mkdir(exist_ok=True)
            scratch.write_text(document)
            run = helm("template", "test", str(common.CHART), "--namespace", "kube-system", "--values", str(scratch))
            scratch.unlink()
            if run.returncode == 0:
                problems.append(f"{path.name}, {number}: is not refused")
    common.report(problems, f"{count} sets of values")


main()
