//! The state of the lists as a whole: which kinds have been listed, and which are proven to be as new as the term.
//! Shards plan only while nothing is missing.
//!
//! A kind holds all plans back for two reasons, and each ends in its own way:
//!
//! * *No whole list is there*, at the start, after the kind was forgotten, and while another list is handed on. It
//!   ends with a list; after the kind was forgotten only with one that was asked for after that, since an older one
//!   may have been under way.
//! * *A proof is demanded*: a lease was won, or versions went backwards. It ends when the kind's
//!   [`ListWatch`](super::list_watch::ListWatch) meets the latest demand. Proofs of earlier demands count for nothing.
//!
//! The decisions are made here; the owner passes the [`Announcement`]s on to every shard, in the order of the
//! decisions.

use super::Demand;
use crate::core::inbox::Change;
use crate::core::namespace::{Kind, PendingLists};
use crate::core::outputs::Outputs;

/// A message that every shard must get.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Announcement {
    /// Shards must not plan until the kind is released.
    Hold(Kind),
    /// The kind no longer holds plans back. Objects that the list of this epoch left out, and that are no newer than
    /// its version, are gone; repeating this changes nothing.
    Release {
        /// The kind.
        kind: Kind,
        /// The epoch of its list.
        epoch: u8,
        /// The version that the list shows.
        version: u64,
    },
    /// The state of the kind is worthless; nothing may be planned until it has been listed again.
    Forget(Kind),
}

impl From<Announcement> for Change {
    fn from(announcement: Announcement) -> Self {
        match announcement {
            Announcement::Hold(kind) => Self::Begin(kind),
            Announcement::Release { kind, epoch, version } => Self::End(kind, epoch, version),
            Announcement::Forget(kind) => Self::Forget(kind),
        }
    }
}

/// One kind's part of the picture.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
struct Part {
    /// Epoch and version of the last whole list.
    listed: Option<(u8, u64)>,
    /// The earliest demand under which a list counts.
    since: Demand,
}

/// The state of all kinds' lists. One per process, owned by the router.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ListState {
    /// The kinds that the outputs depend on.
    needed: PendingLists,
    /// Kinds whose list is arriving, or has not been complete since the kind was last forgotten.
    pending: PendingLists,
    /// Kinds whose list has not been complete since the kind was last forgotten.
    unlisted: PendingLists,
    /// Kinds that have yet to meet the demand.
    unproven: PendingLists,
    demand: Demand,
    /// By [`Kind::index`].
    parts: [Part; Kind::ALL.len()],
}

impl ListState {
    /// Creates the picture before anything was listed. The first list of a kind is enough until a proof is demanded.
    pub fn new(outputs: Outputs) -> Self {
        let needed = PendingLists::all(outputs);
        Self {
            needed,
            pending: needed,
            unlisted: needed,
            unproven: PendingLists::NONE,
            demand: Demand::default(),
            parts: [Part::default(); Kind::ALL.len()],
        }
    }

    /// Returns the demand that views have to meet.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// Returns the kinds that keep shards from planning.
    pub fn holding_back(&self) -> PendingLists {
        self.pending.or(self.unproven)
    }

    /// Returns whether a complete list of the kind is known.
    pub fn is_listed(&self, kind: Kind) -> bool {
        !self.unlisted.has(kind)
    }

    /// Returns whether a complete list of every kind is known.
    pub fn is_complete(&self) -> bool {
        !self.unlisted.any()
    }

    /// Returns whether everything that endpoints are computed from has been listed.
    pub fn has_inputs(&self) -> bool {
        !self.unlisted.hides_inputs()
    }

    /// Begins a term in which this process writes. Every kind holds plans back until it is proven; slices and Endpoints are
    /// listed again, since others have written them meanwhile.
    pub fn begin_term(&mut self) -> Vec<Announcement> {
        self.demand_proof(self.demand.next())
    }

    /// Demands a proof of every kind. Outputs are listed again: others may have written them since, or their versions
    /// may belong to another history.
    fn demand_proof(&mut self, demand: Demand) -> Vec<Announcement> {
        self.demand = demand;
        self.unproven = self.needed;
        let mut announcements: Vec<_> = self.kinds().map(Announcement::Hold).collect();
        for kind in self.kinds().filter(|kind| kind.is_output()) {
            announcements.extend(self.forget(kind));
        }
        announcements
    }

    /// Handles versions of a kind that went backwards, in an answer to a request made under a demand: the state is of
    /// another history, so everything has to be listed, unless that is being done for the same reason already.
    pub fn rewound(&mut self, kind: Kind, under: Demand) -> Vec<Announcement> {
        let mut announcements = if under.history < self.demand.history {
            Vec::new()
        } else {
            self.relist_everything()
        };
        announcements.extend(self.forget(kind));
        announcements
    }

    /// Has everything listed again: the server's store was replaced, or set back.
    pub fn relist_everything(&mut self) -> Vec<Announcement> {
        self.demand_proof(self.demand.next_history())
    }

    /// Forgets a kind, until it is listed by a request that is still to be made.
    pub fn forget(&mut self, kind: Kind) -> Option<Announcement> {
        if !self.needed.has(kind) {
            return None;
        }
        self.pending.set(kind);
        self.unlisted.set(kind);
        self.parts[kind.index()] = Part {
            listed: None,
            since: self.demand,
        };
        Some(if kind.is_output() {
            Announcement::Forget(kind)
        } else {
            // Kinds that we only read are merely compared with the next list.
            Announcement::Hold(kind)
        })
    }

    /// Begins to hand on a list of a kind.
    pub fn begin_list(&mut self, kind: Kind) -> Option<Announcement> {
        self.needed.has(kind).then(|| {
            self.pending.set(kind);
            Announcement::Hold(kind)
        })
    }

    /// Handles a list of a kind, asked for under this demand, that has been handed on completely.
    pub fn end_list(&mut self, kind: Kind, epoch: u8, version: u64, asked: Demand) -> Option<Announcement> {
        let part = &mut self.parts[kind.index()];
        if asked < part.since {
            return None;
        }
        part.listed = Some((epoch, version));
        self.pending.clear(kind);
        self.unlisted.clear(kind);
        self.release(kind)
    }

    /// Handles a kind's view that has met a demand.
    pub fn prove(&mut self, kind: Kind, demand: Demand) -> Option<Announcement> {
        if demand != self.demand || !self.unproven.has(kind) {
            return None;
        }
        self.unproven.clear(kind);
        self.release(kind)
    }

    fn release(&self, kind: Kind) -> Option<Announcement> {
        if self.holding_back().has(kind) {
            return None;
        }
        let (epoch, version) = self.parts[kind.index()].listed?;
        Some(Announcement::Release { kind, epoch, version })
    }

    fn kinds(&self) -> impl Iterator<Item = Kind> + use<> {
        let needed = self.needed;
        Kind::ALL.into_iter().filter(move |kind| needed.has(*kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: Kind = Kind::Pod;
    const SLICE: Kind = Kind::Slice;

    /// Records a whole list that was asked for under the demand of this moment.
    fn listed(picture: &mut ListState, kind: Kind, epoch: u8) -> Option<Announcement> {
        picture.begin_list(kind);
        let demand = picture.demand();
        picture.end_list(kind, epoch, 10, demand)
    }

    fn complete() -> ListState {
        let mut picture = ListState::new(Outputs::ALL);
        for kind in Kind::ALL {
            assert!(!picture.is_complete() && !picture.is_listed(kind));
            let released = listed(&mut picture, kind, 1);
            assert_eq!(
                released,
                Some(Announcement::Release {
                    kind,
                    epoch: 1,
                    version: 10
                })
            );
        }
        assert!(picture.is_complete() && picture.has_inputs() && !picture.holding_back().any());
        picture
    }

    #[test]
    fn without_an_election_the_first_lists_are_enough() {
        complete();
    }

    #[test]
    fn a_term_holds_everything_back_until_each_kind_has_met_its_demand() {
        let mut picture = complete();
        let announcements = picture.begin_term();
        for kind in Kind::ALL {
            assert!(picture.holding_back().has(kind));
            assert!(announcements.contains(&Announcement::Hold(kind)));
        }
        for kind in [SLICE, Kind::Endpoints, Kind::Mirrored] {
            assert!(announcements.contains(&Announcement::Forget(kind)));
        }
        // Lists and proofs of before do not count.
        assert_eq!(picture.prove(POD, Demand::of(0)), None);
        assert_eq!(
            picture.end_list(POD, 2, 11, Demand::of(0)),
            None,
            "it is a list, and no proof"
        );
        assert_eq!(picture.end_list(SLICE, 2, 11, Demand::of(0)), None);
        assert!(!picture.is_listed(SLICE) && picture.is_listed(POD));
        // A proof releases the kind with the list that is known. A kind that was forgotten needs a new list as well.
        let released = Announcement::Release {
            kind: POD,
            epoch: 2,
            version: 11,
        };
        assert_eq!(picture.prove(POD, Demand::of(1)), Some(released));
        assert_eq!(picture.prove(POD, Demand::of(1)), None, "once");
        assert_eq!(picture.prove(SLICE, Demand::of(1)), None);
        assert!(picture.holding_back().has(SLICE));
        assert!(listed(&mut picture, SLICE, 3).is_some());
        // The other way round.
        assert_eq!(listed(&mut picture, Kind::Endpoints, 3), None);
        assert!(picture.prove(Kind::Endpoints, Demand::of(1)).is_some());
        assert_eq!(listed(&mut picture, Kind::Mirrored, 3), None);
        assert!(picture.prove(Kind::Mirrored, Demand::of(1)).is_some());
        for kind in [Kind::Node, Kind::Service] {
            assert!(picture.holding_back().any());
            assert!(picture.prove(kind, Demand::of(1)).is_some());
        }
        assert!(!picture.holding_back().any());
    }

    #[test]
    fn versions_that_went_backwards_put_every_kind_in_doubt_once() {
        let mut picture = complete();
        let announcements = picture.rewound(SLICE, Demand::of(0));
        for kind in Kind::ALL {
            assert!(announcements.contains(&Announcement::Hold(kind)));
        }
        // Comparisons by version prove nothing any more, whichever view noticed.
        for kind in [SLICE, Kind::Endpoints, Kind::Mirrored] {
            assert!(announcements.contains(&Announcement::Forget(kind)));
        }
        let demand = Demand::default().next_history();
        assert_eq!(picture.demand(), demand);
        // Another answer to an earlier request shows the same, and no further proof is demanded.
        let again = picture.rewound(POD, Demand::of(0));
        assert_eq!(again, [Announcement::Hold(POD)]);
        assert_eq!(picture.demand(), demand);
        assert!(!picture.is_listed(POD) && picture.is_listed(Kind::Node));
        assert_eq!(
            picture.end_list(POD, 2, 3, Demand::of(0)),
            None,
            "asked for before"
        );
        assert_eq!(picture.prove(POD, demand), None, "it must be listed");
        assert!(listed(&mut picture, POD, 3).is_some());
    }

    #[test]
    fn kinds_that_nothing_is_made_of_hold_nothing_back() {
        let outputs = Outputs {
            slices: false,
            endpoints: true,
            mirrored: false,
            custom: false,
        };
        let mut picture = ListState::new(outputs);
        assert_eq!(picture.begin_list(Kind::Node), None);
        assert_eq!(picture.forget(SLICE), None);
        assert!(picture.begin_term().iter().all(|announcement| !matches!(
            announcement,
            Announcement::Hold(Kind::Node | Kind::Slice) | Announcement::Forget(Kind::Slice)
        )));
        for kind in [POD, Kind::Service, Kind::Endpoints] {
            listed(&mut picture, kind, 1);
            picture.prove(kind, Demand::of(1));
        }
        assert!(!picture.holding_back().any());
    }

    /// Tries every order of events for two kinds in two terms: a kind is only ever open when its last proof meets
    /// the last demand, and its last list was asked for since it was last forgotten.
    #[test]
    fn in_every_order_nothing_is_open_without_a_proof_of_the_term() {
        #[derive(Clone)]
        struct Case {
            picture: ListState,
            /// The demands of a list in progress, of the last list that counts, and of the last proof, for pods and
            /// slices.
            asked: [Option<Demand>; 2],
            listed: [Option<Demand>; 2],
            proven: [Option<Demand>; 2],
            forgotten: Demand,
            terms: u32,
        }
        fn check(case: &Case) {
            for (at, kind) in [POD, SLICE].into_iter().enumerate() {
                let open = !case.picture.holding_back().has(kind);
                let proven = case.proven[at] == Some(case.picture.demand());
                let since = if kind == SLICE {
                    case.forgotten
                } else {
                    Demand::of(0)
                };
                let listed = case.listed[at].is_some_and(|asked| asked >= since);
                assert!(
                    !open || (proven || case.terms == 0) && listed,
                    "{kind:?} is open: {:?}",
                    case.picture
                );
            }
        }
        fn explore(case: &Case, depth: u32, histories: &mut u64) {
            check(case);
            *histories += 1;
            if depth == 0 {
                return;
            }
            for (at, kind) in [POD, SLICE].into_iter().enumerate() {
                let mut next = case.clone();
                if let Some(asked) = next.asked[at].take() {
                    next.picture.begin_list(kind);
                    next.picture.end_list(kind, 1, 1, asked);
                    next.listed[at] = Some(asked);
                } else {
                    next.asked[at] = Some(next.picture.demand());
                }
                explore(&next, depth - 1, histories);
                // Proofs of whatever demand, late ones too.
                for demand in 0..=case.picture.demand().number {
                    let mut next = case.clone();
                    next.picture.prove(kind, Demand::of(demand));
                    if Demand::of(demand) == next.picture.demand() {
                        next.proven[at] = Some(Demand::of(demand));
                    }
                    explore(&next, depth - 1, histories);
                }
            }
            if case.terms < 2 {
                let mut next = case.clone();
                next.picture.begin_term();
                next.terms += 1;
                next.forgotten = next.picture.demand();
                explore(&next, depth - 1, histories);
            }
        }
        let mut histories = 0;
        let case = Case {
            picture: ListState::new(Outputs::ALL),
            asked: [None; 2],
            listed: [None; 2],
            proven: [None; 2],
            forgotten: Demand::of(0),
            terms: 0,
        };
        explore(&case, 6, &mut histories);
        assert!(histories > 50_000, "{histories}");
    }
}
