"""Every flag in a manifest is one of the program's, and its value is accepted. ENDPOINTD_BIN is the program."""

import os
import re
import subprocess

import common


def main():
    """Asks the program."""
    program = os.environ["ENDPOINTD_BIN"]
    known = {}
    for command in ("run", "audit"):
        text = subprocess.run([program, command, "--help"], capture_output=True, text=True, timeout=10, check=True).stdout
        known[command] = set(re.findall(r"--[a-z][a-z0-9-]+", text))
    problems, used = [], set()
    for source, objects in common.everything():
        pods = [("run", item["spec"]["template"]) for item in common.find(objects, "Deployment")]
        pods += [("audit", item["spec"]["jobTemplate"]["spec"]["template"]) for item in common.find(objects, "CronJob")]
        for expected, pod in pods:
            command, *args = pod["spec"]["containers"][0]["args"]
            names = {arg.split("=")[0] for arg in args}
            used |= names
            if command != expected:
                problems.append(f"{source}: {command}")
            problems += [f"{source}: {expected} has no flag {name}" for name in sorted(names - known[expected])]
    common.report(sorted(set(problems)), f"{len(used)} flags")


main()
