//! How much later the proxies saw a change than a watch such as endpointd's.

use tokio::time::Instant;

use crate::report::model::Latency;

/// The delays of a watch such as endpointd's, which shows metadata alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Echoes {
    /// From the answer to a write until it was shown there.
    pub(crate) latency: Latency,
    /// From then until a proxy was shown it, over all proxies.
    pub(crate) proxies_after: Differences,
}

/// Differences of time, in microseconds: less than nought where the proxy was first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Differences(Vec<i32>);

// === impl Differences ===

impl Differences {
    /// A proxy was shown a change then, and the other watch at that time.
    pub(super) fn record(&mut self, proxy: Instant, echo: Instant) {
        let micros = |later: Instant, earlier: Instant| {
            let micros = later.saturating_duration_since(earlier).as_micros();
            i32::try_from(micros).unwrap_or(i32::MAX)
        };
        self.0.push(if proxy >= echo {
            micros(proxy, echo)
        } else {
            -micros(echo, proxy)
        });
    }

    /// The difference that such a part of all does not exceed; none if there is none at all.
    pub(crate) fn quantile(&self, part: f64) -> Option<i32> {
        let mut all = self.0.clone();
        let last = all.len().checked_sub(1)?;
        let at = ((all.len() as f64 * part).ceil() as usize)
            .saturating_sub(1)
            .min(last);
        Some(*all.select_nth_unstable(at).1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn differences_have_a_sign() {
        let start = Instant::now();
        let mut differences = Differences::default();
        assert_eq!(differences.quantile(0.5), None);
        for (proxy, echo) in [(3, 1), (1, 3), (2, 2), (9, 1)] {
            let at = |millis| start + Duration::from_millis(millis);
            differences.record(at(proxy), at(echo));
        }
        let quantiles = [0.0, 0.5, 0.75, 0.99, 1.0].map(|part| differences.quantile(part).unwrap());
        assert_eq!(quantiles, [-2_000, 0, 2_000, 8_000, 8_000]);
    }
}
