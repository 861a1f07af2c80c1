use super::*;
use crate::cluster::watch::slice_changes::SliceNews;
use crate::core::lease::Record;
use crate::ops::top::exposition::Exposition;

/// The identity of a leader whose pod has a long name.
const HOLDER: &str = "endpointd-7c9d5b8f6d-x2x7q_0e1d2c3b-4a59-4687-8796-a5b4c3d2e1f0";

/// A page of a leader that has been up for a while; `step` is the number of the scrape.
pub(in crate::ops::top) fn page(step: u32) -> Exposition {
    let text = format!(
        "endpointd_build_info{{version=\"0.1.0\",commit=\"abc\"}} 1\n\
         endpointd_lease_held 1\n\
         leader_election_master_status{{name=\"endpointd\"}} 1\n\
         process_start_time_seconds 1700000000\n\
         process_cpu_seconds_total {cpu}\n\
         process_resident_memory_bytes 50331648\n\
         endpointd_queue_age_seconds_count{{lane=\"remove\"}} {removes}\n\
         endpointd_queue_age_seconds_count{{lane=\"add\"}} {adds}\n\
         endpointd_queue_age_seconds_count{{lane=\"rest\"}} 9\n\
         endpointd_requests_total{{verb=\"create\"}} 5\n\
         endpointd_requests_total{{verb=\"update\"}} {adds}\n\
         endpointd_requests_total{{verb=\"delete\"}} 0\n\
         endpointd_requests_total{{verb=\"get\"}} 0\n\
         endpointd_request_outcomes_total{{outcome=\"conflict\"}} 0\n\
         endpointd_queue_waiting 12034\n\
         endpointd_queue_oldest_seconds{{lane=\"remove\"}} 0.1\n\
         endpointd_queue_oldest_seconds{{lane=\"add\"}} 0.42\n\
         endpointd_queue_oldest_seconds{{lane=\"rest\"}} 75.2\n\
         endpointd_requests_in_flight 12\n\
         endpointd_requests_in_flight_limit 64\n\
         endpointd_throttled_seconds_total {throttled}\n\
         endpointd_held_back_seconds_total{{limit=\"echoes\"}} {throttled}\n\
         endpointd_held_back_seconds_total{{limit=\"watchers\"}} 0\n\
         endpointd_watchers 300\n\
         endpointd_writes_without_echo{{resource=\"endpointslices\"}} 3\n\
         endpointd_writes_without_echo{{resource=\"endpoints\"}} 1\n\
         endpointd_writes_without_echo_limit{{resource=\"endpointslices\"}} 16\n\
         endpointd_writes_without_echo_limit{{resource=\"endpoints\"}} 5\n\
         endpointd_sent_to_watchers_bytes_total {sent}\n\
         endpointd_echo_seconds_bucket{{output=\"endpointslice\",le=\"0.25\"}} 7\n\
         endpointd_echo_seconds_bucket{{output=\"endpointslice\",le=\"0.5\"}} {later}\n\
         endpointd_echo_seconds_bucket{{output=\"endpointslice\",le=\"+Inf\"}} {later}\n\
         endpointd_services_out_of_sync 1203\n\
         endpointd_services_out_of_sync_oldest_seconds 31.5\n\
         endpointd_change_to_acknowledged_seconds_bucket{{output=\"endpointslice\",le=\"0.01\"}} {adds}\n\
         endpointd_change_to_acknowledged_seconds_bucket{{output=\"endpointslice\",le=\"+Inf\"}} {adds}\n\
         endpointd_change_to_acknowledged_seconds_bucket{{output=\"endpoints\",le=\"0.01\"}} 7\n\
         endpointd_change_to_acknowledged_seconds_bucket{{output=\"endpoints\",le=\"0.1\"}} {later}\n\
         endpointd_change_to_acknowledged_seconds_bucket{{output=\"endpoints\",le=\"+Inf\"}} {later}\n\
         endpointd_watch_lag_seconds{{resource=\"pods\"}} 0.2\n\
         endpointd_watch_lag_seconds{{resource=\"services\"}} 12\n\
         endpointd_watch_lag_seconds{{resource=\"nodes\"}} 3.25\n\
         endpointd_watch_lag_seconds{{resource=\"endpointslices\"}} 0.00001\n\
         endpointd_watch_lag_seconds{{resource=\"endpoints\"}} 0\n",
        cpu = f64::from(step) * 0.25,
        removes = 100 + 24 * step,
        adds = 400 + 100 * step,
        later = 7 + 10 * step,
        sent = 240_000_000 * u64::from(step),
        throttled = f64::from(step) * 1.2,
    );
    Exposition::parse(&text).unwrap()
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A leader under load, looked at ten seconds after the start.
pub(in crate::ops::top) fn model() -> Model {
    let mut model = Model::new(
        "http://127.0.0.1:10270".to_owned(),
        "kube-system/endpointd".to_owned(),
    );
    model.scraped(Ok(page(0)), at(8));
    model.scraped(Ok(page(1)), at(10));
    let record = Record {
        holder: HOLDER.to_owned(),
        seconds: 15,
        ..Record::default()
    };
    model.lease_read(Ok(Some(record)), at(9));
    model.slices(SliceNews::Follows, at(0));
    for (name, changes) in [("cart", 3), ("checkout", 41), ("web", 7)] {
        for number in 0..changes {
            let changed = SliceNews::Changed {
                namespace: "shop".into(),
                service: name.into(),
                deleted: number == 0,
            };
            model.slices(changed, at(9));
        }
    }
    model
}

fn text(model: &Model) -> String {
    View::of(model, Sort::default(), "", at(10)).to_text(2)
}

#[test]
fn a_leader_under_load_is_shown_with_its_rates() {
    let expected = "\
endpointd at http://127.0.0.1:10270
Process    the leader  version 0.1.0  0.12 CPUs  48 MiB
Lease      endpointd-7c9d5b8f6d-x2x7q  holds kube-system/endpointd  unchanged for 0s
Writes/s   remove 12.0  add 50.0  rest 0.0
Requests/s create 0.0  update 50.0  delete 0.0  get 0.0  failed 0.0
Queue      12034 waiting  the oldest: remove 100 ms  add 420 ms  rest 75 s
Window     12 of 64 requests in flight  throttled 60 % of the time
Watchers   300 watch slices  echo p50 375 ms p99 498 ms  3 of 16 writes without one  sent 120 MB/s  held back 60 % of the time
Behind     1203 Services out of sync  the oldest for 32 s
Change→ack endpointslice: p50 5.0 ms p99 9.9 ms  endpoints: p50 55 ms p99 99 ms
Last event endpoints -  endpointslices 0 s  nodes 3.2 s  pods 200 ms  services 12 s

Services by slice changes in the last 10s, sorted by changes
CHANGES  DELETES  LAST  SERVICE
     41        1    1s  shop/checkout
      7        1    1s  shop/web
and 1 more
";
    assert_eq!(text(&model()), expected);
    let alarms: Vec<_> = View::of(&model(), Sort::default(), "", at(10))
        .facts
        .into_iter()
        .filter(|fact| fact.alarm)
        .map(|fact| fact.label)
        .collect();
    assert_eq!(
        alarms,
        ["Window", "Watchers", "Behind"],
        "throttled for most of the time, watchers that are late, and far behind"
    );
}

#[test]
fn before_the_first_scrape_and_after_a_restart_there_are_no_rates() {
    let mut model = Model::new("u".to_owned(), "n/l".to_owned());
    assert!(text(&model).contains("Metrics    not read yet\n"));
    model.scraped(Ok(page(5)), at(1));
    let first = text(&model);
    assert!(first.contains("remove -  add -  rest -\n"), "{first}");
    assert!(
        first.contains("throttled -\n") && first.contains("12034 waiting"),
        "{first}"
    );
    model.scraped(Ok(page(6)), at(3));
    assert!(text(&model).contains("remove 12.0"), "{}", text(&model));
    // Another process counts from zero.
    let restarted = Exposition::parse(
        "process_start_time_seconds 1700000100\nendpointd_lease_held 0\nleader_election_master_status{name=\"l\"} 0\n",
    );
    model.scraped(Ok(restarted.unwrap()), at(5));
    let after = text(&model);
    assert!(after.contains("a standby: it writes nothing"), "{after}");
    assert!(after.contains("restarted, or another process answers"), "{after}");
    assert!(after.contains("remove -  add -  rest -\n"), "{after}");
}

#[test]
fn metrics_that_could_never_be_read_come_with_the_command_that_is_most_often_missing() {
    let mut model = Model::new(
        "http://127.0.0.1:10270".to_owned(),
        "kube-system/endpointd".to_owned(),
    );
    model.scraped(Err("connection refused".to_owned()), at(0));
    let shown = text(&model);
    assert!(
        shown.contains(
            "connection refused  (of a controller in a pod? kubectl -n kube-system port-forward POD 10270;"
        ),
        "{shown}"
    );
}

#[test]
fn metrics_that_go_away_are_shown_with_their_age_and_come_back() {
    let mut model = model();
    model.scraped(Err("connection refused".to_owned()), at(10));
    model.scraped(Err("connection refused".to_owned()), at(12));
    let view = View::of(&model, Sort::default(), "", at(15));
    assert_eq!(view.facts[0].pieces, ["not read for 5s:", "connection refused"]);
    assert!(view.facts[0].alarm);
    assert!(view.to_text(1).contains("12034 waiting"), "the last values stay");
    model.scraped(Ok(page(3)), at(16));
    let back = text(&model);
    assert!(!back.contains("not read"), "{back}");
    assert!(
        back.contains("add 33.3"),
        "200 in the six seconds since the last scrape: {back}"
    );
}

#[test]
fn what_is_wrong_with_the_lease_is_said() {
    let mut model = Model::new("u".to_owned(), "n/l".to_owned());
    let line = |model: &Model| {
        let view = View::of(model, Sort::default(), "", at(60));
        let fact = view.facts.into_iter().find(|fact| fact.label == "Lease");
        fact.map(|fact| (fact.pieces.join(" "), fact.alarm))
    };
    assert_eq!(line(&model), None);
    model.lease_read(Err("forbidden".to_owned()), at(1));
    assert_eq!(
        line(&model),
        Some(("n/l cannot be read: forbidden".to_owned(), true))
    );
    model.lease_read(Ok(None), at(2));
    assert_eq!(line(&model), Some(("n/l does not exist".to_owned(), true)));
    let mut record = Record {
        holder: "host_with_parts".to_owned(),
        seconds: 15,
        ..Record::default()
    };
    model.lease_read(Ok(Some(record.clone())), at(3));
    model.lease_read(Ok(Some(record.clone())), at(9));
    assert_eq!(
        line(&model),
        Some(("host_with_parts holds n/l unchanged for 6s".to_owned(), false)),
        "nobody has looked since"
    );
    model.lease_read(Ok(Some(record.clone())), at(19));
    assert_eq!(
        line(&model),
        Some((
            "host_with_parts held n/l and has let it expire unchanged for 16s".to_owned(),
            true
        ))
    );
    record.holder.clear();
    model.lease_read(Ok(Some(record)), at(20));
    assert_eq!(
        line(&model),
        Some(("n/l is held by nobody unchanged for 0s".to_owned(), true))
    );
}

#[test]
fn a_controller_without_leader_election_needs_no_lease() {
    let alarms = |page: &str| {
        let mut model = Model::new("u".to_owned(), "n/l".to_owned());
        model.scraped(Ok(Exposition::parse(page).unwrap()), at(1));
        model.lease_read(Ok(None), at(2));
        let facts = View::of(&model, Sort::default(), "", at(3)).facts;
        let role = facts[0].pieces[0].clone();
        let lease = facts.into_iter().find(|fact| fact.label == "Lease").unwrap();
        assert_eq!(lease.pieces, ["n/l does not exist"]);
        (role, lease.alarm)
    };
    assert_eq!(
        alarms("endpointd_lease_held 1\n"),
        ("writes without leader election".to_owned(), false)
    );
    assert_eq!(
        alarms("endpointd_shards 1\n"),
        ("a dry run: it writes nothing".to_owned(), false)
    );
    let standby = "endpointd_lease_held 0\nleader_election_master_status{name=\"l\"} 0\n";
    assert!(alarms(standby).1);
}

#[test]
fn a_lease_that_is_seldom_read_has_not_expired_in_between() {
    let mut model = model();
    let shown = |model: &Model, now| {
        let view = View::of(model, Sort::default(), "", at(now));
        let fact = view.facts.into_iter().find(|fact| fact.label == "Lease").unwrap();
        (fact.pieces.last().unwrap().clone(), fact.alarm)
    };
    // It was read at 9, and is read again after 30 seconds, with --interval=30s.
    assert_eq!(shown(&model, 38), ("unchanged for 0s".to_owned(), false));
    let mut record = Record {
        holder: HOLDER.to_owned(),
        seconds: 15,
        transitions: 1,
        ..Record::default()
    };
    model.lease_read(Ok(Some(record.clone())), at(39));
    assert_eq!(shown(&model, 68), ("unchanged for 0s".to_owned(), false));
    model.lease_read(Ok(Some(record.clone())), at(69));
    assert_eq!(shown(&model, 70), ("unchanged for 30s".to_owned(), true));
    record.transitions = 2;
    model.lease_read(Ok(Some(record)), at(99));
    assert_eq!(shown(&model, 120), ("unchanged for 0s".to_owned(), false));
}

#[test]
fn what_has_not_been_seen_for_long_enough_is_not_claimed() {
    let heading = |model: &Model, now| View::of(model, Sort::default(), "", at(now)).heading;
    let mut model = Model::new("http://host".to_owned(), "n/l".to_owned());
    assert_eq!(
        heading(&model, 9),
        "Services by slice changes not counted yet, sorted by changes"
    );
    model.slices(SliceNews::Follows, at(9));
    assert_eq!(
        heading(&model, 12),
        "Services by slice changes in the last 3s, sorted by changes"
    );
    assert_eq!(
        heading(&model, 69),
        "Services by slice changes in the last minute, sorted by changes"
    );
    // One sample says nothing of what was written.
    model.scraped(Ok(page(0)), at(10));
    assert!(text(&model).contains("Change→ack -\n"), "{}", text(&model));
}

#[test]
fn a_lease_that_cannot_be_read_for_a_while_runs_out_all_the_same() {
    let mut model = model();
    let record = Record {
        holder: HOLDER.to_owned(),
        seconds: 15,
        ..Record::default()
    };
    model.lease_read(Err("no answer".to_owned()), at(20));
    assert!(text(&model).contains("kube-system/endpointd cannot be read:  no answer"));
    model.lease_read(Ok(Some(record)), at(30));
    let view = View::of(&model, Sort::default(), "", at(30)).to_text(0);
    assert!(view.contains("has let it expire  unchanged for 21s"), "{view}");
}

#[test]
fn a_page_cannot_move_the_cursor() {
    let mut model = model();
    let page =
        "endpointd_build_info{version=\"1\u{1b}[2J\"} 1\nendpointd_watch_lag_seconds{resource=\"a\\nb\"} 1\n";
    model.scraped(Ok(Exposition::parse(page).unwrap()), at(11));
    model.slices(SliceNews::Broken("c\u{1b}d".to_owned()), at(11));
    let text = text(&model);
    assert!(
        text.contains("version 1\\u{1b}[2J") && text.contains("a\\nb") && text.contains("c\\u{1b}d"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_broken_watch_is_said_until_it_works_again() {
    let mut model = model();
    model.slices(SliceNews::Broken("forbidden".to_owned()), at(9));
    assert!(text(&model).contains("not watched now: forbidden"));
    model.slices(SliceNews::Follows, at(9));
    assert!(!text(&model).contains("not watched"));
}

#[test]
fn counting_begins_anew_after_a_gap() {
    let mut model = model();
    let heading = |model: &Model, now| View::of(model, Sort::default(), "", at(now)).heading;
    assert!(heading(&model, 90).contains(" in the last minute, "));
    model.slices(SliceNews::Broken("no answer".to_owned()), at(91));
    assert_eq!(
        heading(&model, 95),
        "Services by slice changes until the watch ended, sorted by changes; not watched now: no answer"
    );
    model.slices(SliceNews::Follows, at(96));
    assert!(heading(&model, 99).contains(" in the last 3s, "));
    let services = View::of(&model, Sort::default(), "", at(99)).services;
    assert_eq!(services, [], "those of before the gap are not of the last 3 s");
    // A watch that goes on where it ended has no gap.
    model.slices(SliceNews::Follows, at(110));
    assert!(heading(&model, 116).contains(" in the last 20s, "));
}

#[test]
fn durations_have_a_unit_that_fits() {
    let of = [0.0, 0.0004, 0.0421, 0.9996, 1.25, 75.2, 3600.0].map(duration);
    assert_eq!(of, ["0 s", "0.4 ms", "42 ms", "1.0 s", "1.2 s", "75 s", "60 min"]);
}
