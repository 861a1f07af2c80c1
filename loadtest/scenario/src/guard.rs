//! Requests for slices on which the admission policy in `deploy/guard` decides, each with what it should decide: for the tests
//! that evaluate the policy, and for `loadtest real`, which sends them to an API server that has it.

mod cases;
mod requests;

pub use self::cases::{
    CUSTOM, Case, Cases, ENDPOINTD, EXCLUDED_NAMESPACE, Expected, MANAGER, MESSAGES, MIRRORED, SLICES, all,
    large_slices,
};
pub use self::requests::{Request, create, delete, empty, of, slice, update};
