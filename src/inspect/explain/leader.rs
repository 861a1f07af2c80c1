//! Explains which pod leads a Service that publishes only the holder of a Lease, and why none does.

use crate::core::excerpt::Excerpt;
use crate::core::facts::{ANNOTATION_FOLLOWED, PodFacts, ServiceFacts};
use crate::core::followed_leases::lease::{LeaseFacts, Vacancy, duration, holder_name, is_lease_name};
use crate::core::inputs::cut_hostname;
use crate::core::namespace::{LeaderStatus, NamespaceState};
use crate::core::time::Time;
use crate::inspect::text::listed;
use serde::Serialize;

/// The most pods of the same name that are listed.
const NAMED: usize = 5;

/// The Lease that a Service follows, as it was read.
#[derive(Clone, Debug)]
pub enum SeenLease {
    /// The Lease, if it exists.
    Known(Option<LeaseFacts>),
    /// Reading it is forbidden, for this reason.
    Unreadable(String),
}

/// The leader of a Service, as a controller that starts now would decide.
#[derive(Clone, Debug)]
pub struct Leading {
    status: LeaderStatus,
    holder: Option<String>,
    /// The pods that the holder may be, and of each whether the Service may publish it.
    candidates: Vec<(String, bool)>,
}

impl Leading {
    /// Captures who leads a Service, if that follows a Lease.
    pub(crate) fn of(core: &NamespaceState, service: &str) -> Option<Self> {
        let (status, holder) = core.leader(service)?;
        let candidates = core.leader_candidates(service).into_iter();
        Some(Self {
            status,
            holder: holder.map(str::to_owned),
            candidates: candidates.map(|(pod, may)| (pod.to_owned(), may)).collect(),
        })
    }

    /// Returns whether the pod that leads is not published because slices of other controllers hold endpoints.
    pub(super) fn waits_for_others(&self) -> bool {
        self.status == LeaderStatus::OthersPublish
    }

    /// Returns the pod that leads, whether it is published or not.
    fn pod(&self) -> Option<&str> {
        let mut publishable = self.publishable();
        publishable.next().filter(|_| publishable.next().is_none())
    }

    fn publishable(&self) -> impl Iterator<Item = &str> {
        let pods = self.candidates.iter().filter(|(_, may)| *may);
        pods.map(|(pod, _)| &**pod)
    }
}

/// The finding about the leader of a Service.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderFinding {
    /// The Lease that the Service follows.
    pub lease: String,
    /// The identity of its holder.
    pub holder: Option<String>,
    /// The pod that the holder is, if there is one that the Service may publish.
    pub pod: Option<String>,
    /// Whether that pod is ready.
    pub ready: Option<bool>,
    /// For how many seconds the Lease has run out, by this machine's clock.
    pub ran_out_seconds: Option<i64>,
    /// A sentence that says who leads, or why no pod is published.
    pub says: String,
}

impl LeaderFinding {
    /// Explains who leads. `now` is the time by this machine's clock.
    pub(in crate::inspect) fn new(
        service: &ServiceFacts,
        lease: Option<&SeenLease>,
        leading: Option<&Leading>,
        pod: impl Fn(&str) -> Option<PodFacts>,
        now: Option<Time>,
    ) -> Option<Self> {
        let name = Excerpt::value(service.followed_lease()?).to_string();
        let known = match lease {
            Some(SeenLease::Known(lease)) => lease.as_ref(),
            _ => None,
        };
        let leader = leading.and_then(Leading::pod);
        let leader_facts = leader.and_then(pod);
        let says = match lease {
            _ if !is_lease_name(&name) => {
                format!(
                    "the annotation {ANNOTATION_FOLLOWED} is not the name of a Lease, so nobody is published"
                )
            }
            Some(SeenLease::Unreadable(why)) => {
                format!("Lease {name} could not be read, so it is not known who leads: {why}")
            }
            _ => says(service, &name, leading, leader_facts.as_ref()),
        };
        Some(Self {
            holder: leading
                .and_then(|leading| leading.holder.as_deref())
                .map(|holder| Excerpt::value(holder).to_string()),
            pod: leader.map(str::to_owned),
            ready: leader_facts.as_ref().map(is_ready),
            ran_out_seconds: known.and_then(|lease| ran_out(lease, now?)),
            says,
            lease: name,
        })
    }

    /// Returns that the Lease has run out, in words.
    pub(super) fn ran_out(&self) -> Option<String> {
        let seconds = self.ran_out_seconds?;
        Some(format!(
            "Lease ran out {} ago, by this machine's clock",
            spelled(seconds)
        ))
    }
}

fn says(service: &ServiceFacts, lease: &str, leading: Option<&Leading>, leader: Option<&PodFacts>) -> String {
    let Some(leading) = leading else {
        return format!("it is not known who holds the Lease {lease}");
    };
    let name = leading.holder.as_deref().unwrap_or_default();
    let holder = Excerpt::value(name);
    let pod = || {
        let state = match leader {
            Some(pod) if pod.terminating => ", terminating",
            Some(pod) if pod.ready => ", ready",
            Some(_) => ", not ready",
            None => "",
        };
        format!(
            "holder {holder} is pod {}{state}",
            leading.pod().unwrap_or_default()
        )
    };
    match leading.status {
        LeaderStatus::Unknown => format!("it is not known who holds the Lease {lease}"),
        LeaderStatus::Leads => pod(),
        LeaderStatus::AwaitsRenewal => {
            format!("{}; it is published once the Lease is seen to be renewed", pod())
        }
        LeaderStatus::OthersPublish => format!(
            "{}; nobody is published, because slices of other controllers hold endpoints of the Service",
            pod()
        ),
        LeaderStatus::OthersUnread => format!(
            "{}; it is published once slices of other controllers have been read and hold no endpoints of the Service",
            pod()
        ),
        LeaderStatus::Vacant(vacancy) => {
            let why = match vacancy {
                Vacancy::NoHolder => format!("Lease {lease} has no holder"),
                Vacancy::NoLease => format!("there is no Lease {lease}"),
                Vacancy::Expired => {
                    format!("holder {holder} has not renewed the Lease {lease} for its duration")
                }
                Vacancy::Unreadable => format!("Lease {lease} may not be read"),
            };
            format!("{why}, so nobody is published")
        }
        LeaderStatus::NoPod => match &leading.candidates[..] {
            [] => format!("no pod has the name {}, so nobody is published", meant_name(name)),
            [(pod, _), ..] if service.is_frozen() => format!(
                "holder {holder} is pod {pod}, which is not added while the selector cannot be used, so nobody is \
                 published"
            ),
            [(pod, _), ..] => format!(
                "holder {holder} is pod {pod}, which the selector does not match, so nobody is published"
            ),
        },
        LeaderStatus::SeveralPods => {
            let pods: Vec<&str> = leading.publishable().collect();
            format!(
                "several pods have the name {}, so nobody is published: {}",
                meant_name(name),
                listed(&pods, NAMED)
            )
        }
    }
}

/// Returns the name that the holder of a Lease stands for, and how it was found, in words.
fn meant_name(holder: &str) -> String {
    let name = holder_name(holder);
    if name == holder {
        return format!("{}, which holds the Lease", Excerpt::value(holder));
    }
    format!(
        "{}, with which the holder {} begins",
        Excerpt::value(name),
        Excerpt::value(holder)
    )
}

fn is_ready(pod: &PodFacts) -> bool {
    pod.ready && !pod.terminating
}

/// Says that a Lease has run out, if it has at this time.
pub(crate) fn says_ran_out(lease: &LeaseFacts, now: Time) -> Option<&'static str> {
    ran_out(lease, now).map(|_| "the Lease has run out, by this machine's clock")
}

/// Returns for how many seconds a Lease has run out, if it has.
fn ran_out(lease: &LeaseFacts, now: Time) -> Option<i64> {
    let record = &lease.record;
    let renewed = record.renewed.filter(|_| !record.holder.is_empty())?;
    let lasts = i64::try_from(duration(record).as_nanos()).ok()?;
    let end = renewed.as_nanoseconds().saturating_add(lasts);
    let over = now.as_nanoseconds().saturating_sub(end);
    (over > 0).then_some(over / 1_000_000_000)
}

/// Formats a number of seconds in the unit that fits.
fn spelled(seconds: i64) -> String {
    match seconds {
        ..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        172_800.. => format!("{} days", seconds / 86_400),
    }
}

/// Returns whether a pod may be the holder of a Lease, as far as names say. The core decides it; this only leaves out pods
/// that are certainly not.
pub(crate) fn may_hold(pod: &PodFacts, holder: &str) -> bool {
    let name = holder_name(holder);
    let hostname = pod.host.as_ref().map(|host| &*host.hostname);
    let names = [Some(&*pod.name), hostname].into_iter().flatten();
    let mut names = names.flat_map(|name| [Some(name), cut_hostname(name)]).flatten();
    names.any(|own| own == name) || (pod.host_network && pod.node.as_deref() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::lease::Record;

    fn lease(holder: &str, seconds: i32, renewed: Option<i64>) -> LeaseFacts {
        LeaseFacts {
            name: "db".into(),
            version: 1,
            record: Record {
                holder: holder.to_owned(),
                seconds,
                acquired: None,
                renewed: renewed.map(Time::from_seconds),
                transitions: 0,
            },
        }
    }

    #[test]
    fn a_lease_runs_out_after_its_duration() {
        let after = |lease: LeaseFacts| ran_out(&lease, Time::from_seconds(1000));
        assert_eq!(after(lease("a", 10, Some(986))), Some(4));
        assert_eq!(after(lease("a", 10, Some(990))), None);
        assert_eq!(after(lease("a", 10, Some(2000))), None);
        // Without a duration, that of client-go counts.
        assert_eq!(after(lease("a", 0, Some(980))), Some(5));
        assert_eq!(after(lease("a", 10, None)), None);
        assert_eq!(after(lease("", 10, Some(0))), None, "nobody holds it");
    }

    #[test]
    fn long_times_are_rounded() {
        assert_eq!(
            [4, 150, 7200, 200_000].map(spelled),
            ["4 s", "2 min", "2 h", "2 days"]
        );
    }
}
