//! Catalogue of all metrics: the documentation lists it and the exporter describes it. One test compares both, and
//! another the metrics that a running process serves.

/// Types of metrics.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Type {
    /// A value that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// The number of measurements in each range, with these bounds.
    Histogram(&'static Buckets),
}

impl Type {
    /// Returns the type's name in Prometheus.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// Bounds of a histogram, and their short form for the documentation.
#[derive(PartialEq, Debug)]
pub(crate) struct Buckets {
    /// The short form.
    pub text: &'static str,
    /// The upper bounds.
    pub bounds: &'static [f64],
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Type,
    /// The names of its labels.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "a test compares it with docs/metrics.md")
    )]
    pub labels: &'static [&'static str],
    /// Its help text.
    pub help: &'static str,
}

/// Seconds, from a write on loopback to a write that is given up.
const SECONDS: Buckets = Buckets {
    text: "0.0005 to 30, 15 steps",
    bounds: &[
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    ],
};
const CHANGES: Buckets = Buckets {
    text: "1, 2, 3, 5, 10 ... 500",
    bounds: &[1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0],
};
// The remaining buckets are upstream's.
const POWERS_OF_TWO: Buckets = Buckets {
    text: "2, 4, 8 ... 32768",
    bounds: &[
        2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
        32768.0,
    ],
};
const DEFAULT: Buckets = Buckets {
    text: "0.005 to 10, 11 steps",
    bounds: &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
};
const POWERS_OF_TWO_MS: Buckets = Buckets {
    text: "0.001, 0.002, 0.004 ... 16.384",
    bounds: &[
        0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192,
        16.384,
    ],
};
const POWERS_OF_TEN: Buckets = Buckets {
    text: "10 ns to 10 s, powers of ten",
    bounds: &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0],
};
const REQUEST_SECONDS: Buckets = Buckets {
    text: "0.005 to 60, 12 steps",
    bounds: &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0],
};

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    let kind = Type::Counter;
    Metric {
        name,
        kind,
        labels,
        help,
    }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    let kind = Type::Gauge;
    Metric {
        name,
        kind,
        labels,
        help,
    }
}

const fn histogram(
    name: &'static str,
    buckets: &'static Buckets,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    let kind = Type::Histogram(buckets);
    Metric {
        name,
        kind,
        labels,
        help,
    }
}

/// A part of the catalogue, with its heading.
pub(crate) type Group = (&'static str, &'static [Metric]);

/// The whole catalogue.
pub(crate) const CATALOGUE: &[Group] = &[
    ("Published objects", PUBLISHED),
    ("Write queue", QUEUE),
    ("Cluster state", KNOWN),
    ("Leader election", LEASE),
    ("Dry runs", DRY_RUN),
    ("Kubernetes Events and the log", EVENTS),
    ("Upstream's endpointslice controller", UPSTREAM),
    (
        "Upstream's endpointslice-mirroring controller",
        UPSTREAM_MIRRORING,
    ),
    ("Upstream's work queues", WORK_QUEUES),
    ("Requests to the API server, under client-go's names", CLIENT),
    ("Process", PROCESS),
];

#[rustfmt::skip]
const PUBLISHED: &[Metric] = &[
    histogram("endpointd_change_to_acknowledged_seconds", &SECONDS, &["output"],
        "Seconds from the watch event of a pod, Service or node until the API server acknowledged the write that carried the change, including failed tries. If a write carried several changes, the oldest counts."),
    gauge("endpointd_services_out_of_sync", &[], "Services with an object that waits to be written or has a request in flight. In a dry run: Services with a difference that has lasted for longer than --dry-run-patience."),
    gauge("endpointd_services_out_of_sync_oldest_seconds", &[], "Seconds for which the longest of these Services has been out of sync. In a dry run: the age of the oldest difference."),
    histogram("endpointd_changes_per_write", &CHANGES, &[], "Number of changes that one write carried."),
    counter("endpointd_requests_total", &["verb"], "Requests for slices and Endpoints, and for the Services of leftover Endpoints, by verb: create, update, delete, get."),
    counter("endpointd_request_outcomes_total", &["outcome"], "Outcomes of these requests: ok, conflict, missing, refused, unknown (no answer, or an error of the server)."),
    histogram("endpointd_request_duration_seconds", &SECONDS, &[], "Seconds from sending one of these requests to its answer."),
    counter("endpointd_contested_changes_total", &["output"], "Times another client changed or deleted an object that it had changed or deleted twice before, with less than ten quiet minutes in between: probably a controller that endpointd replaces is still on."),
    gauge("endpointd_custom_selector_services", &["state"], "Services whose selector is the annotation endpointd.io/selector, by state: valid, or invalid (no pods are added; published ones are followed until they are gone)."),
];

#[rustfmt::skip]
const QUEUE: &[Metric] = &[
    gauge("endpointd_queue_waiting", &[], "Objects that wait to be written."),
    gauge("endpointd_queue_oldest_seconds", &["lane"], "Seconds for which the oldest object in the queue has waited, without those that wait for a retry or a batch period. Lanes: remove (an endpoint must stop receiving traffic), add (an endpoint can start to), rest."),
    histogram("endpointd_queue_age_seconds", &SECONDS, &["lane"], "Seconds that an object had waited in the queue when its turn came."),
    gauge("endpointd_requests_in_flight", &[], "Objects whose turn has come and whose request is not answered yet."),
    gauge("endpointd_requests_in_flight_limit", &[], "Maximum number of requests in flight at the moment, up to --max-requests-in-flight. It follows the number that the API server works on at once, as its answers show it; under lasting load it is a quarter of that for a moment, some three times a minute."),
    counter("endpointd_throttled_seconds_total", &[], "Seconds in which a write was ready but had to wait for --kube-api-qps, for a pause that the API server asked for, or for watchers: the sum of endpointd_held_back_seconds_total without in_flight."),
    counter("endpointd_held_back_seconds_total", &["limit"], "Seconds in which a write was ready but had to wait: for --kube-api-qps (rate), a pause that the API server asked for (server), events of earlier writes that endpointd's own watch has not shown yet (echoes), --watch-budget or --watch-budget-per-watcher (watchers), or answers (in_flight)."),
    histogram("endpointd_echo_seconds", &SECONDS, &["output"], "Seconds from the answer to a write until endpointd's own watch showed it, for writes that it showed after the answer. A write that is late and not awaited any more, since the watch has ended, counts as broken or has shown others for a minute, counts with the time for which it was awaited. Other clients that watch see changes as late as this, or later, unless endpointd's own watch alone is late."),
    gauge("endpointd_writes_without_echo", &["resource"], "Writes in flight, and writes that were answered but that endpointd's own watch has not shown yet."),
    gauge("endpointd_writes_without_echo_limit", &["resource"], "Limit of endpointd_writes_without_echo; it falls to 2 while endpointd's own watch is late with events. Writes that endpointd_writes_beyond_limit_total counts go beyond it: 20 a second while no more than 40 are to be shown, or up to 16 in all while the watch shows nothing."),
    counter("endpointd_writes_beyond_limit_total", &["resource"], "Writes that went although endpointd_writes_without_echo was at its limit, because endpointd's own watch alone seems to be late or shows nothing, or although there is no other limit while that watch is closed or broken: 20 a second at most."),
    gauge("endpointd_namespaces_over_watch_budget", &[], "Namespaces whose slices wait because they have written slices that are much larger than usual, until --watch-budget or --watch-budget-per-watcher has made up for that. The log names the one that waits longest."),
    gauge("endpointd_watchers", &[], "Clients that are taken to watch all slices: the number of nodes times --watchers-per-node, or --watchers."),
    counter("endpointd_sent_to_watchers_bytes_total", &[], "Bytes that API servers have to send to clients that watch slices: the size of each slice written, times endpointd_watchers."),
];

#[rustfmt::skip]
const KNOWN: &[Metric] = &[
    gauge("endpointd_shards", &[], "Namespaces that have an actor, because they hold at least one object."),
    gauge("endpointd_pods", &[], "Pods in memory."),
    gauge("endpointd_label_sets", &[], "Distinct sets of selectors that match pods, summed over namespaces."),
    counter("endpointd_watch_events_total", &["resource"], "Events received from watches, without bookmarks."),
    gauge("endpointd_watch_lag_seconds", &["resource"], "Seconds since an event, a bookmark (the server sends one a minute) or a part of a list was last received, or a version was read that shows that nothing is missing; or since it was to be listed first. That a watch was opened does not count. 0 while the resource is not followed."),
    counter("endpointd_decode_failures_total", &["resource"], "Objects that could not be decoded and were left out."),
    counter("endpointd_lists_total", &["resource"], "Lists started."),
];

#[rustfmt::skip]
const LEASE: &[Metric] = &[
    gauge("leader_election_master_status", &["name"], "1 while this process is the leader, otherwise 0; name is the name of the Lease. Absent without leader election."),
    gauge("endpointd_lease_held", &[], "1 while this process may write, otherwise 0: it holds the Lease and the renew deadline has not passed, or leader election is off."),
];

#[rustfmt::skip]
const DRY_RUN: &[Metric] = &[
    counter("endpointd_dry_run_differences_total", &["operation"], "Writes that would have been made, because an object differed for longer than --dry-run-patience, by operation: create, update, delete."),
    counter("endpointd_dry_run_comparisons_total", &[], "Times a Service was compared with what other controllers have written."),
];

#[rustfmt::skip]
const EVENTS: &[Metric] = &[
    counter("endpointd_event_requests_total", &["outcome"], "Requests for Kubernetes Events, by outcome: ok, refused, unknown."),
    counter("endpointd_events_dropped_total", &[], "Notices for users that were dropped, with their log line and Kubernetes Event: they exceeded the share of their namespace, or too many waited, or the API server did not take the Event."),
];

#[rustfmt::skip]
const UPSTREAM: &[Metric] = &[
    histogram("endpoint_slice_controller_endpoints_added_per_sync", &POWERS_OF_TWO, &[], "Endpoints added to slices by one sync of a Service."),
    histogram("endpoint_slice_controller_endpoints_removed_per_sync", &POWERS_OF_TWO, &[], "Endpoints removed from slices between one sync of a Service and the next."),
    gauge("endpoint_slice_controller_endpoints_desired", &[], "Endpoints that have a place in a slice."),
    gauge("endpoint_slice_controller_num_endpoint_slices", &[], "Slices in use, including those that are yet to be created."),
    gauge("endpoint_slice_controller_desired_endpoint_slices", &[], "Slices that would be needed if all were packed full; at least one for each Service and address family."),
    counter("endpoint_slice_controller_changes", &["operation"], "Slices written, by operation: create, update, delete. Kubernetes 1.38 deprecates the name."),
    counter("endpoint_slice_controller_changes_total", &["operation"], "The same under the name that Kubernetes 1.38 gives it."),
    counter("endpoint_slice_controller_syncs", &["result"], "By result: success counts syncs of Services, stale counts writes that met an unknown version of the object, and error counts writes that failed otherwise. Stale and failed writes are retried."),
    histogram("endpoint_slice_controller_endpointslices_changed_per_sync", &DEFAULT, &["topology", "traffic_distribution"], "Slices changed by one sync of a Service. PreferClose counts as PreferSameZone, its newer name."),
    gauge("endpoint_slice_controller_services_count_by_traffic_distribution", &["traffic_distribution"], "Services whose hints follow trafficDistribution: PreferSameZone (including PreferClose) and PreferSameNode."),
];

#[rustfmt::skip]
const UPSTREAM_MIRRORING: &[Metric] = &[
    histogram("endpoint_slice_mirroring_controller_endpoints_added_per_sync", &POWERS_OF_TWO, &[], "Endpoints added to mirrored slices by one sync of an Endpoints object."),
    histogram("endpoint_slice_mirroring_controller_endpoints_updated_per_sync", &POWERS_OF_TWO, &[], "Endpoints of mirrored slices changed by one sync of an Endpoints object."),
    histogram("endpoint_slice_mirroring_controller_endpoints_removed_per_sync", &POWERS_OF_TWO, &[], "Endpoints removed from mirrored slices by one sync of an Endpoints object."),
    histogram("endpoint_slice_mirroring_controller_addresses_skipped_per_sync", &POWERS_OF_TWO, &[], "Addresses that one sync of an Endpoints object left out, because they are invalid or exceed --mirroring-max-endpoints-per-subset."),
    histogram("endpoint_slice_mirroring_controller_endpoints_sync_duration", &POWERS_OF_TWO_MS, &[], "Seconds that the shard took for the message that brought the sync of an Endpoints object."),
    gauge("endpoint_slice_mirroring_controller_endpoints_desired", &[], "Endpoints that mirrored slices should have."),
    gauge("endpoint_slice_mirroring_controller_num_endpoint_slices", &[], "Mirrored slices in use, including those that are yet to be created."),
    gauge("endpoint_slice_mirroring_controller_desired_endpoint_slices", &[], "Mirrored slices that should be in use: one for each list of ports and each address family of an Endpoints object."),
    counter("endpoint_slice_mirroring_controller_changes", &["operation"], "Mirrored slices written, by operation: create, update, delete."),
];

#[rustfmt::skip]
const WORK_QUEUES: &[Metric] = &[
    gauge("workqueue_depth", &["name"], "Objects that wait to be written. The queue endpoint is for Endpoints, endpoint_slice for slices, and endpoint_slice_mirroring for slices that mirror Endpoints."),
    counter("workqueue_adds_total", &["name"], "Times an object was added to the queue."),
    counter("workqueue_retries_total", &["name"], "Times an object was added to the queue after a failure."),
    gauge("workqueue_unfinished_work_seconds", &["name"], "Seconds since the turn of each object whose request is not answered yet, added up."),
    gauge("workqueue_longest_running_processor_seconds", &["name"], "Seconds since the turn of the oldest object whose request is not answered yet."),
    histogram("workqueue_queue_duration_seconds", &POWERS_OF_TEN, &["name"], "Seconds that an object had waited in the queue when its turn came."),
    histogram("workqueue_work_duration_seconds", &POWERS_OF_TEN, &["name"], "Seconds from an object's turn to the API server's answer."),
];

#[rustfmt::skip]
const CLIENT: &[Metric] = &[
    counter("rest_client_requests_total", &["code", "method", "host"], "Requests by status code, method and host. The code is <error> if there was no answer."),
    histogram("rest_client_request_duration_seconds", &REQUEST_SECONDS, &["verb", "host"], "Seconds from sending a request to the beginning of its response, without watches. The label verb holds the HTTP method."),
];

#[rustfmt::skip]
const PROCESS: &[Metric] = &[
    gauge("endpointd_build_info", &["version", "commit"], "Always 1. The labels hold the version and the commit of this build."),
    counter("process_cpu_seconds_total", &[], "CPU time used, in seconds."),
    gauge("process_resident_memory_bytes", &[], "Resident memory in bytes."),
    gauge("process_start_time_seconds", &[], "Start time of the process, in seconds since 1970."),
    gauge("endpointd_tasks", &[], "Tasks of the runtime that have not ended. Their number follows that of namespaces and of requests in flight; one that only grows is a leak."),
];

/// Returns all metrics, without headings.
pub(crate) fn all() -> impl Iterator<Item = &'static Metric> {
    CATALOGUE.iter().flat_map(|(_, metrics)| *metrics)
}

/// Finds a metric of the catalogue.
pub(super) fn find(name: &str) -> &'static Metric {
    all()
        .find(|metric| metric.name == name)
        .expect("every served metric is in the catalogue")
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
                let (kind, labels) = (kind.as_str(), labels.join(", "));
                let buckets = match metric.kind {
                    Type::Histogram(buckets) => buckets.text,
                    _ => "",
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
            if let Type::Histogram(buckets) = kind {
                assert!(buckets.bounds.windows(2).all(|pair| pair[0] < pair[1]), "{name}");
            }
        }
    }
}
