//! Finds the pods that a selector matches, and those that it nearly matches, mostly because of a typo.

use crate::core::excerpt::Excerpt;
use crate::core::facts::observed::ObservedPod;
use crate::core::labels::Labels;
use crate::core::selector::Selector;
use crate::core::work::Work;
use crate::inspect::text::{listed, plural};
use serde::Serialize;
use std::collections::BTreeMap;

/// The number of nearly matching pods that are kept.
const MOST: usize = 20;
/// The number of different values that are counted for one label.
const MOST_VALUES: usize = 1000;

/// The pods of a namespace, as a selector matches them. Takes pods one by one and keeps those that matter.
#[derive(Clone, Debug)]
pub struct Pods {
    /// `None` if labels do not count.
    selector: Option<Selector>,
    /// The pods that match; without a selector, all until others are taken out.
    pub matching: Vec<ObservedPod>,
    near: Near,
}

/// The pods that a selector does not match, of which those are kept that it nearly matches.
#[derive(Clone, Default, Debug)]
pub(in crate::inspect) struct Near {
    found: Vec<(u8, NearPod)>,
    total: usize,
    seen: usize,
    /// The number of pods by label of the selector and value.
    values: BTreeMap<String, BTreeMap<String, usize>>,
    /// The number of pods that meet each of the selector's requirements.
    met: Vec<usize>,
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

    /// Returns the pods that nearly match, the likeliest first, and their total number.
    pub fn near(&mut self) -> (Vec<NearPod>, usize) {
        self.near.pods()
    }

    /// Explains why no pod matches.
    pub fn why_none(&self) -> Vec<String> {
        let selector = self.selector.as_ref();
        selector.map_or_else(Vec::new, |selector| self.near.why_none(selector))
    }
}

impl Near {
    /// Adds running pods with the same labels, which the selector does not match.
    pub(in crate::inspect) fn see(&mut self, selector: &Selector, labels: &Labels, pods: &[&str]) {
        self.seen += pods.len();
        self.met.resize(selector.requirements().count(), 0);
        let mut meets = true;
        for (requirement, met) in selector.requirements().zip(&mut self.met) {
            if requirement.accepts(labels.get(requirement.key)) {
                *met += pods.len();
            } else {
                meets = false;
            }
        }
        let (mut pairs, mut misses) = (0, Vec::new());
        for (key, wanted) in selector.pairs() {
            pairs += 1;
            let found = labels.get(key);
            if found != Some(wanted) {
                misses.push((key, wanted, found));
            }
            if let Some(found) = found {
                let values = self.values.entry(key.to_owned()).or_default();
                if let Some(count) = values.get_mut(found) {
                    *count += pods.len();
                } else if values.len() < MOST_VALUES || found == wanted {
                    values.insert(found.to_owned(), pods.len());
                }
            }
        }
        let [(key, wanted, found)] = misses[..] else {
            return;
        };
        if !meets {
            return;
        }
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
        if self.seen == 0 {
            return vec!["there is no running pod in the namespace".to_owned()];
        }
        let none = BTreeMap::new();
        let mut reasons = Vec::new();
        let mut each = Vec::new();
        for (key, wanted) in selector.pairs() {
            let values = self.values.get(key).unwrap_or(&none);
            if let Some(count) = values.get(wanted) {
                each.push(format!("{} {key}={wanted}", have(*count)));
                continue;
            }
            let mut others: Vec<_> = values.iter().collect();
            others.sort_by_key(|(value, count)| (!is_like(value, wanted), std::cmp::Reverse(**count)));
            let others: Vec<_> = others
                .iter()
                .map(|(value, count)| format!("{} {key}={value}", have(**count)))
                .collect();
            let others: Vec<&str> = others.iter().map(|other| &**other).collect();
            reasons.push(if others.is_empty() {
                format!("no pod in the namespace has {key}={wanted}; none has a label {key}")
            } else {
                format!(
                    "no pod in the namespace has {key}={wanted}; {}",
                    listed(&others, 3)
                )
            });
        }
        for (requirement, met) in selector.requirements().zip(&self.met) {
            let requirement = requirement.to_string();
            let requirement = Excerpt::value(&requirement);
            if *met == 0 {
                reasons.push(format!("no pod in the namespace meets {requirement}"));
            } else {
                let verb = if *met == 1 { "meets" } else { "meet" };
                each.push(format!("{} {verb} {requirement}", plural(*met, "pod")));
            }
        }
        if !reasons.is_empty() {
            return reasons;
        }
        vec![if each.is_empty() {
            "no pod in the namespace meets the selector".to_owned()
        } else {
            format!("no pod meets all of the selector: {}", each.join(", "))
        }]
    }
}

fn have(count: usize) -> String {
    let verb = if count == 1 { "has" } else { "have" };
    format!("{} {verb}", plural(count, "pod"))
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
            ["no pod in the namespace meets tier in (a,c)"]
        );
        assert_eq!(
            why_none("app=api,tier in (a,c)", &[&web, &[("tier", "a")]]),
            ["no pod in the namespace has app=api; 1 pod has app=web"]
        );
        assert_eq!(
            why_none("app=web,tier in (a,c)", &[&web, &[("app", "api"), ("tier", "a")]]),
            ["no pod meets all of the selector: 1 pod has app=web, 1 pod meets tier in (a,c)"]
        );
    }

    #[test]
    fn the_value_of_the_selector_is_counted_among_any_number_of_others() {
        let many: Vec<String> = (0..2 * MOST_VALUES).map(|n| format!("v{n}")).collect();
        let mut pods: Vec<_> = many.iter().map(|value| vec![("app", &**value)]).collect();
        pods.push(vec![("app", "web")]);
        let pods: Vec<&[(&str, &str)]> = pods.iter().map(|pod| &**pod).collect();
        assert_eq!(
            why_none("app=web,tier=front", &pods),
            ["no pod in the namespace has tier=front; none has a label tier"]
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
