//! One watch of slices within the server.
//!
//! ```text
//!  dispatcher ──> input ──> forwarder ──> result ──> sender ──> connection
//! ```
//!
//! `input` and `result` are channels of the same size. A watch of all slices gets every event, so that what a channel
//! holds is a range of versions: its length says all.

/// The state of a watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// There is none: the client pauses, or has asked for one.
    Away,
    /// It gets events.
    Open,
    /// The server has ended it; what is in `result` is still sent.
    Closing,
}

/// The state of a goroutine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Routine {
    /// It waits for an event.
    Idle,
    /// It waits for a core.
    Queued,
    Running,
    /// It waits until it may pass an event on.
    Blocked,
}

#[derive(Clone, Debug)]
pub(super) struct Watcher {
    pub server: u16,
    /// True for the controller's own.
    pub own: bool,
    pub state: State,
    pub forwarder: Routine,
    pub sender: Routine,
    /// True until the sender has paid for being woken.
    pub woken: bool,
    /// The size of a channel.
    pub size: u16,
    pub input: u16,
    pub result: u16,
    /// True while the forwarder holds an event that does not fit into `result`.
    pub hand: bool,
    /// Events that the client missed and the forwarder has yet to take from the history.
    pub missed: u32,
    /// The last version that the forwarder took.
    pub taken: u32,
    /// The last version that was put into `input`.
    pub tail: u32,
    /// The last version that came, or will come, from the history. The same one from `input` is left out.
    pub from_history: u32,
    /// The last version that was sent.
    pub sent: u32,
    /// When the watch began, and whether it has brought anything since.
    pub began: u64,
    pub brought: bool,
    /// True if the client lists after this watch, whatever it does otherwise.
    pub forgets: bool,
    /// True if the client is going to list.
    pub lists: bool,
    /// The pauses that the client has made in a row, and when it made the last one.
    pub pauses: u32,
    pub paused: u64,
}

impl Watcher {
    pub(super) fn new(server: u16, size: u16) -> Self {
        Self {
            server,
            own: false,
            state: State::Open,
            forwarder: Routine::Idle,
            sender: Routine::Idle,
            woken: false,
            size,
            input: 0,
            result: 0,
            hand: false,
            missed: 0,
            taken: 0,
            tail: 0,
            from_history: 0,
            sent: 0,
            began: 0,
            brought: false,
            forgets: false,
            lists: false,
            pauses: 0,
            paused: 0,
        }
    }

    /// Begins a watch after the version that the client knows. `cached` is the last one of the history.
    pub(super) fn open(&mut self, size: u16, cached: u32, now: u64) {
        self.state = State::Open;
        self.size = size;
        self.missed = cached - self.sent;
        self.taken = self.sent;
        self.from_history = cached;
        (self.input, self.result, self.hand) = (0, 0, false);
        (self.began, self.brought) = (now, false);
    }

    /// Puts an event into `input`, unless that is full.
    pub(super) fn offer(&mut self, version: u32) -> bool {
        if self.input >= self.size {
            return false;
        }
        self.input += 1;
        self.tail = version;
        true
    }

    /// Moves one event on. Returns whether it came from `input`, and nothing if there is none, or no room for it.
    pub(super) fn forward(&mut self) -> Option<bool> {
        if self.hand {
            return None;
        }
        let from_input = self.missed == 0;
        if from_input {
            if self.input == 0 {
                return None;
            }
            let version = self.tail + 1 - u32::from(self.input);
            self.input -= 1;
            if version <= self.from_history {
                return Some(true);
            }
            debug_assert_eq!(version, self.taken + 1, "a watch leaves out no event");
        } else {
            self.missed -= 1;
        }
        self.taken += 1;
        if self.result < self.size {
            self.result += 1;
        } else {
            self.hand = true;
        }
        Some(from_input)
    }

    /// Takes an event out of `result` to send it. Returns whether the forwarder could get rid of one by that.
    pub(super) fn take(&mut self) -> bool {
        self.result -= 1;
        if self.hand {
            self.hand = false;
            self.result += 1;
            return true;
        }
        false
    }

    /// Ends the watch. Events in `result` are still sent.
    pub(super) fn close(&mut self) {
        self.state = State::Closing;
        (self.input, self.missed, self.hand) = (0, 0, false);
        if self.forwarder == Routine::Blocked {
            self.forwarder = Routine::Idle;
        }
    }

    /// Returns whether nothing is left to do for a watch that was ended.
    pub(super) fn is_over(&self) -> bool {
        self.state == State::Closing && self.result == 0 && self.sender == Routine::Idle
    }
}
