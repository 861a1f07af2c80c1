//! The query of a request's path.

use percent_encoding::percent_decode_str;

/// The query's pairs, decoded; of a repeated key the first counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        let decode = |s: &str| {
            percent_decode_str(&s.replace('+', " "))
                .decode_utf8_lossy()
                .into_owned()
        };
        let pair = |part: &str| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (decode(key), decode(value))
        };
        Self(
            query
                .unwrap_or("")
                .split('&')
                .filter(|p| !p.is_empty())
                .map(pair)
                .collect(),
        )
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The value, empty when it is not given.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or("")
    }

    /// Go's reading of a flag: given and neither `0` nor `false`.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|v| !matches!(v, "0" | "false" | "False" | "FALSE" | "f" | "F"))
    }
}
