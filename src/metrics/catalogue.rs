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
// The rest are upstream's.
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
const POWERS_OF_TEN: Buckets = Buckets {
    text: "10 ns to 10 s, powers of ten",
    bounds: &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0],
};
const REQUEST_SECONDS: Buckets = Buckets {
    text: "0.005 to 60, 12 steps",
    bounds: &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0],
};
const REQUEST_BYTES: Buckets = Buckets {
    text: "64 to 16777216, 11 steps",
    bounds: &[
        64.0,
        256.0,
        512.0,
        1024.0,
        4096.0,
        16384.0,
        65536.0,
        262_144.0,
        1_048_576.0,
        4_194_304.0,
        16_777_216.0,
    ],
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
    ("What is published, and how fast", PUBLISHED),
    ("The queue of writes", QUEUE),
    ("What is known of the cluster", KNOWN),
    ("The lease", LEASE),
    ("Dry runs", DRY_RUN),
    ("Events for people", EVENTS),
    ("Upstream's endpointslice controller", UPSTREAM),
    ("Upstream's work queues", WORK_QUEUES),
    ("Requests to the API server, as client-go counts them", CLIENT),
    ("The process", PROCESS),
];

#[rustfmt::skip]
const PUBLISHED: &[Metric] = &[
    histogram("endpointd_change_to_acknowledged_seconds", &SECONDS, &["output"],
        "Time from the event of a pod, Service or node to the API server's answer to the write that carried it; of the oldest change that a write carried. Failed tries are part of it."),
    gauge("endpointd_services_out_of_sync", &[], "Services of which something waits to be written or is on its way; in a dry run, of which something has differed for longer than --dry-run-patience."),
    gauge("endpointd_services_out_of_sync_oldest_seconds", &[], "How long the one of them that waits the longest has not been in order; in a dry run, the age of the oldest difference."),
    histogram("endpointd_changes_per_write", &CHANGES, &[], "How many changes one write carried."),
    counter("endpointd_requests_total", &["verb"], "Requests for slices, Endpoints and the Services of leftover Endpoints: create, update, delete, get."),
    counter("endpointd_request_outcomes_total", &["outcome"], "Their answers: ok, conflict, missing, refused, unknown (no answer, or a failure of the server)."),
    histogram("endpointd_request_duration_seconds", &SECONDS, &[], "How long their answers took."),
];

#[rustfmt::skip]
const QUEUE: &[Metric] = &[
    gauge("endpointd_queue_waiting", &[], "Objects that wait to be written."),
    gauge("endpointd_queue_oldest_seconds", &["lane"], "How long the object that waits the longest has waited, of those that may go: lane remove (an endpoint must stop), add, rest."),
    histogram("endpointd_queue_age_seconds", &SECONDS, &["lane"], "How long objects had waited when their turn came."),
    gauge("endpointd_requests_in_flight", &[], "Objects on their way."),
    gauge("endpointd_requests_in_flight_limit", &[], "How many may be: the window that learns from the server."),
    counter("endpointd_throttled_seconds_total", &[], "Time in which something could have gone and was held back by --kube-api-qps, or because the server had asked for quiet."),
];

#[rustfmt::skip]
const KNOWN: &[Metric] = &[
    gauge("endpointd_shards", &[], "Namespaces with anything in them: each has an actor."),
    gauge("endpointd_pods", &[], "Pods that are kept."),
    gauge("endpointd_services", &[], "Services that are kept."),
    gauge("endpointd_label_sets", &[], "Different sets of selectors that match pods, over all namespaces."),
    counter("endpointd_listed_objects_total", &["resource"], "Objects that lists have shown."),
    counter("endpointd_watch_events_total", &["resource"], "Events that watches have shown, without bookmarks."),
    gauge("endpointd_watch_lag_seconds", &["resource"], "Time since the last sign of life of a watch: an event, a bookmark (the server sends one a minute), or its answer to the request. 0 while the resource is not followed."),
    counter("endpointd_decode_failures_total", &["resource"], "Objects that could not be read, and are left out."),
    counter("endpointd_lists_total", &["resource"], "Lists begun."),
    counter("endpointd_watches_total", &["resource"], "Watches begun."),
];

#[rustfmt::skip]
const LEASE: &[Metric] = &[
    gauge("leader_election_master_status", &["name"], "1 while this process leads, else 0; name is the Lease's. Not there without election."),
    gauge("endpointd_lease_held", &[], "1 while this process may write: it holds the Lease and the renew deadline has not passed, or there is no election."),
    gauge("endpointd_lease_renewal_age_seconds", &[], "Time since the last accepted renewal of the Lease that this process holds was sent; 0 if it holds none."),
    counter("endpointd_leader_terms_total", &[], "How often this process has begun to lead."),
    counter("endpointd_lease_requests_total", &["outcome"], "Requests for the Lease: ok, conflict, unknown."),
];

#[rustfmt::skip]
const DRY_RUN: &[Metric] = &[
    counter("endpointd_dry_run_differences_total", &["operation"], "Writes that would have been made: objects that differed for longer than --dry-run-patience: create, update, delete."),
    counter("endpointd_dry_run_comparisons_total", &[], "How often a Service was compared with what others have written."),
];

#[rustfmt::skip]
const EVENTS: &[Metric] = &[
    gauge("endpointd_events_waiting", &[], "Events that wait to be written."),
    counter("endpointd_event_requests_total", &["outcome"], "Requests for Events: ok, refused, unknown."),
    counter("endpointd_events_dropped_total", &[], "Events that are not written, unless they happen again."),
    counter("endpointd_log_lines_left_out_total", &[], "Lines of the log that are left out, since their namespace has caused too many; a summary counts them by namespace once a minute."),
];

#[rustfmt::skip]
const UPSTREAM: &[Metric] = &[
    histogram("endpoint_slice_controller_endpoints_added_per_sync", &POWERS_OF_TWO, &[], "Endpoints that an evaluation of a Service gave a place in a slice."),
    histogram("endpoint_slice_controller_endpoints_removed_per_sync", &POWERS_OF_TWO, &[], "Endpoints that lost their place between one evaluation of a Service and the next."),
    gauge("endpoint_slice_controller_endpoints_desired", &[], "Endpoints that have a place."),
    gauge("endpoint_slice_controller_num_endpoint_slices", &[], "Slices in use, those that are yet to be created among them."),
    gauge("endpoint_slice_controller_desired_endpoint_slices", &[], "Slices that would do if all were filled; at least one for each Service and family."),
    counter("endpoint_slice_controller_changes", &["operation"], "Slices that were written: create, update, delete."),
    counter("endpoint_slice_controller_syncs", &["result"], "success: evaluations of Services; stale: writes that met a version not known here; error: writes that failed otherwise. What was stale or failed is tried again."),
    histogram("endpoint_slice_controller_endpointslices_changed_per_sync", &DEFAULT, &["topology", "traffic_distribution"], "Slices that an evaluation of a Service changed. PreferClose counts as its other name, PreferSameZone."),
    gauge("endpoint_slice_controller_services_count_by_traffic_distribution", &["traffic_distribution"], "Services whose hints follow trafficDistribution: PreferSameZone (PreferClose among them), PreferSameNode."),
];

#[rustfmt::skip]
const WORK_QUEUES: &[Metric] = &[
    gauge("workqueue_depth", &["name"], "Objects that wait to be written; name endpoint for Endpoints, endpoint_slice for slices."),
    counter("workqueue_adds_total", &["name"], "How often an object became due."),
    counter("workqueue_retries_total", &["name"], "How often of these after a failure."),
    gauge("workqueue_unfinished_work_seconds", &["name"], "How long those on their way have been so, added up."),
    gauge("workqueue_longest_running_processor_seconds", &["name"], "How long the one of them that has been so the longest."),
    histogram("workqueue_queue_duration_seconds", &POWERS_OF_TEN, &["name"], "How long objects had waited when their turn came."),
    histogram("workqueue_work_duration_seconds", &POWERS_OF_TEN, &["name"], "From there to the API server's answer."),
];

#[rustfmt::skip]
const CLIENT: &[Metric] = &[
    counter("rest_client_requests_total", &["code", "method", "host"], "Requests by what was answered; code <error> if nothing was."),
    histogram("rest_client_request_duration_seconds", &REQUEST_SECONDS, &["verb", "host"], "Time to the beginning of the answer, without watches; verb is the method."),
    histogram("rest_client_rate_limiter_duration_seconds", &REQUEST_SECONDS, &["verb", "host"], "How long writes waited for --kube-api-qps, when nothing else stopped them."),
    histogram("rest_client_request_size_bytes", &REQUEST_BYTES, &["verb", "host"], "Bytes of requests' bodies."),
    histogram("rest_client_response_size_bytes", &REQUEST_BYTES, &["verb", "host"], "Bytes of answers' bodies, without watches."),
];

#[rustfmt::skip]
const PROCESS: &[Metric] = &[
    gauge("endpointd_build_info", &["version", "commit"], "1."),
    counter("process_cpu_seconds_total", &[], "Processor time used."),
    gauge("process_resident_memory_bytes", &[], "Resident memory."),
    gauge("process_virtual_memory_bytes", &[], "Virtual memory."),
    gauge("process_start_time_seconds", &[], "When the process was started, in seconds since 1970."),
    gauge("process_open_fds", &[], "Open file descriptors."),
    gauge("process_max_fds", &[], "How many there may be."),
];

/// Returns all metrics, without headings.
pub(crate) fn all() -> impl Iterator<Item = &'static Metric> {
    CATALOGUE.iter().flat_map(|(_, metrics)| *metrics)
}

/// Finds a metric of the catalogue.
pub(super) fn find(name: &str) -> &'static Metric {
    all()
        .find(|metric| metric.name == name)
        .expect("what is served is in the catalogue")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// The tables of the documentation. `WRITE_METRICS=1` writes them there.
    #[test]
    fn the_documentation_has_what_the_catalogue_has() {
        const BEGIN: &str =
            "<!-- The tables are made from src/metrics/catalogue.rs; a test compares them. -->\n";
        let mut tables = String::new();
        for (heading, metrics) in CATALOGUE {
            let _ = write!(
                tables,
                "\n## {heading}\n\n| name | type | labels | what it tells | buckets |\n|---|---|---|---|---|\n"
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
                "run this test with WRITE_METRICS=1, and look at the difference"
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
