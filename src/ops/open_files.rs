//! The number of files that this process may have open, each connection among them.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, as Go's programs do at their start, and returns the limit; `None` if there is
/// none. The soft limit is 1,024 on many systems, for programs that use `select`, and this one does not.
pub(crate) fn raise_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return limit.current;
    }
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        // A sandbox may forbid it. The process starts with the limit that it has.
        Err(_) => limit.current,
    }
}
