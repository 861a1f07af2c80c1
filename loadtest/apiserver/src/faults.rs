//! Faults: what a plan does to requests and watches on their way through the gate.
//!
//! ```text
//!  request ─> pass.rs ── no plan: one load of a number ──────────────────────────────> apply ─> answer
//!                └────── a plan: active.rs asks each rule (rule.rs), in order ─┐
//!                           compaction, pauses, a refusal (failure.rs) ────────┴─> apply ─> pauses, a lost answer
//!  watch stream ─> open.rs (sees that the plan changed) ─> stream.rs (lag, silence, broken lines, ends)
//! ```
//!
//! Each rule and each watch draws from a generator of its own, forked from the plan's seed, and time is tokio's: on a
//! paused clock and one thread the same seed and the same requests meet the same faults.

mod active;
mod ask;
mod failure;
mod fault;
mod open;
mod plan;
mod random;
mod rule;
mod stream;

pub(crate) use self::active::{Active, Fate, Faults};
pub(crate) use self::ask::{Ask, Caller};
pub(crate) use self::failure::{answer, no_streaming_lists};
pub(crate) use self::open::attend;
pub(crate) use self::stream::{cut, faulty, lost};

pub use self::active::FaultRecord;
pub use self::failure::Failure;
pub use self::fault::{After, Ending, ErrorEvent, Fault, Latency, Over, Stage, WatchFault};
pub use self::plan::FaultPlan;
pub use self::rule::{Matcher, Rule, Verb, Verbs};
