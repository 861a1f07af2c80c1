//! The effect of writes of slices on the clients that watch them.
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
#[path = "support/simulated.rs"]
#[allow(dead_code)] // Tests use more of it.
mod simulated;

use fanout::{Case, Kind, Outcome, Sort};
use memory_apiserver::fanout::{Clients, Histogram};

const WATCHERS: [usize; 5] = [0, 100, 300, 1_000, 5_000];
const RATES: [f64; 4] = [20.0, 50.0, 100.0, 200.0];

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
    title();
    for kind in [Kind::Random, Kind::Rollout] {
        for watchers in WATCHERS {
            for rate in RATES {
                if quick && (![300, 1_000].contains(&watchers) || ![50.0, 200.0].contains(&rate)) {
                    continue;
                }
                for sort in [Sort::KcmLike, Sort::Earlier, Sort::Now, Sort::Ideal] {
                    let kind_name = format!("{kind:?}").to_lowercase();
                    let cells = [
                        kind_name,
                        watchers.to_string(),
                        rate.to_string(),
                        sort.name().to_owned(),
                    ];
                    if words.iter().all(|word| cells.iter().any(|cell| cell == word)) {
                        let case = Case::new(kind, rate, watchers).with_room();
                        row(&cells.join(" | "), &sort.play(&case));
                    }
                }
            }
        }
    }
}

/// The cases of which there are figures of a real server.
fn measured() {
    title();
    let sorts = [Sort::KcmLike, Sort::Earlier, Sort::Thirty, Sort::Now];
    for (what, clients) in [("resume", Clients::Resume), ("relist", Clients::Relist)] {
        for sort in sorts {
            for seed in 1..=4 {
                let outcome = sort.play(&Case::measured(clients, seed));
                row(&format!("{what} | 300 | 50 | {}", sort.name()), &outcome);
            }
        }
    }
    for sort in sorts {
        for seed in 1..=2 {
            let outcome = sort.play(&Case::measured_two_services(seed));
            row(&format!("2 Services | 200 | 100 | {}", sort.name()), &outcome);
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
        if times.total() == 0 {
            return "- | -".to_owned();
        }
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
        servers.cpu.as_secs_f64(),
        times(&outcome.seen()),
        times(&servers.removals),
        outcome.unechoed,
        outcome.over.map_or_else(
            || "never".to_owned(),
            |over| format!("{:.0} s", over.as_secs_f64())
        ),
    );
}
