"""What docs/switch-over.md tells people to write is what the tools read: names of controllers, YAML, and paths."""

import re

import common
import yaml

DOCUMENT = (common.ROOT / "docs/switch-over.md").read_text()
OFF = {"-endpoints-controller", "-endpointslice-controller"}
# What kubeadm's own default has on, and a value of ours would lose.
KUBEADM = {"bootstrap-signer-controller", "token-cleaner-controller"}
# The value of Talos itself. Releases differ in whether another one is added to it or takes its place.
TALOS = {"*", "tokencleaner"}


def known():
    """The names that kube-controller-manager knows, older ones too, from the flag that is parsed as it does."""
    source = (common.ROOT / "src/ops/flags/controllers.rs").read_text()
    table = source[source.index("const KNOWN") : source.index("];", source.index("const KNOWN"))]
    outputs = (common.ROOT / "src/core/outputs.rs").read_text()
    consts = dict(re.findall(r'const (\w+): &str = "([^"]+)"', outputs))
    present = set(re.findall(r'\("([^"]+)",', table)) | {consts[name] for name in re.findall(r"\((\w+), Some", table)}
    return present | set(re.findall(r'Some\("([^"]+)"\)', table))


def blocks(language):
    """The code blocks of a language, without the indentation of the list that they stand in."""
    for indent, text in re.findall(rf"^( *)```{language}\n(.*?)^ *```$", DOCUMENT, re.M | re.S):
        yield re.sub(rf"^{indent}", "", text, flags=re.M)


def problems_of_value(where, value, needed):
    """What is wrong with a value of --controllers."""
    items = value.split(",")
    names = known()
    yield from (f"{where}: {item} is no controller" for item in items if item != "*" and item.removeprefix("-") not in names)
    yield from (f"{where}: {item} is missing" for item in sorted((OFF | needed) - set(items)))


def kubeadm(where, config):
    """The value in a ClusterConfiguration; the form of extraArgs is that of its version."""
    args = config["controllerManager"]["extraArgs"]
    version = config["apiVersion"]
    if version == "kubeadm.k8s.io/v1beta4":
        value = {item["name"]: item["value"] for item in args}["controllers"]
    elif version == "kubeadm.k8s.io/v1beta3" and isinstance(args, dict):
        value = args["controllers"]
    else:
        return [f"{where}: extraArgs is not what {version} has"]
    return [*problems_of_value(where, value, KUBEADM | {"*"})]


def main():
    """Looks at all examples."""
    problems, values = [], 0
    for block in blocks("yaml"):
        document = yaml.safe_load(block)
        if document.get("kind") == "ClusterConfiguration":
            values += 1
            problems += kubeadm("kubeadm", document)
        elif document.get("kind") == "Cluster":
            for patch in document["kubeadmConfigPatches"]:
                values += 1
                problems += kubeadm("kind", yaml.safe_load(patch))
        elif "spec" in document:
            values += 1
            items = document["spec"]["kubeControllerManager"]["controllers"]
            problems += problems_of_value("kOps", ",".join(items), {"*"})
        elif "cluster" in document:
            values += 1
            value = document["cluster"]["controllerManager"]["extraArgs"]["controllers"]
            problems += problems_of_value("Talos", value, TALOS)
        elif "kube_kubeadm_controller_extra_args" in document:
            values += 1
            value = document["kube_kubeadm_controller_extra_args"]["controllers"]
            problems += problems_of_value("Kubespray", value, KUBEADM | {"*"})
        else:
            for argument in document["kube-controller-manager-arg"]:
                values += 1
                name, _, value = argument.partition("+=")
                if name != "controllers":
                    problems.append(f"k3s: {argument}")
                problems += problems_of_value("k3s", value, set())
    for value in re.findall(r"--controllers=(\S+)", "".join(blocks("text"))):
        values += 1
        problems += problems_of_value("--controllers", value, {"*"})
    if values != 10:
        problems.append(f"{values} examples of the flag are found, not 10")

    # A patch is merged, so a key that it leaves out stays as it is.
    talos = DOCUMENT[DOCUMENT.index("### Talos\n") :]
    back = talos[talos.index("**Way back**") : talos.index("###", 1)]
    given = re.findall(r'`controllers: "([^"]+)"`', back)
    if [set(value.split(",")) for value in given] != [TALOS]:
        problems.append(f"the way back for Talos sets the flag to {given}")

    commands = "".join(blocks("sh"))
    paths = re.findall(r"(?<![\w/.-])deploy/[\w./-]+", commands)
    problems += [f"there is no {path}" for path in paths if not (common.ROOT / path).exists()]
    overrides = re.findall(r"--set ([\w.]+)=(\S+)", commands)
    defaults = common.chart_values()
    problems += [f"the chart has no value {name}" for name, _ in overrides if name not in defaults]
    if not list(problems_of_value("", "*,-endpoint-controller,-endpointslice-controller", set())):
        problems.append("-endpoint-controller would not be found")
    common.report(problems, f"{values} values of the flag, {len(paths)} paths, {len(overrides)} values of the chart")


main()
