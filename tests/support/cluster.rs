//! A cluster in one process: memory-apiserver, the controller as a client of it, and a client for the test.

use endpointd::actors::events::WallClock;
use endpointd::actors::writer::Pacing;
use endpointd::cluster::connect::Clients;
use endpointd::cluster::election::Location;
use endpointd::cluster::fence::Clock;
use endpointd::core::leadership::election::Timing;
use endpointd::core::namespace::Settings;
use endpointd::core::outputs::Outputs;
use endpointd::core::time::Time;
use endpointd::ops::election::Candidacy;
use endpointd::ops::progress::STALLED_AFTER;
use endpointd::ops::run::{Options, run};
use kube::Client;
use memory_apiserver::{ApiServer, Config, Handle};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) use scenario::Api;

/// Options for a controller under test.
pub(crate) fn options(max_endpoints: usize) -> Options {
    Options {
        settings: Settings {
            max_endpoints,
            outputs: Outputs::ALL,
            seed: 1,
            ..Settings::default()
        },
        pacing: Pacing::unlimited(16),
        deadline: Duration::from_secs(30),
        drain: Duration::from_secs(10),
    }
}

/// A client on a server in this process.
pub(crate) fn client(server: &ApiServer) -> Client {
    Client::new(server.service(), "default")
}

/// The clients of a controller, all of them of the same service.
pub(crate) fn clients(client: impl Fn() -> Client) -> Clients {
    Clients {
        watches: client(),
        objects: client().into(),
        events: client(),
        in_pod: false,
    }
}

/// The candidacy of a process of this identity, with the default times and the system's clocks.
pub(crate) fn candidacy(identity: &str) -> Candidacy {
    let seconds = Duration::from_secs;
    Candidacy {
        location: Location {
            namespace: "kube-system".to_owned(),
            name: "endpointd".to_owned(),
        },
        identity: identity.to_owned(),
        timing: Timing::new(seconds(15), seconds(10), seconds(2)).unwrap(),
        clock: Clock::default(),
        wall: WallClock::default(),
        stalled_after: STALLED_AFTER,
    }
}

/// The same on the clock of a test, on which 2026 began at `start`.
pub(crate) fn candidacy_since(start: Instant, identity: &str) -> Candidacy {
    let passed = move || Instant::now().saturating_duration_since(start);
    let epoch = Time::parse("2026-01-01T00:00:00Z").unwrap().as_nanoseconds();
    let now = move || Time::from_nanoseconds(epoch + i64::try_from(passed().as_nanos()).unwrap());
    Candidacy {
        clock: Clock::new(passed),
        wall: WallClock::new(now),
        ..candidacy(identity)
    }
}

/// A server without garbage collection, as the goldens were recorded.
pub(crate) fn server() -> ApiServer {
    let start = "2026-01-01T00:00:00Z".parse().unwrap();
    ApiServer::new(
        Config::default()
            .gc(false)
            .service_endpoints(false)
            .seed(1)
            .start_time(start),
    )
}

/// Starts a server on loopback, with a client of it.
pub(crate) async fn serve(config: Config) -> (Handle, Api) {
    let handle = memory_apiserver::start(config).await.unwrap();
    let client = Client::try_from(kube::Config::new(handle.url().parse().unwrap())).unwrap();
    (handle, Api(client))
}

/// Runs a controller against a server, until the task is aborted.
pub(crate) fn controller(server: &ApiServer, options: Options) -> JoinHandle<()> {
    // Under a name of its own, so that faults can be meant for it alone.
    let clients = clients(|| Client::new(server.service_as("controller"), "default"));
    tokio::spawn(async move {
        run(clients, options, std::future::pending()).await.unwrap();
    })
}
