//! The view of a client that watches the outputs, as a kube-proxy would: when each event arrived, what it showed, and
//! how much was written. Changes of pods are followed until an event shows them.
//!
//! Pods are told apart by their addresses, which are made from numbers that never come back: so a watching client
//! decodes an address where it would otherwise copy a name.

pub(crate) mod latencies;
pub(crate) mod marks;
mod reach;
pub(crate) mod visible;
pub(crate) mod watch;
mod wire;

use crate::oracle::Family;
use std::net::IpAddr;

/// Outside the ranges that API servers give to Services by default.
const FIRST_POD_IP: u32 = 0x0a80_0001;
const FIRST_POD_IP_V6: u128 = 0xfd00_0001_0000_0000_0000_0000_0000_0001;
/// So many addresses are left above the first one of IPv4, within 10.0.0.0/8.
const MAX_PODS: u32 = 0x007f_fffe;

/// A pod's number, from which its addresses follow.
pub(crate) type PodNumber = u32;

/// The address of a pod, of one family.
pub(crate) fn pod_ip(number: PodNumber, family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4((FIRST_POD_IP + number).into()),
        Family::V6 => IpAddr::V6((FIRST_POD_IP_V6 + u128::from(number)).into()),
    }
}

/// Returns the pods in a slice by number, as it shows them.
pub(crate) fn shown_in_slice(body: &[u8]) -> serde_json::Result<Vec<(PodNumber, visible::Shown)>> {
    serde_json::from_slice::<wire::Object<'_>>(body).map(|slice| slice.pods())
}

/// Returns the number of the pod with this address, if it is one of ours.
fn number_of(ip: IpAddr) -> Option<PodNumber> {
    let number = match ip {
        IpAddr::V4(ip) => u32::from(ip).checked_sub(FIRST_POD_IP)?,
        IpAddr::V6(ip) => u128::from(ip).checked_sub(FIRST_POD_IP_V6)?.try_into().ok()?,
    };
    (number <= MAX_PODS).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_known_by_either_address() {
        for number in [0, 1, 70_000, MAX_PODS] {
            for family in [Family::V4, Family::V6] {
                assert_eq!(number_of(pod_ip(number, family)), Some(number));
            }
        }
        for alien in ["10.0.0.1", "192.168.0.1", "2001:db8::1"] {
            assert_eq!(number_of(alien.parse().unwrap()), None, "{alien}");
        }
    }
}
