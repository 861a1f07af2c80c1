//! The flags that limit what API servers have to send to the clients that watch slices.

use crate::core::publish::{WatchLimits, Watchers};

/// The unit of budgets.
const MEGABYTE: f64 = 1e6;
/// The default for each client, in megabytes per second, where there are many.
const EACH: f64 = 0.4;
/// The default for all clients together, in megabytes per second, where there are few. That keeps an API server's core
/// busy. On a control plane that has no such core to spare, echoes are late, and the limit on writes without an echo
/// takes over.
const FEW: f64 = 120.0;

/// The flags that limit what API servers have to send to the clients that watch slices.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct WatchingArgs {
    /// Clients on each node that watch all slices: kube-proxy, or what replaces it
    ///
    /// Each slice that is written is sent to all of them, so slices are written at the rate that --watch-budget and
    /// --watch-budget-per-watcher allow for so many. 0 turns both off, and lets more writes go before the API server has
    /// sent their events.
    #[arg(long, value_name = "N", default_value_t = 1.0, value_parser = parse_amount)]
    pub watchers_per_node: f64,

    /// Clients in the whole cluster that watch all slices, instead of --watchers-per-node
    #[arg(long, value_name = "N")]
    pub watchers: Option<u32>,

    /// Megabytes per second that all API servers together may send to clients that watch slices; 0 means no limit
    ///
    /// An API server needs about one core for 150 MB/s. The default begins to count at 5,000 nodes, where it allows 31
    /// slices of 100 endpoints per second. However small it is, one slice per second is written.
    #[arg(long, value_name = "MB", default_value_t = 2000.0, value_parser = parse_amount)]
    pub watch_budget: f64,

    /// Megabytes per second that one client that watches slices may have to receive and decode; 0 means no limit
    ///
    /// By default 0.4, which is 31 slices of 100 endpoints per second, from 300 clients on. Fewer may receive 120 together,
    /// which take about one core of an API server: 100 clients 92 such slices per second each. Unless it is set, that
    /// grows to 300 together while the API server keeps up.
    #[arg(long, value_name = "MB", value_parser = parse_amount)]
    pub watch_budget_per_watcher: Option<f64>,

    /// Maximum number of slices, and of Endpoints, that are written before the API server has sent the events of earlier
    /// writes
    ///
    /// Fewer are, down to 2, while it is late with events. An API server ends the watch of a client that it could not send
    /// 20 events to. However late it is, 20 a second are written.
    #[arg(long, value_name = "N", default_value_t = WatchLimits::PLACES, value_parser = clap::value_parser!(u16).range(2..=1024))]
    pub max_writes_without_echo: u16,
}

impl WatchingArgs {
    /// Returns the limits.
    pub(crate) fn limits(self) -> WatchLimits {
        WatchLimits {
            watchers: self
                .watchers
                .map_or(Watchers::PerNode(self.watchers_per_node), Watchers::Fixed),
            total: self.watch_budget * MEGABYTE,
            each: self.watch_budget_per_watcher.unwrap_or(EACH) * MEGABYTE,
            few: self.watch_budget_per_watcher.map_or(FEW * MEGABYTE, |_| 0.0),
            places: self.max_writes_without_echo,
        }
    }
}

fn parse_amount(text: &str) -> Result<f64, &'static str> {
    match text.parse::<f64>() {
        Ok(amount) if (0.0..=1e6).contains(&amount) => Ok(amount),
        _ => Err("expected a number from 0 to 1000000"),
    }
}
