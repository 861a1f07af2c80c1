//! The part of JSON paths that columns of custom resources are written in: fields, indices, and items by a field.

use serde_json::Value;

/// The first value at a path such as `.status.conditions[?(@.type=="Ready")].status`.
pub(super) fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let path = path.trim_start_matches('.');
    if path.is_empty() {
        return Some(value);
    }
    if let Some(rest) = path.strip_prefix('[') {
        // A quoted name may hold brackets and dots.
        let end = match rest.chars().next()? {
            quote @ ('\'' | '"') => rest[1..].find(quote)? + 2,
            '?' => rest.find(")]")? + 1,
            _ => rest.find(']')?,
        };
        let (inner, rest) = (&rest[..end], rest[end..].strip_prefix(']')?);
        return match inner.chars().next()? {
            '\'' | '"' => find(value.get(&inner[1..inner.len() - 1])?, rest),
            '?' => {
                let (field, wanted) = inner.strip_prefix("?(@")?.strip_suffix(')')?.split_once("==")?;
                let wanted = wanted.trim().trim_matches(['\'', '"']);
                let is_wanted = |item: &&Value| match find(item, field.trim()) {
                    Some(Value::String(text)) => text == wanted,
                    Some(other) => serde_json::from_str::<Value>(wanted).is_ok_and(|wanted| wanted == *other),
                    None => false,
                };
                find(value.as_array()?.iter().find(is_wanted)?, rest)
            }
            '*' => value.as_array()?.iter().find_map(|item| find(item, rest)),
            _ => find(value.get(inner.parse::<usize>().ok()?)?, rest),
        };
    }
    let mut name = String::new();
    let mut signs = path.char_indices();
    while let Some((at, sign)) = signs.next() {
        match sign {
            // `.metadata.annotations.example\.com/x`
            '\\' => name.extend(signs.next().map(|(_, sign)| sign)),
            '.' | '[' => return find(value.get(&name)?, &path[at..]),
            sign => name.push(sign),
        }
    }
    value.get(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths() {
        let object = json!({
            "metadata": {"annotations": {"example.com/a": "1"}},
            "items": [{"name": "x", "n": 1}, {"name": "y", "n": 2}],
        });
        for (path, want) in [
            (".items[1].n", json!(2)),
            (".items[?(@.name==\"y\")].n", json!(2)),
            (".items[?(@.n == 1)].name", json!("x")),
            (".items[*].name", json!("x")),
            (".metadata.annotations.example\\.com/a", json!("1")),
            (".metadata.annotations['example.com/a']", json!("1")),
        ] {
            assert_eq!(find(&object, path), Some(&want), "{path}");
        }
        for path in [
            ".nothing",
            ".items[7]",
            ".items[",
            ".items[?(@.name==\"z\")].n",
            ".metadata.x.y",
        ] {
            assert_eq!(find(&object, path), None, "{path}");
        }
    }
}
