//! Runs leader election as a task: supplies time, requests and randomness to [`crate::core::leadership::election`], and passes
//! its outcome on to the writers.

use super::admin::Renewal;
use super::progress::Progress;
use crate::actors::events::{EventHandle, WallClock};
use crate::actors::messages::WriterHandle;
use crate::actors::router::Router;
use crate::cluster::election::{ElectionEvent, LeaseClient, Location, follow};
use crate::cluster::fence::{Clock, Fence};
use crate::cluster::outage::OutageLog;
use crate::core::leadership::Leadership;
use crate::core::leadership::election::{Ask, Election, Reply, Timing};
use crate::core::leadership::role::Role;
use crate::metrics::catalogue::Lease;
use futures::future::{BoxFuture, FutureExt as _, OptionFuture};
use kube::Client;
use metrics::Gauge;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

/// The longest time that releasing the Lease may take. If it does not succeed, the Lease expires by itself.
const RELEASE: Duration = Duration::from_secs(5);
/// The capacity of the channel from the Lease watch to the election.
const SHOWN: usize = 16;

/// The configuration of a candidate for leadership.
#[derive(Clone, Debug)]
pub struct Candidacy {
    /// The Lease's namespace and name.
    pub location: Location,
    /// The identity of this process, which no other process may ever use.
    pub identity: String,
    /// The lease duration, renew deadline and retry period.
    pub timing: Timing,
    /// The clock that measures them.
    pub clock: Clock,
    /// The wall clock, for the timestamps in the Lease.
    pub wall: WallClock,
    /// How long this process may make no progress before it stops renewing the Lease.
    pub stalled_after: Duration,
}

/// Creates an identity like client-go's: the host's name, and a UUID.
pub fn identity() -> String {
    let host = rustix::system::uname();
    // RandomState takes its keys from the system's random source.
    let random = || u128::from(RandomState::new().hash_one(0));
    let bits = (random() << 64 | random()) & !(0xf000 << 64) & !(0xc000 << 48);
    let hex = format!("{:032x}", bits | (0x4000 << 64) | (0x8000 << 48));
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    format!("{}_{a}-{b}-{c}-{d}-{e}", host.nodename().to_string_lossy())
}

/// The parts of the controller that the election notifies and updates.
#[derive(Debug)]
pub(super) struct LeadershipListeners {
    pub(super) fence: Fence,
    pub(super) router: Arc<Router>,
    pub(super) writer: WriterHandle,
    pub(super) events: EventHandle,
    pub(super) leadership: watch::Sender<Leadership>,
    pub(super) renewal: Renewal,
    pub(super) progress: Progress,
    pub(super) outages: OutageLog,
}

/// A running election.
pub(super) struct Elector {
    election: Election,
    identity: String,
    client: LeaseClient,
    clock: Clock,
    wall: WallClock,
    random: fastrand::Rng,
    listeners: LeadershipListeners,
    leads: Gauge,
    /// True if the lack of progress has been logged.
    stalled: bool,
    /// The holder that was logged last, while another process holds the Lease.
    logged_holder: Option<Box<str>>,
}

/// The request in flight, if any.
type Asked = OptionFuture<BoxFuture<'static, Reply>>;

impl Elector {
    pub(super) fn new(
        client: Client,
        candidacy: Candidacy,
        listeners: LeadershipListeners,
        seed: u64,
    ) -> Self {
        let (location, timing) = (candidacy.location, candidacy.timing);
        let identity = candidacy.identity;
        tracing::info!(%identity, namespace = %location.namespace, name = %location.name, "leader election started; waiting for the lease");
        let leads = (Lease::default().leads)(&[&location.name]);
        leads.set(0.0);
        Self {
            election: Election::new(identity.clone(), timing),
            identity,
            client: LeaseClient::new(client, location, timing.request()).reporting(listeners.outages.clone()),
            clock: candidacy.clock,
            wall: candidacy.wall,
            random: fastrand::Rng::with_seed(seed),
            listeners,
            leads,
            stalled: false,
            logged_holder: None,
        }
    }

    /// Runs until `stop` is received: `true` releases the Lease, `false` lets it expire.
    pub(super) async fn run(mut self, mut stop: oneshot::Receiver<bool>) {
        let (shown, mut seen) = mpsc::channel(SHOWN);
        let watch = tokio::spawn(follow(self.client.clone(), shown));
        let mut asked: Asked = None.into();
        let mut waits = false;
        let release = loop {
            let now = self.clock.now();
            self.heed_progress(now);
            let ask = self.election.ask(now, self.wall.now());
            self.publish();
            if let Some(ask) = ask {
                (asked, waits) = (self.ask(ask), true);
            }
            let wake = self.election.wake().saturating_sub(self.clock.now());
            tokio::select! {
                biased;
                release = &mut stop => break release.unwrap_or(false),
                Some(reply) = &mut asked, if waits => {
                    (asked, waits) = (None.into(), false);
                    self.answered(reply);
                }
                Some(shown) = seen.recv() => self.see(shown),
                () = sleep(wake) => {}
            }
        };
        watch.abort();
        self.listeners.renewal.set(None);
        // The fence stays shut from here on, whatever the reply to a renewal in flight may be.
        self.listeners.fence.shut();
        if release && timeout(RELEASE, self.release(asked)).await.is_err() {
            tracing::warn!("the lease could not be released; it expires by itself");
        }
        self.leads.set(0.0);
    }

    /// Stops renewing and claiming the Lease while this process makes no progress, so that another can take over.
    fn heed_progress(&mut self, now: Duration) {
        let stall = self.listeners.progress.stall();
        if stall.is_some() != self.stalled {
            self.stalled = stall.is_some();
            if let Some(why) = &stall {
                tracing::error!(
                    why,
                    "this process makes no progress; it no longer renews the lease or tries to take it"
                );
            } else {
                tracing::info!("this process makes progress again; it renews the lease or tries to take it");
            }
        }
        self.election.set_able(stall.is_none(), now);
    }

    fn ask(&self, ask: Ask) -> Asked {
        let client = self.client.clone();
        Some(async move { client.ask(&ask).await }.boxed()).into()
    }

    fn answered(&mut self, reply: Reply) {
        self.election.answered(reply, self.clock.now(), self.random.f64());
        if self.election.take_turn() {
            tracing::warn!(
                "the resourceVersion of the lease went backwards: the API server's store was replaced or restored; everything is listed again"
            );
            self.listeners.router.relist_everything();
        }
    }

    fn see(&mut self, shown: ElectionEvent) {
        let now = self.clock.now();
        match shown {
            ElectionEvent::Record(version, record) => self.election.see(version, record, now),
            ElectionEvent::Gone(version) => self.election.see_gone(version, now),
        }
    }

    /// Moves the fence, and notifies the other components if the role has changed. When a term begins, shards are first
    /// kept from planning, because their state is not yet proven to be as new as the term. Then the fence opens, so
    /// that the writers can write as soon as they are notified. The writers are notified before the watches, so that
    /// they are ready for the writes that follow from a list.
    fn publish(&mut self) {
        let proven = self.election.proven();
        let role = if proven.is_some() {
            Role::Leader
        } else {
            Role::Standby
        };
        let before = *self.listeners.leadership.borrow();
        if role.writes() && !before.role.writes() {
            self.listeners.router.begin_term();
        }
        self.listeners.fence.set(proven);
        match proven {
            Some(until) => {
                let sent = until.saturating_sub(self.election.timing().renew());
                self.listeners.renewal.set(Some(sent));
            }
            // The record still names this process as the holder, so the Lease still ought to be renewed.
            None if self.election.holder() == Some(&*self.identity) => {}
            None => self.listeners.renewal.set(None),
        }
        if role == before.role {
            self.log_holder();
            return;
        }
        self.listeners.writer.change_role(role);
        self.listeners.events.change_role(role);
        let wins = before.wins + u64::from(role.writes());
        self.listeners.leadership.send_replace(Leadership { role, wins });
        self.leads.set(f64::from(u8::from(role.writes())));
        match role {
            Role::Leader => tracing::info!(term = wins, "this process holds the lease; it starts to write"),
            Role::Standby | Role::DryRun => self.log_loss(),
        }
    }

    /// Logs why this process no longer leads. The Lease may still name it: it could not renew it in time, because the API
    /// server did not answer, or because the process was stopped for a while.
    fn log_loss(&mut self) {
        let holder = self.election.holder().filter(|holder| !holder.is_empty());
        let is_ours = holder == Some(&*self.identity);
        self.logged_holder = holder.filter(|_| !is_ours).map(Into::into);
        let why = match holder {
            Some(_) if is_ours => "the lease was not renewed in time",
            Some(_) => "another process has taken the lease",
            None => "the lease was deleted, or names no holder",
        };
        tracing::warn!(
            holder = self.logged_holder,
            "{why}; this process stops writing and becomes a standby"
        );
    }

    /// Logs which process holds the Lease, while it is another one, when that has changed.
    fn log_holder(&mut self) {
        let holder = self.election.holder();
        let Some(holder) = holder.filter(|holder| *holder != &*self.identity) else {
            return;
        };
        if self.logged_holder.as_deref() != Some(holder) {
            tracing::info!(
                holder,
                "another process holds the lease; this one stands by to take over"
            );
            self.logged_holder = Some(holder.into());
        }
    }

    /// Releases the Lease, if it is held.
    async fn release(&mut self, asked: Asked) {
        // The reply to the request in flight carries the resourceVersion to replace.
        if let Some(reply) = asked.await {
            self.answered(reply);
        }
        let retry = self.election.timing().retry() / 4;
        loop {
            let Some(ask) = self.election.release(self.clock.now(), self.wall.now()) else {
                return;
            };
            let reply = self.client.ask(&ask).await;
            let failed = matches!(reply, Reply::Failed | Reply::Conflict);
            if matches!((&ask, &reply), (Ask::Replace(..), Reply::Record(..))) {
                tracing::info!("the lease has been released");
            }
            self.answered(reply);
            if failed {
                sleep(retry).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::identity;

    #[test]
    fn identities_are_the_hosts_name_and_a_uuid_that_differs() {
        let one = identity();
        let (host, uuid) = one.rsplit_once('_').unwrap();
        assert!(!host.is_empty());
        let parts: Vec<&str> = uuid.split('-').collect();
        let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
        assert!(
            parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']),
            "{uuid}"
        );
        assert_ne!(one, identity());
    }
}
