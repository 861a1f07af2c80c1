//! IP addresses and address families.

use std::net::{IpAddr, Ipv4Addr};

/// An address type of slices; a Service has one set of slices per family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Family {
    /// `IPv4`.
    V4,
    /// `IPv6`.
    V6,
}

impl Family {
    /// Both families, in the order of their indices.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Returns the index in per-family tables: 0 for IPv4, 1 for IPv6.
    pub fn index(self) -> usize {
        match self {
            Self::V4 => 0,
            Self::V6 => 1,
        }
    }

    /// Returns the API's spelling, as in `addressType` and `ipFamilies`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    /// Parses the API's spelling; `None` for others (`FQDN` among them).
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str() == text)
    }

    /// Returns the family that an address is published under.
    pub fn of(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

/// Parses an address the way upstream does: leading zeros in IPv4 are decimal (`010.0.0.1` is 10.0.0.1), and an
/// IPv4-mapped IPv6 address becomes the IPv4 address. Printing the result gives Go's form.
pub fn parse_sloppy(text: &str) -> Option<IpAddr> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(ip.to_canonical());
    }
    if !text.contains(':') {
        return parse_v4_sloppy(text).map(IpAddr::V4);
    }
    // An IPv6 address may end in an IPv4 one with leading zeros.
    let at = text.rfind(':')? + 1;
    let tail = parse_v4_sloppy(&text[at..])?;
    let ip: IpAddr = format!("{}{tail}", &text[..at]).parse().ok()?;
    Some(ip.to_canonical())
}

fn parse_v4_sloppy(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() {
            0
        } else {
            digits.parse().ok()?
        };
    }
    parts.next().is_none().then_some(Ipv4Addr::from(octets))
}

#[cfg(test)]
mod tests {
    use super::parse_sloppy;

    #[test]
    fn reads_what_upstream_reads_and_prints_what_go_prints() {
        for (text, printed) in [
            ("10.0.0.1", "10.0.0.1"),
            ("010.000.00.1", "10.0.0.1"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("::ffff:010.1.2.3", "10.1.2.3"),
            ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
            ("fd00:0:0:1:0:0:0:1", "fd00:0:0:1::1"),
            ("::1.2.3.4", "::102:304"),
        ] {
            assert_eq!(parse_sloppy(text).unwrap().to_string(), printed, "{text}");
        }
        for text in [
            "",
            "10.0.0",
            "10.0.0.0.1",
            "256.0.0.1",
            "10.0.0.1/8",
            "fe80::1%eth0",
            "a",
            ":::",
            "1.2.3.0x4",
            "é:1.2.3.4",
        ] {
            assert_eq!(parse_sloppy(text), None, "{text}");
        }
    }
}
