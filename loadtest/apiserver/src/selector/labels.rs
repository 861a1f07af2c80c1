//! Label selectors: `a=b,c!=d,e in (f,g),h notin (i),j,!k`.

use crate::status::{Answer, Refusal};
use crate::validate::{label_key_faults, label_value_faults};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

/// A parsed label selector; all its requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<(String, Operator)>);

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Answer<Self> {
        let requirements = terms(text).into_iter().map(|term| {
            requirement(term).map_err(|why| {
                Refusal::bad_request(format!("unable to parse requirement: {:?}: {why}", term.trim()))
            })
        });
        match text.trim() {
            "" => Ok(Self::default()),
            _ => Ok(Self(requirements.collect::<Answer<_>>()?)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `labels` are sorted by key.
    pub(crate) fn matches(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        self.0.iter().all(|(key, operator)| {
            let found = labels.binary_search_by(|(k, _)| (**k).cmp(key));
            let value = found.ok().map(|i| &*labels[i].1);
            match operator {
                Operator::In(values) => value.is_some_and(|v| values.iter().any(|w| w == v)),
                Operator::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| w != v)),
                Operator::Exists => value.is_some(),
                Operator::Absent => value.is_none(),
            }
        })
    }
}

/// Splits at commas that are not within parentheses.
fn terms(text: &str) -> Vec<&str> {
    let mut within = false;
    text.split(|c| {
        within = c == '(' || (within && c != ')');
        c == ',' && !within
    })
    .collect()
}

fn requirement(term: &str) -> Result<(String, Operator), String> {
    let term = term.trim();
    let (key, operator) = if let Some(key) = term.strip_prefix('!') {
        (key, Operator::Absent)
    } else if let Some((key, value)) = term.split_once("!=") {
        (key, Operator::NotIn(vec![checked(value)?]))
    } else if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        (key, Operator::In(vec![checked(value)?]))
    } else if let Some(set) = term.strip_suffix(')') {
        let (before, values) = set.split_once('(').ok_or("expected: '('")?;
        let values: Vec<String> = values.split(',').map(checked).collect::<Result<_, _>>()?;
        match before.trim().rsplit_once(char::is_whitespace) {
            Some((key, "in")) => (key, Operator::In(values)),
            Some((key, "notin")) => (key, Operator::NotIn(values)),
            _ => return Err("expected: in, notin, =, ==, !=".to_owned()),
        }
    } else {
        (term, Operator::Exists)
    };
    let key = key.trim();
    match label_key_faults(key).into_iter().next() {
        Some(fault) => Err(format!("key: Invalid value: {key:?}: {fault}")),
        None => Ok((key.to_owned(), operator)),
    }
}

fn checked(value: &str) -> Result<String, String> {
    let value = value.trim();
    match label_value_faults(value).into_iter().next() {
        Some(fault) => Err(format!("values[0]: Invalid value: {value:?}: {fault}")),
        None => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grammar() {
        let labels = [("app", "web"), ("e", ""), ("n", "5"), ("tier", "front")];
        let labels = labels.map(|(key, value)| (key.into(), value.into()));
        let matches = |selector: &str| LabelSelector::parse(selector).map(|parsed| parsed.matches(&labels));
        let hold = "|app=web|app==web| app = web , tier=front|app!=db|app in (web,db)|app notin (db)|app|!gone|gone!=x|\
                    gone notin (x)|e=|e in ()|app,tier,!x|app in ( web , db ),tier";
        for selector in hold.split('|') {
            assert!(matches(selector).unwrap(), "{selector}");
        }
        for selector in
            "app=db|app!=web|app in (db)|app notin (web)|gone|!app|e=x|app in (web),gone".split('|')
        {
            assert!(!matches(selector).unwrap(), "{selector}");
        }
        for selector in "a===b|a in b|a in (b|a,|a b|-a=b|a=-b|(a)|a within (b)".split('|') {
            assert_eq!(matches(selector).unwrap_err().code, 400, "{selector}");
        }
    }
}
