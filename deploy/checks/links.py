"""Links in the Markdown files lead somewhere: to a file, and to a heading in it."""

import re
import subprocess
import urllib.parse

import common


def prose(text):
    """The text without code."""
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "``", text)


def anchors(text):
    """The anchors that a forge makes of the headings."""
    out = set()
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S)
    for heading in re.findall(r"^#{1,6} +(.*?) *#*$", text, re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        number, unique = 0, slug
        while unique in out:
            number += 1
            unique = f"{slug}-{number}"
        out.add(unique)
    return out


def main():
    """Follows all links but those out of the repository."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=common.ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()
    problems, count = [], 0
    for name in listing:
        path = common.ROOT / name
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(path.read_text())):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            file, _, anchor = urllib.parse.unquote(target).partition("#")
            there = (path.parent / file).resolve() if file else path
            if not there.exists():
                problems.append(f"{name}: {target}: there is no such file")
            elif anchor and anchor not in anchors(there.read_text()):
                problems.append(f"{name}: {target}: there is no such heading")
    if anchors("# A `b-c`: d!\n## A\n## A") != {"a-b-c-d", "a", "a-1"}:
        problems.append("headings are not read as they should be")
    common.report(problems, f"{count} links in {len(listing)} files")


main()
