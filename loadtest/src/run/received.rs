//! The requests for the outputs of sandboxes, as the API server in memory receives them.

use super::session::Session;
use super::world::SANDBOX;
use crate::report::model::{ClaimKind, Course, Sent};
use http::Method;
use memory_apiserver::Arrival;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

const OUTPUTS: [&str; 2] = ["endpointslices", "endpoints"];

/// The requests for the slices, and for the Endpoints, of each sandbox by its number.
#[derive(Default)]
pub(super) struct Received(Mutex<BTreeMap<usize, [Sent; 2]>>);

// === impl Received ===

impl Received {
    /// Begins to count those of a run, if it makes sandboxes and its server is in memory.
    pub(super) fn listen(session: &Session<'_>) -> Option<Arc<Self>> {
        let server = session.target.server().filter(|_| session.plan.claims() > 0)?;
        let received = Arc::new(Self::default());
        let counting = Arc::clone(&received);
        server
            .on_request(move |arrival| counting.count(arrival))
            .then_some(received)
    }

    /// Counts a request, if it is for the outputs of a sandbox.
    pub(super) fn count(&self, arrival: &Arrival<'_>) {
        let Some((output, sandbox)) = subject(arrival) else {
            return;
        };
        let mut all = self.0.lock();
        let sent = &mut all.entry(sandbox).or_default()[output];
        let bytes = arrival.body.len() as u64;
        for (counts, more) in [(&mut sent.requests, 1), (&mut sent.bytes, bytes)] {
            *match *arrival.method {
                Method::POST => &mut counts.create,
                Method::DELETE => &mut counts.delete,
                Method::GET => &mut counts.get,
                _ => &mut counts.update,
            } += more;
        }
        sent.most = sent.requests.all();
    }

    /// Adds up those for the sandboxes that were made, which took these courses, by course.
    pub(super) fn kinds(&self, made: &[(usize, Course)]) -> Vec<ClaimKind> {
        let received = self.0.lock();
        let mut kinds: BTreeMap<Course, ClaimKind> = BTreeMap::new();
        for (sandbox, course) in made {
            let kind = kinds.entry(*course).or_default();
            kind.course = *course;
            kind.made += 1;
            if let Some([slices, endpoints]) = received.get(sandbox) {
                kind.slices.add(slices);
                kind.endpoints.add(endpoints);
            }
        }
        kinds.into_values().collect()
    }
}

/// The output that a request is for, and the number of the sandbox. A slice that is created has no name in the path: its
/// body begins with the name of its Service.
fn subject(arrival: &Arrival<'_>) -> Option<(usize, usize)> {
    let mut parts = arrival
        .path
        .split('/')
        .skip_while(|part| *part != "namespaces")
        .skip(2);
    let (resource, name) = (parts.next()?, parts.next());
    let output = OUTPUTS.iter().position(|output| *output == resource)?;
    let text = match name {
        Some(name) => name.as_bytes(),
        None if arrival.method == Method::POST => arrival.body,
        None => return None,
    };
    let prefix = SANDBOX.as_bytes();
    let at = text.windows(prefix.len()).position(|window| window == prefix)?;
    let digits = text[at + prefix.len()..].iter();
    let digits = digits.take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0, |number: usize, digit| number * 10 + usize::from(digit - b'0'));
    Some((output, number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::ByVerb;

    const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/n/endpointslices";
    const ENDPOINTS: &str = "/api/v1/namespaces/n/endpoints";

    #[test]
    fn requests_count_for_the_sandbox_that_they_name() {
        let received = Received::default();
        let count =
            |method: &Method, path: &str, body: &[u8]| received.count(&Arrival { method, path, body });
        let named = |path: &str, name: &str| format!("{path}/{name}");
        count(
            &Method::POST,
            SLICES,
            b"\0\x11sandbox-000012-\0\x11sandbox-000012-7 xx",
        );
        count(&Method::PUT, &named(SLICES, "sandbox-000012-ab1c2"), b"12345");
        count(&Method::POST, ENDPOINTS, b"sandbox-000012-ip.");
        count(&Method::DELETE, &named(ENDPOINTS, "sandbox-000013"), b"");
        count(&Method::GET, &named(ENDPOINTS, "sandbox-000013"), b"");
        // These are of others, or of none.
        count(&Method::GET, SLICES, b"");
        count(&Method::POST, ENDPOINTS, b"other");
        count(
            &Method::PATCH,
            "/api/v1/namespaces/n/pods/sandbox-000012-1/status",
            b"123",
        );
        count(&Method::PUT, &named(SLICES, "sandbox-000014-ab1c2"), b"1");

        let made = [
            (12, Course::Ordinary),
            (13, Course::ReadyLate),
            (15, Course::ReadyLate),
        ];
        let [ordinary, late] = &received.kinds(&made)[..] else {
            panic!("there are two kinds")
        };
        assert_eq!((ordinary.course, ordinary.made), (Course::Ordinary, 1));
        let of_slices = Sent {
            requests: ByVerb {
                create: 1,
                update: 1,
                ..ByVerb::default()
            },
            bytes: ByVerb {
                create: 38,
                update: 5,
                ..ByVerb::default()
            },
            most: 2,
        };
        assert_eq!(ordinary.slices, of_slices);
        assert_eq!(
            (
                ordinary.endpoints.requests.create,
                ordinary.endpoints.bytes.create
            ),
            (1, 18)
        );
        assert_eq!((late.course, late.made), (Course::ReadyLate, 2));
        let of_endpoints = ByVerb {
            delete: 1,
            get: 1,
            ..ByVerb::default()
        };
        assert_eq!(
            (late.slices, late.endpoints.requests),
            (Sent::default(), of_endpoints)
        );
        assert_eq!(late.endpoints.most, 2);
    }
}
