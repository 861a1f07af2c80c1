//! The API server's own metrics of its watches, where they can be read.

use crate::parse::{label, metric, series};
use http::Request;
use kube::Client;
use std::time::Duration;
use tokio::time::timeout;

/// A page of a large server takes it a while.
const LIMIT: Duration = Duration::from_secs(15);
/// Watches that the server ended because their clients did not read fast enough. It has no such line before the first one.
const TERMINATED: &str = "apiserver_terminated_watchers_total";
const CPU: &str = "process_cpu_seconds_total";
const GROUP: &str = "discovery.k8s.io";
const RESOURCE: &str = "endpointslices";

/// Counters of the API server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Reading {
    /// Watches of slices that were ended because of slow readers.
    pub(super) terminated: u64,
    /// CPU time in seconds.
    pub(super) cpu: Option<f64>,
}

/// Reads the server's metrics; none if it has none, or does not let this client read them.
pub(super) async fn read(client: &Client) -> Option<Reading> {
    let request = Request::get("/metrics").body(Vec::new()).ok()?;
    let page = timeout(LIMIT, client.request_text(request)).await.ok()?.ok()?;
    Reading::of(&page)
}

// === impl Reading ===

impl Reading {
    /// Returns the counts since an earlier reading; none if the counters began anew, as those of a server that was
    /// started again, or of another server behind the same address.
    pub(super) fn since(self, earlier: Self) -> Option<Self> {
        let cpu = self.cpu.zip(earlier.cpu).map(|(now, before)| now - before);
        let terminated = self.terminated.checked_sub(earlier.terminated)?;
        cpu.is_none_or(|cpu| cpu >= 0.0)
            .then_some(Self { terminated, cpu })
    }

    fn of(page: &str) -> Option<Self> {
        let cpu = series(page, CPU);
        // Any other page of metrics, or none.
        if cpu.is_none() && !page.contains("apiserver_") {
            return None;
        }
        let terminated = metric(page, TERMINATED).filter(|(labels, _)| is_of_slices(labels));
        let terminated = terminated.map(|(_, count)| count as u64);
        Some(Self {
            terminated: terminated.sum(),
            cpu,
        })
    }
}

/// Older servers name resource and group in one label, later ones in two.
fn is_of_slices(labels: &str) -> bool {
    match (label(labels, "group"), label(labels, "resource")) {
        (Some(group), resource) => group == GROUP && resource.is_none_or(|resource| resource == RESOURCE),
        (None, Some(resource)) => {
            let (name, group) = resource.split_once('.').unwrap_or((resource, GROUP));
            name == RESOURCE && group == GROUP
        }
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminated(labels: &str) -> u64 {
        let page = format!("process_cpu_seconds_total 1.5\n{TERMINATED}{{{labels}}} 3\n");
        Reading::of(&page).unwrap().terminated
    }

    #[test]
    fn slow_watches_of_slices_are_counted_whatever_the_server_calls_them() {
        for labels in [
            r#"resource="endpointslices.discovery.k8s.io""#,
            r#"group="discovery.k8s.io",resource="endpointslices""#,
            r#"resource="endpointslices",group="discovery.k8s.io""#,
            r#"resource="endpointslices""#,
        ] {
            assert_eq!(terminated(labels), 3, "{labels}");
        }
        for labels in [
            r#"resource="pods""#,
            r#"group="",resource="endpoints""#,
            r#"group="apps",resource="endpointslices""#,
            r#"resource="endpointslices.example.com""#,
        ] {
            assert_eq!(terminated(labels), 0, "{labels}");
        }
    }

    #[test]
    fn a_server_that_ended_none_has_no_such_line() {
        let page = "apiserver_requests_total 7\nprocess_cpu_seconds_total 12.25\n";
        let expected = Reading {
            terminated: 0,
            cpu: Some(12.25),
        };
        assert_eq!(Reading::of(page), Some(expected));
        assert_eq!(Reading::of("404 page not found"), None);
    }
}
