//! Rows of pods: the one status that is made of many.

use super::cells::{age, or};
use crate::json::{list, number, text};
use jiff::Timestamp;
use serde_json::Value;

/// The status of a pod, summed up over its containers.
struct Sum {
    status: String,
    ready: usize,
    restarts: i64,
    /// When the last container that was restarted had ended.
    last: Option<Timestamp>,
}

fn flag(value: &Value, field: &str) -> bool {
    value.get(field).and_then(Value::as_bool).unwrap_or(false)
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    list(pod, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == kind)
}

fn is_true(pod: &Value, kind: &str) -> bool {
    condition(pod, kind).is_some_and(|condition| text(condition, "/status") == "True")
}

/// An init container that runs as long as the pod.
fn is_sidecar(pod: &Value, name: &str) -> bool {
    list(pod, "/spec/initContainers")
        .iter()
        .any(|container| text(container, "/name") == name && text(container, "/restartPolicy") == "Always")
}

/// How a terminated container ended, in a word.
fn ending(state: &Value) -> String {
    match (text(state, "/reason"), number(state, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(state, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

impl Sum {
    fn restarted(&mut self, container: &Value) {
        self.restarts += number(container, "/restartCount");
        let ended = text(container, "/lastState/terminated/finishedAt").parse().ok();
        self.last = self.last.max(ended);
    }

    /// Looks at the init containers; true while one of them is not done.
    fn initialise(&mut self, pod: &Value, sidecars: &mut Self) -> bool {
        for (i, container) in list(pod, "/status/initContainerStatuses").iter().enumerate() {
            let sidecar = is_sidecar(pod, text(container, "/name"));
            self.restarted(container);
            if sidecar {
                sidecars.restarted(container);
            }
            let ended = container.pointer("/state/terminated");
            if ended.is_some_and(|state| number(state, "/exitCode") == 0) {
                continue;
            }
            if sidecar && flag(container, "started") {
                self.ready += usize::from(flag(container, "ready"));
                continue;
            }
            let waits = text(container, "/state/waiting/reason");
            self.status = match ended {
                Some(state) => format!("Init:{}", ending(state)),
                None if !matches!(waits, "" | "PodInitializing") => format!("Init:{waits}"),
                None => format!("Init:{i}/{}", list(pod, "/spec/initContainers").len()),
            };
            return true;
        }
        false
    }

    fn run(&mut self, pod: &Value) {
        let mut running = false;
        for container in list(pod, "/status/containerStatuses").iter().rev() {
            self.restarted(container);
            let waits = text(container, "/state/waiting/reason");
            if !waits.is_empty() {
                waits.clone_into(&mut self.status);
            } else if let Some(state) = container.pointer("/state/terminated") {
                self.status = ending(state);
            } else if flag(container, "ready") && container.pointer("/state/running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        // One that has done its work does not hide that others run.
        if self.status == "Completed" && running {
            let word = if is_true(pod, "Ready") {
                "Running"
            } else {
                "NotReady"
            };
            word.clone_into(&mut self.status);
        }
    }
}

fn sum(pod: &Value) -> Sum {
    let phase = text(pod, "/status/phase");
    let reason = text(pod, "/status/reason");
    let mut sum = Sum {
        status: or(reason, phase),
        ready: 0,
        restarts: 0,
        last: None,
    };
    if condition(pod, "PodScheduled").is_some_and(|c| text(c, "/reason") == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut sum.status);
    }
    let mut sidecars = Sum {
        status: String::new(),
        ready: 0,
        restarts: 0,
        last: None,
    };
    if !sum.initialise(pod, &mut sidecars) || is_true(pod, "Initialized") {
        // Restarts of init containers count only while the pod is being initialised.
        (sum.restarts, sum.last) = (sidecars.restarts, sidecars.last);
        sum.run(pod);
    }
    if !text(pod, "/metadata/deletionTimestamp").is_empty() {
        if reason == "NodeLost" {
            "Unknown".clone_into(&mut sum.status);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut sum.status);
        }
    }
    sum
}

pub(super) fn row(pod: &Value, now: Timestamp) -> Vec<Value> {
    let sidecars = list(pod, "/spec/initContainers")
        .iter()
        .filter(|container| text(container, "/restartPolicy") == "Always");
    let total = list(pod, "/spec/containers").len() + sidecars.count();
    let sum = sum(pod);
    let restarts = match sum.last {
        Some(last) if sum.restarts > 0 => format!("{} ({} ago)", sum.restarts, age(&last.to_string(), now)),
        _ => sum.restarts.to_string(),
    };
    let gates = list(pod, "/spec/readinessGates");
    let open = gates
        .iter()
        .filter(|gate| is_true(pod, text(gate, "/conditionType")))
        .count();
    let cells = [
        format!("{}/{total}", sum.ready),
        sum.status,
        restarts,
        or(text(pod, "/status/podIPs/0/ip"), "<none>"),
        or(text(pod, "/spec/nodeName"), "<none>"),
        or(text(pod, "/status/nominatedNodeName"), "<none>"),
        if gates.is_empty() {
            "<none>".to_owned()
        } else {
            format!("{open}/{}", gates.len())
        },
    ];
    cells.into_iter().map(Value::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(pod: &Value) -> (String, usize, i64) {
        let sum = sum(pod);
        (sum.status, sum.ready, sum.restarts)
    }

    #[test]
    fn one_status_of_many() {
        let running = json!({"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}}});
        let crash =
            json!({"name": "b", "restartCount": 5, "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        let done = json!({"name": "c", "restartCount": 0, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
        let killed =
            json!({"name": "d", "restartCount": 0, "state": {"terminated": {"exitCode": 137, "signal": 9}}});
        let failed = json!({"name": "e", "restartCount": 0, "state": {"terminated": {"exitCode": 3}}});
        let ready = json!([{"type": "Ready", "status": "True"}]);
        for (pod, want) in [
            (json!({"status": {"phase": "Pending"}}), ("Pending", 0, 0)),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [running]}}),
                ("Running", 1, 2),
            ),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [running, crash]}}),
                ("CrashLoopBackOff", 1, 7),
            ),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [running, done], "conditions": ready}}),
                ("Running", 1, 2),
            ),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [running, done]}}),
                ("NotReady", 1, 2),
            ),
            (
                json!({"status": {"phase": "Failed", "containerStatuses": [killed]}}),
                ("Signal:9", 0, 0),
            ),
            (
                json!({"status": {"phase": "Failed", "reason": "Evicted"}}),
                ("Evicted", 0, 0),
            ),
            (
                json!({"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}}),
                ("SchedulingGated", 0, 0),
            ),
            (
                json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running", "containerStatuses": [running]}}),
                ("Terminating", 1, 2),
            ),
            (
                json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running", "reason": "NodeLost"}}),
                ("Unknown", 0, 0),
            ),
            (
                json!({"spec": {"initContainers": [{"name": "a"}, {"name": "e"}]}, "status": {"phase": "Pending", "initContainerStatuses": [failed]}}),
                ("Init:ExitCode:3", 0, 0),
            ),
            (
                json!({"spec": {"initContainers": [{"name": "c"}, {"name": "a"}]}, "status": {"phase": "Pending", "initContainerStatuses": [done, running]}}),
                ("Init:1/2", 0, 2),
            ),
            (
                json!({
                    "spec": {"initContainers": [{"name": "a", "restartPolicy": "Always"}]},
                    "status": {"phase": "Running",
                        "initContainerStatuses": [{"name": "a", "ready": true, "started": true, "restartCount": 1, "state": {"running": {}}}],
                        "containerStatuses": [running]},
                }),
                ("Running", 2, 3),
            ),
        ] {
            let got = status(&pod);
            assert_eq!((got.0.as_str(), got.1, got.2), want, "{pod}");
        }
    }

    #[test]
    fn restarts_and_gates() {
        let now: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
        let pod = json!({
            "spec": {"containers": [{"name": "a"}], "nodeName": "n", "readinessGates": [{"conditionType": "x"}, {"conditionType": "y"}]},
            "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "x", "status": "True"}],
                "containerStatuses": [{"name": "a", "ready": true, "restartCount": 3, "state": {"running": {}},
                    "lastState": {"terminated": {"finishedAt": "2026-01-01T00:00:00Z"}}}]},
        });
        assert_eq!(
            row(&pod, now),
            ["1/1", "Running", "3 (5m ago)", "10.0.0.1", "n", "<none>", "1/2"]
        );
    }
}
