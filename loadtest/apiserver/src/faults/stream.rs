//! The faults within a watch, and bodies that break off.

use super::{Active, After, Ask, Ending, ErrorEvent, WatchFault};
use crate::accept::Media;
use crate::body::{Pieces, ResponseBody};
use crate::protobuf;
use crate::schema::SCHEMA;
use crate::status::Refusal;
use bytes::Bytes;
use fastrand::Rng;
use futures::{StreamExt, stream};
use http_body::Body;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// A watch with faults on its way to the reader.
struct Faulty {
    inner: Pieces,
    plan: Arc<Active>,
    ask: Arc<Ask>,
    lifted: watch::Receiver<bool>,
    began: Instant,
    faults: Vec<Within>,
    /// Events that are not told yet, and when they may be.
    held: VecDeque<(Instant, Bytes)>,
    /// True if nothing more comes from inside.
    drained: bool,
    /// The ending that alone still goes out, if the watch is over.
    over: Option<Ending>,
    bytes: u64,
    events: u64,
}

/// A fault of this watch.
struct Within {
    rule: usize,
    fault: WatchFault,
    rng: Rng,
    noted: bool,
}

/// A lost connection, as a client's socket reports it.
pub(crate) fn lost(how: Ending) -> io::Error {
    match how {
        Ending::Reset => io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by a fault plan"),
        Ending::Closed | Ending::Clean => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed by a fault plan")
        }
    }
}

/// Puts faults between a watch and its reader.
pub(crate) fn faulty(
    inner: Pieces,
    plan: Arc<Active>,
    ask: Arc<Ask>,
    hits: Vec<(usize, WatchFault, Rng)>,
) -> Pieces {
    let within = |(rule, fault, rng)| Within {
        rule,
        fault,
        rng,
        noted: false,
    };
    let watch = Faulty {
        lifted: plan.lifted(),
        began: Instant::now(),
        faults: hits.into_iter().map(within).collect(),
        inner,
        plan,
        ask,
        held: VecDeque::new(),
        drained: false,
        over: None,
        bytes: 0,
        events: 0,
    };
    Box::pin(stream::unfold(watch, |mut watch| async move {
        let piece = watch.next().await?;
        Some((piece, watch))
    }))
}

/// Breaks a body off at a random place, with the length in its head as it was.
pub(crate) fn cut(body: ResponseBody, mut rng: Rng) -> ResponseBody {
    /// Long lists have no length; most break within this.
    const WITHIN: u64 = 64 * 1024;
    let hint = body.size_hint();
    let left = rng.u64(..hint.exact().unwrap_or(WITHIN).max(1));
    let pieces = stream::unfold((body, Some(left)), |(mut body, left)| async move {
        let left = left?;
        let data = match body.frame().await {
            Some(Ok(frame)) if left > 0 => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => return Some((Err(error), (body, None))),
            _ => {
                flush().await;
                return Some((Err(lost(Ending::Reset)), (body, None)));
            }
        };
        let n = left.min(data.len() as u64);
        Some((Ok(data.slice(..n as usize)), (body, Some(left - n))))
    });
    ResponseBody::sized(Box::pin(pieces), hint)
}

/// Gives the connection the time to send what it was given before it breaks.
async fn flush() {
    tokio::task::yield_now().await;
}

// === impl Faulty ===

impl Faulty {
    /// The next piece; none ends the stream.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            match self.over {
                None => {}
                Some(Ending::Clean) => return None,
                Some(how) => {
                    self.over = Some(Ending::Clean);
                    flush().await;
                    return Some(Err(lost(how)));
                }
            }
            let lifted = *self.lifted.borrow();
            if !lifted && let Some(last) = self.end() {
                if last.is_empty() {
                    continue;
                }
                return Some(Ok(last));
            }
            let now = Instant::now();
            let silent = if lifted { None } else { self.silent_until(now) };
            if silent.is_none()
                && self.held.front().is_some_and(|(due, _)| lifted || *due <= now)
                && let Some((_, line)) = self.held.pop_front()
            {
                if lifted {
                    return Some(Ok(line));
                }
                let told = self.tell(&line);
                if told.is_empty() {
                    continue;
                }
                return Some(Ok(told));
            }
            if self.drained && self.held.is_empty() {
                return None;
            }
            let due = silent.or(self.held.front().map(|(due, _)| *due));
            let turn = if lifted { None } else { self.turn_at(now) };
            let wake = [due, turn].into_iter().flatten().min();
            let piece = tokio::select! {
                biased;
                // The answer borrows from the plan and is not wanted.
                () = async { drop(self.lifted.wait_for(|lifted| *lifted).await) }, if !lifted => continue,
                piece = self.inner.next(), if !self.drained && silent.is_none() => piece,
                () = tokio::time::sleep_until(wake.unwrap_or(now)), if wake.is_some() => continue,
            };
            match piece {
                Some(Ok(piece)) if lifted && self.held.is_empty() => return Some(Ok(piece)),
                Some(Ok(piece)) => self.hold(&piece),
                Some(Err(error)) => return Some(Err(error)),
                None => self.drained = true,
            }
        }
    }

    /// Takes lines in, each with the time at which it may go out.
    fn hold(&mut self, piece: &Bytes) {
        let now = Instant::now();
        let mut lag = Duration::ZERO;
        for i in 0..self.faults.len() {
            if let WatchFault::Lag(latency) = &self.faults[i].fault {
                let latency = latency.clone();
                lag += latency.draw(&mut self.faults[i].rng);
                self.note_once(i);
            }
        }
        // Never before what came earlier.
        let due = later(now, lag);
        let due = self.held.back().map_or(due, |(last, _)| due.max(*last));
        for event in protobuf::split_events(piece) {
            self.held.push_back((due, piece.slice_ref(event)));
        }
    }

    /// The last bytes, when the stream is to end now; they may be none.
    fn end(&mut self) -> Option<Bytes> {
        for i in 0..self.faults.len() {
            let (how, line) = match &self.faults[i].fault {
                WatchFault::End { after, how } if self.reached(*after) => (*how, Bytes::new()),
                WatchFault::Error { after, event } if self.reached(*after) => {
                    (Ending::Clean, self.error_line(*event))
                }
                _ => continue,
            };
            self.note_once(i);
            self.over = Some(how);
            self.held.clear();
            return Some(line);
        }
        None
    }

    /// When a fault begins by the clock.
    fn turn_at(&self, now: Instant) -> Option<Instant> {
        let turn = |within: &Within| match &within.fault {
            WatchFault::End {
                after: After::Time(time),
                ..
            }
            | WatchFault::Error {
                after: After::Time(time),
                ..
            }
            | WatchFault::Silent { after: time, .. } => Some(later(self.began, *time)),
            _ => None,
        };
        let turns = self.faults.iter().filter_map(turn).filter(|at| *at > now);
        turns.min()
    }

    /// The end of a silence that is now.
    fn silent_until(&mut self, now: Instant) -> Option<Instant> {
        let mut until = None;
        for i in 0..self.faults.len() {
            if let WatchFault::Silent { after, lasting } = self.faults[i].fault {
                let from = later(self.began, after);
                let to = later(from, lasting);
                if (from..to).contains(&now) {
                    self.note_once(i);
                    until = until.max(Some(to));
                }
            }
        }
        until
    }

    fn reached(&self, point: After) -> bool {
        match point {
            After::Bytes(n) => self.bytes >= n,
            After::Events(n) => self.events >= n,
            After::Time(time) => Instant::now() >= later(self.began, time),
        }
    }

    /// Returns the bytes that go out for a line; possibly none.
    fn tell(&mut self, line: &Bytes) -> Bytes {
        let is_bookmark = match self.ask.media {
            Media::Json => line.starts_with(br#"{"type":"BOOKMARK""#),
            Media::Protobuf => protobuf::event_type(line) == b"BOOKMARK",
        };
        let mut out = line.to_vec();
        for i in 0..self.faults.len() {
            let reached = match &self.faults[i].fault {
                WatchFault::Malformed { after } | WatchFault::WrongType { after, .. } => {
                    !self.faults[i].noted && self.reached(*after)
                }
                _ => true,
            };
            let within = &mut self.faults[i];
            match &within.fault {
                WatchFault::NoBookmarks { initial_end }
                    if is_bookmark && (*initial_end || !ends_initial(line)) =>
                {
                    self.note(i);
                    return Bytes::new();
                }
                WatchFault::Malformed { .. } if !is_bookmark && reached => {
                    out = match self.ask.media {
                        Media::Json => malformed(&out),
                        Media::Protobuf => protobuf::malformed(&out),
                    };
                    self.note_once(i);
                }
                WatchFault::WrongType { field, .. } if !is_bookmark && reached => {
                    out = match self.ask.media {
                        Media::Json => wrong_type(&out, field),
                        Media::Protobuf => protobuf::wrong_type(&out, SCHEMA.root(self.ask.kind), field),
                    };
                    self.note_once(i);
                }
                WatchFault::Repeat { rate } if !is_bookmark && within.rng.f64() < *rate => {
                    out.extend_from_within(..);
                    self.note(i);
                }
                _ => {}
            }
        }
        self.events += u64::from(!is_bookmark);
        for i in 0..self.faults.len() {
            if let WatchFault::End {
                after: After::Bytes(n),
                how,
            } = self.faults[i].fault
                && self.bytes + out.len() as u64 > n
            {
                out.truncate((n - self.bytes) as usize);
                self.note_once(i);
                self.over = Some(how);
                self.held.clear();
            }
        }
        self.bytes += out.len() as u64;
        out.into()
    }

    fn error_line(&self, event: ErrorEvent) -> Bytes {
        let refusal = match event {
            ErrorEvent::Expired => {
                let asked = self.ask.query.text("resourceVersion");
                let asked = if asked.is_empty() { "0" } else { asked };
                Refusal::expired(format!("too old resource version: {asked} (fault plan)"), None)
            }
            ErrorEvent::Internal => Refusal::internal("an error on the server has ended the watch"),
        };
        crate::watch::error_event(&refusal, self.ask.media)
    }

    fn note(&mut self, i: usize) {
        self.faults[i].noted = true;
        self.plan.note(self.faults[i].rule, &self.ask);
    }

    fn note_once(&mut self, i: usize) {
        if !self.faults[i].noted {
            self.note(i);
        }
    }
}

/// A time that may be said to be never.
fn later(from: Instant, by: Duration) -> Instant {
    const NEVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);
    from + by.min(NEVER)
}

fn ends_initial(event: &[u8]) -> bool {
    let name = b"k8s.io/initial-events-end";
    event.windows(name.len()).any(|window| window == name)
}

/// A NUL in the middle: no JSON, wherever it falls, and not one that only lacks its end.
fn malformed(line: &[u8]) -> Vec<u8> {
    let (head, tail) = line.split_at(line.len() / 2);
    [head, b"\0", tail].concat()
}

fn wrong_type(line: &[u8], pointer: &str) -> Vec<u8> {
    let Ok(mut event) = serde_json::from_slice::<Value>(line) else {
        return line.to_vec();
    };
    let mut place = &mut event["object"];
    for key in pointer.split('/').skip(1) {
        let index = key.parse::<usize>().ok();
        if let Some(i) = index.filter(|i| place.get(i).is_some()) {
            place = &mut place[i];
        } else {
            if !place.is_object() {
                *place = json!({});
            }
            place = &mut place[key];
        }
    }
    // No field of these kinds is a list of lists.
    *place = json!([[7]]);
    format!("{event}\n").into_bytes()
}
