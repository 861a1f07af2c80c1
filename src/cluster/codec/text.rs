//! Texts that are made from values, in memory of their own.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Length of the longest IPv6 address: with an IPv4 address embedded in it.
const LONGEST: usize = 45;

/// Length of an array for any IPv4 address and what is written after it.
const SHORT: usize = 32;

/// The text of an IP, in canonical form. A slice has up to 1,000 of them, so IPv4 takes no formatting machinery.
pub(super) enum IpText {
    /// An IPv4 address: the text with something after it, and its length.
    Short([u8; SHORT], usize),
    /// An IPv6 address: the text with something after it, and its length.
    Long([u8; LONGEST], usize),
}

impl IpText {
    pub(super) fn new(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => {
                let mut buffer = [0; SHORT];
                let length = spell_v4(ip, &mut buffer);
                Self::Short(buffer, length)
            }
            IpAddr::V6(ip) => {
                let (buffer, length) = long(ip);
                Self::Long(buffer, length)
            }
        }
    }

    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short(buffer, length) => &buffer[..*length],
            Self::Long(buffer, length) => &buffer[..*length],
        }
    }
}

/// Writes the text of an IPv4 address, and something after it. Returns the length of the text.
#[inline(always)]
#[allow(clippy::inline_always, reason = "it is called for each endpoint")]
pub(super) fn spell_v4(ip: Ipv4Addr, space: &mut [u8; SHORT]) -> usize {
    let mut end = 0;
    for octet in ip.octets() {
        let (text, length) = &OCTETS[usize::from(octet)];
        space[end..end + 4].copy_from_slice(text);
        // It is 4 at most. That it is below 8 is plain to the compiler, which then needs no checks.
        end += usize::from(length & 7);
    }
    end - 1
}

fn long(ip: Ipv6Addr) -> ([u8; LONGEST], usize) {
    let mut buffer = [0; LONGEST];
    let mut rest = &mut buffer[..];
    write!(rest, "{ip}").expect("the buffer holds the longest address");
    let left = rest.len();
    (buffer, LONGEST - left)
}

/// The text of each octet with a dot after it, and its length.
static OCTETS: [([u8; 4], u8); 256] = {
    let mut table = [([b'.'; 4], 0); 256];
    let mut octet = 0;
    while octet < 256 {
        let digits = [octet / 100, octet / 10 % 10, octet % 10];
        let mut at = if octet >= 100 {
            0
        } else if octet >= 10 {
            1
        } else {
            2
        };
        let mut length = 0;
        while at < 3 {
            table[octet].0[length] = b'0' + digits[at] as u8;
            length += 1;
            at += 1;
        }
        table[octet].1 = length as u8 + 1;
        octet += 1;
    }
    table
};
