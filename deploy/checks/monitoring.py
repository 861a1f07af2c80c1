"""Alerts and dashboard name metrics that exist, and every alert has a test and a section in the runbook."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import common
import yaml

FUNCTIONS = set(
    "absent avg by and bool changes clamp_min count delta deriv group group_left group_right histogram_quantile "
    "ignoring increase irate label_values max min offset on or quantile rate sum time topk unless vector without".split()
)
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


# Metrics that are not this program's.
OTHERS = {
    "up": "gauge",
    "container_cpu_usage_seconds_total": "counter",
    "container_memory_working_set_bytes": "gauge",
}


def known():
    """All metrics: name, and its type. The program's are those of the documentation's tables."""
    table = (common.ROOT / "docs/metrics.md").read_text()
    rows = re.findall(r"^\| *`(\w+)[^`]*` *\| *(counter|gauge|histogram)", table, re.M)
    return {name: (kind, "src") for name, kind in rows} | {name: (kind, "other") for name, kind in OTHERS.items()}


def names_in(expression):
    """The metrics that an expression names."""
    text = re.sub(r'"[^"]*"', "", expression)
    text = re.sub(r"\b(by|on|without|ignoring|group_left|group_right)\s*\([^)]*\)", "", text)
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", text)
    return {name for name in re.findall(r"[a-zA-Z_:][\w:]*", text)} - FUNCTIONS


def unknown(expression, metrics):
    """What an expression names and is no series of a metric."""
    series = {name + suffix for name, (kind, _) in metrics.items() for suffix in SUFFIXES[kind]}
    return names_in(expression) - series


def rules(kind):
    """All rules of a kind (alert, record), by name."""
    groups = yaml.safe_load((common.DEPLOY / "monitoring/rules.yaml").read_text())["groups"]
    return {rule[kind]: rule for group in groups for rule in group["rules"] if kind in rule}


def alerts():
    """All alerts, by name."""
    return rules("alert")


def check_names():
    """Names in alerts and dashboard are metrics; those said to be in src are."""
    metrics, problems = known(), []
    metrics |= {name: ("gauge", "rules") for name in rules("record")}
    expressions = [(name, rule["expr"]) for name, rule in (alerts() | rules("record")).items()]
    expressions += [(f"panel {title}", expression) for title, expression in panel_expressions()]
    for where, expression in expressions:
        problems += [f"{where}: there is no series {name}" for name in sorted(unknown(expression, metrics))]
    source = "".join(path.read_text() for path in (common.ROOT / "src").rglob("*.rs"))
    for name, (_, where) in metrics.items():
        if where == "src" and f'"{name}"' not in source:
            problems.append(f"{name} is said to stand in src/ and does not")
    for wrong in ['rate(endpointd_request_total{job="x"}[5m])', "sum(endpointd_queue_age_seconds)", "rates(up[5m])"]:
        if not unknown(wrong, metrics):
            problems.append(f"{wrong} would not be found")
    common.report(problems, f"{len(expressions)} expressions, {len(metrics)} metrics")


def dashboard():
    """The dashboard."""
    return json.loads((common.DEPLOY / "monitoring/dashboard.json").read_text())


def panel_expressions():
    """All expressions of the dashboard, as Prometheus would get them."""
    found = [(panel["title"], target["expr"]) for panel in dashboard()["panels"] for target in panel.get("targets", [])]
    found += [(item["name"], item["expr"]) for item in dashboard()["annotations"]["list"] if "expr" in item]
    for title, expression in found:
        yield title, expression.replace("$__rate_interval", "5m").replace("$namespace", "kube-system")


def check_dashboard():
    """The dashboard is whole: panels that do not overlap, explain themselves, and ask in valid PromQL."""
    panels, problems, taken = dashboard()["panels"], [], {}
    for field in ("id", "title"):
        values = [panel[field] for panel in panels]
        problems += [f"{field} {value} is there twice" for value in set(values) if values.count(value) > 1]
    for panel in panels:
        at = panel["gridPos"]
        if at["x"] + at["w"] > 24:
            problems.append(f"{panel['title']} is too wide")
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])):
            if cell in taken:
                problems.append(f"{panel['title']} lies over {taken[cell]}")
                break
            taken[cell] = panel["title"]
        if panel["type"] == "row":
            continue
        if not panel.get("description"):
            problems.append(f"{panel['title']} explains nothing")
        for source in [panel["datasource"], *(target["datasource"] for target in panel["targets"])]:
            if source["uid"] != "${datasource}":
                problems.append(f"{panel['title']}: its data source is fixed")
    rules = [{"record": f"panel:{number}", "expr": expression} for number, (_, expression) in enumerate(panel_expressions())]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
        file.flush()
        run = subprocess.run(
            ["promtool", "check", "rules", file.name], capture_output=True, text=True, timeout=60, check=False
        )
    if run.returncode != 0:
        problems.append(run.stderr.strip())
    common.report(problems, f"{len(panels)} panels, {len(rules)} expressions")


RUNBOOK = "deploy/runbook.md"


def check_alerts():
    """Every alert is tested both ways, has a section in the runbook, and says what people need; every recording rule has a
    test."""
    problems, found, recorded = [], alerts(), rules("record")
    tests = yaml.safe_load((common.DEPLOY / "monitoring/rules_test.yaml").read_text())["tests"]
    tried = [case for test in tests for case in test.get("alert_rule_test", [])]
    headings = re.findall(r"^## (\w+)$", (common.ROOT / RUNBOOK).read_text(), re.M)
    for name, rule in found.items():
        cases = [bool(case["exp_alerts"]) for case in tried if case["alertname"] == name]
        if set(cases) != {True, False}:
            problems.append(f"{name}: a test in which it fires and one in which it does not are needed")
        if rule["labels"].get("severity") not in ("warning", "critical"):
            problems.append(f"{name}: severity")
        if not {"summary", "description", "runbook_url"} <= set(rule["annotations"]):
            problems.append(f"{name}: summary, description and runbook_url are needed")
        if rule["annotations"]["runbook_url"] != f"{RUNBOOK}#{name.lower()}":
            problems.append(f"{name}: its runbook is {rule['annotations']['runbook_url']}")
    problems += [f"{name} is in the runbook or in the rules only" for name in set(headings) ^ set(found)]
    asked = {case["expr"] for test in tests for case in test.get("promql_expr_test", [])}
    problems += [f"{name}: a test of its value is needed" for name in recorded if name not in asked]
    problems += runbook_of_chart(found)
    common.report(problems, f"{len(found)} alerts, {len(tried)} cases, {len(recorded)} recording rules")


def runbook_of_chart(found):
    """Alerts of the chart whose runbook is not where the value says that it is."""
    base = "https://git.example.com/endpointd/blob/main/deploy/runbook.md"
    for value, expected in [("", RUNBOOK), (f"prometheusRule.runbookUrl={base}", base)]:
        objects = common.chart("prometheusRule.enabled=true", *filter(None, [value]))
        (rule,) = common.find(objects, "PrometheusRule")
        urls = {
            item["alert"]: item["annotations"]["runbook_url"]
            for group in rule["spec"]["groups"]
            for item in group["rules"]
            if "alert" in item
        }
        if urls != {name: f"{expected}#{name.lower()}" for name in found}:
            yield f"the chart with {value!r}: {sorted(urls.values())}"


if __name__ == "__main__":
    {"names": check_names, "dashboard": check_dashboard, "alerts": check_alerts}[sys.argv[1]]()
