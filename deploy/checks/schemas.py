"""All manifests are what Kubernetes' own schemas allow, without unknown fields, from the oldest version that is supported."""

import copy

import common
import kubernetes_validate

VERSIONS = ["1.29", "1.33", "1.36", "1.37"]
# Not Kubernetes' own; rules and selectors in them are looked at elsewhere.
CUSTOM = {"ServiceMonitor", "PrometheusRule"}
GUARD = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
CLUSTER_WIDE = {"ClusterRole", "ClusterRoleBinding", "FlowSchema"} | GUARD
# Kinds that are not in all versions. They are left out by default.
SINCE = {kind: "1.30" for kind in GUARD}
# All fields of ServiceMonitors that the chart may use, as the operator documents them.
ENDPOINT = {"port", "path", "interval", "scheme", "bearerTokenFile", "tlsConfig"}


def problems_of(item, version):
    """What is wrong with an object."""
    if (item["kind"] in CLUSTER_WIDE) == bool(item["metadata"].get("namespace")):
        return [f"{'/'.join(common.key(item))}: namespace {item['metadata'].get('namespace')}"]
    if item["kind"] in CUSTOM:
        return custom(item)
    try:
        kubernetes_validate.validate(item, version, strict=True)
    except kubernetes_validate.ValidationError as error:
        path = ".".join(str(part) for part in error.path)
        return [f"{'/'.join(common.key(item))}: {path}: {error.message} ({version})"]
    except kubernetes_validate.SchemaNotFoundError:
        return [f"{'/'.join(common.key(item))}: there is no {item['kind']} of {item['apiVersion']} in {version}"]
    return []


def custom(item):
    """What is wrong with an object of the Prometheus operator."""
    if item["apiVersion"] != "monitoring.coreos.com/v1":
        return [f"{item['kind']}: apiVersion"]
    if item["kind"] == "PrometheusRule":
        return [] if set(item["spec"]) == {"groups"} else ["PrometheusRule: spec"]
    unknown = set(item["spec"]) - {"jobLabel", "selector", "endpoints"}
    unknown |= {field for endpoint in item["spec"]["endpoints"] for field in set(endpoint) - ENDPOINT}
    return [f"ServiceMonitor: {field}" for field in unknown]


def main():
    """Checks all objects, and that mistakes would be found."""
    problems, count = [], 0
    for source, objects in common.everything():
        for item in objects:
            count += 1
            for version in VERSIONS:
                if version < SINCE.get(item["kind"], ""):
                    continue
                problems += [f"{source}: {problem}" for problem in problems_of(item, version)]
        keys = [common.key(item) for item in objects]
        problems += [f"{source}: {one} is there twice" for one in set(keys) if keys.count(one) > 1]

    (good,) = common.find(common.kustomize(common.DEPLOY / "kustomize/base"), "Deployment")
    for path, value in [
        (("metadata", "namespace"), ""),
        (("spec", "replicas"), "1"),
        (("spec", "template", "spec", "containers", 0, "livenesProbe"), {}),
        (("spec", "template", "spec", "tolerations", 0, "tolerationSeconds"), "soon"),
    ]:
        bad = copy.deepcopy(good)
        at = bad
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = value
        if not problems_of(bad, "1.36"):
            problems.append(f"a Deployment with {path[-1]}: {value!r} would not be found")
    common.report(problems, f"{count} objects, Kubernetes {', '.join(VERSIONS)}")


main()
