"""Rights are no wider than those of the controllers that are replaced, and wide enough for what is requested."""

import copy
import itertools

import common

READ = ("get", "list", "watch")


def rights(groups, resources, verbs):
    """All triples."""
    return set(itertools.product(groups, resources, verbs))


EVENTS = rights(["", "events.k8s.io"], ["events"], ["create", "update", "patch"])
# kubectl get clusterrole system:controller:endpoint-controller, of Kubernetes 1.36.
ENDPOINT_CONTROLLER = (
    rights([""], ["services", "pods"], READ)
    | rights([""], ["endpoints"], [*READ, "create", "update", "delete"])
    | rights([""], ["endpoints/restricted"], ["create"])
    | EVENTS
)
# And system:controller:endpointslice-controller.
ENDPOINTSLICE_CONTROLLER = (
    rights([""], ["services", "pods", "nodes"], READ)
    | rights([""], ["services/finalizers"], ["update"])
    | rights(["discovery.k8s.io"], ["endpointslices"], [*READ, "create", "update", "delete"])
    | rights(["discovery.k8s.io"], ["endpointslices/restricted"], ["create"])
    | EVENTS
)
# And system:controller:endpointslicemirroring-controller, beyond these.
MIRRORING_CONTROLLER = rights([""], ["endpoints/finalizers"], ["update"])
MIRRORING = ("endpointslice-mirroring-controller", "endpointslicemirroring")
UPSTREAM = ENDPOINT_CONTROLLER | ENDPOINTSLICE_CONTROLLER
# Events are written by the core API, and never replaced.
NOT_NEEDED = rights(["events.k8s.io"], ["events"], ["create", "update", "patch"]) | {("", "events", "update")}
NEEDED = UPSTREAM - NOT_NEEDED
READS = {right for right in NEEDED if right[2] in READ}
REVIEWS = {
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
}
LEASES = [
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": ["endpointd"], "verbs": ["get", "update", "watch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
]


def runs(args, names, in_star):
    """Whether --controllers has a controller on: the first item that names it decides."""
    (value,) = [arg.partition("=")[2] for arg in args if arg.startswith("--controllers=")]
    items = value.split(",")
    named = [not item.startswith("-") for item in items if item.removeprefix("-") in names]
    return named[0] if named else in_star and "*" in items


def granted(objects):
    """What the service account may do in the whole cluster, and in single namespaces; and what is odd."""
    account = {
        (item["spec"]["template"]["spec"]["serviceAccountName"], item["metadata"]["namespace"])
        for item in common.find(objects, "Deployment")
    }
    roles = {(item["kind"], item["metadata"]["name"]): item for item in objects if item["kind"] in ("Role", "ClusterRole")}
    cluster, own, problems, bound = set(), {}, [], set()
    problems += of_audits(objects)
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding") or binding["metadata"]["name"].endswith("-audit"):
            continue
        subjects = {(subject["name"], subject["namespace"]) for subject in binding["subjects"]}
        if subjects != account or any(subject["kind"] != "ServiceAccount" for subject in binding["subjects"]):
            problems.append(f"{binding['metadata']['name']} binds {subjects}, not {account}")
        name = (binding["roleRef"]["kind"], binding["roleRef"]["name"])
        bound.add(name)
        if name not in roles:
            problems.append(f"{binding['metadata']['name']} binds {name[1]}, which is not there")
            continue
        rules = roles[name]["rules"]
        if binding["kind"] == "RoleBinding":
            own.setdefault(binding["metadata"]["namespace"], []).extend(rules)
            continue
        for rule in rules:
            if rule.get("resourceNames") or rule.get("nonResourceURLs"):
                problems.append(f"{name[1]}: an unexpected rule: {rule}")
            cluster |= rights(rule.get("apiGroups", []), rule.get("resources", []), rule["verbs"])
    problems += [f"{name} is bound to nobody" for kind, name in set(roles) - bound if not name.endswith("-metrics-reader")]
    return cluster, own, problems


def of_audits(objects):
    """What is odd about the rights of audits: they have an account of their own, which may read what the controller reads."""
    jobs = common.find(objects, "CronJob")
    bindings = [item for item in objects if item["kind"].endswith("RoleBinding") and item["metadata"]["name"].endswith("-audit")]
    if len(jobs) != len(bindings):
        yield f"{len(bindings)} bindings for {len(jobs)} audits"
    for job, binding in zip(jobs, bindings):
        account = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["serviceAccountName"]
        subjects = [(item["kind"], item["name"], item["namespace"]) for item in binding["subjects"]]
        if subjects != [("ServiceAccount", account, job["metadata"]["namespace"])]:
            yield f"audits run as {account}, and {subjects} are bound"
        if binding["kind"] != "ClusterRoleBinding" or not binding["roleRef"]["name"].endswith("-reader"):
            yield f"audits have {binding['roleRef']}"
        if account not in [item["metadata"]["name"] for item in common.find(objects, "ServiceAccount")]:
            yield f"there is no account {account}"


def problems_of(objects):
    """What is wrong with the rights that objects give."""
    (deployment,) = common.find(objects, "Deployment")
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    shadow, elects = "--dry-run" in args, "--leader-elect=true" in args
    mirroring = MIRRORING_CONTROLLER if runs(args, MIRRORING, True) and not shadow else set()
    needed = NEEDED
    if "--controllers=custom-selector-controller" in args:
        # It publishes slices alone.
        needed = ENDPOINTSLICE_CONTROLLER - NOT_NEEDED
    upstream = UPSTREAM | mirroring
    expected = needed & READS if shadow else needed | mirroring
    if any(arg.startswith("--tls-cert-file") for arg in args):
        expected = expected | REVIEWS
    cluster, own, problems = granted(objects)
    problems += [f"more than is needed: {right}" for right in sorted(cluster - expected)]
    problems += [f"is needed and not given: {right}" for right in sorted(expected - cluster)]
    problems += [f"more than upstream has: {right}" for right in sorted(cluster - upstream - REVIEWS)]
    # The lease is where the flag says, and the program's default is kube-system.
    flag = "--leader-elect-resource-namespace="
    places = [arg.removeprefix(flag) for arg in args if arg.startswith(flag)] or ["kube-system"]
    if own != ({places[0]: LEASES} if elects and not shadow else {}):
        problems.append(f"in namespaces: {own}, with the lease in {places[0]}")
    return problems


def role(objects, name):
    """A role's rules, to be changed."""
    return next(item["rules"] for item in objects if item["kind"] in ("Role", "ClusterRole") and item["metadata"]["name"] == name)


MUTATIONS = {
    "reads secrets": lambda objects: role(objects, "endpointd-reader")[0]["resources"].append("secrets"),
    "deletes pods": lambda objects: role(objects, "endpointd-writer").append(
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}
    ),
    "reads all leases": lambda objects: role(objects, "endpointd-reader").append(
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": [*READ]}
    ),
    "all verbs": lambda objects: role(objects, "endpointd-writer")[0].update(verbs=["*"]),
    "patches slices": lambda objects: role(objects, "endpointd-writer")[1]["verbs"].append("patch"),
    "no watch": lambda objects: role(objects, "endpointd-reader")[0]["verbs"].remove("watch"),
    "any lease": lambda objects: role(objects, "endpointd-leases")[0].pop("resourceNames"),
    "the lease elsewhere": lambda objects: common.find(objects, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0][
        "args"
    ].append("--leader-elect-resource-namespace=other"),
    "another account": lambda objects: common.find(objects, "ClusterRoleBinding")[0]["subjects"][0].update(name="default"),
}

OF_AUDITS = [
    lambda binding: binding["roleRef"].update(name="endpointd-writer"),
    lambda binding: binding["subjects"][0].update(name="endpointd"),
    lambda binding: binding["metadata"].update(name="endpointd-audits"),
]


def main():
    """Checks all roles, and that mistakes would be found."""
    problems, count = [], 0
    for source, objects in common.everything():
        if not common.find(objects, "ClusterRole"):
            continue
        count += 1
        problems += [f"{source}: {problem}" for problem in problems_of(objects)]
    base = common.kustomize(common.DEPLOY / "kustomize/base")
    with_audits = common.with_component("base", "kustomize/components/audit")
    for number, mutate in enumerate(OF_AUDITS):
        objects = copy.deepcopy(with_audits)
        mutate(next(item for item in objects if common.key(item) == ("ClusterRoleBinding", "", "endpointd-audit")))
        if not problems_of(objects):
            problems.append(f"mistake {number} of audits would not be found")
    for name, mutate in MUTATIONS.items():
        objects = copy.deepcopy(base)
        mutate(objects)
        if not problems_of(objects):
            problems.append(f"{name}: would not be found")
    common.report(problems, f"{count} sets of roles, {len(MUTATIONS) + len(OF_AUDITS)} mistakes that are found")


main()
