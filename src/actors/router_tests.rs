use super::*;
use crate::actors::root::{Root, RootState};
use crate::core::facts::PodFacts;
use crate::core::namespace::PendingLists;
use crate::core::outputs::Outputs;
use ractor::Actor;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

fn applied(namespace: &str, name: &str) -> Delivery {
    Delivery {
        namespace: namespace.into(),
        change: Change::Pod(PodFacts::bare(name), 0),
    }
}

fn gone(namespace: &str, name: &str) -> Delivery {
    Delivery {
        namespace: namespace.into(),
        change: Change::PodGone(name.into()),
    }
}

async fn router() -> (Arc<Router>, ActorRef<RootMsg>) {
    let (fatal, _) = watch::channel(None);
    let routes = Routes::default();
    let state = RootState {
        router: routes.clone(),
        fatal,
    };
    let (root, _) = Actor::spawn(None, Root, state).await.unwrap();
    let settings = Settings {
        outputs: Outputs::ALL,
        seed: 1,
        ..Settings::default()
    };
    let router = Arc::new(Router::new(
        settings,
        WriterHandle::default(),
        root.clone(),
        EventHandle::default(),
    ));
    routes.set(router.clone()).unwrap();
    (router, root)
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(10), wait)
        .await
        .unwrap_or_else(|_| panic!("never: {what}"));
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_made_when_its_namespace_matters_and_retired_when_nothing_is_left() {
    let (router, _root) = router().await;
    router.deliver(vec![gone("a", "p")]);
    assert_eq!(router.shards(), 0, "what is gone from nowhere makes no shard");
    router.deliver(vec![applied("a", "p"), applied("b", "p"), applied("a", "q")]);
    assert_eq!(router.shards(), 2);
    router.deliver(vec![gone("a", "p"), gone("a", "q")]);
    until("a is retired", || router.shards() == 1).await;
    assert!(router.shard("a").is_none() && router.shard("b").is_some());
    router.deliver(vec![applied("a", "p")]);
    assert_eq!(router.shards(), 2, "and made again");
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_after_the_report_keeps_the_shard() {
    let (router, _root) = router().await;
    router.deliver(vec![applied("a", "p")]);
    let shard = router.shard("a").unwrap();
    // The shard has not run yet. A report as of this delivery is in order; one more event makes it stale.
    router.deliver(vec![gone("a", "p")]);
    router.deliver(vec![applied("a", "q")]);
    let inbox = router.shards.get("a").unwrap().inbox.clone();
    router.retire("a", &inbox, 2);
    assert_eq!(router.shards(), 1, "the third delivery is not lost");
    assert_eq!(router.shard("a").unwrap().get_id(), shard.get_id());
    // Even at the right number: what waits in the inbox has not been applied.
    router.retire("a", &inbox, 3);
    assert_eq!(router.shards(), 1);
}

#[tokio::test(start_paused = true)]
async fn shards_that_are_made_during_a_list_wait_for_its_end() {
    let (router, _root) = router().await;
    let lists = || {
        let picture = router.picture.lock();
        (picture.is_complete(), picture.holding_back())
    };
    for kind in Kind::ALL {
        assert!(!lists().0);
        router.begin_list(kind);
        router.end_list(kind, 1, 1, Demand::of(0));
    }
    assert_eq!(lists(), (true, PendingLists::NONE));
    router.begin_list(Kind::Pod);
    let (complete, holding_back) = lists();
    assert!(complete && holding_back.has(Kind::Pod));
    router.end_list(Kind::Pod, 2, 2, Demand::of(0));
    assert_eq!(lists(), (true, PendingLists::NONE));
}

#[tokio::test]
async fn two_tasks_never_make_two_shards_of_one_namespace() {
    let (router, _root) = router().await;
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let router = router.clone();
            tokio::task::spawn_blocking(move || {
                for i in 0..200 {
                    router.deliver(vec![applied(&format!("ns-{}", i % 20), &format!("p-{task}"))]);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(router.shards(), 20);
}

#[tokio::test(start_paused = true)]
async fn only_shards_with_pods_on_a_node_hear_of_it() {
    let (router, _root) = router().await;
    for kind in Kind::ALL {
        router.end_list(kind, 1, 1, Demand::of(0));
    }
    let on = PodFacts {
        node: Some("n1".into()),
        ..PodFacts::bare("p")
    };
    let on = Delivery {
        namespace: "a".into(),
        change: Change::Pod(on, 0),
    };
    router.deliver(vec![on, applied("b", "p")]);
    // The pod must have been applied before its node is looked at.
    sleep(Duration::from_millis(1)).await;
    router.node_applied(
        &"n1".into(),
        NodeFacts {
            zone: Some("z".into()),
        },
        &NodeCapacity::default(),
        0,
    );
    assert!(
        !router.shards.get("b").unwrap().inbox.has_applied(2),
        "only its pod was ever delivered to b"
    );
    assert!(
        router.shards.get("a").unwrap().inbox.unapplied() == Some(2),
        "the node was delivered to a"
    );
}

#[tokio::test(start_paused = true)]
async fn a_list_is_applied_when_every_shard_is_done_with_its_part() {
    let (router, _root) = router().await;
    assert!(!router.has_applied(Kind::Pod), "nothing has been listed");
    router.deliver(vec![applied("a", "p"), applied("b", "p")]);
    router.begin_list(Kind::Pod);
    router.end_list(Kind::Pod, 0, 1, Demand::of(0));
    let start = Instant::now();
    assert_eq!(router.longest_unhandled(start).unwrap().1, Duration::ZERO);
    assert!(!router.has_applied(Kind::Pod), "the shards have not run yet");
    until("they are done", || router.has_applied(Kind::Pod)).await;
    assert_eq!(router.longest_unhandled(Instant::now()), None);
    // Later events do not matter, except that the kind is no longer followed.
    router.deliver(vec![applied("a", "q")]);
    assert!(router.has_applied(Kind::Pod));
    router.end_list(Kind::Slice, 1, 1, Demand::of(0));
    until("empty lists are applied too", || router.has_applied(Kind::Slice)).await;
    router.forget(Kind::Slice);
    assert!(!router.has_applied(Kind::Slice));
    assert_eq!(router.sample(32, 0.9).len(), 2);
    assert_eq!(router.sample(1, 0.9).len(), 1);
    assert_eq!(router.sample(1, 0.0).len(), 1);
}

#[tokio::test]
async fn a_namespace_to_which_much_happens_lets_others_have_their_turn() {
    const PODS: u64 = 50_000;
    let (router, _root) = router().await;
    let pods = (0..PODS).map(|number| applied("large", &format!("pod-{number}")));
    router.deliver(pods.collect());
    router.deliver(vec![applied("small", "pod")]);
    let has_applied = |namespace| router.shards.get(namespace).unwrap().inbox.has_applied(1);
    while !has_applied("small") {
        assert!(
            !has_applied("large"),
            "the small namespace waited for all of the large one"
        );
        tokio::task::yield_now().await;
    }
    assert!(!has_applied("large"), "all of the large namespace was one turn");
    until("the large one is through as well", || has_applied("large")).await;
}
