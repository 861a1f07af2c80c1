//! Catalogue of all metrics. One line of it gives a metric's handle, its registration, its help and its row in the
//! documentation. One test compares the documentation, and another the metrics that a running process serves.

use crate::core::namespace::Kind;
use crate::core::object::{Output, Verb};
use crate::core::priority::Priority;
use crate::core::publish::Resource;
use crate::core::publish::throttling::Limit;
use metrics::{Counter, Gauge, Histogram, Label, counter, gauge, histogram};

/// Types of metrics.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Type {
    /// A value that only grows.
    Counter,
    /// A counter with fractions. The exporter's counters are integers, so it is a gauge there.
    Seconds,
    /// A value that goes up and down.
    Gauge,
    /// The number of measurements in each range, with these bounds.
    Histogram(Buckets),
}

/// The upper bounds of a histogram, behind their short form for the documentation.
type Buckets = (&'static str, &'static [f64]);

/// A metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    /// The names of its labels.
    #[cfg(test)]
    pub labels: &'static [&'static str],
    /// Its help text.
    pub help: &'static str,
}

/// A handle on a metric. The same name and labels give a handle on the same values.
trait Handle {
    fn register(name: &'static str, labels: Vec<Label>) -> Self;
}

impl Handle for Counter {
    fn register(name: &'static str, labels: Vec<Label>) -> Self {
        counter!(name, labels)
    }
}

impl Handle for Gauge {
    fn register(name: &'static str, labels: Vec<Label>) -> Self {
        gauge!(name, labels)
    }
}

impl Handle for Histogram {
    fn register(name: &'static str, labels: Vec<Label>) -> Self {
        histogram!(name, labels)
    }
}

type Seconds = Gauge;

/// Makes a struct of each group, whose default registers the group's metrics, and the list of all of them. A metric with labels
/// has a handle for each of the values that the table gives, in their order. Without them, its field is a function of the values.
macro_rules! catalogue {
    ($($group:ident $heading:literal {$(
        $field:ident: $kind:ident $(($buckets:ident))? $name:literal $([$($label:ident $(= $values:expr)?),*])? $help:literal;
    )*})*) => {
        $(
            #[doc = $heading]
            #[derive(Debug)]
            pub(crate) struct $group {$(
                #[doc = concat!("`", $name, "`")]
                pub(crate) $field: field!($kind $([$($label $(= $values)?),*])?),
            )*}

            impl Default for $group {
                fn default() -> Self {
                    Self { $($field: field!($kind $name $([$($label $(= $values)?),*])?),)* }
                }
            }
        )*

        /// All metrics, by group, with its heading.
        pub(crate) const CATALOGUE: &[(&str, &[Metric])] = &[$(($heading, &[$(Metric {
            name: $name,
            kind: Type::$kind $(($buckets))?,
            #[cfg(test)]
            labels: &[$($(stringify!($label)),*)?],
            help: $help,
        }),*])),*];
    };
}

/// The type of a field, or with a name its value.
macro_rules! field {
    ($kind:ident) => { $kind };
    ($kind:ident [$label:ident = $values:expr]) => { Vec<$kind> };
    ($kind:ident [$($label:ident),*]) => { fn(&[&str]) -> $kind };
    ($kind:ident $name:literal) => { $kind::register($name, Vec::new()) };
    ($kind:ident $name:literal [$label:ident = $values:expr]) => {
        $values.into_iter().map(|value| $kind::register($name, vec![Label::new(stringify!($label), value)])).collect()
    };
    ($kind:ident $name:literal [$($label:ident),*]) => {
        |values| $kind::register($name, labels(&[$(stringify!($label)),*], values))
    };
}

fn labels(names: &[&'static str], values: &[&str]) -> Vec<Label> {
    let pairs = names.iter().zip(values);
    pairs
        .map(|(name, value)| Label::new(*name, (*value).to_owned()))
        .collect()
}

/// Upstream's names of the queues, in the order of [`Output::ALL`].
const QUEUES: [&str; 3] = ["endpoint_slice", "endpoint", "endpoint_slice_mirroring"];

/// Seconds, from a write on loopback to a write that is given up.
#[rustfmt::skip]
const SECONDS: Buckets = ("0.0005 to 30, 15 steps", &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0]);
#[rustfmt::skip]
const CHANGES: Buckets = ("1, 2, 3, 5, 10 ... 500", &[1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]);
// The remaining buckets are upstream's.
#[rustfmt::skip]
const POWERS_OF_TWO: Buckets = ("2, 4, 8 ... 32768", &[2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0]);
#[rustfmt::skip]
const DEFAULT: Buckets = ("0.005 to 10, 11 steps", &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]);
#[rustfmt::skip]
const POWERS_OF_TWO_MS: Buckets = ("0.001, 0.002, 0.004 ... 16.384", &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384]);
#[rustfmt::skip]
const POWERS_OF_TEN: Buckets = ("10 ns to 10 s, powers of ten", &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0]);
#[rustfmt::skip]
const REQUEST_SECONDS: Buckets = ("0.005 to 60, 12 steps", &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]);

catalogue! {
    Published "Published objects" {
        acknowledged: Histogram(SECONDS) "endpointd_change_to_acknowledged_seconds" [output = Output::ALL.map(Output::as_str)] "Seconds from the watch event of a pod, Service or node until the API server acknowledged the write that carried the change, including failed tries. If a write carried several changes, the oldest counts.";
        out_of_sync: Gauge "endpointd_services_out_of_sync" "Services with an object that waits to be written or has a request in flight. In a dry run: Services with a difference that has lasted for longer than --dry-run-patience.";
        oldest: Gauge "endpointd_services_out_of_sync_oldest_seconds" "Seconds for which the longest of these Services has been out of sync. In a dry run: the age of the oldest difference.";
        changes: Histogram(CHANGES) "endpointd_changes_per_write" "Number of changes that one write carried.";
        requests: Counter "endpointd_requests_total" [verb = ["create", "update", "delete", "get"]] "Requests for slices and Endpoints, and for the Services of leftover Endpoints, by verb: create, update, delete, get.";
        outcomes: Counter "endpointd_request_outcomes_total" [outcome = ["ok", "conflict", "missing", "refused", "unknown"]] "Outcomes of these requests: ok, conflict, missing, refused, unknown (no answer, or an error of the server).";
        duration: Histogram(SECONDS) "endpointd_request_duration_seconds" "Seconds from sending one of these requests to its answer.";
        contested: Counter "endpointd_contested_changes_total" [output = Output::ALL.map(Output::as_str)] "Times another client changed or deleted an object that it had changed or deleted twice before, with less than ten quiet minutes in between: probably a controller that endpointd replaces is still on.";
        custom: Gauge "endpointd_custom_selector_services" [state = ["valid", "invalid"]] "Services whose selector is the annotation endpointd.io/selector, by state: valid, or invalid (no pods are added; published ones are followed until they are gone).";
    }
    Queue "Write queue" {
        waiting: Gauge "endpointd_queue_waiting" "Objects that wait to be written.";
        oldest: Gauge "endpointd_queue_oldest_seconds" [lane = Priority::ALL.map(Priority::as_str)] "Seconds for which the oldest object in the queue has waited, without those that wait for a retry or a batch period. Lanes: remove (an endpoint must stop receiving traffic), add (an endpoint can start to), rest.";
        age: Histogram(SECONDS) "endpointd_queue_age_seconds" [lane = Priority::ALL.map(Priority::as_str)] "Seconds that an object had waited in the queue when its turn came.";
        in_flight: Gauge "endpointd_requests_in_flight" "Objects whose turn has come and whose request is not answered yet.";
        window: Gauge "endpointd_requests_in_flight_limit" "Maximum number of requests in flight at the moment, up to --max-requests-in-flight. It is halved after 429, 503 or a time-out, and grows by one with each round of answers.";
        throttled: Seconds "endpointd_throttled_seconds_total" "Seconds in which a write was ready but had to wait for --kube-api-qps or for watchers: the sum of endpointd_held_back_seconds_total without in_flight and namespace.";
        held_back: Seconds "endpointd_held_back_seconds_total" [limit = Limit::ALL.map(Limit::as_str)] "Seconds in which a write was ready but had to wait: for --kube-api-qps (rate), an answer or a pause of its namespace (namespace), events of earlier writes that endpointd's own watch has not shown yet (echoes), --watch-budget or --watch-budget-per-watcher (watchers), or answers (in_flight).";
        echoes: Histogram(SECONDS) "endpointd_echo_seconds" [output = Output::ALL.map(Output::as_str)] "Seconds from the answer to a write until endpointd's own watch showed it, for writes that it showed after the answer. A write that it has not shown after ten seconds counts with these. Other clients that watch see changes as late as this, or later, unless endpointd's own watch alone is late.";
        without_echo: Gauge "endpointd_writes_without_echo" [resource = Resource::ALL.map(Resource::as_str)] "Writes in flight, and writes that were answered but that endpointd's own watch has not shown yet.";
        without_echo_limit: Gauge "endpointd_writes_without_echo_limit" [resource = Resource::ALL.map(Resource::as_str)] "Limit of endpointd_writes_without_echo; it falls to 2 while endpointd's own watch is late with events, and to 0 while it is closed. 20 writes a second go beyond it.";
        beyond: Counter "endpointd_writes_beyond_limit_total" [resource = Resource::ALL.map(Resource::as_str)] "Writes that went although endpointd_writes_without_echo was at its limit: 20 a second, the rate of kube-controller-manager, after a burst of --max-writes-without-echo at most.";
        paused: Gauge "endpointd_namespaces_over_watch_budget" "Namespaces that wait, because they have written slices that are much larger than usual, or because an answer asked for a pause.";
        watchers: Gauge "endpointd_watchers" "Clients that are taken to watch all slices: the number of nodes times --watchers-per-node, or --watchers.";
        sent_to_watchers: Counter "endpointd_sent_to_watchers_bytes_total" "Bytes that API servers have to send to clients that watch slices: the size of each slice written, times endpointd_watchers.";
    }
    Cluster "Cluster state" {
        shards: Gauge "endpointd_shards" "Namespaces that have an actor, because they hold at least one object.";
        pods: Gauge "endpointd_pods" "Pods in memory.";
        label_sets: Gauge "endpointd_label_sets" "Distinct sets of selectors that match pods, summed over namespaces.";
        watched: Counter "endpointd_watch_events_total" [resource] "Events received from watches, without bookmarks.";
        lag: Gauge "endpointd_watch_lag_seconds" [resource = Kind::ALL.map(Kind::as_str)] "Seconds since an event, a bookmark (the server sends one a minute) or a part of a list was last received, or a version was read that shows that nothing is missing; or since it was to be listed first. That a watch was opened does not count. 0 while the resource is not followed.";
        undecodable: Counter "endpointd_decode_failures_total" [resource] "Objects that could not be decoded and were left out.";
        lists: Counter "endpointd_lists_total" [resource] "Lists started.";
    }
    Lease "Leader election" {
        leads: Gauge "leader_election_master_status" [name] "1 while this process is the leader, otherwise 0; name is the name of the Lease. Absent without leader election.";
        held: Gauge "endpointd_lease_held" "1 while this process may write, otherwise 0: it holds the Lease and the renew deadline has not passed, or leader election is off.";
    }
    DryRuns "Dry runs" {
        differences: Counter "endpointd_dry_run_differences_total" [operation = Verb::ALL.map(Verb::as_str)] "Writes that would have been made, because an object differed for longer than --dry-run-patience, by operation: create, update, delete.";
        comparisons: Counter "endpointd_dry_run_comparisons_total" "Times a Service was compared with what other controllers have written.";
    }
    Events "Kubernetes Events and the log" {
        outcomes: Counter "endpointd_event_requests_total" [outcome = ["ok", "refused", "unknown"]] "Requests for Kubernetes Events, by outcome: ok, refused, unknown.";
        dropped: Counter "endpointd_events_dropped_total" "Notices for users that were dropped, with their log line and Kubernetes Event: they exceeded the share of their namespace, or too many waited, or the API server did not take the Event.";
    }
    Upstream "Upstream's endpointslice controller" {
        added: Histogram(POWERS_OF_TWO) "endpoint_slice_controller_endpoints_added_per_sync" "Endpoints added to slices by one sync of a Service.";
        removed: Histogram(POWERS_OF_TWO) "endpoint_slice_controller_endpoints_removed_per_sync" "Endpoints removed from slices between one sync of a Service and the next.";
        endpoints: Gauge "endpoint_slice_controller_endpoints_desired" "Endpoints that have a place in a slice.";
        slices: Gauge "endpoint_slice_controller_num_endpoint_slices" "Slices in use, including those that are yet to be created.";
        desired_slices: Gauge "endpoint_slice_controller_desired_endpoint_slices" "Slices that would be needed if all were packed full; at least one for each Service and address family.";
        changes: Counter "endpoint_slice_controller_changes" [operation = Verb::ALL.map(Verb::as_str)] "Slices written, by operation: create, update, delete. Kubernetes 1.38 deprecates the name.";
        changes_total: Counter "endpoint_slice_controller_changes_total" [operation = Verb::ALL.map(Verb::as_str)] "The same under the name that Kubernetes 1.38 gives it.";
        syncs: Counter "endpoint_slice_controller_syncs" [result = ["success", "stale", "error"]] "By result: success counts syncs of Services, stale counts writes that met an unknown version of the object, and error counts writes that failed otherwise. Stale and failed writes are retried.";
        changed: Histogram(DEFAULT) "endpoint_slice_controller_endpointslices_changed_per_sync" [topology, traffic_distribution] "Slices changed by one sync of a Service. PreferClose counts as PreferSameZone, its newer name.";
        services: Gauge "endpoint_slice_controller_services_count_by_traffic_distribution" [traffic_distribution = ["PreferSameZone", "PreferSameNode"]] "Services whose hints follow trafficDistribution: PreferSameZone (including PreferClose) and PreferSameNode.";
    }
    Mirrored "Upstream's endpointslice-mirroring controller" {
        added: Histogram(POWERS_OF_TWO) "endpoint_slice_mirroring_controller_endpoints_added_per_sync" "Endpoints added to mirrored slices by one sync of an Endpoints object.";
        updated: Histogram(POWERS_OF_TWO) "endpoint_slice_mirroring_controller_endpoints_updated_per_sync" "Endpoints of mirrored slices changed by one sync of an Endpoints object.";
        removed: Histogram(POWERS_OF_TWO) "endpoint_slice_mirroring_controller_endpoints_removed_per_sync" "Endpoints removed from mirrored slices by one sync of an Endpoints object.";
        skipped: Histogram(POWERS_OF_TWO) "endpoint_slice_mirroring_controller_addresses_skipped_per_sync" "Addresses that one sync of an Endpoints object left out, because they are invalid or exceed --mirroring-max-endpoints-per-subset.";
        duration: Histogram(POWERS_OF_TWO_MS) "endpoint_slice_mirroring_controller_endpoints_sync_duration" "Seconds that the shard took for the message that brought the sync of an Endpoints object.";
        endpoints: Gauge "endpoint_slice_mirroring_controller_endpoints_desired" "Endpoints that mirrored slices should have.";
        slices: Gauge "endpoint_slice_mirroring_controller_num_endpoint_slices" "Mirrored slices in use, including those that are yet to be created.";
        desired_slices: Gauge "endpoint_slice_mirroring_controller_desired_endpoint_slices" "Mirrored slices that should be in use: one for each list of ports and each address family of an Endpoints object.";
        changes: Counter "endpoint_slice_mirroring_controller_changes" [operation = Verb::ALL.map(Verb::as_str)] "Mirrored slices written, by operation: create, update, delete.";
    }
    WorkQueues "Upstream's work queues" {
        depth: Gauge "workqueue_depth" [name = QUEUES] "Objects that wait to be written. The queue endpoint is for Endpoints, endpoint_slice for slices, and endpoint_slice_mirroring for slices that mirror Endpoints.";
        adds: Counter "workqueue_adds_total" [name = QUEUES] "Times an object was added to the queue.";
        retries: Counter "workqueue_retries_total" [name = QUEUES] "Times an object was added to the queue after a failure.";
        unfinished: Gauge "workqueue_unfinished_work_seconds" [name = QUEUES] "Seconds since the turn of each object whose request is not answered yet, added up.";
        longest: Gauge "workqueue_longest_running_processor_seconds" [name = QUEUES] "Seconds since the turn of the oldest object whose request is not answered yet.";
        waited: Histogram(POWERS_OF_TEN) "workqueue_queue_duration_seconds" [name = QUEUES] "Seconds that an object had waited in the queue when its turn came.";
        worked: Histogram(POWERS_OF_TEN) "workqueue_work_duration_seconds" [name = QUEUES] "Seconds from an object's turn to the API server's answer.";
    }
    Client "Requests to the API server, under client-go's names" {
        requests: Counter "rest_client_requests_total" [code, method, host] "Requests by status code, method and host. The code is <error> if there was no answer.";
        durations: Histogram(REQUEST_SECONDS) "rest_client_request_duration_seconds" [verb, host] "Seconds from sending a request to the beginning of its response, without watches. The label verb holds the HTTP method.";
    }
    Process "Process" {
        build: Gauge "endpointd_build_info" [version, commit] "Always 1. The labels hold the version and the commit of this build.";
        cpu: Seconds "process_cpu_seconds_total" [] "CPU time used, in seconds.";
        memory: Gauge "process_resident_memory_bytes" [] "Resident memory in bytes.";
        start: Gauge "process_start_time_seconds" [] "Start time of the process, in seconds since 1970.";
        tasks: Gauge "endpointd_tasks" [] "Tasks of the runtime that have not ended. Their number follows that of namespaces and of requests in flight; one that only grows is a leak.";
    }
}

/// Returns all metrics, without headings.
pub(crate) fn all() -> impl Iterator<Item = &'static Metric> {
    CATALOGUE.iter().flat_map(|(_, metrics)| *metrics)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// Compares the tables of the documentation with the catalogue. `WRITE_METRICS=1` writes them.
    #[test]
    fn the_documentation_has_what_the_catalogue_has() {
        const BEGIN: &str =
            "<!-- The tables are made from src/metrics/catalogue.rs; a test compares them. -->\n";
        let mut tables = String::new();
        for (heading, metrics) in CATALOGUE {
            let _ = write!(
                tables,
                "\n## {heading}\n\n| name | type | labels | meaning | buckets |\n|---|---|---|---|---|\n"
            );
            for metric in *metrics {
                let Metric {
                    name,
                    kind,
                    labels,
                    help,
                } = metric;
                let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
                let labels = labels.join(", ");
                let (kind, buckets) = match kind {
                    Type::Counter | Type::Seconds => ("counter", ""),
                    Type::Gauge => ("gauge", ""),
                    Type::Histogram((text, _)) => ("histogram", *text),
                };
                let help = help.replace('|', "\\|");
                let _ = writeln!(tables, "| `{name}` | {kind} | {labels} | {help} | {buckets} |");
            }
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
        let text = std::fs::read_to_string(path).unwrap();
        let (before, there) = text.split_once(BEGIN).unwrap();
        if std::env::var_os("WRITE_METRICS").is_some() {
            std::fs::write(path, format!("{before}{BEGIN}{tables}")).unwrap();
        } else {
            assert!(
                there == tables,
                "docs/metrics.md differs from the catalogue; WRITE_METRICS=1 makes this test write it"
            );
        }
    }

    #[test]
    fn names_and_bounds_are_what_prometheus_takes() {
        let mut names: Vec<_> = all().map(|metric| metric.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        for Metric {
            name,
            kind,
            labels,
            help,
        } in all()
        {
            let plain = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(
                name.chars().all(plain) && labels.iter().all(|l| l.chars().all(plain)),
                "{name}"
            );
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}");
            if let Type::Histogram((_, bounds)) = kind {
                assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
            }
        }
    }
}
