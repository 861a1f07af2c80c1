//! Identifiers: UIDs assigned by the API server, and small indices into this process's own tables.

use std::cmp::Ordering;
use std::fmt;

/// An object's `metadata.uid`. Nearly always a UUID, stored in 16 bytes; the API allows any string.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Uid {
    /// A lower-case UUID.
    Uuid([u8; 16]),
    /// Anything else, verbatim.
    Text(Box<str>),
}

impl Uid {
    /// Creates an empty UID, for an object that has not been created yet.
    pub fn none() -> Self {
        Self::Text(Box::from(""))
    }

    /// Compares two UIDs by their text.
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            // The digits of a UUID are in the order of its bytes.
            (Self::Uuid(a), Self::Uuid(b)) => a.cmp(b),
            (a, b) => a.to_string().cmp(&b.to_string()),
        }
    }

    /// Returns whether this is [`Uid::none`].
    pub fn is_none(&self) -> bool {
        matches!(self, Self::Text(text) if text.is_empty())
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        parse_uuid(text.as_bytes()).map_or_else(|| Self::Text(text.into()), Self::Uuid)
    }
}

impl Uid {
    /// Formats a UUID in the usual form.
    pub fn spelled(bytes: &[u8; 16]) -> [u8; 36] {
        let mut out = [0; 36];
        Self::spell(bytes, &mut out);
        out
    }

    /// Formats a UUID in the usual form, in the space where it is needed: a slice has up to 1,000 of them.
    #[inline]
    pub fn spell(bytes: &[u8; 16], out: &mut [u8; 36]) {
        for (byte, at) in bytes.iter().zip(HEX_AT) {
            out[at..at + 2].copy_from_slice(&HEX[usize::from(*byte)]);
        }
        for at in [8, 13, 18, 23] {
            out[at] = b'-';
        }
    }
}

/// The positions of a UUID's bytes in its text.
const HEX_AT: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// The text of each byte.
static HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789abcdef";
    let mut table = [[0; 2]; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = [digits[byte >> 4], digits[byte & 15]];
        byte += 1;
    }
    table
};

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Uuid(bytes) => {
                let text = Self::spelled(bytes);
                f.write_str(std::str::from_utf8(&text).expect("hex digits and dashes are UTF-8"))
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl serde::Serialize for Uid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Parses only the canonical form, so that printing gives back the same text.
fn parse_uuid(text: &[u8]) -> Option<[u8; 16]> {
    let text: &[u8; 36] = text.try_into().ok()?;
    let mut wrong = 0;
    for at in [8, 13, 18, 23] {
        wrong |= text[at] ^ b'-';
    }
    let mut out = [0; 16];
    for (byte, at) in out.iter_mut().zip(HEX_AT) {
        let digits = [text[at], text[at + 1]].map(|digit| DIGITS[usize::from(digit)]);
        wrong |= (digits[0] | digits[1]) & !15;
        *byte = digits[0] << 4 | digits[1];
    }
    (wrong == 0).then_some(out)
}

/// The value of each hexadecimal digit, in lower case, and a number above 15 for what is none.
static DIGITS: [u8; 256] = {
    let digits = b"0123456789abcdef";
    let mut table = [u8::MAX; 256];
    let mut value = 0;
    while value < digits.len() {
        table[digits[value] as usize] = value as u8;
        value += 1;
    }
    table
};

macro_rules! index {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub struct $name(pub u32);

        impl $name {
            /// Refers to nothing.
            pub const NONE: Self = Self(u32::MAX);

            /// Returns whether this refers to nothing.
            pub fn is_none(self) -> bool {
                self == Self::NONE
            }

            /// Returns the position in its table.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<$name> for usize {
            fn from(id: $name) -> Self {
                id.index()
            }
        }

        impl From<usize> for $name {
            fn from(index: usize) -> Self {
                Self(u32::try_from(index).expect("no table of one namespace holds 2^32 entries"))
            }
        }
    )*};
}

index! {
    /// A pod in its namespace's table. Reused after the pod is gone.
    PodId;
    /// A Service in its namespace's table. Reused after the Service is gone.
    ServiceId;
    /// An `EndpointSlice` in its namespace's table. Reused after the slice is gone.
    SliceId;
    /// A mirrored `EndpointSlice` in its namespace's table. Reused after the slice is gone.
    MirroredSliceId;
    /// An Endpoints object in its namespace's table. Reused after the object is gone.
    EndpointsId;
    /// A node in a namespace's table of the nodes its pods run on.
    NodeId;
    /// A hostname and subdomain in a namespace's table of such pairs.
    HostId;
    /// A pod's complete label set.
    FullSetId;
    /// A selector, shared by all Services that have it.
    SelectorId;
    /// A list of the selectors that match a complete label set.
    MatchId;
    /// A port group of one Service and family.
    GroupId;
}

#[cfg(test)]
mod tests {
    use super::Uid;

    #[test]
    fn uid_prints_what_it_read() {
        for text in [
            "0d9e1a76-3c5f-4c0b-9b2d-1f2e3d4c5b6a",
            "0D9E1A76-3c5f-4c0b-9b2d-1f2e3d4c5b6a",
            "",
            "x",
            "0d9e1a76x3c5f-4c0b-9b2d-1f2e3d4c5b6a",
        ] {
            assert_eq!(Uid::from(text).to_string(), text);
        }
        assert!(matches!(
            Uid::from("0d9e1a76-3c5f-4c0b-9b2d-1f2e3d4c5b6a"),
            Uid::Uuid(_)
        ));
        // Whatever stands in a place where it does not belong, no text is lost.
        let uuid = "0d9e1a76-3c5f-4c0b-9b2d-1f2e3d4c5b6a";
        for at in 0..uuid.len() {
            for digit in "-09afgAF~ ".chars() {
                let mut text = uuid.to_owned();
                text.replace_range(at..=at, &digit.to_string());
                assert_eq!(Uid::from(&*text).to_string(), text);
            }
        }
        assert!(Uid::from("").is_none());
    }
}
