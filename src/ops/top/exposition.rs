//! Prometheus' text format, as `/metrics` serves it.

use std::collections::BTreeMap;

/// The metrics of one scrape, by name.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Exposition(BTreeMap<String, Vec<Series>>);

#[derive(Clone, PartialEq, Debug)]
struct Series {
    labels: Vec<(String, String)>,
    value: f64,
}

/// The reason why a page shows no metrics of endpointd.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum NoMetrics {
    /// A line is not in Prometheus' text format.
    #[error("line {0} is not in Prometheus' text format")]
    Line(usize),
    /// The page is well-formed, and comes from another program.
    #[error("the page has no metrics of endpointd")]
    Foreign,
}

impl Exposition {
    /// Parses a page.
    ///
    /// # Errors
    ///
    /// When a line cannot be parsed, and when the page comes from another program.
    pub(super) fn parse(text: &str) -> Result<Self, NoMetrics> {
        let mut all = BTreeMap::<String, Vec<Series>>::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, series) = parse_line(line).ok_or(NoMetrics::Line(number + 1))?;
            all.entry(name.to_owned()).or_default().push(series);
        }
        let ours = all.keys().any(|name| name.starts_with("endpointd_"));
        ours.then_some(Self(all)).ok_or(NoMetrics::Foreign)
    }

    /// Returns the sum of a metric's series that have these labels, if there are any.
    pub(super) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut found = self.matching(name, labels).peekable();
        found.peek()?;
        Some(found.map(|series| series.value).sum())
    }

    /// Returns the values of a label of a metric, each with its value, in the order of the page.
    pub(super) fn by_label<'a>(&'a self, name: &str, label: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        self.matching(name, &[])
            .filter_map(move |series| Some((series.label(label)?, series.value)))
    }

    /// Returns the upper bounds and the cumulative counts of a histogram's buckets, in ascending order. Series with
    /// these labels that differ in other labels are added up.
    pub(super) fn buckets(&self, name: &str, labels: &[(&str, &str)]) -> Vec<(f64, f64)> {
        let name = format!("{name}_bucket");
        let buckets = self.matching(&name, labels).filter_map(|series| {
            let bound: f64 = series.label("le")?.parse().ok()?;
            Some((bound, series.value))
        });
        let mut buckets: Vec<_> = buckets.collect();
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        buckets.dedup_by(|next, kept| {
            let same = next.0.total_cmp(&kept.0).is_eq();
            kept.1 += if same { next.1 } else { 0.0 };
            same
        });
        buckets
    }

    fn matching<'a>(&'a self, name: &str, labels: &'a [(&str, &str)]) -> impl Iterator<Item = &'a Series> {
        let fits = move |series: &&Series| {
            labels
                .iter()
                .all(|(name, value)| series.label(name) == Some(*value))
        };
        self.0.get(name).into_iter().flatten().filter(fits)
    }
}

impl Series {
    fn label(&self, name: &str) -> Option<&str> {
        let mut labels = self.labels.iter();
        labels.find(|(known, _)| known == name).map(|(_, value)| &**value)
    }
}

/// Parses `name{label="value",...} value`, as endpointd writes it: its values hold no escapes and no `",`.
fn parse_line(line: &str) -> Option<(&str, Series)> {
    let (head, value) = line.rsplit_once(' ')?;
    let (name, labels) = match head.split_once('{') {
        Some((name, labels)) => (name, labels.strip_suffix("\"}")?),
        None => (head, ""),
    };
    let labels = labels.split("\",").filter_map(|label| {
        let (name, value) = label.split_once("=\"")?;
        Some((name.to_owned(), value.to_owned()))
    });
    let (labels, value) = (labels.collect(), value.parse().ok()?);
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    is_name.then_some((name, Series { labels, value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"
# HELP endpointd_requests_total Requests.
# TYPE endpointd_requests_total counter
endpointd_requests_total{verb="create"} 3
endpointd_requests_total{verb="update"} 4.5
odd{a="x, } y",b="y"} NaN
h_bucket{output="a",le="0.5"} 1
h_bucket{output="a",le="+Inf"} 3
h_bucket{output="b",le="0.5"} 2
h_bucket{output="b",le="+Inf"} 2
endpointd_queue_waiting 7
"#;

    #[test]
    fn a_page_is_read_by_name_and_label() {
        let page = Exposition::parse(PAGE).unwrap();
        assert_eq!(page.sum("endpointd_queue_waiting", &[]), Some(7.0));
        assert_eq!(page.sum("endpointd_requests_total", &[]), Some(7.5));
        assert_eq!(
            page.sum("endpointd_requests_total", &[("verb", "create")]),
            Some(3.0)
        );
        assert_eq!(page.sum("endpointd_requests_total", &[("verb", "get")]), None);
        assert_eq!(page.sum("absent", &[]), None);
        let odd: Vec<_> = page.by_label("odd", "a").map(|(value, _)| value).collect();
        assert_eq!(odd, ["x, } y"]);
        assert_eq!(
            page.buckets("h", &[("output", "a")]),
            [(0.5, 1.0), (f64::INFINITY, 3.0)]
        );
        assert_eq!(page.buckets("h", &[]), [(0.5, 3.0), (f64::INFINITY, 5.0)]);
    }

    #[test]
    fn other_pages_are_refused_with_a_reason() {
        assert_eq!(Exposition::parse(""), Err(NoMetrics::Foreign));
        assert_eq!(Exposition::parse("up 1\n"), Err(NoMetrics::Foreign));
        for page in ["<html>", "a{b=\"c\" 1", "a{b=\"c", "a x", "{} 1", "a"] {
            assert_eq!(Exposition::parse(page), Err(NoMetrics::Line(1)), "{page}");
        }
    }
}
