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

/// In what a refusal is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusForm {
    Json,
    /// JSON over several lines, as a real server writes it for clients that accept nothing it has.
    Indented,
    Protobuf,
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

/// The first of the accepted forms that is offered; 406 when there is none. `streams` says whether the request could be a
/// watch, which the refusal lists.
pub(crate) fn negotiate(headers: &HeaderMap, offer: Offer, streams: bool) -> Answer<Accepted> {
    let mut asked = false;
    let mut best: Option<(u16, Accepted)> = None;
    for clause in clauses(headers) {
        asked = true;
        if let Some((weight, accepted)) = offered(clause, offer)
            && best.is_none_or(|(w, _)| weight > w)
        {
            best = Some((weight, accepted));
        }
    }
    match best {
        Some((_, accepted)) => Ok(accepted),
        None if asked => Err(not_acceptable(headers, offer, streams)),
        None => Ok(Accepted::JSON),
    }
}

/// Refuses a request whose client accepts no form that the server has. For built-in kinds, the router refuses a media
/// type that no handler has, and the handler refuses one in which it cannot write the answer.
fn not_acceptable(headers: &HeaderMap, offer: Offer, streams: bool) -> Box<Refusal> {
    let known = |clause: &str| {
        let media = clause.split(';').next().unwrap_or("").trim();
        offer.media_types().split(", ").any(|known| known == media)
    };
    if offer != Offer::All || clauses(headers).any(known) {
        let message = format!(
            "only the following media types are accepted: {}",
            offer.media_types()
        );
        return Refusal::not_acceptable(message);
    }
    let streams = if streams {
        ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
    } else {
        ""
    };
    Refusal::no_representation(format!(
        "406: Not Acceptable\n\nAvailable representations: {}{streams}",
        offer.media_types()
    ))
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

/// In what a refusal is written: the first of the accepted media types that do not ask for another form, since a Status has
/// none.
pub(crate) fn of_refusals(headers: &HeaderMap, offer: Offer) -> StatusForm {
    let mut asked = false;
    let mut best: Option<(u16, Media)> = None;
    for clause in clauses(headers) {
        asked = true;
        if let Some((weight, accepted)) = offered(clause, offer)
            && accepted.form == Form::Whole
            && best.is_none_or(|(w, _)| weight > w)
        {
            best = Some((weight, accepted.media));
        }
    }
    match best {
        Some((_, Media::Protobuf)) => StatusForm::Protobuf,
        None if asked => StatusForm::Indented,
        _ => StatusForm::Json,
    }
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

    /// An Accept header, and what is chosen of two offers.
    type Case<'a> = (&'a str, [Option<(Form, Media)>; 2]);

    const PROTOBUF: &str = protobuf::MEDIA;
    const JSON: &str = "application/json";
    const PARTIAL: &str = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    const PARTIALS: &str = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    const TABLE: &str = ";as=Table;v=v1;g=meta.k8s.io";

    fn headers(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, accept.parse().unwrap());
        headers
    }

    fn accepted(accept: &str, offer: Offer) -> Option<(Form, Media)> {
        let accepted = negotiate(&headers(accept), offer, true).ok()?;
        Some((accepted.form, accepted.media))
    }

    #[test]
    fn alternatives() {
        let table = Some((Form::Table(Style::ASKED), Media::Json));
        let both = format!("{PROTOBUF},{JSON}");
        let metadata = |form, media| Some((form, media));
        // Accept, and what a server with protobuf and one with JSON alone make of it.
        let cases: &[Case<'_>] = &[
            (JSON, [Some((Form::Whole, Media::Json)); 2]),
            ("*/*", [Some((Form::Whole, Media::Json)); 2]),
            ("application/*", [Some((Form::Whole, Media::Json)); 2]),
            (
                "application/json;stream=watch",
                [Some((Form::Whole, Media::Json)); 2],
            ),
            (PROTOBUF, [Some((Form::Whole, Media::Protobuf)), None]),
            (
                &both,
                [
                    Some((Form::Whole, Media::Protobuf)),
                    Some((Form::Whole, Media::Json)),
                ],
            ),
            (
                &format!("{JSON},{PROTOBUF}"),
                [Some((Form::Whole, Media::Json)); 2],
            ),
            (
                &format!("{JSON};q=0.5,{PROTOBUF}"),
                [
                    Some((Form::Whole, Media::Protobuf)),
                    Some((Form::Whole, Media::Json)),
                ],
            ),
            (
                &format!("{PROTOBUF}{PARTIAL}"),
                [metadata(Form::Metadata, Media::Protobuf), None],
            ),
            (
                &format!("{PROTOBUF}{PARTIALS},{JSON}{PARTIALS}"),
                [
                    metadata(Form::MetadataList, Media::Protobuf),
                    metadata(Form::MetadataList, Media::Json),
                ],
            ),
            (
                &format!("{PROTOBUF};drop=metadata.managedFields"),
                [Some((Form::Whole, Media::Protobuf)), None],
            ),
            (&format!("{PROTOBUF}{TABLE}"), [None; 2]),
            (&format!("{PROTOBUF}{TABLE},{JSON}{TABLE}"), [table; 2]),
            (&format!("{JSON}{TABLE},{JSON}"), [table; 2]),
            ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", [None; 2]),
            (
                &format!("{JSON};q=0.5,{JSON}{PARTIAL}"),
                [Some((Form::Metadata, Media::Json)); 2],
            ),
            (
                &format!("{JSON}{PARTIALS}"),
                [Some((Form::MetadataList, Media::Json)); 2],
            ),
            (
                "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v2",
                [None; 2],
            ),
            ("application/cbor", [None; 2]),
            (
                "application/cbor,application/json",
                [Some((Form::Whole, Media::Json)); 2],
            ),
        ];
        for (accept, wanted) in cases {
            let offers = [Offer::All, Offer::JsonOnly];
            for (offer, wanted) in offers.into_iter().zip(wanted) {
                assert_eq!(accepted(accept, offer), *wanted, "{accept} of {offer:?}");
            }
        }
        let nothing = negotiate(&HeaderMap::new(), Offer::All, true).unwrap();
        assert_eq!(nothing, Accepted::JSON);
        assert_eq!(
            accepted(PROTOBUF, Offer::JsonForAll),
            Some((Form::Whole, Media::Json))
        );
    }

    #[test]
    fn refusals_have_no_form() {
        for (accept, offer, wanted) in [
            (JSON.to_owned(), Offer::All, StatusForm::Json),
            (PROTOBUF.to_owned(), Offer::All, StatusForm::Protobuf),
            (PROTOBUF.to_owned(), Offer::JsonOnly, StatusForm::Indented),
            (PROTOBUF.to_owned(), Offer::JsonForAll, StatusForm::Json),
            (
                format!("{PROTOBUF};stream=watch"),
                Offer::All,
                StatusForm::Protobuf,
            ),
            (format!("{PROTOBUF}{PARTIAL}"), Offer::All, StatusForm::Indented),
            (
                format!("{PROTOBUF}{PARTIAL},{PROTOBUF}"),
                Offer::All,
                StatusForm::Protobuf,
            ),
            (
                format!("{PROTOBUF}{PARTIAL},{JSON}"),
                Offer::All,
                StatusForm::Json,
            ),
            ("application/cbor".to_owned(), Offer::All, StatusForm::Indented),
        ] {
            assert_eq!(
                of_refusals(&headers(&accept), offer),
                wanted,
                "{accept} of {offer:?}"
            );
        }
        assert_eq!(of_refusals(&HeaderMap::new(), Offer::All), StatusForm::Json);
    }
}
