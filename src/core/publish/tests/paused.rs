//! Namespaces whose writes pause or hang, such as those of a webhook: to find the next object takes no longer because of them,
//! however many they are.

use super::*;
use std::cell::Cell;

/// The number of such namespaces.
const MANY: usize = 3000;
/// The pause that the webhook asks for.
const PAUSE: Duration = Duration::from_secs(30);

/// Finds the next object as the publisher does, and returns its namespace, and how many pairs of a class and a namespace are looked
/// at for that.
fn next(publisher: &Publisher, now: Duration) -> (Option<Arc<str>>, usize) {
    let looks = Cell::new(0);
    let holds = publisher.stuck.holds(publisher.window(), now);
    let held = |_: usize, tenant: u64| {
        looks.set(looks.get() + 1);
        holds(tenant)
    };
    let mut queue = publisher.queue.clone();
    let most = publisher.window().div_ceil(2);
    let next = queue.next_but(most, Classes::ALL, held, now);
    (next.map(|(key, ..)| Arc::clone(&key.namespace)), looks.get())
}

/// Grants and sends the next write, which is of this object, and ends it.
fn write(publisher: &mut Publisher, key: &Hashed<ObjectKey>, landing: Landing, now: Duration) {
    assert_eq!(granted(publisher, now).as_ref(), Some(key));
    publisher.replied(key, Reply::Built(update()), now);
    publisher.answered(key, landing, now);
}

/// A publisher for which so many namespaces of two objects each wait until their pauses end.
fn paused(namespaces: usize) -> Publisher {
    let mut publisher = Publisher::new(pacing(0.0, 64), 0);
    for number in 0..namespaces {
        // The API server is not overloaded.
        let well = key("well", "k");
        publisher.wanted(&well, &want(&well, Retry::Now), NOW);
        write(&mut publisher, &well, landing(Load::Answered, MS), NOW);
        publisher.replied(&well, Reply::Settled, NOW);

        let [first, second] = ["first", "second"].map(|name| key(&format!("webhook-{number}"), name));
        publisher.wanted(&first, &want(&first, Retry::Now), NOW);
        let refused = Landing {
            pause: Some(PAUSE),
            ..landing(Load::Overloaded, MS)
        };
        write(&mut publisher, &first, refused, NOW);
        publisher.wanted(&first, &want(&first, Retry::Now), NOW);
        publisher.wanted(&second, &want(&second, Retry::Now), NOW);
    }
    publisher
}

#[test]
fn thousands_of_namespaces_that_pause_cost_a_grant_nothing_and_leave_nothing() {
    let [none, many] = [0, MANY].map(|namespaces| {
        let mut publisher = paused(namespaces);
        for number in 0..100 {
            let other = key(&format!("other-{number}"), "k");
            publisher.wanted(&other, &want(&other, Retry::Now), SECOND);
        }
        (next(&publisher, SECOND), publisher)
    });
    assert_eq!(many.0, none.0, "the next namespace, and how many were looked at");
    let ((namespace, looks), mut publisher) = many;
    assert!(
        namespace.is_some_and(|it| it.starts_with("other-")) && looks < 10,
        "{looks}"
    );

    // Everything else is written meanwhile, and then each of those.
    let written = |publisher: &mut Publisher, now: Duration| {
        let mut written = 0;
        while let Some(key) = granted(publisher, now) {
            publisher.replied(&key, Reply::Built(update()), now);
            publisher.answered(&key, landing(Load::Answered, MS), now);
            publisher.replied(&key, Reply::Settled, now);
            written += 1;
        }
        written
    };
    assert_eq!(written(&mut publisher, SECOND), 100);
    assert_eq!(next(&publisher, SECOND), (None, 0));
    assert_eq!(written(&mut publisher, PAUSE), 2 * MANY);
    assert!(publisher.queue.is_idle() && publisher.pauses.next_end().is_none());
}

/// Requests of all of these namespaces get no answer. Twice as many as the window has places are out for long, and one more each
/// second, and one of them ends.
#[test]
fn thousands_of_namespaces_whose_requests_hang_cost_a_grant_no_more_than_twice_the_window() {
    for namespaces in [300, MANY] {
        let mut publisher = Publisher::new(pacing(0.0, 64), 0);
        let window = publisher.window();
        for object in 0..2 {
            for number in 0..namespaces {
                let hung = key(&format!("hung-{number}"), &format!("k{object}"));
                publisher.wanted(&hung, &want(&hung, Retry::Now), NOW);
            }
        }
        let mut out = Vec::new();
        let mut now = NOW;
        for _ in 0..5 {
            while let Some(hung) = granted(&mut publisher, now) {
                publisher.replied(&hung, Reply::Built(update()), now);
                out.push(hung);
            }
            now += SECOND;
        }
        now -= MS;
        // From when all that are out are stuck, one goes at a time.
        assert_eq!(out.len(), 2 * window + 3, "{namespaces}");
        assert_eq!(granted(&mut publisher, now), None);
        publisher.answered(&out[0], landing(Load::Declined, now), now);
        let (next, looks) = next(&publisher, now);
        assert!(next.is_some(), "{namespaces}");
        // The oldest and the first of its class, and the first of all.
        assert!(
            looks <= 3 * (2 * window + 3) + 10,
            "{namespaces}: {looks} for a window of {window}"
        );
    }
}
