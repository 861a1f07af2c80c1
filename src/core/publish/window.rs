//! Learns from the API server's answers how many requests it works on at once.
//!
//! Requests beyond those that the server works on wait inside the server, where they take no further changes along and
//! no removal can overtake them. The window therefore keeps the number of requests in flight at which an answer takes
//! [`STRETCH`] times as long as an answer does when the server has little else of ours to do: all of its workers have
//! work, and few requests wait for one.
//!
//! The time of an answer is compared by its logarithm, with a bound on each comparison. Slices of one endpoint and of a
//! hundred then count alike, and a single answer that takes a thousand times longer than others changes almost nothing.
//!
//! The base that answers are compared with is learned from answers that came while few requests were in flight. Under
//! lasting load there are none, so now and then the window shrinks to a quarter for the time of a few answers. A base
//! that is too short makes the window shrink, and does not last: if half as many requests are in flight and answers take
//! as long as before, it is not our requests that make them slow, but those of others, or the server itself. In the
//! smallest window, where there cannot be fewer, two slow samples are enough.

use std::time::Duration;

/// How many times longer than the base answers take when the window has the right size.
const STRETCH: f64 = 2.0;
/// The part of the difference that one sample of answers makes up for. More would follow chance.
const GAIN: f64 = 0.6;
/// The largest logarithm by which a single answer may differ from the base.
const BOUND: f64 = 1.5;
/// The largest logarithm by which a single answer may change a base that was too short.
const FAR: f64 = 3.0;
/// The part of the requests in flight that has to be left for an answer's time to show whether it depends on them.
const LEFT: f64 = 0.5;
/// Answers that became faster by no more than this logarithm, while the requests in flight became fewer by [`LEFT`], do
/// not depend on them.
const ALIKE: f64 = 0.3;
/// A sample whose answers were faster than the base by this logarithm proves that the base is too long.
const FASTER: f64 = 0.5;
/// The weight of one answer in the base.
const WEIGHT: f64 = 1.0 / 16.0;
/// The same in the smallest window, where the base may be far off.
const WEIGHT_IN_LEAST: f64 = 1.0 / 8.0;
/// The number of answers in a sample and in a probe is at least this.
const ENOUGH: u32 = 8;
/// The part of the window that counts as few requests.
const FEW: f64 = 0.25;
/// The least time from one probe to the next, except after [`PROBE_AGAIN`] answers.
const PROBE_EVERY: Duration = Duration::from_secs(20);
/// The same, in answers: a probe takes as long as some ten of them, which is to be a small part of the whole.
const ANSWERS_BETWEEN_PROBES: u32 = 100;
/// A probe that shortened the base by this logarithm is followed by another one after [`PROBE_AGAIN`] answers, because
/// even the few may have been too many.
const SHORTENED: f64 = 0.2;
/// See [`SHORTENED`].
const PROBE_AGAIN: u32 = 10;
/// A probe ends after so many times the usual answer, however few answers have come.
const LONGEST_PROBE: u32 = 15;
/// The fraction of the window left after the server was overloaded or did not respond.
const AFTER_REFUSAL: f64 = 0.5;
/// The smallest window.
const LEAST: f64 = 2.0;
/// The window before anything is known.
const FIRST: f64 = 16.0;
/// Under a limit below this there is nothing to find: the window is as large as it may be, but after an overload.
const LEAST_LIMIT: f64 = 4.0;
/// A request has been out for long after this many times what answers take lately, within these bounds. Large objects, and a server
/// that stops for a moment, take their time.
const LONG: f64 = 10.0;
/// The weight of one answer in what answers take lately.
const WEIGHT_LATELY: f64 = 1.0 / 8.0;
const LEAST_LONG: Duration = Duration::from_millis(100);
const MOST_LONG: Duration = Duration::from_secs(1);
/// Answers that are faster count as having taken this long.
const FASTEST: Duration = Duration::from_micros(1);

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Sign {
    /// The write was carried out, and waited for no webhook.
    Answered,
    /// Too many requests, an overloaded server, or no response in time.
    Overloaded,
}

/// A response, or its absence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completed {
    /// The outcome of the request.
    pub sign: Sign,
    /// How long the request was out.
    pub took: Duration,
    /// The number of requests in flight, this one included.
    pub in_flight: usize,
    /// True if something waits that could go if the window were larger.
    pub held_back: bool,
}

/// The number of requests that may be in flight. Owned by the writer; the caller supplies the time.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    size: f64,
    limit: f64,
    /// The base: the logarithm of the seconds that an answer takes while few requests are in flight.
    base: Option<f64>,
    /// The logarithm of the seconds that answers take lately, however many requests are in flight.
    lately: Option<f64>,
    /// The time after which a request has been out for long, which follows from that.
    long: Duration,
    /// Number of answers that the base was learned from since the last probe, or since as many as a probe waits for.
    alone: u32,
    /// The last time at which more than few requests were in flight.
    crowded: Duration,
    sample: AnswerSample,
    /// The slowest sample since the window began to shrink.
    slowest: Option<Slow>,
    /// The usual time of an answer, by the last sample.
    usual: Option<Duration>,
    /// The time from one answer to the next, by the same.
    pace: Option<Duration>,
    probe: Option<Probe>,
    /// The time of the next probe; zero until the first, since the first base is a guess.
    probe_at: Duration,
    /// The window at which the server was last overloaded, until it is reached again.
    refused: Option<f64>,
    /// The time of the last shrink after an overload. Requests sent before it do not shrink the window again, because
    /// requests of the same burst already did.
    shrunk: Duration,
}

/// The answers to requests that were sent since the window got its present size.
#[derive(Clone, Copy, Debug, Default)]
struct AnswerSample {
    since: Duration,
    answers: u32,
    /// The sum of the logarithms by which they took longer than the base.
    longer: f64,
    /// The base when it began.
    base: f64,
    /// The sum of the logarithms by which they took longer than that, with the wider bound [`FAR`].
    far: f64,
    /// The sum of the requests that were in flight at each of them.
    in_flight: usize,
}

/// A sample of slow answers.
#[derive(Clone, Copy, Debug)]
struct Slow {
    /// The window.
    size: f64,
    /// The requests in flight, on average.
    in_flight: f64,
    /// The logarithm of the seconds that an answer took.
    time: f64,
    /// True if few requests were in flight in the last sample.
    few: bool,
}

#[derive(Clone, Copy, Debug)]
struct Probe {
    /// The base before it.
    base: f64,
    until: Duration,
}

impl Window {
    /// Creates a window that never exceeds `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        let limit = (limit.max(1)) as f64;
        Self {
            size: FIRST.min(limit),
            limit,
            base: None,
            lately: None,
            long: MOST_LONG,
            alone: 0,
            crowded: Duration::ZERO,
            sample: AnswerSample::default(),
            slowest: None,
            usual: None,
            pace: None,
            probe: None,
            probe_at: Duration::ZERO,
            refused: None,
            shrunk: Duration::ZERO,
        }
    }

    /// Returns how many requests may be in flight now: at least two, so that one without a response does not hold up
    /// all others; one if the limit allows no more.
    pub(crate) fn size(&self) -> usize {
        if self.probe.is_some() {
            self.few()
        } else {
            self.size as usize
        }
    }

    /// Returns the time from one answer to the next while the window was last full, if it ever was.
    pub(crate) fn pace(&self) -> Option<Duration> {
        self.pace
    }

    /// Returns the time after which a request has been out for much longer than the API server takes.
    pub(crate) fn long(&self) -> Duration {
        self.long
    }

    /// Returns when the window has its whole size again though no answer comes, because a probe ends.
    pub(crate) fn probes_until(&self) -> Option<Duration> {
        self.probe.map(|probe| probe.until)
    }

    /// Lets the time pass. A probe that has lasted too long ends.
    pub(crate) fn pass(&mut self, now: Duration) {
        if let Some(probe) = self.probe.filter(|probe| now >= probe.until) {
            self.end_probe(probe, now);
        }
    }

    /// Records the outcome of a request.
    pub(crate) fn answered(&mut self, completed: Completed, now: Duration) {
        let Completed {
            sign,
            took,
            in_flight,
            held_back,
        } = completed;
        let sent = now.saturating_sub(took);
        if in_flight > self.few() {
            self.crowded = now;
        }
        let time = took.max(FASTEST).as_secs_f64().ln();
        if sign == Sign::Answered {
            let lately = self.lately.get_or_insert(time);
            *lately += (time - *lately) * WEIGHT_LATELY;
            let long = Duration::try_from_secs_f64(LONG * lately.exp()).unwrap_or(MOST_LONG);
            self.long = long.clamp(LEAST_LONG, MOST_LONG);
        }
        match sign {
            Sign::Overloaded => self.refused(sent, now),
            Sign::Answered if self.limit < LEAST_LIMIT => {
                if held_back {
                    self.size = (self.size + 1.0 / self.size).min(self.limit);
                }
            }
            Sign::Answered => {
                let base = *self.base.get_or_insert(time);
                let longer = (time - base).clamp(-BOUND, BOUND);
                if sent > self.crowded {
                    self.learn(longer, now);
                }
                if let Some(probe) = self.probe {
                    if self.alone >= self.enough() {
                        self.end_probe(probe, now);
                    }
                } else if held_back && sent >= self.sample.since {
                    if self.sample.answers == 0 {
                        self.sample.base = base;
                    }
                    self.sample.answers += 1;
                    self.sample.longer += longer;
                    self.sample.far += (time - self.sample.base).clamp(-FAR, FAR);
                    self.sample.in_flight += in_flight;
                    if self.sample.answers >= ENOUGH.max(self.size as u32) {
                        self.end_sample(now);
                    }
                }
            }
        }
    }

    /// Returns how many requests in flight are few.
    fn few(&self) -> usize {
        (self.size * FEW).max(LEAST.min(self.limit)) as usize
    }

    /// Returns how many answers a probe waits for: at least two for each place in flight.
    fn enough(&self) -> u32 {
        ENOUGH.max(2 * self.few() as u32)
    }

    /// Takes into the base an answer that came while few requests were in flight.
    fn learn(&mut self, longer: f64, now: Duration) {
        let weight = if self.probe.is_some() {
            // A mean, in which the base before counts as one answer.
            1.0 / f64::from(self.alone + 2)
        } else if self.size < LEAST + 1.0 {
            WEIGHT_IN_LEAST
        } else {
            WEIGHT
        };
        if let Some(base) = &mut self.base {
            *base += longer * weight;
        }
        self.alone += 1;
        if self.probe.is_none() && self.alone >= self.enough() {
            self.alone = 0;
            self.probe_at = self
                .after_answers(ANSWERS_BETWEEN_PROBES, now)
                .max(now + PROBE_EVERY);
        }
    }

    /// Returns the time at which so many answers will have come, one after the other.
    fn after_answers(&self, count: u32, now: Duration) -> Duration {
        now + self.usual.unwrap_or_default() * count
    }

    /// Adjusts the window to the answers of a sample.
    fn end_sample(&mut self, now: Duration) {
        let answers = f64::from(self.sample.answers);
        let mut longer = self.sample.longer / answers;
        let time = self.sample.base + self.sample.far / answers;
        let in_flight = self.sample.in_flight as f64 / answers;
        self.sample = AnswerSample {
            since: now,
            ..AnswerSample::default()
        };
        let Some(mut base) = self.base else { return };
        let usual = Duration::from_secs_f64(time.exp());
        (self.usual, self.pace) = (Some(usual), Some(usual.div_f64(in_flight)));
        if let Some(before) = self.slow_all_the_same(longer, in_flight, time) {
            (base, longer) = (time, 0.0);
            if self.refused.is_none() {
                self.size = self.size.max(before);
            }
            // It is learned from more requests than few, and while something was changing.
            self.probe_at = self.probe_at.min(self.after_answers(PROBE_AGAIN, now));
        }
        base += (longer + FASTER).min(0.0);
        self.base = Some(base);
        let grown = self.size * (GAIN * (STRETCH.ln() - longer)).exp();
        self.size = match self.refused {
            // As many may be too many again: one more a sample.
            Some(_) if grown > self.size => self.size + 1.0,
            _ => grown,
        };
        self.size = self.size.clamp(LEAST.min(self.limit), self.limit);
        if self.refused.is_some_and(|refused| self.size >= refused) {
            self.refused = None;
        }
        if now >= self.probe_at && self.size() > self.few() {
            self.alone = 0;
            self.probe = Some(Probe {
                base,
                until: self.after_answers(LONGEST_PROBE, now),
            });
        }
    }

    /// Takes in a sample of slow answers. If it shows that fewer requests in flight do not make them faster, returns the
    /// window before it shrank for nothing. In the smallest windows there are no fewer: there, two samples in a row show
    /// how long answers take now.
    fn slow_all_the_same(&mut self, longer: f64, in_flight: f64, time: f64) -> Option<f64> {
        if longer <= STRETCH.ln() {
            self.slowest = None;
            return None;
        }
        let few = in_flight <= self.few() as f64;
        let this = Slow {
            size: self.size,
            in_flight,
            time,
            few,
        };
        let Some(slowest) = self.slowest else {
            self.slowest = Some(this);
            return None;
        };
        let alike = time >= slowest.time - ALIKE;
        if (few && slowest.few) || (alike && in_flight <= slowest.in_flight * LEFT) {
            self.slowest = None;
            return Some(if alike { slowest.size } else { self.size });
        }
        self.slowest = Some(if time > slowest.time {
            this
        } else {
            Slow { few, ..slowest }
        });
        None
    }

    fn end_probe(&mut self, probe: Probe, now: Duration) {
        let shortened = self.base.is_some_and(|base| base < probe.base - SHORTENED);
        let next = self
            .after_answers(ANSWERS_BETWEEN_PROBES, now)
            .max(now + PROBE_EVERY);
        self.probe_at = match self.alone {
            // Requests without an answer are in the way, and the others have waited for nothing.
            0 => now + next.saturating_sub(now) * 6,
            _ if shortened => self.after_answers(PROBE_AGAIN, now),
            _ => next,
        };
        self.probe = None;
        self.slowest = None;
        self.alone = 0;
        self.sample = AnswerSample {
            since: now,
            ..AnswerSample::default()
        };
    }

    fn refused(&mut self, sent: Duration, now: Duration) {
        if sent >= self.shrunk {
            self.refused = Some(self.size);
            self.size = (self.size * AFTER_REFUSAL).max(LEAST.min(self.limit));
            self.shrunk = now;
            self.slowest = None;
            self.sample = AnswerSample {
                since: now,
                ..AnswerSample::default()
            };
        }
    }
}

#[cfg(test)]
mod tests;
