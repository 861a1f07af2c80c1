//! Texts that are made from values, in memory of their own.

use std::io::Write as _;
use std::net::IpAddr;

/// Length of the longest IPv6 address: with an IPv4 address embedded in it.
const LONGEST: usize = 45;

/// The length up to which a text is appended as an array. Every IPv4 address is shorter.
const SHORT: usize = 16;

/// The text of an IP, in canonical form. A slice has up to 1,000 of them, so IPv4 takes no formatting machinery.
pub(super) struct IpText {
    buffer: [u8; LONGEST],
    length: usize,
}

impl IpText {
    pub(super) fn new(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => {
                let (mut buffer, mut end) = ([0; LONGEST], 0);
                for octet in ip.octets() {
                    let (text, length) = &OCTETS[usize::from(octet)];
                    buffer[end..end + 4].copy_from_slice(text);
                    end += usize::from(*length);
                }
                Self {
                    buffer,
                    length: end - 1,
                }
            }
            IpAddr::V6(ip) => {
                let mut buffer = [0; LONGEST];
                let mut rest = &mut buffer[..];
                write!(rest, "{ip}").expect("the buffer holds the longest address");
                let left = rest.len();
                Self {
                    buffer,
                    length: LONGEST - left,
                }
            }
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// Appends the text.
    pub(super) fn push_to(&self, out: &mut Vec<u8>) {
        if self.length <= SHORT {
            // More than is needed, but of a length that is known when this is compiled.
            let end = out.len() + self.length;
            out.extend_from_slice(&self.buffer[..SHORT]);
            out.truncate(end);
        } else {
            out.extend_from_slice(self.as_bytes());
        }
    }
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
