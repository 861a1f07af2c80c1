"""The chart takes the values that it should and refuses the others; its metadata and its values fit together."""

import json
import re
import subprocess

import common
import jsonschema
import yaml


def refusals(schema, overrides, namespace="kube-system"):
    """Why values are refused: by the schema, or by helm, which knows the templates too."""
    values = common.chart_values(*overrides)
    found = [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(values)]
    code, _, err = common.helm(*overrides, namespace=namespace) if common.HELM else (0, "", "")
    return found, [err.strip()] if code else []


def same_names(values, schema, path=""):
    """Names that are in the values or in their schema only."""
    properties = schema.get("properties")
    if not isinstance(values, dict) or properties is None:
        return
    for name in sorted(set(values) ^ (set(properties) - {"global"})):
        yield f"{path}{name} is only in {'values.yaml' if name in values else 'values.schema.json'}"
    for name in set(values) & set(properties):
        yield from same_names(values[name], properties[name], f"{path}{name}.")


def closed(schema, path=""):
    """Objects with named properties that would take any other name, too."""
    if "properties" in schema and path != "if" and schema.get("additionalProperties") is not False:
        yield f"{path or 'the schema'} takes names that are not there"
    for name, inner in schema.get("properties", {}).items():
        yield from closed(inner, f"{path}.{name}")


def main():
    """Tries all sets of values."""
    schema = json.loads((common.CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    defaults = yaml.safe_load((common.CHART / "values.yaml").read_text())
    problems = [*same_names(defaults, schema), *closed(schema)]

    good = 0
    for name, overrides, namespace in common.value_sets():
        good += 1
        found, failed = refusals(schema, overrides, namespace)
        problems += [f"{name} is refused: {why}" for why in [*found, *failed]]

    bad = 0
    for path in sorted((common.DEPLOY / "checks/values/bad").glob("*.yaml")):
        for number, document in enumerate(path.read_text().split("---\n")):
            by, words = re.match(r"# refused by (schema|templates|both): (.*)\n", document).groups()
            bad += 1
            scratch = common.ROOT / "target" / f"bad-{path.stem}-{number}.yaml"
            scratch.parent.mkdir(exist_ok=True)
            scratch.write_text(document)
            found, failed = refusals(schema, [scratch])
            scratch.unlink()
            if by != "templates" and not found:
                problems.append(f"{path.name}, {number}: not refused by the schema")
            if by == "schema" and not any(words in why for why in found):
                problems.append(f"{path.name}, {number}: not refused by the schema with {words!r}: {found}")
            if common.HELM and not failed:
                problems.append(f"{path.name}, {number}: not refused by helm")
            if common.HELM and by == "templates" and not any(words in why for why in failed):
                problems.append(f"{path.name}, {number}: not refused by the templates with {words!r}: {failed}")

    meta = yaml.safe_load((common.CHART / "Chart.yaml").read_text())
    version = re.search(r'^version = "(.*)"$', (common.ROOT / "Cargo.toml").read_text(), re.M).group(1)
    if meta["apiVersion"] != "v2" or not re.fullmatch(r"\d+\.\d+\.\d+", meta["version"]):
        problems.append("Chart.yaml: apiVersion or version")
    kustomization = yaml.safe_load((common.DEPLOY / "kustomize/base/kustomization.yaml").read_text())
    for where, found in [("Chart.yaml", meta["appVersion"]), ("kustomize", kustomization["images"][0]["newTag"])]:
        if found != version:
            problems.append(f"{where} has version {found}, the program {version}")
    if common.HELM:
        lint = subprocess.run(
            [common.HELM, "lint", "--strict", str(common.CHART)], capture_output=True, text=True, timeout=60, check=False
        )
        problems += [lint.stdout + lint.stderr] if lint.returncode else []
    common.report(problems, f"{good} sets are taken, {bad} are refused")


main()
