//! The requirements of a selector for the value of one key.

use std::fmt;

/// The end of each part of a requirement's text, as in [`Labels`](crate::core::labels::Labels).
const END: char = '\0';
/// The separator of the values of a set. No value contains it.
const COMMA: char = ',';

/// A requirement of a label selector, borrowed from its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirement<'a> {
    /// The key of the label.
    pub key: &'a str,
    /// The test that its value must pass.
    pub test: Test<'a>,
}

/// A test of a label's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Test<'a> {
    /// It is one of these. Also `=` and `==`, with one value.
    In(Values<'a>),
    /// It is none of these, or there is no such label. Also `!=`, with one value.
    NotIn(Values<'a>),
    /// There is such a label.
    Exists,
    /// There is no such label.
    DoesNotExist,
    /// It is an integer above this one.
    GreaterThan(i64),
    /// It is an integer below this one.
    LessThan(i64),
}

/// The values of a set, of which there is at least one: sorted, each once, with commas between them. A value alone takes a
/// hundred bytes where each has an allocation of its own, and may be one byte long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Values<'a>(&'a str);

impl<'a> Values<'a> {
    /// Returns the values, sorted.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        self.0.split(COMMA)
    }

    /// Returns whether there are no more than so many values.
    pub(in crate::core) fn are_at_most(self, most: usize) -> bool {
        self.iter().nth(most).is_none()
    }

    /// Returns whether a value is one of them.
    fn contain(self, wanted: &str) -> bool {
        let mut rest = self.0;
        loop {
            // The value in the middle of the rest, with the place where it begins.
            let bytes = rest.as_bytes();
            let middle = bytes.len() / 2;
            let start = bytes[..middle].iter().rposition(|byte| *byte == COMMA as u8);
            let start = start.map_or(0, |comma| comma + 1);
            let end = bytes[start..].iter().position(|byte| *byte == COMMA as u8);
            let end = end.map_or(bytes.len(), |length| start + length);
            rest = match wanted.cmp(&rest[start..end]) {
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Less if start > 0 => &rest[..start - 1],
                std::cmp::Ordering::Greater if end < rest.len() => &rest[end + 1..],
                _ => return false,
            };
        }
    }
}

impl<'a> Requirement<'a> {
    /// Returns whether labels whose value of the key is this one meet it.
    pub fn accepts(&self, value: Option<&str>) -> bool {
        let is_in = |values: Values<'_>| value.is_some_and(|value| values.contain(value));
        match self.test {
            Test::In(values) => is_in(values),
            Test::NotIn(values) => !is_in(values),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
            Test::GreaterThan(bound) => value.and_then(integer).is_some_and(|value| value > bound),
            Test::LessThan(bound) => value.and_then(integer).is_some_and(|value| value < bound),
        }
    }

    /// Returns the number of bytes of its key and values.
    pub(in crate::core) fn text_size(&self) -> usize {
        let values = match self.test {
            Test::In(values) | Test::NotIn(values) => values.0.len(),
            _ => 0,
        };
        self.key.len() + values
    }

    /// Reads one from its key and the rest of its text, as [`Parsed::write`] has written them.
    pub(super) fn stored(key: &'a str, rest: &'a str) -> Self {
        let (operator, operand) = rest.split_at(1);
        let bound = || integer(operand).expect("a bound is stored as it was printed");
        let test = match operator {
            "=" => Test::In(Values(operand)),
            "!" => Test::NotIn(Values(operand)),
            "+" => Test::Exists,
            "-" => Test::DoesNotExist,
            ">" => Test::GreaterThan(bound()),
            _ => Test::LessThan(bound()),
        };
        Self { key, test }
    }
}

/// A requirement as it was parsed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Parsed<'a> {
    pub(super) key: &'a str,
    pub(super) test: ParsedTest<'a>,
}

/// The test of a parsed requirement, in the order in which several of one key are kept.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum ParsedTest<'a> {
    /// Values are sorted, each once.
    In(Vec<&'a str>),
    NotIn(Vec<&'a str>),
    Exists,
    DoesNotExist,
    GreaterThan(i64),
    LessThan(i64),
}

impl<'a> Parsed<'a> {
    /// Returns the key and the value that it requires, if it requires one value.
    pub(super) fn pair(&self) -> Option<(&'a str, &'a str)> {
        match &self.test {
            ParsedTest::In(values) => match values[..] {
                [value] => Some((self.key, value)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Appends it to a text: its key and what it requires, each with an end.
    pub(super) fn write(&self, text: &mut String) {
        text.push_str(self.key);
        text.push(END);
        let (operator, operand) = match &self.test {
            ParsedTest::In(values) => ('=', values.join(",")),
            ParsedTest::NotIn(values) => ('!', values.join(",")),
            ParsedTest::Exists => ('+', String::new()),
            ParsedTest::DoesNotExist => ('-', String::new()),
            ParsedTest::GreaterThan(bound) => ('>', bound.to_string()),
            ParsedTest::LessThan(bound) => ('<', bound.to_string()),
        };
        text.push(operator);
        text.push_str(&operand);
        text.push(END);
    }
}

/// Parses an integer as Go's `strconv.ParseInt` does in base 10: a sign, and then digits alone.
pub(crate) fn integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

impl fmt::Display for Requirement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key;
        match self.test {
            Test::In(Values(values)) => write!(f, "{key} in ({values})"),
            Test::NotIn(values) if values.are_at_most(1) => write!(f, "{key}!={}", values.0),
            Test::NotIn(Values(values)) => write!(f, "{key} notin ({values})"),
            Test::Exists => f.write_str(key),
            Test::DoesNotExist => write!(f, "!{key}"),
            Test::GreaterThan(bound) => write!(f, "{key}>{bound}"),
            Test::LessThan(bound) => write!(f, "{key}<{bound}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Values;

    #[test]
    fn a_value_is_found_wherever_it_stands() {
        for all in [
            &[""][..],
            &["", "a"],
            &["a"],
            &["", "a", "aa", "b"],
            &["a", "bbbbbbbbbbbbbbbbbbbbbbbb", "c", "d"],
            &["aaaaaaaaaaaaaaaaaaaa", "b", "cc", "cd", "ce", "x", "y", "z"],
        ] {
            let text = all.join(",");
            let values = Values(&text);
            assert!(values.iter().eq(all.iter().copied()));
            for value in all {
                assert!(values.contain(value), "{value:?} in {text:?}");
            }
            for value in ["0", "aaa", "bb", "cb", "zz", "-"] {
                assert_eq!(
                    values.contain(value),
                    all.contains(&value),
                    "{value:?} in {text:?}"
                );
            }
            assert_eq!(values.contain(""), all.contains(&""));
        }
    }
}
