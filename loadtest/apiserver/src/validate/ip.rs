//! Addresses.

use std::net::{IpAddr, Ipv4Addr};

const NOT_AN_IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";

/// An address as Go's sloppy parser reads it: leading zeros are decimal.
pub(crate) fn parse_ip(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_canonical());
    }
    let mut octets = [0u8; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|c| c.is_ascii_digit()) {
            return None;
        }
        *octet = part
            .trim_start_matches('0')
            .parse()
            .or_else(|_| if part.contains('0') { Ok(0) } else { Err(()) })
            .ok()?;
        if part.trim_start_matches('0').len() > 3 {
            return None;
        }
    }
    parts
        .next()
        .is_none()
        .then_some(IpAddr::V4(Ipv4Addr::from(octets)))
}

/// `IPv4` or `IPv6`.
pub(crate) fn family_of(address: IpAddr) -> &'static str {
    if address.is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Returns the faults of an address of a certain family (none: any).
pub(crate) fn address_faults(text: &str, family: Option<&str>) -> Vec<String> {
    match (parse_ip(text), family) {
        (None, _) => vec![NOT_AN_IP.to_owned()],
        (Some(address), Some(family)) if family_of(address) != family => {
            vec![format!("must be an {family} address")]
        }
        _ => Vec::new(),
    }
}

/// Why an address cannot be an endpoint's.
pub(crate) fn special_faults(text: &str) -> Vec<String> {
    let Some(address) = parse_ip(text) else {
        return Vec::new();
    };
    let mut faults = Vec::new();
    if address.is_unspecified() {
        faults.push(format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        faults.push("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    let (link_local, link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    if link_local {
        faults.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if link_local_multicast {
        faults.push("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, want) in [
            ("010.000.0.01", "10.0.0.1"),
            ("::ffff:1.2.3.4", "1.2.3.4"),
            ("2001:DB8::1", "2001:db8::1"),
        ] {
            assert_eq!(parse_ip(text).unwrap().to_string(), want);
        }
        for bad in "1.2.3 1.2.3.4.5 256.1.1.1 1.2.3. a.b.c.d fe80::1%eth0 1.2.3.4/8 0001000.1.1.1".split(' ')
        {
            assert_eq!(parse_ip(bad), None, "{bad}");
        }
        assert!(special_faults("10.0.0.1").is_empty());
        for bad in "0.0.0.0 127.0.0.1 ::1 169.254.1.1 fe80::1 224.0.0.5 ff02::1".split(' ') {
            assert_eq!(special_faults(bad).len(), 1, "{bad}");
        }
        assert_eq!(address_faults("::1", Some("IPv4")), ["must be an IPv4 address"]);
    }
}
