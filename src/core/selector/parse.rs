//! The grammar of label selectors.
//!
//! ```text
//! selector     = [ requirement { "," requirement } ]
//! requirement  = key | "!" key | key ( "=" | "==" | "!=" | ">" | "<" ) [ value ]
//!              | key ( "in" | "notin" ) "(" [ value ] { "," [ value ] } ")"
//! ```
//!
//! `in` and `notin` are operators only where an operator stands. A value that is left out is the empty one.

use super::requirement::{Parsed, ParsedTest as Test, integer};
use crate::core::excerpt::Excerpt;

/// The longest label value, and the longest name in a key.
const LONGEST_NAME: usize = 63;
/// The longest prefix of a key.
const LONGEST_PREFIX: usize = 253;

/// The most values of a selector; a key without a value counts as one. An annotation has room for a hundred thousand, and
/// labels are compared with a selector in one go.
const MOST_VALUES: usize = 100;

/// The reason why a text is not a label selector. The column is that of the first byte of what is wrong, from 1.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SelectorError {
    /// A token that is not expected at its place, or a missing one.
    #[error("column {column}: {found}, expected {expected}")]
    Unexpected {
        /// Its column.
        column: usize,
        /// The token that was found there, or a note that the text ends.
        found: Box<str>,
        /// The tokens that were expected there.
        expected: &'static str,
    },
    /// No label can have this key.
    #[error("column {column}: \"{key}\" is not a label key")]
    Key {
        /// Its column.
        column: usize,
        /// A printable excerpt of it.
        key: Box<str>,
    },
    /// No label can have this value.
    #[error("column {column}: \"{value}\" is not a label value")]
    Value {
        /// Its column.
        column: usize,
        /// A printable excerpt of it.
        value: Box<str>,
    },
    /// There are too many values.
    #[error("column {column}: a selector here may have no more than {MOST_VALUES} values")]
    TooManyValues {
        /// The column of the first one that is too many.
        column: usize,
    },
    /// `>` and `<` compare integers.
    #[error("column {column}: \"{value}\" is not an integer")]
    Integer {
        /// Its column.
        column: usize,
        /// A printable excerpt of it.
        value: Box<str>,
    },
}

/// Parses the requirements of a selector.
pub(super) fn requirements(text: &str) -> Result<Vec<Parsed<'_>>, SelectorError> {
    let mut parser = Parser {
        text,
        rest: text,
        next: None,
        values: 0,
    };
    let mut found = Vec::new();
    if parser.peek().kind == Kind::End {
        return Ok(found);
    }
    loop {
        found.push(parser.requirement()?);
        let token = parser.take();
        match token.kind {
            Kind::End => return Ok(found),
            Kind::Symbol(",") => {}
            _ => return Err(token.unexpected("a comma or the end")),
        }
    }
}

#[derive(Clone, Copy)]
struct Token<'a> {
    /// The column of its first byte, from 1.
    column: usize,
    kind: Kind<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind<'a> {
    Word(&'a str),
    Symbol(&'static str),
    End,
}

impl Token<'_> {
    fn unexpected(self, expected: &'static str) -> SelectorError {
        let found = match self.kind {
            Kind::Word(word) => format!("found \"{}\"", Excerpt::value(word)),
            Kind::Symbol(symbol) => format!("found \"{symbol}\""),
            Kind::End => "the text ends".to_owned(),
        };
        SelectorError::Unexpected {
            column: self.column,
            found: found.into(),
            expected,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    /// The text after the last token.
    rest: &'a str,
    /// A token that was looked at.
    next: Option<Token<'a>>,
    /// The number of values so far.
    values: usize,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Token<'a> {
        let token = self.take();
        self.next = Some(token);
        token
    }

    fn take(&mut self) -> Token<'a> {
        if let Some(token) = self.next.take() {
            return token;
        }
        let is_space = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
        let rest = self.rest.trim_start_matches(is_space);
        let start = self.text.len() - rest.len();
        let (kind, length) = match symbol(rest) {
            Some(symbol) => (Kind::Symbol(symbol), symbol.len()),
            None if rest.is_empty() => (Kind::End, 0),
            None => {
                let length = rest
                    .find(|c: char| is_space(c) || "=!(),><".contains(c))
                    .unwrap_or(rest.len());
                (Kind::Word(&rest[..length]), length)
            }
        };
        self.rest = &rest[length..];
        Token {
            column: start + 1,
            kind,
        }
    }

    fn requirement(&mut self) -> Result<Parsed<'a>, SelectorError> {
        let mut token = self.take();
        let absent = token.kind == Kind::Symbol("!");
        if absent {
            token = self.take();
        }
        let Kind::Word(key) = token.kind else {
            return Err(token.unexpected(if absent { "a key" } else { "a key or \"!\"" }));
        };
        if !is_key(key) {
            return Err(SelectorError::Key {
                column: token.column,
                key: Excerpt::value(key).to_string().into(),
            });
        }
        if absent {
            self.count(token.column)?;
            let test = Test::DoesNotExist;
            return Ok(Parsed { key, test });
        }
        if matches!(self.peek().kind, Kind::End | Kind::Symbol(",")) {
            self.count(token.column)?;
            let test = Test::Exists;
            return Ok(Parsed { key, test });
        }
        let operator = self.take();
        let test = match operator.kind {
            Kind::Symbol("=" | "==") => Test::In(vec![self.value()?.1]),
            Kind::Symbol("!=") => Test::NotIn(vec![self.value()?.1]),
            Kind::Symbol(">") => Test::GreaterThan(self.bound()?),
            Kind::Symbol("<") => Test::LessThan(self.bound()?),
            Kind::Word("in") => Test::In(self.values()?),
            Kind::Word("notin") => Test::NotIn(self.values()?),
            _ => return Err(operator.unexpected("=, ==, !=, >, <, in or notin")),
        };
        Ok(Parsed { key, test })
    }

    /// Counts a value, or a key without one.
    fn count(&mut self, column: usize) -> Result<(), SelectorError> {
        self.values += 1;
        if self.values > MOST_VALUES {
            return Err(SelectorError::TooManyValues { column });
        }
        Ok(())
    }

    /// Parses a value, which may be left out. Returns its column as well.
    fn value(&mut self) -> Result<(usize, &'a str), SelectorError> {
        let token = self.peek();
        self.count(token.column)?;
        match token.kind {
            Kind::Word(value) if is_value(value) => {
                self.take();
                Ok((token.column, value))
            }
            Kind::Word(value) => Err(SelectorError::Value {
                column: token.column,
                value: Excerpt::value(value).to_string().into(),
            }),
            Kind::End | Kind::Symbol("," | ")") => Ok((token.column, "")),
            Kind::Symbol(_) => Err(token.unexpected("a value")),
        }
    }

    fn bound(&mut self) -> Result<i64, SelectorError> {
        let (column, value) = self.value()?;
        integer(value).ok_or_else(|| SelectorError::Integer {
            column,
            value: Excerpt::value(value).to_string().into(),
        })
    }

    /// Values in parentheses, sorted, each once.
    fn values(&mut self) -> Result<Vec<&'a str>, SelectorError> {
        let token = self.take();
        if token.kind != Kind::Symbol("(") {
            return Err(token.unexpected("\"(\""));
        }
        let mut values = Vec::new();
        let mut commas = 0;
        loop {
            let value = self.value()?.1;
            commas = if value.is_empty() { commas } else { 0 };
            values.push(value);
            let token = self.take();
            match token.kind {
                // kubectl takes commas by twos, and expects a value after the second.
                Kind::Symbol(")") if commas > 0 && commas % 2 == 0 => return Err(token.unexpected("a value")),
                Kind::Symbol(")") => break,
                Kind::Symbol(",") => commas += 1,
                _ => return Err(token.unexpected("a comma or \")\"")),
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(values)
    }
}

/// Returns the operator or separator that a text begins with.
fn symbol(text: &str) -> Option<&'static str> {
    // The longer ones come first.
    ["==", "!=", "=", "!", "(", ")", ",", ">", "<"]
        .into_iter()
        .find(|symbol| text.starts_with(symbol))
}

/// Returns whether a label can have this key: a name, after a DNS subdomain and a slash if there is one.
fn is_key(key: &str) -> bool {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    !name.is_empty() && is_value(name) && prefix.is_none_or(is_subdomain)
}

/// Returns whether a label can have this value.
fn is_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    bytes.len() <= LONGEST_NAME
        && ends.into_iter().flatten().all(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_subdomain(text: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        !bytes.is_empty()
            && ends.into_iter().flatten().all(is_alphanumeric)
            && bytes.iter().all(|byte| is_alphanumeric(byte) || *byte == b'-')
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(is_label)
}
