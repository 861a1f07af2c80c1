//! Prints an explanation as text.

use super::{Explanation, NearPod, PodFinding, State};
use crate::inspect::findings::table;
use crate::inspect::text::{BAD, BOLD, DIM, GOOD, Page, Piece, Table, WARN, listed, painted, plural};

/// The number of pods without anything to report, and of strays, that are shown unless all are asked for.
const PLAIN: usize = 10;
/// The number of names on a line.
const NAMES: usize = 5;

impl Explanation {
    /// Formats the explanation for users, with colours that the caller may strip. `all` also shows all pods and strays
    /// beyond the usual number.
    pub fn to_text(&self, all: bool) -> String {
        let mut out = Page::default();
        self.push_head(&mut out);
        if self.managed {
            self.push_pods(&mut out, all);
            self.push_nearly(&mut out);
        }
        if !self.strays.is_empty() {
            out.gap();
            out.line(0, painted(BAD, "Published for no pod that matches:"));
            for stray in self.strays.iter().take(if all { usize::MAX } else { PLAIN }) {
                out.line(2, stray);
            }
            let more = self.strays.len().saturating_sub(PLAIN);
            if more > 0 && !all {
                out.line(2, format!("and {more} more"));
            }
        }
        self.push_objects(&mut out);
        out.finish()
    }

    fn push_head(&self, out: &mut Page) {
        let title = format!("Service {}/{}", self.namespace, self.service);
        let families = if self.managed {
            format!(", {}", self.families.join(" and "))
        } else {
            String::new()
        };
        let kind = format!("  {}{families}", self.r#type);
        out.line(0, painted(BOLD, title).then(kind));
        let mut head = Table::default();
        if !self.selector.is_empty() {
            head.row(["selector".to_owned(), self.selector.join(",")]);
        }
        for (i, port) in self.ports.iter().enumerate() {
            head.row([if i == 0 { "ports" } else { "" }, port]);
        }
        out.table(2, &head);
        for note in &self.notes {
            out.line(2, note);
        }
        for warning in &self.warnings {
            out.line(2, painted(WARN, warning));
        }
        match (self.managed, self.verdict) {
            (true, Some(true)) => {
                let slices = self.outputs.slices || self.outputs.custom;
                let what = match (slices, self.outputs.endpoints && !self.endpoints_unknown) {
                    (true, true) => ": slices and Endpoints are what they should be",
                    (true, false) => ": slices are what they should be",
                    (false, true) => ": Endpoints are what they should be",
                    (false, false) => ": nothing is published for it here",
                };
                out.line(2, painted(GOOD, "in sync").then(what));
            }
            (_, None) => {
                let unknown = painted(WARN, "cannot tell whether it is in sync");
                out.line(2, unknown.then(": see above"));
            }
            (_, Some(false)) => {
                let so = "; the controller would";
                out.line(2, painted(BAD, "OUT OF SYNC").then(so));
                out.table(4, &table(&self.out_of_sync, false));
            }
            (false, _) => {}
        }
    }

    fn push_pods(&self, out: &mut Page, all: bool) {
        let states = [
            State::Ready,
            State::NotReady,
            State::Terminating,
            State::NotPublished,
        ];
        let counts = states.map(|of| (self.pods.iter().filter(|pod| pod.state == of).count(), state(of)));
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, text)| format!("{count} {text}")).collect();
        let total = self.pods.len();
        let one = total == 1;
        let verb = match (self.selector.is_empty(), one) {
            (false, true) => "matches",
            (false, false) => "match",
            (true, true) => "is published, or was",
            (true, false) => "are published, or were",
        };
        let title = painted(
            if total == 0 { BAD } else { BOLD },
            format!("{} {verb}", plural(total, "pod")),
        );
        let counts = if total == 0 {
            String::new()
        } else {
            format!(": {}", counts.join(", "))
        };
        out.gap();
        out.line(0, title.then(counts));
        let mut rows = Table::default();
        let mut below = Vec::new();
        let (mut plain, mut hidden) = (0, 0);
        for pod in &self.pods {
            if pod.is_plain() {
                plain += 1;
                if plain > PLAIN && !all {
                    hidden += 1;
                    continue;
                }
            }
            rows.row(row(pod));
            below.push(said(pod));
        }
        for (line, said) in rows.lines().into_iter().zip(below) {
            out.line(2, line);
            for line in said {
                out.line(6, line);
            }
        }
        if hidden > 0 {
            let hidden = plural(hidden, "more ready pod");
            out.line(2, format!("and {hidden} like the last (--all shows them)"));
        }
    }

    fn push_nearly(&self, out: &mut Page) {
        if self.nearly.is_empty() {
            return;
        }
        let verb = if self.nearly_total == 1 {
            "matches"
        } else {
            "match"
        };
        let title = format!(
            "{} nearly {verb}, but for one label:",
            plural(self.nearly_total, "pod")
        );
        out.gap();
        out.line(0, painted(BOLD, title));
        let mut rest = &self.nearly[..];
        while let [first, ..] = rest {
            // Pods with the same difference are next to each other.
            let same = |pod: &&NearPod| pod.difference() == first.difference();
            let count = rest.iter().take_while(same).count();
            let names: Vec<&str> = rest[..count].iter().map(|pod| &*pod.pod).collect();
            let names = format!(": {}", listed(&names, NAMES));
            out.line(2, painted(WARN, first.difference()).then(names));
            rest = &rest[count..];
        }
        if self.nearly_total > self.nearly.len() {
            let more = self.nearly_total - self.nearly.len();
            out.line(2, format!("and {more} more"));
        }
    }

    fn push_objects(&self, out: &mut Page) {
        out.gap();
        out.line(0, painted(BOLD, plural(self.slices.len(), "slice")));
        let mut rows = Table::default();
        for slice in &self.slices {
            let ports = if slice.ports.is_empty() {
                "no ports".to_owned()
            } else {
                slice.ports.join(", ")
            };
            let by = match (&slice.managed_by, slice.ours) {
                (_, true) => String::new(),
                (Some(manager), _) => format!("managed by {manager}"),
                (None, _) => "managed by nobody".to_owned(),
            };
            let note = slice.note.clone().unwrap_or_default();
            let remark = [by, note].into_iter().filter(|text| !text.is_empty());
            rows.row([
                (&slice.name).into(),
                slice.family.unwrap_or("-").into(),
                format!("{} of {} ready", slice.ready, slice.endpoints).into(),
                ports.into(),
                painted(WARN, remark.collect::<Vec<_>>().join(", ")),
            ]);
        }
        out.table(2, &rows);
        let title = painted(BOLD, "Endpoints");
        let line = match &self.endpoints {
            None if self.endpoints_unknown => title.then(": could not be read"),
            None => title.then(": there is no such object"),
            Some(endpoints) => {
                let counts = format!(": {} ready, {} not ready", endpoints.ready, endpoints.not_ready);
                let mut line = title.then(counts);
                if endpoints.truncated {
                    line = line.then(", ").then(painted(WARN, "truncated"));
                }
                if !endpoints.ours {
                    line = line.then(", ").then(painted(WARN, "without our label"));
                }
                line
            }
        };
        out.line(0, line);
    }
}

fn row(pod: &PodFinding) -> [Piece; 6] {
    let state = match pod.state {
        _ if !pod.amiss.is_empty() => painted(BAD, state(pod.state)),
        State::Ready if pod.is_plain() => painted(GOOD, state(pod.state)),
        State::Ready | State::NotReady | State::Terminating | State::NotPublished => {
            painted(WARN, state(pod.state))
        }
    };
    // Addresses that no slice holds, such as those of the other family, stand in parentheses beside those that one
    // does.
    let held = |address: &&String| pod.published.iter().any(|place| place.address == **address);
    let (held, others): (Vec<_>, Vec<_>) = pod.addresses.iter().partition(held);
    let addresses = if pod.addresses.is_empty() {
        "-".to_owned()
    } else if held.is_empty() {
        pod.addresses.join(" ")
    } else {
        let others = others.iter().map(|address| format!("({address})"));
        let all: Vec<String> = held.into_iter().cloned().chain(others).collect();
        all.join(" ")
    };
    let mut slices: Vec<&str> = pod.published.iter().map(|place| &*place.slice).collect();
    slices.dedup();
    let slices = if slices.is_empty() {
        "-".to_owned()
    } else {
        format!("in {}", slices.join(" "))
    };
    let node = match (&pod.node, &pod.zone) {
        (Some(node), Some(zone)) => format!("{node} ({zone})"),
        (Some(node), None) => node.clone(),
        (None, _) => "-".to_owned(),
    };
    let mut hints: Vec<&str> = pod
        .published
        .iter()
        .filter_map(|place| place.hints.as_deref())
        .collect();
    hints.dedup();
    let hints = if hints.is_empty() {
        Piece::default()
    } else {
        painted(DIM, format!("hints: {}", hints.join("; ")))
    };
    [
        state,
        (&pod.name).into(),
        addresses.into(),
        slices.into(),
        node.into(),
        hints,
    ]
}

fn state(state: State) -> &'static str {
    match state {
        State::Ready => "ready",
        State::NotReady => "not ready",
        State::Terminating => "terminating",
        State::NotPublished => "not published",
    }
}

/// Returns the lines that are printed below a pod's own line.
fn said(pod: &PodFinding) -> Vec<Piece> {
    let amiss = pod.amiss.iter().map(|text| painted(BAD, text));
    amiss.chain(pod.why.iter().map(Piece::from)).collect()
}
