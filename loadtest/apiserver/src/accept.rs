//! What form of answer a client accepts.

use crate::status::{Answer, Refusal};
use crate::table::Style;
use http::HeaderMap;

/// The form of an answer; always JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    /// Metadata of single objects.
    Metadata,
    /// Metadata of a list's items.
    MetadataList,
    /// Rows for people.
    Table(Style),
}

/// The first of the accepted forms that is offered; 406 when there is none.
pub(crate) fn negotiate(headers: &HeaderMap) -> Answer<Form> {
    let mut asked = false;
    let mut best: Option<(u16, Form)> = None;
    for header in headers.get_all(http::header::ACCEPT) {
        for clause in header
            .to_str()
            .unwrap_or("")
            .split(',')
            .filter(|c| !c.trim().is_empty())
        {
            asked = true;
            if let Some((weight, form)) = offered(clause)
                && best.is_none_or(|(w, _)| weight > w)
            {
                best = Some((weight, form));
            }
        }
    }
    match best {
        Some((_, form)) => Ok(form),
        None if asked => Err(Refusal::not_acceptable()),
        None => Ok(Form::Whole),
    }
}

/// The weight (in thousandths) and form of one alternative, when it is offered.
fn offered(clause: &str) -> Option<(u16, Form)> {
    let mut parts = clause.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    if !matches!(media.as_str(), "application/json" | "application/*" | "*/*") {
        return None;
    }
    let (mut weight, mut form, mut group, mut version) = (1000, Form::Whole, "", "");
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match key.trim() {
            "q" => weight = thousandths(value),
            "as" if value == "PartialObjectMetadata" => form = Form::Metadata,
            "as" if value == "PartialObjectMetadataList" => form = Form::MetadataList,
            "as" if value == "Table" => form = Form::Table(Style::default()),
            "as" => return None,
            "g" => group = value,
            "v" => version = value,
            _ => {}
        }
    }
    if form != Form::Whole && (group != "meta.k8s.io" || version != "v1") {
        return None;
    }
    (weight > 0).then_some((weight, form))
}

fn thousandths(weight: &str) -> u16 {
    weight
        .parse::<f32>()
        .map_or(1000, |q| (q.clamp(0.0, 1.0) * 1000.0) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &str) -> Option<Form> {
        let mut headers = HeaderMap::new();
        headers.insert(http::header::ACCEPT, accept.parse().unwrap());
        negotiate(&headers).ok()
    }

    #[test]
    fn alternatives() {
        assert_eq!(negotiate(&HeaderMap::new()).unwrap(), Form::Whole);
        assert_eq!(form("application/json"), Some(Form::Whole));
        assert_eq!(form("*/*"), Some(Form::Whole));
        assert_eq!(form("application/json;stream=watch"), Some(Form::Whole));
        assert_eq!(form("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(
            form("application/vnd.kubernetes.protobuf,application/json"),
            Some(Form::Whole)
        );
        assert_eq!(
            form("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"),
            Some(Form::Table(Style::default()))
        );
        assert_eq!(
            form("application/json;as=Table;v=v1;g=meta.k8s.io"),
            Some(Form::Table(Style::default()))
        );
        assert_eq!(form("application/json;as=Table;v=v1beta1;g=meta.k8s.io"), None);
        let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        assert_eq!(form(partial), Some(Form::Metadata));
        assert_eq!(
            form(&format!("application/json;q=0.5,{partial}")),
            Some(Form::Metadata)
        );
        assert_eq!(
            form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Some(Form::MetadataList)
        );
        assert_eq!(
            form("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v2"),
            None
        );
    }
}
