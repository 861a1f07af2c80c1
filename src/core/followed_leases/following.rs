//! The pods of one Service that publishes others than those that a selector selects.

use super::lease::Vacancy;
use crate::core::compact::small::SmallSet;
use crate::core::ids::PodId;

/// The pods that are published for a Service that follows a Lease, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum LeaderStatus {
    /// The pods that were published before, since nothing is known of the Lease yet.
    #[default]
    Unknown,
    /// The holder of the Lease.
    Leads,
    /// No pod: the Lease has a holder, but has not been seen to change since.
    AwaitsRenewal,
    /// No pod, because no process holds the Lease.
    Vacant(Vacancy),
    /// No pod: no pod that the Service may publish has the name in the Lease.
    NoPod,
    /// No pod: several pods have the name in the Lease.
    SeveralPods,
    /// No pod: slices of other controllers hold endpoints of the Service.
    OthersPublish,
    /// No pod is added until it has been read whether slices of other controllers hold endpoints of the Service.
    OthersUnread,
}

/// The pods of a Service that publishes others than those that a selector selects: it follows a Lease, or its selector
/// cannot be used.
#[derive(Clone, Debug, Default)]
pub(crate) struct Following {
    /// The pods. At most one if the Service follows a Lease, once it is decided who leads.
    members: SmallSet<PodId>,
    /// False while the pods are those that adopted slices show: until all slices have been adopted and, if the Service
    /// follows a Lease, that has been seen.
    decided: bool,
    /// The pods that are published, and the reason, if the Service follows a Lease.
    status: LeaderStatus,
    /// The holder of the Lease, if that was seen to change while it was not known whether slices of other controllers hold
    /// endpoints: it is added once they have been read and hold none, unless the Lease has another holder by then.
    waits_for_others: Option<Box<str>>,
    /// The name of the pod that was published last as the holder of the Lease, even if it is gone.
    last_leader: Option<Box<str>>,
    /// The holder of the Lease when users were told last who leads, or why no pod does.
    told_of: Option<Box<str>>,
    /// True from the time at which this process begins to write until it finds for the first time who leads, or withdraws a pod. If
    /// no pod leads by then, none did before either.
    since_start: bool,
}

/// The findings about a Service that follows a Lease.
#[derive(Debug)]
pub(crate) struct Settled {
    /// The pods that are published, and the reason.
    pub(crate) status: LeaderStatus,
    /// The name of the pod that leads, or did last.
    pub(crate) leader: Option<Box<str>>,
    /// The holder of the Lease.
    pub(crate) holder: Option<Box<str>>,
    /// True if the holder is to be taken in once slices of others have been read.
    pub(crate) waits: bool,
    /// True if a pod that was published no longer is, and no other takes its place.
    pub(crate) withdrawn: bool,
}

/// The parts of the result that have changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    /// The status has changed.
    pub(crate) status: bool,
    /// The status has changed, or the holder is another one than users were told of.
    pub(crate) told: bool,
    /// True if the status was the same before this process began to write.
    pub(crate) standing: bool,
}

impl Following {
    /// Creates the pods of a Service that keeps those that it has. `decided` says that all of its slices are known.
    pub(crate) fn new(members: impl Iterator<Item = PodId>, decided: bool) -> Self {
        Self {
            members: members.collect(),
            decided,
            ..Self::default()
        }
    }

    /// Returns the pods, in the order of their numbers.
    pub(crate) fn members(&self) -> impl Iterator<Item = PodId> {
        self.members.iter()
    }

    /// Returns whether there are no pods.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns whether a pod is among them.
    pub(crate) fn has(&self, pod: PodId) -> bool {
        self.members.contains(&pod)
    }

    /// Adds a pod.
    pub(crate) fn enter(&mut self, pod: PodId) {
        self.members.insert(pod);
    }

    /// Removes a pod.
    pub(crate) fn leave(&mut self, pod: PodId) {
        self.members.remove(&pod);
    }

    /// Returns whether the pods have been decided on. Until then, those that adopted slices show stay, unless they are gone.
    pub(crate) fn is_decided(&self) -> bool {
        self.decided
    }

    /// Notes that all slices of a Service whose selector cannot be used have been adopted.
    pub(crate) fn decide(&mut self) {
        self.decided = true;
    }

    /// Notes that the slices of the Service are to be adopted anew.
    pub(crate) fn reopen(&mut self) {
        self.decided = false;
    }

    /// Returns who is published, if the Service follows a Lease.
    pub(crate) fn status(&self) -> LeaderStatus {
        self.status
    }

    /// Returns whether this holder of the Lease is to be taken in as soon as slices of others are known to hold nothing.
    pub(crate) fn is_awaited(&self, holder: Option<&str>) -> bool {
        self.waits_for_others.is_some() && self.waits_for_others.as_deref() == holder
    }

    /// Returns the name of the pod that was published last as the holder of the Lease, even if it is gone.
    pub(crate) fn last_leader(&self) -> Option<&str> {
        self.last_leader.as_deref()
    }

    /// Notes that this process begins to write.
    pub(crate) fn begin(&mut self) {
        self.since_start = true;
    }

    /// Notes who leads. Returns what is new of that.
    pub(crate) fn settle(&mut self, settled: Settled) -> News {
        let Settled {
            status,
            leader,
            holder,
            waits,
            withdrawn,
        } = settled;
        self.decided = true;
        self.last_leader = leader;
        let other_status = std::mem::replace(&mut self.status, status) != status;
        let names_holder = matches!(status, LeaderStatus::NoPod | LeaderStatus::SeveralPods);
        let other_holder = self.told_of != holder;
        self.waits_for_others = holder.clone().filter(|_| waits);
        self.told_of = holder;
        let open = matches!(
            status,
            LeaderStatus::Unknown | LeaderStatus::AwaitsRenewal | LeaderStatus::OthersUnread
        );
        let standing = self.since_start && !withdrawn;
        self.since_start = standing && open;
        News {
            status: other_status,
            told: other_status || (names_holder && other_holder),
            standing,
        }
    }
}
