"""The guard's policy names the account and the controllers of the Deployment that it is installed with."""

import ast
import copy

import common

# Of each controller that writes slices: its names, its managed-by label, and whether `*` includes it.
CONTROLLERS = [
    ({"endpointslice-controller", "endpointslice"}, "endpointslice-controller.k8s.io", True),
    ({"endpointslice-mirroring-controller", "endpointslicemirroring"}, "endpointslicemirroring-controller.k8s.io", True),
    ({"custom-selector-controller"}, "endpointd.io", False),
]
VALUES = [
    "*",
    "*,-endpointslice",
    "*,custom-selector-controller",
    "custom-selector-controller",
    "-custom-selector-controller,custom-selector-controller,endpointslicemirroring",
    "endpoints-controller",
    "endpointslice-controller,endpointslice-mirroring-controller,custom-selector-controller",
]
EXCLUDED = "guard.excludedNamespaces=[a, b-c]"


def managers(value):
    """The labels of the controllers that a value of --controllers switches on: the first item that names one decides."""
    items = value.split(",")
    for names, label, in_star in CONTROLLERS:
        named = [not item.startswith("-") for item in items if item.removeprefix("-") in names]
        if named[0] if named else in_star and "*" in items:
            yield label


def problems_of(objects):
    """What is wrong with the guard among objects; nothing if there is none."""
    policies = common.find(objects, "ValidatingAdmissionPolicy")
    bindings = common.find(objects, "ValidatingAdmissionPolicyBinding")
    if not policies and not bindings:
        return []
    (policy,), (binding,), (deployment,) = policies, bindings, common.find(objects, "Deployment")
    problems = []
    if binding["spec"]["policyName"] != policy["metadata"]["name"]:
        problems.append("the binding names another policy")
    pod = deployment["spec"]["template"]["spec"]
    account = f"'system:serviceaccount:{deployment['metadata']['namespace']}:{pod['serviceAccountName']}'"
    expressions = [item["expression"] for part in ("matchConditions", "variables") for item in policy["spec"][part]]
    named = [text for text in expressions if "request.userInfo" in text]
    if len(named) != 2 or any(account not in text for text in named):
        problems.append(f"the policy does not name {account}")
    variables = {item["name"]: item["expression"] for item in policy["spec"]["variables"]}
    (value,) = [arg.partition("=")[2] for arg in pod["containers"][0]["args"] if arg.startswith("--controllers=")]
    if ast.literal_eval(variables["managers"]) != list(managers(value)):
        problems.append(f"managers is {variables['managers']}, with --controllers={value}")
    if not all(isinstance(item, str) for item in ast.literal_eval(variables["excludedNamespaces"])):
        problems.append(f"excludedNamespaces is {variables['excludedNamespaces']}")
    return problems


MUTATIONS = {
    "another account": lambda policy: policy["spec"]["variables"][2].update(
        expression="request.userInfo.?username.orValue('') == 'system:serviceaccount:kube-system:other'"
    ),
    "no managers": lambda policy: policy["spec"]["variables"][0].update(expression="[]"),
    "another name": lambda policy: policy["metadata"].update(name="other"),
}


def main():
    """Checks the guard wherever it is, and that mistakes would be found."""
    problems, count = [], 0
    guards = [(source, objects) for source, objects in common.everything() if common.find(objects, "ValidatingAdmissionPolicy")]
    guard = common.with_component("base", "guard")
    guards.append(("the component", guard))
    if common.HELM:
        guards += [(value, common.chart("guard.enabled=true", EXCLUDED, f"controllers='{value}'")) for value in VALUES]
        (policy,) = common.find(guards[-1][1], "ValidatingAdmissionPolicy")
        if policy["spec"]["variables"][1]["expression"] != "['a', 'b-c']":
            problems.append(f"excludedNamespaces is {policy['spec']['variables'][1]}")
    for source, objects in guards:
        count += 1
        problems += [f"{source}: {problem}" for problem in problems_of(objects)]
    for name, mutate in MUTATIONS.items():
        objects = copy.deepcopy(guard)
        mutate(common.find(objects, "ValidatingAdmissionPolicy")[0])
        if not problems_of(objects):
            problems.append(f"{name}: would not be found")
    common.report(problems, f"{count} guards, {len(MUTATIONS)} mistakes that are found")


main()
