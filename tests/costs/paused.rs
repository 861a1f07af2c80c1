//! A namespace whose writes pause, such as for a webhook that answers with `Retry-After`: a pause costs no more however many of its
//! objects wait.

use crate::allocator::allocated;
use endpointd::core::backoff::Retry;
use endpointd::core::body::Request;
use endpointd::core::hash::Hashed;
use endpointd::core::namespace::{BuiltRequest, WorkItem};
use endpointd::core::object::{ObjectKey, ObjectName};
use endpointd::core::priority::{Priority, Stage};
use endpointd::core::publish::reports::{Reply, Reported};
use endpointd::core::publish::{Landing, Load, Next, Pacing, Publisher, WriteEffect};
use std::time::Duration;

/// The pause that the webhook asks for.
const PAUSE: Duration = Duration::from_secs(30);
/// How often it does.
const PAUSES: u32 = 200;
/// The bytes that a pause may allocate: for the few objects that are moved, and the growth of tables.
const BYTES: usize = 4096;

/// Reports an object with a Service of its own, whose names are as long as they may be.
fn report(
    publisher: &mut Publisher,
    key: &Hashed<ObjectKey>,
    reply: Option<Reply>,
    retry: Option<Retry>,
    now: Duration,
) {
    let wanted = retry.map(|retry| {
        let item = WorkItem {
            object: (*key.object).clone(),
            service: key.object.name.clone(),
            exists: true,
            priority: Priority::Remove,
            stage: Stage::Remove,
            retry,
            reads: false,
        };
        (item, now)
    });
    publisher.reported(key, Reported { reply, wanted }, now);
}

/// Returns the bytes that are allocated for each pause of a namespace of so many objects.
fn bytes_of_a_pause(objects: u32) -> usize {
    let mut publisher = Publisher::new(Pacing::unlimited(64), 0);
    let namespace = "n".repeat(63);
    let mut now = Duration::ZERO;
    for number in 0..objects {
        let object = ObjectName::slice(format!("{number:0>253}").into());
        let key = ObjectKey::hashed(namespace.as_str(), object);
        report(&mut publisher, &key, None, Some(Retry::Now), now);
    }
    let before = allocated();
    for pause in 0..PAUSES {
        let Next::Grant { key, .. } = publisher.next(now) else {
            panic!("{objects} objects: nothing goes after {pause} pauses");
        };
        let built = BuiltRequest {
            request: Request::Update(Vec::new()),
            changes: 1,
        };
        report(&mut publisher, &key, Some(Reply::Built(built)), None, now);
        let refused = Landing {
            load: Load::Overloaded,
            effect: WriteEffect::Nothing,
            took: Duration::from_millis(2),
            pause: Some(PAUSE),
            has_shard: true,
        };
        publisher.answered(&key, refused, now);
        report(&mut publisher, &key, None, Some(Retry::Now), now);
        let waits = publisher.next(now);
        assert!(matches!(waits, Next::Wait { until: Some(until), .. } if until <= now + PAUSE));
        now += PAUSE;
    }
    (allocated() - before) / PAUSES as usize
}

#[test]
fn a_pause_costs_no_more_however_many_objects_wait_for_its_end() {
    let [few, many] = [10, 100_000].map(bytes_of_a_pause);
    println!("{few} bytes for a pause of 10 objects, {many} for one of 100,000");
    assert!(many <= few + BYTES, "{many} bytes instead of {few}");
}
