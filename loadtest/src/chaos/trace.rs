//! Printing what happens, to look into a failure.

use memory_apiserver::{ApiServer, RequestRecord};
use std::cell::Cell;
use std::rc::Rc;

/// Prints requests as the server has logged them, each once. Clones go on where the others are.
#[derive(Clone)]
pub(super) struct Trace {
    server: ApiServer,
    printed: Rc<Cell<usize>>,
}

impl Trace {
    pub(super) fn new(server: &ApiServer) -> Self {
        Self {
            server: server.clone(),
            printed: Rc::default(),
        }
    }

    /// Prints what has been requested since the last time.
    pub(super) fn catch_up(&self) {
        let requests = self.server.requests();
        for request in &requests[self.printed.get()..] {
            println!("{}", show(request));
        }
        self.printed.set(requests.len());
    }
}

/// A request on one line.
pub(super) fn show(request: &RequestRecord) -> String {
    let RequestRecord {
        method,
        path,
        status,
        resource_version,
        at,
        applied,
        faults,
    } = request;
    let applied = if *applied { "" } else { ", not applied" };
    let faults = if faults.is_empty() {
        String::new()
    } else {
        format!(", {}", faults.join(", "))
    };
    format!("{at:?} {method} {path}: {status} at version {resource_version}{applied}{faults}")
}
