//! Finds the pods that a selector matches, and those that it nearly matches, mostly because of a typo.

use crate::core::excerpt::Excerpt;
use crate::core::facts::observed::ObservedPod;
use crate::core::labels::Labels;
use crate::core::selector::Selector;
use crate::core::work::Work;
use serde::Serialize;

/// The number of nearly matching pods that are kept.
const MOST: usize = 20;

/// The pods of a namespace, as a selector matches them. Takes pods one by one and keeps those that matter.
#[derive(Clone, Debug)]
pub struct Pods {
    /// `None` if labels do not count.
    pub(super) selector: Option<Selector>,
    /// The pods that match; without a selector, all until others are taken out.
    pub matching: Vec<ObservedPod>,
    pub(super) near: Near,
}

/// The pods that a selector does not match, of which those are kept that it nearly matches.
#[derive(Clone, Default, Debug)]
pub(in crate::inspect) struct Near {
    found: Vec<(u8, NearPod)>,
    total: usize,
    /// Whether any pod meets each of the selector's pairs and then requirements. Empty if there is no pod.
    met: Vec<bool>,
}

/// A pod that matches the selector except for one label.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NearPod {
    /// The label that does not match.
    pub label: String,
    /// Its value in the selector.
    pub wanted: String,
    /// Its value on the pod, if it has the label.
    pub found: Option<String>,
    /// Another label of the pod that has the wanted value.
    pub under: Option<String>,
    /// The pod.
    pub pod: String,
}

impl NearPod {
    /// Describes the difference, without the pod's name.
    pub fn difference(&self) -> String {
        let Self { label, wanted, .. } = self;
        match (&self.found, &self.under) {
            (Some(found), _) => format!("{label}={found} where the selector has {label}={wanted}"),
            (None, Some(under)) => format!("{under}={wanted} where the selector has {label}={wanted}"),
            (None, None) => format!("no label {label} where the selector has {label}={wanted}"),
        }
    }
}

impl Pods {
    /// Creates an empty set for a selector, or for all pods.
    pub fn new(selector: Option<Selector>) -> Self {
        Self {
            selector,
            matching: Vec::new(),
            near: Near::default(),
        }
    }

    /// Adds a pod of the namespace.
    pub fn see(&mut self, pod: ObservedPod) {
        let Some(selector) = self.selector.as_ref() else {
            self.matching.push(pod);
            return;
        };
        if selector.matches(&pod.facts.labels, &mut Work::default()) {
            self.matching.push(pod);
            return;
        }
        // A pod that has ended would not be published anyway.
        if !pod.facts.terminal {
            self.near.see(selector, &pod.facts.labels, &[&pod.facts.name]);
        }
    }
}

impl Near {
    /// Adds running pods with the same labels, which the selector does not match.
    pub(in crate::inspect) fn see(&mut self, selector: &Selector, labels: &Labels, pods: &[&str]) {
        let pairs = selector.pairs().count();
        let has = selector
            .pairs()
            .map(|(key, wanted)| labels.get(key) == Some(wanted));
        let meets = selector
            .requirements()
            .map(|requirement| requirement.accepts(labels.get(requirement.key)));
        let meets: Vec<bool> = has.chain(meets).collect();
        self.met.resize(meets.len(), false);
        for (met, meets) in self.met.iter_mut().zip(&meets) {
            *met |= meets;
        }
        // All but one pair, and that one is a miss.
        let mut misses = (0..).zip(&meets).filter(|(_, meets)| !**meets).map(|(at, _)| at);
        let (Some(miss), None) = (misses.next(), misses.next()) else {
            return;
        };
        let Some((key, wanted)) = selector.pairs().nth(miss) else {
            return;
        };
        let found = labels.get(key);
        let under = labels.iter().find(|(_, value)| *value == wanted);
        let under = under.map(|(key, _)| key.to_owned());
        let score = match found {
            Some(found) if is_like(found, wanted) => 0,
            None if under.is_some() => 1,
            // With only one label in the selector, every other pod of the namespace misses it too.
            _ if pairs == 1 => return,
            Some(_) => 2,
            None => 3,
        };
        self.total += pods.len();
        let near = NearPod {
            label: key.to_owned(),
            wanted: wanted.to_owned(),
            found: found.map(str::to_owned),
            under,
            pod: String::new(),
        };
        for &pod in pods {
            let pod = pod.to_owned();
            self.found.push((score, NearPod { pod, ..near.clone() }));
            if self.found.len() >= 8 * MOST {
                self.cut();
            }
        }
    }

    fn cut(&mut self) {
        self.found.sort();
        self.found.truncate(MOST);
    }

    /// Returns the pods that nearly match, the likeliest first, and their total number.
    pub(in crate::inspect) fn pods(&mut self) -> (Vec<NearPod>, usize) {
        self.cut();
        let near = self.found.iter().map(|(_, pod)| pod.clone());
        (near.collect(), self.total)
    }

    /// Explains why a selector matches no pod.
    pub(in crate::inspect) fn why_none(&self, selector: &Selector) -> Vec<String> {
        if self.met.is_empty() {
            return vec!["there is no running pod in the namespace".to_owned()];
        }
        let pairs = selector.pairs().map(|(key, wanted)| format!("{key}={wanted}"));
        let requirements = selector.requirements().map(|requirement| {
            let requirement = requirement.to_string();
            Excerpt::value(&requirement).to_string()
        });
        let conditions = pairs.chain(requirements).zip(&self.met);
        let mut reasons: Vec<String> = conditions
            .filter(|(_, met)| !**met)
            .map(|(condition, _)| format!("no pod in the namespace has {condition}"))
            .collect();
        if reasons.is_empty() {
            reasons.push("no pod meets all of the selector".to_owned());
        }
        reasons
    }
}

/// Returns whether one text may be a typo of the other.
fn is_like(a: &str, b: &str) -> bool {
    if a.eq_ignore_ascii_case(b) {
        return true;
    }
    let shorter = a.len().min(b.len());
    if shorter >= 3 && (a.starts_with(b) || b.starts_with(a)) {
        return true;
    }
    shorter >= 2 && distance(a.as_bytes(), b.as_bytes()) <= (shorter / 4).max(1)
}

/// Returns the edit distance: the number of letters that are wrong, missing, too many, or swapped with a neighbour.
pub(in crate::inspect) fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows: [Vec<usize>; 3] = [Vec::new(), Vec::new(), (0..=b.len()).collect()];
    for i in 1..=a.len() {
        rows.rotate_left(1);
        let mut row = vec![i];
        for j in 1..=b.len() {
            let (above, before) = (&rows[1], &rows[0]);
            let mut least = (above[j] + 1)
                .min(row[j - 1] + 1)
                .min(above[j - 1] + usize::from(a[i - 1] != b[j - 1]));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        rows[2] = row;
    }
    rows[2][b.len()]
}

/// Returns the name among `others` that may have been meant.
pub fn meant<'a>(name: &str, others: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    others
        .filter(|other| is_like(other, name))
        .min_by_key(|other| (distance(other.as_bytes(), name.as_bytes()), *other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why_none(selector: &str, pods: &[&[(&str, &str)]]) -> Vec<String> {
        let selector = Selector::parse(selector).unwrap().unwrap();
        let mut near = Near::default();
        for labels in pods {
            let labels: Labels = labels.iter().copied().collect();
            near.see(&selector, &labels, &["p"]);
        }
        near.why_none(&selector)
    }

    #[test]
    fn what_no_pod_meets_is_named_and_nothing_else() {
        let web = [("app", "web"), ("tier", "b")];
        assert_eq!(
            why_none("app=web,tier in (a,c)", &[&web]),
            ["no pod in the namespace has tier in (a,c)"]
        );
        assert_eq!(
            why_none("app=api,tier in (a,c)", &[&web, &[("tier", "a")]]),
            ["no pod in the namespace has app=api"]
        );
        assert_eq!(
            why_none("app=web,tier in (a,c)", &[&web, &[("app", "api"), ("tier", "a")]]),
            ["no pod meets all of the selector"]
        );
    }

    #[test]
    fn slips_of_the_pen_are_seen() {
        for (a, b, apart) in [
            ("web", "wbe", 1),
            ("web", "web", 0),
            ("", "ab", 2),
            ("frontend", "frontned", 1),
            ("a", "b", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), apart, "{a} {b}");
        }
        assert!(is_like("web", "wbe") && is_like("Web", "web") && is_like("web-v2", "web"));
        assert!(!is_like("web", "api") && !is_like("db", "web") && !is_like("a", "b"));
        assert_eq!(meant("wbe", ["api", "web", "webs"].into_iter()), Some("web"));
        assert_eq!(meant("x", ["api"].into_iter()), None);
    }
}
