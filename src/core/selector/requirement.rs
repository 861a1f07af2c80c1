//! What a selector requires of the value of one key.

use std::fmt;

/// A requirement of a label selector.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Requirement {
    /// The key of the label.
    pub key: Box<str>,
    /// What is required of its value.
    pub test: Test,
}

/// What is required of a label's value.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Test {
    /// It is one of these, which are sorted. Also `=` and `==`, with one value.
    In(Box<[Box<str>]>),
    /// It is none of these, which are sorted, or there is no such label. Also `!=`, with one value.
    NotIn(Box<[Box<str>]>),
    /// There is such a label.
    Exists,
    /// There is no such label.
    DoesNotExist,
    /// It is an integer above this one.
    GreaterThan(i64),
    /// It is an integer below this one.
    LessThan(i64),
}

impl Requirement {
    /// Creates a requirement.
    pub fn new(key: Box<str>, test: Test) -> Self {
        Self { key, test }
    }

    /// Returns whether labels whose value of the key is this one meet it.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let is_in = |values: &[Box<str>]| {
            value.is_some_and(|value| values.binary_search_by(|known| (**known).cmp(value)).is_ok())
        };
        match &self.test {
            Test::In(values) => is_in(values),
            Test::NotIn(values) => !is_in(values),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::GreaterThan(bound) => value.and_then(integer).is_some_and(|value| value > *bound),
            Test::LessThan(bound) => value.and_then(integer).is_some_and(|value| value < *bound),
        }
    }

    /// Returns the key and the value that it requires, if it requires one value.
    pub(super) fn into_pair(self) -> Result<(Box<str>, Box<str>), Self> {
        match self.test {
            Test::In(values) if values.len() == 1 => {
                let mut values = values.into_vec();
                Ok((self.key, values.remove(0)))
            }
            test => Err(Self { key: self.key, test }),
        }
    }
}

/// Parses an integer as Go's `strconv.ParseInt` does in base 10: a sign, and then digits alone.
pub(crate) fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.test {
            Test::In(values) => write!(f, "{key} in ({})", values.join(",")),
            Test::NotIn(values) if values.len() == 1 => write!(f, "{key}!={}", values[0]),
            Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(",")),
            Test::Exists => f.write_str(key),
            Test::DoesNotExist => write!(f, "!{key}"),
            Test::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Test::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}
