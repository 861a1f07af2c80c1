//! Just enough protobuf to take answers apart.

/// A field: its number, its bytes if it has any, and how it stands on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) number: u32,
    pub(crate) bytes: &'a [u8],
    whole: &'a [u8],
}

fn varint(rest: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (byte, more) = rest.split_first().expect("a number ends");
        *rest = more;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if *byte < 0x80 {
            return value;
        }
    }
}

pub(crate) fn fields(message: &[u8]) -> Vec<Field<'_>> {
    let mut rest = message;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let start = rest;
        let key = varint(&mut rest);
        let bytes = match key & 7 {
            0 => {
                varint(&mut rest);
                &[][..]
            }
            2 => {
                let len = varint(&mut rest) as usize;
                let (bytes, more) = rest.split_at(len);
                rest = more;
                bytes
            }
            wire => panic!("a field is written as {wire}"),
        };
        found.push(Field {
            number: (key >> 3) as u32,
            bytes,
            whole: &start[..start.len() - rest.len()],
        });
    }
    found
}

/// All fields of this number.
pub(crate) fn all(message: &[u8], number: u32) -> Vec<&[u8]> {
    let found = fields(message).into_iter().filter(|field| field.number == number);
    found.map(|field| field.bytes).collect()
}

/// The one field at the end of a path of numbers.
pub(crate) fn at<'a>(message: &'a [u8], path: &[u32]) -> &'a [u8] {
    path.iter().fold(message, |message, number| {
        *all(message, *number)
            .first()
            .unwrap_or_else(|| panic!("no field {number} of {path:?}"))
    })
}

pub(crate) fn text(message: &[u8], path: &[u32]) -> String {
    String::from_utf8(at(message, path).to_vec()).unwrap()
}

/// A field of bytes.
pub(crate) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut len = bytes.len();
    while len >= 0x80 {
        out.push(len as u8 | 0x80);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend_from_slice(bytes);
    out
}

/// The message without fields of these numbers.
pub(crate) fn without(message: &[u8], numbers: &[u32]) -> Vec<u8> {
    let kept = fields(message)
        .into_iter()
        .filter(|field| !numbers.contains(&field.number));
    kept.flat_map(|field| field.whole.to_vec()).collect()
}

/// The kind and the message of an answer.
pub(crate) fn open(bytes: &[u8]) -> (String, &[u8]) {
    let unknown = bytes.strip_prefix(b"k8s\0").expect("an envelope");
    assert!(
        unknown.ends_with(b"\x1a\0\"\0"),
        "encoding and type are empty and written"
    );
    let kind = format!("{} {}", text(unknown, &[1, 1]), text(unknown, &[1, 2]));
    (kind, at(unknown, &[2]))
}

/// A message in its envelope.
pub(crate) fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [
        b"k8s\0".to_vec(),
        field(1, &meta),
        field(2, message),
        b"\x1a\0\"\0".to_vec(),
    ]
    .concat()
}

/// An object without what a server gives it: uid, version, generation, times and owners of fields.
pub(crate) fn clean(object: &[u8]) -> Vec<u8> {
    let metadata = without(at(object, &[1]), &[5, 6, 7, 8, 17]);
    [field(1, &metadata), without(object, &[1])].concat()
}

/// An event: its type, the kind of its object, and the object's message.
pub(crate) fn event(frame: &[u8]) -> (String, String, &[u8]) {
    let (kind, message) = open(at(&frame[4..], &[2, 1]));
    (text(&frame[4..], &[1]), kind, message)
}

/// The frames of a stream, and what is left of one that is cut off.
pub(crate) fn frames(stream: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let (mut rest, mut frames) = (stream, Vec::new());
    while let Some(head) = rest.first_chunk::<4>() {
        let len = u32::from_be_bytes(*head) as usize + 4;
        let Some((frame, more)) = rest.split_at_checked(len) else {
            break;
        };
        frames.push(frame);
        rest = more;
    }
    (frames, rest)
}
