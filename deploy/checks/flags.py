"""Every flag in a manifest is one of the program's, and its value is accepted. ENDPOINTD_BIN is the program."""

import os
import re
import subprocess

import common


def main():
    """Asks the program."""
    program = os.environ["ENDPOINTD_BIN"]
    text = subprocess.run([program, "run", "--help"], capture_output=True, text=True, timeout=10, check=True).stdout
    known = set(re.findall(r"--[a-z][a-z0-9-]+", text))
    problems, used = [], set()
    for source, objects in common.everything():
        for item in common.find(objects, "Deployment"):
            command, *args = item["spec"]["template"]["spec"]["containers"][0]["args"]
            names = {arg.split("=")[0] for arg in args}
            used |= names
            if command != "run":
                problems.append(f"{source}: {command}")
            problems += [f"{source}: there is no flag {name}" for name in sorted(names - known)]
    common.report(sorted(set(problems)), f"{len(used)} flags")


main()
