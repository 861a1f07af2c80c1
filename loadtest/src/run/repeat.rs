//! A run that is repeated: one report of all its rounds.

use crate::report::model::{Report, Verdict};

/// The report of several rounds: the one whose latency is the median, with the figures of all. It is verified if all are.
pub(crate) fn merged(rounds: Vec<Report>) -> Option<Report> {
    let mut order: Vec<usize> = (0..rounds.len()).collect();
    order.sort_by_key(|round| latency(&rounds[*round]));
    let shown = *order.get(order.len().checked_sub(1)? / 2)?;
    let mut verdict = Verdict {
        verified: true,
        generator_kept_up: true,
        ..Verdict::default()
    };
    for (number, round) in rounds.iter().enumerate() {
        let named = |line: &String| format!("round {}: {line}", number + 1);
        let own = &round.verdict;
        verdict.verified &= own.verified;
        verdict.generator_kept_up &= own.generator_kept_up;
        verdict.problems.extend(own.problems.iter().map(named));
        verdict.warnings.extend(own.warnings.iter().map(named));
    }
    let figures = rounds.iter().map(figures_alone).collect();
    let mut report = rounds.into_iter().nth(shown)?;
    report.verdict = verdict;
    report.rounds = figures;
    Some(report)
}

fn latency(report: &Report) -> u64 {
    let first = [&report.slices, &report.endpoints];
    let first = first.into_iter().find(|latency| latency.count > 0);
    first.map(|latency| latency.p99).unwrap_or_default()
}

/// A report without its curves, which are most of its size.
fn figures_alone(report: &Report) -> Report {
    let mut report = report.clone();
    let latencies = [
        &mut report.slices,
        &mut report.endpoints,
        &mut report.generator_lag,
    ];
    let of_watchers = report.watchers.iter_mut().map(|watchers| &mut watchers.latency);
    let of_claims = report
        .claims
        .iter_mut()
        .flat_map(|claims| [&mut claims.ready, &mut claims.gone]);
    for latency in latencies.into_iter().chain(of_watchers).chain(of_claims) {
        latency.over_time.clear();
    }
    for process in &mut report.processes {
        process.over_time.clear();
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::{Latency, LatencySample};

    fn round(p99: u64, verified: bool) -> Report {
        Report {
            slices: Latency {
                count: 1,
                p99,
                over_time: vec![LatencySample::default()],
                ..Latency::default()
            },
            verdict: Verdict {
                verified,
                generator_kept_up: true,
                problems: if verified {
                    Vec::new()
                } else {
                    vec!["a slice is wrong".to_owned()]
                },
                warnings: Vec::new(),
            },
            ..Report::default()
        }
    }

    #[test]
    fn the_median_round_is_shown_and_all_have_to_be_verified() {
        let report = merged(vec![round(9, true), round(5, false), round(7, true)]).unwrap();
        assert_eq!((report.slices.p99, report.slices.over_time.len()), (7, 1));
        let latencies: Vec<u64> = report.rounds.iter().map(|round| round.slices.p99).collect();
        assert_eq!(latencies, [9, 5, 7]);
        assert!(
            report
                .rounds
                .iter()
                .all(|round| round.slices.over_time.is_empty())
        );
        assert!(!report.verdict.verified && report.verdict.generator_kept_up);
        assert_eq!(report.verdict.problems, ["round 2: a slice is wrong"]);
        assert_eq!(merged(Vec::new()), None);
    }
}
