//! Label selectors: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>3,m<4`.

use crate::status::{Answer, Refusal};
use crate::validate::{label_key_faults, label_value_faults};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
    Above(i64),
    Below(i64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

/// A parsed label selector; all its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<Requirement>);

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Answer<Self> {
        Parser::new(text)
            .requirements()
            .map(Self)
            .map_err(Refusal::bad_request)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `labels` are sorted by key.
    pub(crate) fn matches(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        self.0.iter().all(|requirement| {
            let found = labels.binary_search_by(|(k, _)| (**k).cmp(&requirement.key));
            let value = found.ok().map(|i| &*labels[i].1);
            let number = || value.and_then(|v| v.parse::<i64>().ok());
            match &requirement.operator {
                Operator::In(values) => value.is_some_and(|v| values.iter().any(|w| w == v)),
                Operator::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| w != v)),
                Operator::Exists => value.is_some(),
                Operator::Absent => value.is_none(),
                Operator::Above(bound) => number().is_some_and(|n| n > *bound),
                Operator::Below(bound) => number().is_some_and(|n| n < *bound),
            }
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Symbol(&'static str),
    End,
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(word) => word,
            Self::Symbol(symbol) => symbol,
            Self::End => "",
        }
    }
}

const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", ",", "(", ")", ">", "<"];

struct Parser {
    tokens: Vec<Token>,
    at: usize,
}

impl Parser {
    fn new(text: &str) -> Self {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            if let Some(symbol) = SYMBOLS.into_iter().find(|s| rest.starts_with(s)) {
                tokens.push(Token::Symbol(symbol));
                rest = rest[symbol.len()..].trim_start();
            } else {
                let end = |c: char| c.is_whitespace() || "=!,()><".contains(c);
                let (word, tail) = rest.split_at(rest.find(end).unwrap_or(rest.len()));
                tokens.push(Token::Word(word.to_owned()));
                rest = tail.trim_start();
            }
        }
        Self { tokens, at: 0 }
    }

    fn peek(&self) -> Token {
        self.tokens.get(self.at).cloned().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn requirements(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        if self.peek() == Token::End {
            return Ok(requirements);
        }
        loop {
            match self.peek() {
                Token::Word(_) | Token::Symbol("!") => {}
                other => {
                    return Err(format!(
                        "found '{}', expected: !, identifier, or 'end of string'",
                        other.text()
                    ));
                }
            }
            let requirement = self.requirement();
            requirements.push(requirement.map_err(|why| format!("unable to parse requirement: {why}"))?);
            match self.take() {
                Token::End => return Ok(requirements),
                Token::Symbol(",") => match self.peek() {
                    Token::Word(_) | Token::Symbol("!") => {}
                    other => {
                        return Err(format!(
                            "found '{}', expected: identifier after ','",
                            other.text()
                        ));
                    }
                },
                other => {
                    return Err(format!(
                        "found '{}', expected: ',' or 'end of string'",
                        other.text()
                    ));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let absent = self.peek() == Token::Symbol("!");
        if absent {
            self.take();
        }
        let key = match self.take() {
            Token::Word(word) => word,
            other => return Err(format!("found '{}', expected: identifier", other.text())),
        };
        if let Some(fault) = label_key_faults(&key).into_iter().next() {
            return Err(format!("key: Invalid value: \"{key}\": {fault}"));
        }
        if absent {
            return Ok(Requirement {
                key,
                operator: Operator::Absent,
            });
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Ok(Requirement {
                key,
                operator: Operator::Exists,
            });
        }
        let operator = match self.take() {
            Token::Symbol("=" | "==") => Operator::In(vec![self.exact_value()?]),
            Token::Symbol("!=") => Operator::NotIn(vec![self.exact_value()?]),
            Token::Symbol(">") => Operator::Above(self.number()?),
            Token::Symbol("<") => Operator::Below(self.number()?),
            Token::Word(word) if word == "in" => Operator::In(self.set()?),
            Token::Word(word) if word == "notin" => Operator::NotIn(self.set()?),
            other => {
                return Err(format!(
                    "found '{}', expected: in, notin, =, ==, !=, gt, lt",
                    other.text()
                ));
            }
        };
        Ok(Requirement { key, operator })
    }

    fn exact_value(&mut self) -> Result<String, String> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(String::new()),
            Token::Word(word) => {
                self.take();
                checked(word)
            }
            Token::Symbol(other) => Err(format!("found '{other}', expected: identifier")),
        }
    }

    fn number(&mut self) -> Result<i64, String> {
        let word = self.exact_value()?;
        let why = "for 'Gt', 'Lt' operators, the value must be an integer";
        word.parse()
            .map_err(|_| format!("values[0]: Invalid value: \"{word}\": {why}"))
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        match self.take() {
            Token::Symbol("(") => {}
            other => return Err(format!("found '{}' expected: '('", other.text())),
        }
        let mut values = Vec::new();
        loop {
            match self.take() {
                Token::Word(word) => {
                    values.push(checked(word)?);
                    match self.take() {
                        Token::Symbol(",") => {}
                        Token::Symbol(")") => return Ok(values),
                        other => return Err(format!("found '{}', expected: ',' or ')'", other.text())),
                    }
                }
                // An empty value: `in (,a)` or `in ()`.
                Token::Symbol(",") => values.push(String::new()),
                Token::Symbol(")") => {
                    values.push(String::new());
                    return Ok(values);
                }
                other => {
                    return Err(format!(
                        "found '{}', expected: ',', ')' or identifier",
                        other.text()
                    ));
                }
            }
        }
    }
}

fn checked(word: String) -> Result<String, String> {
    match label_value_faults(&word).into_iter().next() {
        Some(fault) => Err(format!("values[0]: Invalid value: \"{word}\": {fault}")),
        None => Ok(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        let mut labels: Vec<(Box<str>, Box<str>)> =
            labels.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        labels.sort();
        LabelSelector::parse(selector).unwrap().matches(&labels)
    }

    fn fault(selector: &str) -> String {
        LabelSelector::parse(selector).unwrap_err().message
    }

    #[test]
    fn grammar() {
        let labels = [("app", "web"), ("tier", "front"), ("n", "5"), ("e", "")];
        let hold = [
            "",
            "app=web",
            "app==web",
            " app = web , tier=front",
            "app!=db",
            "app in (web,db)",
            "app notin (db)",
            "app",
            "!gone",
            "gone!=x",
            "gone notin (x)",
            "n>4",
            "n<6",
            "e=",
            "e in ()",
            "app,tier,!x",
            "app in ( web , db ),tier",
        ];
        for yes in hold {
            assert!(matches(yes, &labels), "{yes}");
        }
        for no in [
            "app=db",
            "app!=web",
            "app in (db)",
            "app notin (web)",
            "gone",
            "!app",
            "n>5",
            "app>1",
            "e=x",
        ] {
            assert!(!matches(no, &labels), "{no}");
        }
    }

    #[test]
    fn faults() {
        assert_eq!(
            fault("a===b"),
            "unable to parse requirement: found '=', expected: identifier"
        );
        assert_eq!(
            fault("a in b"),
            "unable to parse requirement: found 'b' expected: '('"
        );
        assert_eq!(fault("a,"), "found '', expected: identifier after ','");
        assert_eq!(
            fault("a b"),
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
        );
        assert!(fault("-a=b").contains("key: Invalid value"));
        assert!(fault("a=-b").contains("Invalid value: \"-b\""));
    }
}
