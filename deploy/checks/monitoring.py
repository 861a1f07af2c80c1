"""Alerts and dashboard name metrics that exist, and tell clusters apart; every alert has tests and a section in the runbook."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import common
import yaml

FUNCTIONS = set(
    "absent absent_over_time avg avg_over_time by and bool changes clamp_min count delta deriv group group_left group_right "
    "histogram_quantile ignoring increase irate label_join label_replace label_values last_over_time max max_over_time min "
    "offset on or quantile quantile_over_time rate sum sum_over_time time topk unless vector without".split()
)
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


# Metrics that are not this program's.
OTHERS = {
    "up": "gauge",
    "ALERTS": "gauge",
    # kube-state-metrics'
    "kube_cronjob_created": "gauge",
    "kube_cronjob_status_last_successful_time": "gauge",
    "kube_job_failed": "gauge",
    "kube_job_status_start_time": "gauge",
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
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b\d+[smhdwy]\b", "", text)
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
        for variable, value in [("$__rate_interval", "5m"), ("$__range", "1h"), ("$namespace", "kube-system"), ("$cluster", "a")]:
            expression = expression.replace(variable, value)
        yield title, expression


def of_one_cluster(expression):
    """What in an expression does not tell clusters apart: a selector without the variable, a sum without the label."""
    yield from (text for text in re.findall(r"\{[^}]*\}", expression) if 'cluster=~"a"' not in text)
    yield from (text for text in re.findall(r"\b(?:by|on) \([^)]*\)", expression) if not re.search(r"\(cluster\b", text))
    yield from re.findall(r"\b(?:sum|max|min|avg|count|group)\(", expression)


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
    problems += [f"{title}: {text}" for title, expression in panel_expressions() for text in of_one_cluster(expression)]
    if len(list(of_one_cluster('sum(a{job="x"}) unless on (instance) max by (le) (b{cluster=~"a"})'))) != 4:
        problems.append("an expression over all clusters would not be found")
    # Where there is no such label, all of it has to be chosen.
    for variable in dashboard()["templating"]["list"][1:]:
        if not variable["includeAll"] or variable["allValue"] != ".*" or variable["current"]["value"] != ["$__all"]:
            problems.append(f"variable {variable['name']} leaves out what has no such label")
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
    problems += in_two_clusters(found, recorded)
    if common.HELM:
        problems += [*runbook_of_chart(found), *cluster_label_of_chart(), *name_of_chart()]
    common.report(problems, f"{len(found)} alerts, {len(tried)} cases, {len(recorded)} recording rules")


def series_by_cluster(test):
    """The names of a test's series, by cluster."""
    found = {}
    for item in test["input_series"]:
        name, labels = re.match(r"(\w+)\{(.*)\}", item["series"]).groups()
        found.setdefault(re.search(r'\bcluster="(\w+)"', labels).group(1), set()).add(name)
    return found


def in_two_clusters(found, recorded):
    """Alerts without a test in which they fire for one cluster and are silent for another that has the same series; recording
    rules without a test of their values in two clusters."""
    tests = yaml.safe_load((common.DEPLOY / "monitoring/clusters_test.yaml").read_text())["tests"]
    fired, valued = set(), set()
    for test in tests:
        clusters = series_by_cluster(test)
        for case in test["promql_expr_test"]:
            labels = [dict(re.findall(r'(\w+)="(\w+)"', sample["labels"])) for sample in case["exp_samples"]]
            seen = {label.get("cluster") for label in labels}
            for name in recorded:
                if case["expr"].startswith(name) and seen == set(clusters) and len(seen) > 1:
                    valued.add(name)
            if "ALERTS" in case["expr"]:
                for name in {label["alertname"] for label in labels}:
                    firing = {label.get("cluster") for label in labels if label["alertname"] == name}
                    silent = set(clusters) - firing
                    if firing < set(clusters) and all(clusters[one] >= clusters[other] for one in silent for other in firing):
                        fired.add(name)
    yield from (f"{name}: a test with two clusters, of which one fires, is needed" for name in set(found) - fired)
    yield from (f"{name}: a test of its values in two clusters is needed" for name in set(recorded) - valued)


def cluster_label_of_chart():
    """What names clusters by another label than the value says."""
    label = "k8s_cluster"
    objects = common.chart("prometheusRule.enabled=true", "dashboard.enabled=true", f"prometheusRule.clusterLabel={label}")
    (rule,), (config,) = common.find(objects, "PrometheusRule"), common.find(objects, "ConfigMap")
    there = {"groups": rule["spec"]["groups"]}
    original = yaml.safe_load((common.DEPLOY / "monitoring/rules.yaml").read_text())
    variables = json.loads(config["data"]["endpointd.json"])
    texts = [item["expr"] for group in there["groups"] for item in group["rules"]]
    texts += [target["expr"] for panel in variables["panels"] for target in panel.get("targets", [])]
    texts += [target["legendFormat"] for panel in variables["panels"] for target in panel.get("targets", [])]
    texts += [variable["definition"] for variable in variables["templating"]["list"] if "definition" in variable]
    yield from (f"the chart names no {label}: {text}" for text in texts if re.search(r"(?<!\$)\bcluster\b", text))
    if json.dumps(there).replace(label, "cluster") != json.dumps(original):
        yield "the chart's rules differ from the original by more than the label"
    if json.loads(json.dumps(variables).replace(label, "cluster")) != dashboard():
        yield "the chart's dashboard differs from the original by more than the label"


def name_of_chart():
    """The audit's CronJob is called after the controller, and so its alerts look for that."""
    objects = common.chart("prometheusRule.enabled=true", "audit.enabled=true", "fullnameOverride=other")
    (rule,), (job,) = common.find(objects, "PrometheusRule"), common.find(objects, "CronJob")
    expressions = [item["expr"] for group in rule["spec"]["groups"] for item in group["rules"] if "kube_" in item["expr"]]
    named = {name for expression in expressions for name in re.findall(r'(?:cronjob|job_name)=~?"([\w-]+?)(?:-\.\+)?"', expression)}
    if len(expressions) != 2 or named != {job["metadata"]["name"]}:
        yield f"alerts look for the audits {sorted(named)}, and {job['metadata']['name']} runs"


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
