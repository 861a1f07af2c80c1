//! The settings of a server.

use crate::access::Access;
use crate::resources::Protobuf;

/// The settings of a server: those of `Config::default()`, changed one by one.
///
/// ```
/// let config = memory_apiserver::Config::default().seed(1).gc(false);
/// ```
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct Config {
    #[cfg(feature = "server")]
    pub(crate) port: u16,
    pub(crate) gc: bool,
    namespace_controller: Option<bool>,
    pub(crate) service_endpoints: bool,
    pub(crate) history: usize,
    pub(crate) watch_buffer: usize,
    pub(crate) seed: Option<u64>,
    pub(crate) start_time: Option<jiff::Timestamp>,
    pub(crate) request_log: usize,
    pub(crate) journal: bool,
    pub(crate) managed_fields: bool,
    pub(crate) protobuf: Protobuf,
    pub(crate) access: Option<Access>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            #[cfg(feature = "server")]
            port: 0,
            gc: true,
            namespace_controller: None,
            service_endpoints: true,
            history: 20_000,
            watch_buffer: 10_000,
            seed: None,
            start_time: None,
            request_log: 0,
            journal: false,
            managed_fields: false,
            protobuf: Protobuf::Enabled,
            access: None,
        }
    }
}

impl Config {
    /// The port of [`crate::start`] on 127.0.0.1; 0, the default, takes a free one.
    #[cfg(feature = "server")]
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Whether the garbage collector and the namespace controller run; by default they do. The first deletes dependents
    /// whose owners are gone, the second empties and removes deleted namespaces. [`Self::namespace_controller`] sets
    /// the second apart.
    pub fn gc(self, gc: bool) -> Self {
        Self { gc, ..self }
    }

    /// Whether the namespace controller runs, if not as [`Self::gc`] says.
    pub fn namespace_controller(self, runs: bool) -> Self {
        Self {
            namespace_controller: Some(runs),
            ..self
        }
    }

    pub(crate) fn empties_namespaces(&self) -> bool {
        self.namespace_controller.unwrap_or(self.gc)
    }

    /// Whether the Endpoints of a deleted Service are deleted, as kube-apiserver does after the Service; by default they are. One
    /// that is stopped in between leaves them.
    pub fn service_endpoints(self, service_endpoints: bool) -> Self {
        Self {
            service_endpoints,
            ..self
        }
    }

    /// How many watch events are kept for replay, per kind: 20,000 unless another number is set.
    pub fn history(self, history: usize) -> Self {
        Self { history, ..self }
    }

    /// How many events a watcher may lag behind before its watch is ended: 10,000 unless another number is set. At most
    /// the history has an effect.
    pub fn watch_buffer(self, watch_buffer: usize) -> Self {
        Self { watch_buffer, ..self }
    }

    /// The seed of uids, generated names and allocated addresses; without one the system gives it.
    pub fn seed(self, seed: u64) -> Self {
        Self {
            seed: Some(seed),
            ..self
        }
    }

    /// The wall time at the start, if not the present. All timestamps are this plus what has passed on tokio's clock.
    pub fn start_time(self, time: jiff::Timestamp) -> Self {
        Self {
            start_time: Some(time),
            ..self
        }
    }

    /// How many requests are remembered for [`crate::ApiServer::requests`], none by default; the oldest go first.
    pub fn request_log(self, request_log: usize) -> Self {
        Self { request_log, ..self }
    }

    /// Whether all changes are kept for [`crate::ApiServer::journal`]; by default they are not.
    pub fn journal(self, journal: bool) -> Self {
        Self { journal, ..self }
    }

    /// Whether `managedFields` of every object name the managers that wrote it, with their last times; else, and by default,
    /// only those of objects that were applied on the server's side.
    pub fn managed_fields(self, managed_fields: bool) -> Self {
        Self {
            managed_fields,
            ..self
        }
    }

    /// How protobuf is treated: as kube-apiserver does it, unless a client's way back to JSON is to be tested.
    ///
    /// ```
    /// use memory_apiserver::{Config, Protobuf};
    /// let config = Config::default().protobuf(Protobuf::Unsupported(["endpointslices", "leases"].into()));
    /// ```
    pub fn protobuf(self, protobuf: Protobuf) -> Self {
        Self { protobuf, ..self }
    }

    /// Sets the rules of who may do what; by default every client may do everything.
    pub fn access(self, access: Access) -> Self {
        Self {
            access: Some(access),
            ..self
        }
    }
}
