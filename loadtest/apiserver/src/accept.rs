//! The forms of answers that a client accepts, and the form in which a request's body is written.

use crate::kinds::Kind;
use crate::kubectl::Style;
use crate::protobuf;
use crate::status::{Answer, Refusal};
use http::{HeaderMap, header};

/// The encodings of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Protobuf,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Whole,
    /// Metadata of single objects.
    Metadata,
    /// Metadata of a list's items.
    MetadataList,
    /// Rows of a table for display; only in JSON.
    Table(Style),
}

/// An answer as a client wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) form: Form,
    pub(crate) media: Media,
}

/// The forms that clients can choose from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    /// JSON and protobuf.
    All,
    /// JSON. An Accept without it is refused.
    JsonOnly,
    /// JSON, also for clients that ask for protobuf.
    JsonForAll,
}

/// A request's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) media: Media,
}

impl Accepted {
    pub(crate) const JSON: Self = Self {
        form: Form::Whole,
        media: Media::Json,
    };
    pub(crate) const PROTOBUF: Self = Self {
        form: Form::Whole,
        media: Media::Protobuf,
    };
}

impl Offer {
    /// Returns the forms in which the server has objects of a kind.
    pub(crate) fn of(kind: Kind, protobuf: &crate::resources::Protobuf) -> Self {
        use crate::resources::Protobuf;
        match protobuf {
            Protobuf::Unsupported(resources) if resources.contains(kind) => Self::JsonOnly,
            Protobuf::AcceptIgnored => Self::JsonForAll,
            _ => Self::All,
        }
    }

    /// Returns the forms in which the server has anything but objects.
    pub(crate) fn general(protobuf: &crate::resources::Protobuf) -> Self {
        use crate::resources::Protobuf;
        match protobuf {
            Protobuf::Unsupported(resources) if resources.is_all() => Self::JsonOnly,
            Protobuf::AcceptIgnored => Self::JsonForAll,
            _ => Self::All,
        }
    }

    /// Whether bodies of requests may be protobuf.
    pub(crate) fn takes_protobuf(self) -> bool {
        matches!(self, Self::All | Self::JsonForAll)
    }

    /// The media types, as refusals list them. The real server has YAML too.
    fn media_types(self) -> &'static str {
        match self {
            Self::JsonOnly => "application/json, application/yaml",
            _ => "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        }
    }
}

/// The clauses of an Accept header; none when there is no header.
fn clauses(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|header| header.to_str().ok())
        .flat_map(|header| header.split(','))
        .filter(|clause| !clause.trim().is_empty())
}

/// The accepted form of the greatest weight that is offered and `wanted`, and whether the client says what it accepts.
fn best(headers: &HeaderMap, offer: Offer, wanted: impl Fn(Accepted) -> bool) -> (Option<Accepted>, bool) {
    let mut best: Option<(u16, Accepted)> = None;
    for (weight, accepted) in clauses(headers).filter_map(|clause| offered(clause, offer)) {
        if wanted(accepted) && best.is_none_or(|(w, _)| weight > w) {
            best = Some((weight, accepted));
        }
    }
    (
        best.map(|(_, accepted)| accepted),
        clauses(headers).next().is_some(),
    )
}

/// The form that the client likes best; 406 when the server has none of its forms.
pub(crate) fn negotiate(headers: &HeaderMap, offer: Offer) -> Answer<Accepted> {
    match best(headers, offer, |_| true) {
        (Some(accepted), _) => Ok(accepted),
        (None, false) => Ok(Accepted::JSON),
        (None, true) => Err(Refusal::not_acceptable(format!(
            "only the following media types are accepted: {}",
            offer.media_types()
        ))),
    }
}

/// The weight (in thousandths) and form of one alternative, when it is offered.
fn offered(clause: &str, offer: Offer) -> Option<(u16, Accepted)> {
    let mut parts = clause.split(';').map(str::trim);
    let media = parts.next()?;
    let is = |name: &str| media.eq_ignore_ascii_case(name);
    let media = if is("application/json") || is("application/*") || is("*/*") {
        Media::Json
    } else if is(protobuf::MEDIA) && offer != Offer::JsonOnly {
        Media::Protobuf
    } else {
        return None;
    };
    let (mut weight, mut form, mut group, mut version) = (1000, Form::Whole, "", "");
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match key.trim() {
            "q" => weight = thousandths(value),
            "as" if value == "PartialObjectMetadata" => form = Form::Metadata,
            "as" if value == "PartialObjectMetadataList" => form = Form::MetadataList,
            "as" if value == "Table" => form = Form::Table(Style::ASKED),
            "as" => return None,
            "g" => group = value,
            "v" => version = value,
            _ => {}
        }
    }
    if form != Form::Whole && (group != "meta.k8s.io" || version != "v1") {
        return None;
    }
    let media = match (media, form, offer) {
        (Media::Protobuf, _, Offer::JsonForAll) => Media::Json,
        (Media::Protobuf, Form::Table(_), _) => return None,
        (media, ..) => media,
    };
    (weight > 0).then_some((weight, Accepted { form, media }))
}

/// The encoding of a refusal. A Status has one form only, so that clauses for another form do not count.
pub(crate) fn of_refusals(headers: &HeaderMap, offer: Offer) -> Media {
    let whole = best(headers, offer, |accepted| accepted.form == Form::Whole).0;
    whole.map_or(Media::Json, |accepted| accepted.media)
}

/// In what the body of a request is written; 415 when that is not known.
pub(crate) fn body_media(headers: &HeaderMap, protobuf: bool) -> Answer<Media> {
    let given = headers.get(header::CONTENT_TYPE);
    let given = given.and_then(|given| given.to_str().ok()).unwrap_or("");
    let media = given.split(';').next().unwrap_or("").trim();
    if media.is_empty() || media.eq_ignore_ascii_case("application/json") {
        Ok(Media::Json)
    } else if protobuf && media.eq_ignore_ascii_case(protobuf::MEDIA) {
        Ok(Media::Protobuf)
    } else {
        let offer = if protobuf { Offer::All } else { Offer::JsonOnly };
        Err(Refusal::unsupported_media(offer.media_types()))
    }
}

fn thousandths(weight: &str) -> u16 {
    weight
        .parse::<f32>()
        .map_or(1000, |q| (q.clamp(0.0, 1.0) * 1000.0) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_what_is_offered() {
        use Form::{Metadata, MetadataList, Whole};
        use Media::{Json, Protobuf};
        let table = Form::Table(Style::ASKED);
        let as_of = |form: &str| format!(";as={form};g=meta.k8s.io;v=v1");
        let (partial, partials) = (as_of("PartialObjectMetadata"), as_of("PartialObjectMetadataList"));
        let tables = as_of("Table");
        let (j, p) = ("application/json", protobuf::MEDIA);
        let yes = |form, media| Some((form, media));
        let (text, binary, rows) = (yes(Whole, Json), yes(Whole, Protobuf), yes(table, Json));
        let (one, many, both) = (
            yes(Metadata, Protobuf),
            yes(MetadataList, Protobuf),
            format!("{p}{partials},{j}{partials}"),
        );
        // What a server makes of it that has both, and one that has JSON alone; and the encoding of a refusal.
        for (accept, both, json, refusal) in [
            (j.to_owned(), text, text, Json),
            ("*/*".to_owned(), text, text, Json),
            (format!("{j};stream=watch"), text, text, Json),
            (p.to_owned(), binary, None, Protobuf),
            (format!("{p},{j}"), binary, text, Protobuf),
            (format!("{j};q=0.5,{p}"), binary, text, Protobuf),
            (format!("{p};drop=x"), binary, None, Protobuf),
            (format!("{p}{partial}"), one, None, Json),
            (format!("{p}{partial},{p}"), one, None, Protobuf),
            (both, many, yes(MetadataList, Json), Json),
            (format!("{p}{tables}"), None, None, Json),
            (format!("{p}{tables},{j}{tables}"), rows, rows, Json),
            (format!("{j};as=Table;v=v1beta1;g=meta.k8s.io"), None, None, Json),
            ("application/cbor".to_owned(), None, None, Json),
            (format!("application/cbor,{j}"), text, text, Json),
            (String::new(), text, text, Json),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            for (offer, wanted) in [(Offer::All, both), (Offer::JsonOnly, json)] {
                let accepted = negotiate(&headers, offer).ok();
                let accepted = accepted.map(|accepted| (accepted.form, accepted.media));
                assert_eq!(accepted, wanted, "{accept} of {offer:?}");
            }
            assert_eq!(of_refusals(&headers, Offer::All), refusal, "{accept}");
            assert_eq!(of_refusals(&headers, Offer::JsonForAll), Json, "{accept}");
        }
    }
}
