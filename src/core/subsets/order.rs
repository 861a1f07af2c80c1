//! The order of addresses: bytewise by their printed form, as upstream sorts strings.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP that sorts like its printed form, so that `10.0.0.10` comes before `10.0.0.2`. Cheaper than the text: each of
/// at most 39 characters takes 5 bits, in ASCII order, and the end sorts before all of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PrintedIp(u128, u128);

/// Speeds up the comparison of two IPv4 addresses: the three digits of an octet as a number to base 11, in which a
/// missing digit is less than any other. The dot or the end that follows an octet is less than digits too.
const OCTETS: [u16; 256] = {
    let mut table = [0; 256];
    let mut n = 0u16;
    while n < 256 {
        table[n as usize] = if n < 10 {
            (n + 1) * 121
        } else if n < 100 {
            (n / 10 + 1) * 121 + (n % 10 + 1) * 11
        } else {
            (n / 100 + 1) * 121 + (n / 10 % 10 + 1) * 11 + n % 10 + 1
        };
        n += 1;
    }
    table
};

/// Compares two addresses by their printed form.
pub fn compare_printed(a: IpAddr, b: IpAddr) -> Ordering {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => v4_key(a).cmp(&v4_key(b)),
        _ => PrintedIp::from(a).cmp(&PrintedIp::from(b)),
    }
}

/// Returns a key that sorts IPv4 addresses by their printed form.
pub(super) fn v4_key(ip: Ipv4Addr) -> u64 {
    ip.octets()
        .into_iter()
        .fold(0, |key, octet| key << 11 | u64::from(OCTETS[usize::from(octet)]))
}

impl From<IpAddr> for PrintedIp {
    fn from(ip: IpAddr) -> Self {
        let mut key = Packer::default();
        match ip.to_canonical() {
            IpAddr::V4(ip) => key.v4(ip),
            IpAddr::V6(ip) => key.v6(ip),
        }
        Self(key.head, key.tail)
    }
}

#[derive(Default)]
struct Packer {
    /// The first 25 characters.
    head: u128,
    tail: u128,
    len: u32,
}

impl Packer {
    const PER_WORD: u32 = 25;
    const DOT: u8 = 1;
    const ZERO: u8 = 2;
    const COLON: u8 = 12;
    const A: u8 = 13;

    fn push(&mut self, symbol: u8) {
        let (word, at) = if self.len < Self::PER_WORD {
            (&mut self.head, self.len)
        } else {
            (&mut self.tail, self.len - Self::PER_WORD)
        };
        *word |= u128::from(symbol) << (5 * (Self::PER_WORD - 1 - at));
        self.len += 1;
    }

    fn v4(&mut self, ip: Ipv4Addr) {
        for (i, octet) in ip.octets().into_iter().enumerate() {
            if i > 0 {
                self.push(Self::DOT);
            }
            if octet >= 100 {
                self.push(Self::ZERO + octet / 100);
            }
            if octet >= 10 {
                self.push(Self::ZERO + octet / 10 % 10);
            }
            self.push(Self::ZERO + octet % 10);
        }
    }

    /// Follows RFC 5952: no leading zeros, and the first of the longest runs of two or more zero groups is left out.
    fn v6(&mut self, ip: Ipv6Addr) {
        let groups = ip.segments();
        let (mut skip, mut skip_len) = (8, 1);
        let mut start = 0;
        while start < 8 {
            let len = groups[start..].iter().take_while(|group| **group == 0).count();
            if len > skip_len {
                (skip, skip_len) = (start, len);
            }
            start += len.max(1);
        }
        let mut i = 0;
        while i < 8 {
            if i == skip {
                self.push(Self::COLON);
                self.push(Self::COLON);
                i += skip_len;
                continue;
            }
            if i > 0 && i != skip + skip_len {
                self.push(Self::COLON);
            }
            self.group(groups[i]);
            i += 1;
        }
    }

    fn group(&mut self, group: u16) {
        let mut started = false;
        for shift in [12, 8, 4, 0] {
            let digit = (group >> shift & 15) as u8;
            started |= digit != 0 || shift == 0;
            if started {
                self.push(if digit < 10 {
                    Self::ZERO + digit
                } else {
                    Self::A + digit - 10
                });
            }
        }
    }
}
