//! The faults a rule can name.

use super::Failure;
use std::fmt;
use std::time::Duration;

/// A fault that happens to a request or a watch.
///
/// If several faults decide how a request ends ([`Self::Fail`], [`Self::CutAnswer`], [`Self::NoStreamingLists`], a
/// write budget that refuses), the first counts, in the order of the rules, and later ones are not asked; delays add
/// up; a watch can have any number of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// The request fails: refused before it is applied, or its answer lost after it was.
    Fail(Stage, Failure),
    /// Applied and answered, but the connection breaks within the answer's body. Not for watches.
    CutAnswer,
    /// The request waits.
    Delay(Stage, Latency),
    /// No more than this many requests of the rule a second, a token bucket: those above it wait or are refused.
    Budget {
        /// How many a second.
        per_second: f64,
        /// How many at once after a quiet time.
        burst: u32,
        /// The treatment of requests above it.
        over: Over,
    },
    /// The history is forgotten just before the request is applied, as by [`crate::ApiServer::compact`].
    Compact,
    /// Watches with `sendInitialEvents` are refused with 422, as by a server without streaming lists.
    NoStreamingLists,
    /// Something happens within a watch that began well.
    Watch(WatchFault),
}

/// When something happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The request fails before anything is changed.
    Before,
    /// The store has taken it, but the client does not know.
    After,
}

/// The treatment of requests above a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// They wait for their turn, in the order in which they came.
    Wait,
    /// They are refused with 429 in plain text, as by priority and fairness.
    Refuse,
}

/// How long something takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Latency {
    /// Always the same.
    Constant(Duration),
    /// Anything between the two.
    Uniform(Duration, Duration),
    /// Mostly short, sometimes long: exponential.
    Exponential {
        /// The mean, without the cap.
        mean: Duration,
        /// Never more than this.
        cap: Duration,
    },
}

/// A fault that happens within a watch. A watch that was open when the plan was set counts as begun at that moment.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchFault {
    /// The stream ends. After so many bytes, that can be in the middle of a line or a frame.
    End {
        /// When.
        after: After,
        /// How.
        how: Ending,
    },
    /// The connection stays open and nothing comes for a while, neither event nor bookmark; then it goes on.
    Silent {
        /// From this time on.
        after: Duration,
        /// For how long.
        lasting: Duration,
    },
    /// An ERROR event; then the stream ends.
    Error {
        /// When; `After::Events(0)` is at the start.
        after: After,
        /// Which.
        event: ErrorEvent,
    },
    /// Events come twice.
    Repeat {
        /// Each with this probability.
        rate: f64,
    },
    /// All that is told comes this much later, in its order.
    Lag(Latency),
    /// One event's line is not JSON, or one frame holds no message; the stream goes on.
    Malformed {
        /// The first event from then on.
        after: After,
    },
    /// One event's object has a field that cannot be decoded; the stream goes on.
    WrongType {
        /// A JSON pointer into the object, such as `/metadata/labels`. Protobuf is left as it is where the kind has no
        /// such field.
        field: String,
        /// The first event from then on.
        after: After,
    },
    /// Bookmarks do not come.
    NoBookmarks {
        /// Not even the one that ends the initial events.
        initial_end: bool,
    },
}

/// A point within a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// After so many bytes.
    Bytes(u64),
    /// After so many events, initial ones included and bookmarks not.
    Events(u64),
    /// After this time.
    Time(Duration),
}

/// How a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As a watch ends at its timeout.
    Clean,
    /// The connection is closed with the body unfinished.
    Closed,
    /// The connection is reset.
    Reset,
}

/// An ERROR event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorEvent {
    /// 410 Expired.
    Expired,
    /// 500 `InternalError`.
    Internal,
}

// === impl Fault ===

impl Fault {
    /// Fails before the request is applied.
    pub fn before(failure: Failure) -> Self {
        Self::Fail(Stage::Before, failure)
    }

    /// Applied, but the client is told otherwise or nothing.
    pub fn after(failure: Failure) -> Self {
        Self::Fail(Stage::After, failure)
    }

    /// Whether it decides how a request ends.
    pub(super) fn is_fate(&self) -> bool {
        matches!(self, Self::Fail(..) | Self::CutAnswer | Self::NoStreamingLists)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(stage, failure) => write!(f, "{failure:?} {stage:?}"),
            Self::Watch(fault) => write!(f, "watch {fault:?}"),
            fault => write!(f, "{fault:?}"),
        }
    }
}

impl From<WatchFault> for Fault {
    fn from(fault: WatchFault) -> Self {
        Self::Watch(fault)
    }
}

// === impl Latency ===

impl Latency {
    pub(super) fn draw(&self, rng: &mut fastrand::Rng) -> Duration {
        match self {
            Self::Constant(time) => *time,
            Self::Uniform(from, to) => *from + to.saturating_sub(*from).mul_f64(rng.f64()),
            Self::Exponential { mean, cap } => {
                // At most 37 times the mean: `f64()` is never above 1 - 2^-53.
                let times = -(1.0 - rng.f64()).ln();
                mean.mul_f64(times.max(0.0)).min(*cap)
            }
        }
    }
}
