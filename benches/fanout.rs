//! What writes of slices do to those who watch them.
//!
//! ```text
//! cargo bench --bench fanout                 # the table
//! cargo bench --bench fanout -- quick        # a part of it
//! cargo bench --bench fanout -- rollout 300  # the lines that contain all words
//! cargo bench --bench fanout -- measured     # the cases that were measured on a real server
//! ```
//!
//! All of it runs in virtual time: `support/fanout.rs` describes the controllers, and `memory_apiserver::fanout` the
//! servers and their watchers.

#[path = "support/fanout.rs"]
#[allow(dead_code)] // Tests use more of it.
mod fanout;

use endpointd::core::publish::Pacing;
use fanout::ideal::Ideal;
use fanout::kcm::KcmLike;
use fanout::product::{DEFAULT, Product};
use fanout::{Case, Controller, Kind, Outcome, play};
use memory_apiserver::fanout::{Clients, Config, Histogram, Own};
use std::time::Duration;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments
        .iter()
        .any(|argument| argument == "--test" || argument == "--list")
    {
        return;
    }
    let words: Vec<&str> = arguments
        .iter()
        .map(String::as_str)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    if words.contains(&"measured") {
        measured();
        return;
    }
    let quick = words.contains(&"quick");
    let words: Vec<&str> = words.into_iter().filter(|word| *word != "quick").collect();
    let watchers: &[usize] = if quick {
        &[0, 300, 1_000]
    } else {
        &[0, 100, 300, 1_000, 5_000]
    };
    let rates: &[f64] = if quick {
        &[50.0, 200.0]
    } else {
        &[20.0, 50.0, 100.0, 200.0]
    };
    title();
    for kind in [Kind::Random, Kind::Rollout] {
        for watchers in watchers {
            for rate in rates {
                for controller in ["kcm-like", "earlier", "now", "ideal"] {
                    let kind_name = format!("{kind:?}").to_lowercase();
                    let label = format!("{kind_name} | {watchers} | {rate} | {controller}");
                    let cells: Vec<&str> = label.split(" | ").collect();
                    if words.iter().all(|word| cells.contains(word)) {
                        let case = Case::new(kind, *rate, *watchers);
                        row(&label, &by_name(&case, controller));
                    }
                }
            }
        }
    }
}

/// Plays a case with the controller of this name.
fn by_name(case: &Case, controller: &str) -> Outcome {
    let case = &Case {
        servers: Config {
            own: if controller == "kcm-like" {
                Own::FULL
            } else {
                case.servers.own
            },
            ..case.servers.clone()
        },
        ..case.clone()
    };
    let slow = Pacing {
        qps: 30.0,
        burst: 30,
        ..DEFAULT
    };
    let mut controller: Box<dyn Controller> = match controller {
        "kcm-like" => Box::new(KcmLike::new(case)),
        "earlier" => Box::new(Product::earlier(case, DEFAULT)),
        "earlier, 30 a second" => Box::new(Product::earlier(case, slow)),
        "now" => Box::new(Product::new(case, DEFAULT)),
        _ => Box::new(Ideal::new(case)),
    };
    play(case, &mut *controller)
}

/// The cases of which there are figures of a real server.
fn measured() {
    title();
    for (what, clients) in [("resume", Clients::Resume), ("relist", Clients::Relist)] {
        for controller in ["kcm-like", "earlier", "earlier, 30 a second"] {
            for seed in 1..=4 {
                let mut case = Case::new(Kind::Random, 50.0, 300);
                case.patience = Duration::from_secs(150);
                (case.seed, case.servers.seed, case.servers.clients) = (seed, seed, clients);
                // The clients of those measurements listed without a pause.
                case.servers.list_pause = Duration::ZERO;
                row(
                    &format!("{what} | 300 | 50 | {controller}"),
                    &by_name(&case, controller),
                );
            }
        }
    }
    for controller in ["kcm-like", "earlier", "earlier, 30 a second"] {
        for seed in 1..=2 {
            let mut case = Case::new(Kind::Random, 100.0, 200);
            (case.namespaces, case.services, case.slices) = (1, 2, 10);
            (case.seed, case.servers.seed) = (seed, seed);
            row(
                &format!("2 Services | 200 | 100 | {controller}"),
                &by_name(&case, controller),
            );
        }
    }
}

fn title() {
    println!(
        "| changes | watchers | a second | controller | writes a change | watches ended | listed | GB to watchers | \
         servers' CPU | p50 | p99 | removals p50 | p99 | unechoed | over after |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|");
}

fn row(label: &str, outcome: &Outcome) {
    let times = |times: &Histogram| {
        let millis = |part| times.quantile(part).as_secs_f64() * 1e3;
        format!("{:.0} ms | {:.0} ms", millis(0.5), millis(0.99))
    };
    let servers = &outcome.servers;
    println!(
        "| {label} | {:.2} | {} | {} | {:.2} | {:.0} s | {} | {} | {} | {} |",
        outcome.writes_a_change(),
        servers.ended,
        servers.listed,
        servers.bytes as f64 / 1e9,
        servers.cpu.servers().as_secs_f64(),
        times(&servers.seen()),
        times(&servers.removals),
        outcome.unechoed,
        outcome.over.map_or_else(
            || "never".to_owned(),
            |over| format!("{:.0} s", over.as_secs_f64())
        ),
    );
}
