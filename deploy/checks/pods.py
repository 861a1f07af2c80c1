"""Pods conform to the restricted profile of the Pod Security Standards, and to our own rules besides."""

import copy

import common

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def restricted(spec):
    """What the restricted profile does not allow; the controls in the order of the standard."""
    pod = spec.get("securityContext", {})
    containers = [item for kind in ("containers", "initContainers", "ephemeralContainers") for item in spec.get(kind, [])]
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield field
    if pod.get("sysctls"):
        yield "sysctls"
    for context in [pod] + [item.get("securityContext", {}) for item in containers]:
        if context.get("seLinuxOptions") or context.get("windowsOptions") or context.get("appArmorProfile"):
            yield "seLinuxOptions, windowsOptions, appArmorProfile: leave them to the node"
        if context.get("runAsUser") == 0:
            yield "runAsUser: 0"
        if context.get("runAsNonRoot") is False:
            yield "runAsNonRoot: false"
        if context.get("seccompProfile", {}).get("type", "RuntimeDefault") not in ("RuntimeDefault", "Localhost"):
            yield "seccompProfile"
    for volume in spec.get("volumes", []):
        if not set(volume) - {"name"} <= VOLUMES:
            yield f"volume {volume['name']}"
    for item in containers:
        context = item.get("securityContext", {})
        if context.get("privileged"):
            yield "privileged"
        if context.get("allowPrivilegeEscalation") is not False:
            yield "allowPrivilegeEscalation"
        if context.get("procMount", "Default") != "Default":
            yield "procMount"
        if any(port.get("hostPort") for port in item.get("ports", [])):
            yield "hostPort"
        capabilities = context.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []):
            yield "capabilities: drop"
        if not set(capabilities.get("add", [])) <= {"NET_BIND_SERVICE"}:
            yield "capabilities: add"
        if not (context.get("runAsNonRoot") or pod.get("runAsNonRoot")):
            yield "runAsNonRoot"
        if not (context.get("seccompProfile") or pod.get("seccompProfile")):
            yield "seccompProfile is not set"


def ours(spec):
    """What a pod of this program must have besides."""
    if spec.get("dnsPolicy") != "Default":
        yield "dnsPolicy: cluster DNS needs our endpoints"
    if spec.get("enableServiceLinks") is not False:
        yield "enableServiceLinks"
    job = spec.get("restartPolicy") == "Never"
    if spec.get("terminationGracePeriodSeconds", 30) < 20:
        yield "terminationGracePeriodSeconds: writes in flight have 10 s"
    if spec.get("securityContext", {}).get("runAsUser") != 65532:
        yield "runAsUser: the image's user is 65532"
    for item in spec["containers"]:
        if item.get("securityContext", {}).get("readOnlyRootFilesystem") is not True:
            yield "readOnlyRootFilesystem"
        resources = item.get("resources", {})
        if not {"cpu", "memory"} <= set(resources.get("requests", {})) or "memory" not in resources.get("limits", {}):
            yield "resources"
        if "cpu" in resources.get("limits", {}):
            yield "a limit of CPU delays every endpoint"
        if not job and not {"livenessProbe", "readinessProbe"} <= set(item):
            yield "probes"
        if job and item.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            yield "the last line of a Job that has failed is not in its pod's status"
        if item["image"].endswith(":latest") or not any(mark in item["image"].split("/")[-1] for mark in ":@"):
            yield f"image {item['image']}"
        names = {port["name"] for port in item.get("ports", [])}
        for probe in ("livenessProbe", "readinessProbe"):
            if not job and item.get(probe, {}).get("httpGet", {}).get("port") not in names:
                yield f"{probe}: port"


# Where pods run on the network of their nodes, and what they have in spite of the restricted profile.
CONTROL_PLANES = {"kustomize control-plane", "chart control-plane"}
ON_THE_NODES_NETWORK = {"hostNetwork"}


def without_a_network(deployment):
    """What a pod that starts before the pod network must have, if this is one."""
    spec = deployment["spec"]["template"]["spec"]
    if not spec.get("hostNetwork"):
        return
    tolerated = spec.get("tolerations", [])
    if {"operator": "Exists", "effect": "NoExecute"} not in tolerated:
        yield "static pods tolerate all taints of the effect NoExecute"
    for key in ("node-role.kubernetes.io/control-plane", "node.kubernetes.io/not-ready", "node.kubernetes.io/network-unavailable"):
        if {"key": key, "operator": "Exists", "effect": "NoSchedule"} not in tolerated:
            yield f"{key} is not tolerated"
    if any(item.get("effect") != "NoExecute" and item.get("key") in (None, "node.kubernetes.io/unschedulable") for item in tolerated):
        yield "it would come back to a node that is drained"
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    if "node-role.kubernetes.io/control-plane" not in str(affinity.get("requiredDuringSchedulingIgnoredDuringExecution")):
        yield "it may run on other nodes, whose ports and API server are not meant"
    strategy = deployment["spec"]["strategy"]
    if strategy["type"] == "RollingUpdate" and strategy["rollingUpdate"] != {"maxSurge": 0, "maxUnavailable": 1}:
        yield "a new pod would wait for the port of the old one"
    (container,) = spec["containers"]
    if not {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"} <= {item["name"] for item in container.get("env", [])}:
        yield "the API server is found through a Service"
    loopback = "--bind-address=127.0.0.1" in container["args"]
    for probe in ("livenessProbe", "readinessProbe"):
        if (container[probe]["httpGet"].get("host") == "127.0.0.1") != loopback:
            yield f"{probe}: host"


def audits(objects):
    """What a CronJob must have so that it judges as the controller does, and so that its result shows."""
    for item in common.find(objects, "CronJob"):
        job = item["spec"]["jobTemplate"]["spec"]
        spec = job["template"]["spec"]
        (deployment,) = common.find(objects, "Deployment")
        controller = deployment["spec"]["template"]["spec"]
        (container,), (other,) = spec["containers"], controller["containers"]
        command, *args = container["args"]
        if command != "audit" or not [arg for arg in args if arg.startswith("--settle=")]:
            yield f"audit: {container['args']}"
        judged = ("--controllers=", "--max-endpoints-per-slice=", "--legacy-tolerate-unready-annotation", "--mirroring-max")
        if [arg for arg in other["args"] if arg.startswith(judged)] != [arg for arg in args if arg.startswith(judged)]:
            yield f"audit: {args} are not the controller's {other['args']}"
        if container["image"] != other["image"]:
            yield f"audit: {container['image']}"
        if spec["serviceAccountName"] == controller["serviceAccountName"]:
            yield "audit: the controller's account may write"
        codes = [rule["onExitCodes"]["values"] for rule in job["podFailurePolicy"]["rules"] if rule["action"] == "FailJob"]
        if codes != [[1]] or job["backoffLimit"] < 1:
            yield "audit: exit code 1 is a result, 2 is not"
        if item["spec"]["concurrencyPolicy"] != "Forbid" or item["spec"]["failedJobsHistoryLimit"] < 1:
            yield "audit: a result would be overtaken or gone"


def for_audits(selector):
    """Whether labels are those of audits."""
    return selector.get("app.kubernetes.io/name") == "endpointd-audit"


def selectors(objects):
    """Whether everything that selects pods by labels selects these."""
    (deployment,) = common.find(objects, "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    found = [("Deployment", deployment["spec"]["selector"]["matchLabels"])]
    found += [("Service", item["spec"]["selector"]) for item in common.find(objects, "Service")]
    policies = [item["spec"]["podSelector"]["matchLabels"] for item in common.find(objects, "NetworkPolicy")]
    found += [("NetworkPolicy", selector) for selector in policies if not for_audits(selector)]
    found += [
        ("PodDisruptionBudget", item["spec"]["selector"]["matchLabels"])
        for item in common.find(objects, "PodDisruptionBudget")
    ]
    found += [
        ("topologySpreadConstraints", item["labelSelector"]["matchLabels"])
        for item in deployment["spec"]["template"]["spec"].get("topologySpreadConstraints", [])
    ]
    for job in common.find(objects, "CronJob"):
        labelled = job["spec"]["jobTemplate"]["spec"]["template"]["metadata"]["labels"]
        yield from (f"{what} selects the pods of audits" for what, selector in found if selector.items() <= labelled.items())
        if policies and not any(for_audits(selector) and selector.items() <= labelled.items() for selector in policies):
            yield "no NetworkPolicy selects the pods of audits"
    for what, selector in found:
        if not selector or not selector.items() <= labels.items():
            yield f"{what} does not select the pods: {selector}"
    ports = {port["name"]: port["containerPort"] for port in deployment["spec"]["template"]["spec"]["containers"][0]["ports"]}
    args = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    if f"--admin-port={ports['admin']}" not in args:
        yield "--admin-port is not the container's port"
    if deployment["spec"]["replicas"] > 1 and not common.find(objects, "PodDisruptionBudget"):
        yield "several replicas without a PodDisruptionBudget"
    if deployment["spec"]["replicas"] > 1 and not {"--leader-elect=true", "--dry-run"} & set(args):
        yield "several writers"
    for monitor in common.find(objects, "ServiceMonitor"):
        for service in common.find(objects, "Service"):
            if not monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items():
                yield "ServiceMonitor does not select the Service"


MUTATIONS = {
    "host network": lambda spec: spec.update(hostNetwork=True),
    "root": lambda spec: spec["securityContext"].update(runAsUser=0),
    "perhaps root": lambda spec: spec["securityContext"].pop("runAsNonRoot"),
    "no seccomp": lambda spec: spec["securityContext"].pop("seccompProfile"),
    "unconfined": lambda spec: spec["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    "host path": lambda spec: spec.update(volumes=[{"name": "x", "hostPath": {"path": "/"}}]),
    "escalation": lambda spec: spec["containers"][0]["securityContext"].pop("allowPrivilegeEscalation"),
    "capabilities kept": lambda spec: spec["containers"][0]["securityContext"].pop("capabilities"),
    "capability added": lambda spec: spec["containers"][0]["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
    "privileged": lambda spec: spec["containers"][0]["securityContext"].update(privileged=True),
    "init container": lambda spec: spec.update(initContainers=[{"name": "x", "image": "x:1"}]),
    "host port": lambda spec: spec["containers"][0]["ports"][0].update(hostPort=1),
}
OF_AUDITS = {
    "flags": lambda job: job["template"]["spec"]["containers"][0]["args"].pop(1),
    "an image": lambda job: job["template"]["spec"]["containers"][0].update(image="endpointd:0.1.0"),
    "the controller's account": lambda job: job["template"]["spec"].update(serviceAccountName="endpointd"),
    "retries of a result": lambda job: job["podFailurePolicy"]["rules"].pop(),
}
ON_CONTROL_PLANES = {
    "a taint": lambda item: item["spec"]["template"]["spec"]["tolerations"].pop(3),
    "all taints": lambda item: item["spec"]["template"]["spec"]["tolerations"].append({"operator": "Exists"}),
    "other nodes": lambda item: item["spec"]["template"]["spec"].pop("affinity"),
    "a Service": lambda item: item["spec"]["template"]["spec"]["containers"][0].pop("env"),
    "a surge": lambda item: item["spec"]["strategy"]["rollingUpdate"].update(maxSurge=1),
    "loopback": lambda item: item["spec"]["template"]["spec"]["containers"][0]["args"].append("--bind-address=127.0.0.1"),
}


def main():
    """Checks all pods, and that mistakes would be found."""
    problems, count = [], 0
    for source, objects in common.everything():
        for item in common.find(objects, "Deployment"):
            count += 1
            spec = item["spec"]["template"]["spec"]
            allowed = ON_THE_NODES_NETWORK if source in CONTROL_PLANES else set()
            found = [problem for problem in restricted(spec) if problem not in allowed]
            problems += [f"{source}: {problem}" for problem in [*found, *ours(spec), *without_a_network(item)]]
            if source in CONTROL_PLANES and not spec.get("hostNetwork"):
                problems.append(f"{source}: it waits for the pod network")
        for item in common.find(objects, "CronJob"):
            count += 1
            spec = item["spec"]["jobTemplate"]["spec"]["template"]["spec"]
            problems += [f"{source}, audit: {problem}" for problem in [*restricted(spec), *ours(spec)]]
        problems += [f"{source}: {problem}" for problem in [*selectors(objects), *audits(objects)]]
    (good,) = common.find(common.kustomize(common.DEPLOY / "kustomize/base"), "Deployment")
    for name, mutate in MUTATIONS.items():
        spec = copy.deepcopy(good["spec"]["template"]["spec"])
        mutate(spec)
        if not list(restricted(spec)):
            problems.append(f"{name}: would not be found")
    (good,) = common.find(common.kustomize(common.DEPLOY / "kustomize/overlays/control-plane"), "Deployment")
    for name, mutate in ON_CONTROL_PLANES.items():
        bad = copy.deepcopy(good)
        mutate(bad)
        if not list(without_a_network(bad)):
            problems.append(f"on control planes, {name}: would not be found")
    with_audits = common.with_component("base", "kustomize/components/audit")
    for name, mutate in OF_AUDITS.items():
        objects = copy.deepcopy(with_audits)
        mutate(common.find(objects, "CronJob")[0]["spec"]["jobTemplate"]["spec"])
        if not list(audits(objects)):
            problems.append(f"of audits, {name}: would not be found")
    user = [line.split()[1] for line in (common.DEPLOY / "Containerfile").read_text().splitlines() if line.startswith("USER ")]
    if user != ["65532:65532"]:
        problems.append(f"the image's user is {user}")
    common.report(problems, f"{count} pods, {len(MUTATIONS) + len(ON_CONTROL_PLANES) + len(OF_AUDITS)} mistakes that are found")


main()
