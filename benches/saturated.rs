//! Changes that come faster than the API server takes writes.
//!
//! ```text
//! cargo bench --bench saturated                 # both
//! cargo bench --bench saturated -- simulated    # the write side alone: today's, the one before, and an ideal one
//! cargo bench --bench saturated -- cluster      # the whole controller against memory-apiserver
//! ```
//!
//! Both run in virtual time, so that neither the machine nor its other work is in the figures. `support/saturation.rs`
//! describes the writers. In the cluster, a fault plan makes the server serve writes by a number of workers, and a watch
//! of the slices shows when a change is visible.

#[path = "../tests/support/cluster.rs"]
#[allow(dead_code, clippy::unwrap_used)] // Tests use more of it, and may panic.
mod cluster;
#[path = "../tests/support/objects.rs"]
#[allow(dead_code)] // Tests use more of it.
mod objects;
#[path = "support/saturated_cluster.rs"]
mod saturated_cluster;
#[path = "support/saturation.rs"]
#[allow(dead_code)] // Tests use more of it.
mod saturation;
#[path = "support/simulated.rs"]
#[allow(dead_code)] // Tests use more of it.
mod simulated;

use saturation::earlier::Earlier;
use saturation::ideal::Ideal;
use saturation::{Case, Figures, Product, Times, play};
use std::time::Duration;

const LOADS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments
        .iter()
        .any(|argument| argument == "--test" || argument == "--list")
    {
        return;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| filter.is_none_or(|filter| name.contains(filter.as_str()));
    if wanted("simulated") {
        let mixed = Case {
            mixed: true,
            ..Case::default()
        };
        simulated("slices of one size", &Case::default());
        simulated("large and small slices", &mixed);
    }
    if wanted("cluster") {
        title("the controller and memory-apiserver", &case_of_cluster(1.0));
        for load in LOADS {
            let case = case_of_cluster(load);
            row(load, "controller", &saturated_cluster::play(&case));
            row(load, "ideal", &play(&case, &mut Ideal::new(&case)));
        }
    }
}

/// Virtual time does not make JSON cheaper: half the time of the simulation.
fn case_of_cluster(load: f64) -> Case {
    Case {
        load,
        lasting: Duration::from_secs(30),
        distance: Duration::ZERO,
        ..Case::default()
    }
}

fn simulated(what: &str, case: &Case) {
    title(what, case);
    for load in LOADS {
        let case = Case { load, ..case.clone() };
        row(load, "before", &play(&case, &mut Earlier::new(&case)));
        row(load, "now", &play(&case, &mut Product::new(&case)));
        row(load, "ideal", &play(&case, &mut Ideal::new(&case)));
    }
}

fn title(what: &str, case: &Case) {
    println!(
        "\n{what}: {} slices in {} namespaces, {} workers, {:?} a write, {} writes a second\n",
        case.objects(),
        case.namespaces,
        case.workers,
        case.each,
        case.capacity(),
    );
    println!("| load | writer | writes a change | removals p50 | p99 | | additions p50 | p99 | |");
    println!("|---|---|---|---|---|---|---|---|---|");
}

fn row(load: f64, writer: &str, figures: &Figures) {
    let times = |times: &Times| {
        let (p50, p99) = (times.p50(), times.p99());
        format!("{p50:.0} ms | {p99:.0} ms | {:.1}x", p99 / p50)
    };
    let (removals, additions) = (times(&figures.removals), times(&figures.additions));
    let writes = figures.writes_a_change();
    println!("| {load} | {writer} | {writes:.2} | {removals} | {additions} |");
}
