//! What can be set on a server.

use crate::access::Access;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Config {
    /// The port on 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// Whether dependents of a deleted owner are collected and deleted namespaces are emptied and removed.
    pub gc: bool,
    /// How many watch events are kept for replay, per kind.
    pub history: usize,
    /// How many events a watcher may lag behind before its watch is ended. At most `history` has an effect.
    pub watch_buffer: usize,
    /// The seed of uids, generated names and allocated addresses; none takes one from the system.
    pub seed: Option<u64>,
    /// The wall time at the start; none takes the present. All timestamps are this plus what has passed on tokio's
    /// clock.
    pub start_time: Option<jiff::Timestamp>,
    /// How many requests are remembered for [`crate::ApiServer::requests`]; the oldest go first.
    pub request_log: usize,
    /// The largest request body in bytes; more is refused with 413.
    pub max_body: usize,
    /// Whether `managedFields` are kept for every object, as a cluster keeps them; else only for those that were
    /// applied on the server's side.
    pub managed_fields: bool,
    /// Who may do what; none lets everyone do everything.
    pub access: Option<Access>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            port: 0,
            gc: true,
            history: 20_000,
            watch_buffer: 10_000,
            seed: None,
            start_time: None,
            request_log: 0,
            max_body: 3 * 1024 * 1024,
            managed_fields: false,
            access: None,
        }
    }
}
