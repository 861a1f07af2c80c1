//! The requests that changed slices and Endpoints, as kube-apiserver counts them: the same for every controller, whatever its
//! own metrics are. They include those of the garbage collector, which deletes the slices of Services that are gone.

use crate::api::Http;
use std::collections::BTreeMap;
use std::fmt::Write;

const METRIC: &str = "apiserver_request_total{";
const OUTPUTS: [(&str, &str); 2] = [("endpointslices", "slices"), ("endpoints", "Endpoints")];

/// Counts of requests, by resource and by what they did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests(BTreeMap<(&'static str, &'static str), u64>);

// === impl Requests ===

impl Requests {
    /// Reads the server's counters.
    pub(super) async fn read(http: &Http) -> anyhow::Result<Self> {
        Ok(Self::of(&http.text("/metrics").await?))
    }

    fn of(page: &str) -> Self {
        let mut counts = Self::default();
        for line in page.lines() {
            let Some((labels, value)) = line.strip_prefix(METRIC).and_then(|rest| rest.rsplit_once("} "))
            else {
                continue;
            };
            let label = |name: &str| {
                let mut labels = labels.split(',');
                labels.find_map(|label| label.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
            };
            let output = OUTPUTS
                .iter()
                .find(|(resource, _)| label("resource") == Some(resource));
            let (Some((_, output)), Some(done)) = (output, done(label("verb"), label("code"))) else {
                continue;
            };
            let value: f64 = value.trim().parse().unwrap_or_default();
            *counts.0.entry((output, done)).or_default() += value as u64;
        }
        counts
    }

    pub(super) fn since(&self, earlier: &Self) -> Self {
        let counts = self.0.iter().map(|(of, count)| {
            let before = earlier.0.get(of).copied().unwrap_or_default();
            (*of, count.saturating_sub(before))
        });
        Self(counts.collect())
    }

    pub(super) fn add(&mut self, more: &Self) {
        for (of, count) in &more.0 {
            *self.0.entry(*of).or_default() += count;
        }
    }

    /// How many there were for each of so many claims.
    pub(super) fn each(&self, claims: u64) -> String {
        let mut out = String::new();
        for (_, output) in OUTPUTS {
            let counts = self
                .0
                .iter()
                .filter(|((of, _), count)| *of == output && **count > 0);
            let counts: Vec<String> = counts
                .map(|((_, done), count)| format!("{:.2} {done}", *count as f64 / claims.max(1) as f64))
                .collect();
            if counts.is_empty() {
                continue;
            }
            let semicolon = if out.is_empty() { "" } else { "; " };
            let _ = write!(out, "{semicolon}{output}: {}", counts.join(", "));
        }
        out
    }
}

/// The effect of a request; none if it only read.
fn done(verb: Option<&str>, code: Option<&str>) -> Option<&'static str> {
    let done = match verb? {
        "POST" => "created",
        "PUT" | "PATCH" | "APPLY" => "updated",
        "DELETE" | "DELETECOLLECTION" => "deleted",
        _ => return None,
    };
    Some(if code?.starts_with('2') { done } else { "refused" })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = r#"
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="discovery.k8s.io",resource="endpointslices",scope="resource",subresource="",verb="POST",version="v1"} 1000
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="endpoints",scope="resource",subresource="",verb="PUT",version="v1"} 3
"#;
    const AFTER: &str = r#"
apiserver_request_total{code="201",component="apiserver",dry_run="",group="discovery.k8s.io",resource="endpointslices",scope="resource",subresource="",verb="POST",version="v1"} 1100
apiserver_request_total{code="200",component="apiserver",dry_run="",group="discovery.k8s.io",resource="endpointslices",scope="resource",subresource="",verb="DELETE",version="v1"} 1e+02
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="endpoints",scope="resource",subresource="",verb="PUT",version="v1"} 53
apiserver_request_total{code="404",component="apiserver",dry_run="",group="",resource="endpoints",scope="resource",subresource="",verb="PUT",version="v1"} 25
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="endpoints",scope="resource",subresource="",verb="POST",version="v1"} 5
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="endpoints",scope="cluster",subresource="",verb="LIST",version="v1"} 9
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 700
"#;

    #[test]
    fn requests_are_counted_by_what_they_did_for_each_claim() {
        let made = Requests::of(AFTER).since(&Requests::of(BEFORE));
        assert_eq!(
            made.each(100),
            "slices: 1.00 created, 1.00 deleted; Endpoints: 0.30 refused, 0.50 updated"
        );
        let mut twice = made.clone();
        twice.add(&made);
        assert_eq!(twice.each(200), made.each(100));
        assert_eq!(Requests::of("no metrics").each(100), "");
    }
}
