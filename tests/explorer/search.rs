//! The search: depth first, every step that is possible in a state, each state once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;
use twox_hash::XxHash3_128;

/// A case with more states than this has become too large for a test: it fails, so that it is made smaller.
const MOST_STATES: usize = 6_000_000;
/// A history longer than this goes in circles.
const LONGEST: usize = 400;
/// What happened longer ago than this makes no difference any more.
const LONG_AGO: Duration = Duration::from_secs(2);

/// A system to search: pure machines, the messages between them, and all that can happen to them.
pub(crate) trait System: Clone + fmt::Debug {
    type Step: Clone + fmt::Debug;

    /// All that can happen next.
    fn steps(&self) -> Vec<Self::Step>;

    /// Lets it happen.
    fn take(&mut self, step: Self::Step) -> Result<(), String>;

    /// The present time, if states that differ only by a shift of all times count as one.
    fn now(&self) -> Option<Duration> {
        None
    }

    /// Checks the invariants of every state.
    fn check(&self) -> Result<(), String>;

    /// True if nothing moves by itself any more.
    fn is_quiet(&self, steps: &[Self::Step]) -> bool;

    /// Checks the invariants of a state in which nothing moves by itself any more.
    fn check_quiet(&self) -> Result<(), String>;
}

/// The result of a search.
pub(crate) struct Found {
    pub(crate) states: usize,
    /// Complete orders of steps. There may be more than a `u64` holds.
    pub(crate) histories: f64,
    /// The number of steps of the longest.
    pub(crate) longest: usize,
}

/// The result for a state whose steps have all been tried.
#[derive(Clone, Copy)]
struct Below {
    histories: f64,
    longest: usize,
}

struct Search<S: System> {
    /// By digest. `None` while it is on the way to the present state.
    seen: HashMap<u128, Option<Below>>,
    path: Vec<S::Step>,
}

/// Tries every order. The error says what is wrong, and after which steps.
pub(crate) fn explore<S: System>(start: &S) -> Result<Found, String> {
    let mut search = Search::<S> {
        seen: HashMap::new(),
        path: Vec::new(),
    };
    let below = search.visit(start).map_err(|what| {
        let mut text = format!("{what}\nafter {} steps:", search.path.len());
        for step in &search.path {
            let _ = write!(text, "\n  {step:?}");
        }
        text
    })?;
    Ok(Found {
        states: search.seen.len(),
        histories: below.histories,
        longest: below.longest,
    })
}

impl<S: System> Search<S> {
    fn visit(&mut self, system: &S) -> Result<Below, String> {
        system.check()?;
        NOW.set(system.now());
        let (digest, _) = digest(system);
        match self.seen.get(&digest) {
            Some(Some(below)) => return Ok(*below),
            Some(None) => {
                return Err(
                    "a state comes again: nothing has moved, and something is tried without end".to_owned(),
                );
            }
            None => {}
        }
        if self.seen.len() >= MOST_STATES {
            return Err(format!("more than {MOST_STATES} states"));
        }
        if self.path.len() >= LONGEST {
            return Err(format!(
                "more than {LONGEST} steps: something is tried without end"
            ));
        }
        self.seen.insert(digest, None);
        let steps = system.steps();
        let mut below = Below {
            histories: 0.0,
            longest: 0,
        };
        if system.is_quiet(&steps) {
            system.check_quiet()?;
        }
        if steps.is_empty() {
            below.histories = 1.0;
        }
        for step in steps {
            self.path.push(step.clone());
            let mut next = system.clone();
            next.take(step)?;
            let found = self.visit(&next)?;
            below.histories += found.histories;
            below.longest = below.longest.max(found.longest + 1);
            self.path.pop();
        }
        self.seen.insert(digest, Some(below));
        Ok(below)
    }
}

thread_local! {
    /// Space for texts, so that none has to grow. As many are in use at a time as parts are in each other.
    static TEXTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    /// The time that texts tell other times from, if they do.
    static NOW: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// A hash of all that a value shows of itself, and whether it depends on the time: two values with the same are the same.
fn digest(value: &impl fmt::Debug) -> (u128, bool) {
    // Hashed at once, in a crate that is optimized: hashing each piece of text here took half of the search's time.
    let mut text = TEXTS.with_borrow_mut(Vec::pop).unwrap_or_default();
    text.clear();
    write!(text, "{value:?}").expect("a state can be shown");
    let told = NOW.get().and_then(|now| told_from(now, &text));
    let digest = XxHash3_128::oneshot(told.as_ref().unwrap_or(&text).as_bytes());
    TEXTS.with_borrow_mut(|texts| texts.push(text));
    (digest, told.is_some())
}

/// Replaces the times in the text of a state by how far from now they are. Returns `None` if there is none.
fn told_from(now: Duration, text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | 0x80..);
    let (mut told, mut copied, mut at) = (None, 0, 0);
    while let Some(byte) = bytes.get(at) {
        if !is_word(byte) {
            at += 1;
            continue;
        }
        let end = bytes[at..].iter().position(|byte| !is_word(byte));
        let (start, end) = (at, end.map_or(bytes.len(), |length| at + length));
        at = end;
        if byte.is_ascii_digit()
            && bytes[end - 1] == b's'
            && let Some(time) = time(&text[start..end])
        {
            let told: &mut String = told.get_or_insert_default();
            told.push_str(&text[copied..start]);
            let past = now.saturating_sub(time).min(LONG_AGO).as_nanos();
            let future = time.saturating_sub(now).as_nanos();
            let _ = write!(told, "{past}<{future}");
            copied = end;
        }
    }
    told.as_mut()?.push_str(&text[copied..]);
    told
}

/// Returns the time that a word is, as `Duration` shows it.
fn time(word: &str) -> Option<Duration> {
    let number = word.trim_end_matches(['n', 'µ', 'm', 's']);
    let nanos = match &word[number.len()..] {
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let number: f64 = number.parse().ok()?;
    Some(Duration::from_nanos((number * nanos).round() as u64))
}

/// A part of a state that most steps leave as it is: copied, and looked at for the digest, only when it changes.
#[derive(Clone)]
pub(crate) struct Part<T> {
    value: Rc<T>,
    /// And the time for which it is.
    digest: Cell<Option<(u128, Option<Duration>)>>,
}

impl<T: Clone> Part<T> {
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: Rc::new(value),
            digest: Cell::new(None),
        }
    }

    pub(crate) fn change(&mut self) -> &mut T {
        self.digest.set(None);
        Rc::make_mut(&mut self.value)
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Part<T> {
    /// Its digest stands for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = NOW.get();
        let known = self.digest.get().filter(|(_, at)| at.is_none() || *at == now);
        let (digest, at) = known.unwrap_or_else(|| {
            let (digest, has_times) = digest(&*self.value);
            (digest, now.filter(|_| has_times))
        });
        self.digest.set(Some((digest, at)));
        write!(f, "{digest:x}")
    }
}
