//! Hints in proportion to CPU, for one Service and family.
//!
//! Slices that are not being written anyway keep their hints if they can, since writing a slice costs every node of the
//! cluster an update. In the others, every endpoint starts out hinted to its own zone; then as many as needed are moved
//! from zones with too many to zones with too few.

use super::{Disabled, Zone, ZoneRatios};

/// The share of a Service's ready endpoints that a zone should get.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Allocation {
    /// With fewer, its endpoints would carry over 120 % of the average load.
    pub minimum: usize,
    /// With more, some other zone would be below its minimum.
    pub maximum: usize,
    /// In proportion to its CPU, but not below the minimum.
    pub desired: f64,
}

/// An endpoint of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HintedEndpoint<'a> {
    /// True if it takes traffic. Other endpoints get no hint and are not counted.
    pub ready: bool,
    /// Its zone; an empty one counts as none.
    pub zone: Option<&'a Zone>,
    /// The zone in its published hint; `None` also if its hints are anything other than one zone.
    pub hint: Option<&'a Zone>,
}

/// A slice with the endpoints that it will have and the hints that they had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HintedSlice<'a> {
    /// True if it is written anyway, because it is new or something other than the hints changed.
    pub touched: bool,
    /// Its endpoints.
    pub endpoints: Vec<HintedEndpoint<'a>>,
}

/// The hints of a slice's endpoints, in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceHints {
    /// The index of the slice in the input.
    pub slice: usize,
    /// A zone for each ready endpoint, `None` for the others.
    pub hints: Vec<Option<Zone>>,
}

/// Distributes the ready endpoints of a Service over zones. `slices` are all slices of one family that stay or are to
/// be created, in an order that does not change from call to call.
///
/// The result has the touched slices and those that cannot keep their hints, possibly with the hints that they had; all
/// other slices stay as they are. An error means that no slice may have hints.
///
/// Once the result is applied, the next call with nothing touched returns an empty result.
pub fn assign(ratios: &ZoneRatios, slices: &[HintedSlice<'_>]) -> Result<Vec<SliceHints>, Disabled> {
    let ready = slices
        .iter()
        .flat_map(|slice| &slice.endpoints)
        .filter(|e| e.ready)
        .count();
    let allocations = ratios.allocate(ready)?;
    let state = Assignment {
        ratios,
        allocations: &allocations,
        slices,
    };
    if state.is_settled() {
        return Ok(Vec::new());
    }
    let (open, kept) = state.keep_what_can_be();
    let (hints, totals) = state.distribute(&open, kept)?;
    // The slices that keep their hints may leave too few endpoints to move. That is acceptable as long as no zone
    // exceeds its maximum; otherwise the next call would find a slice that cannot keep its hints.
    let over = totals.iter().zip(&allocations).any(|(n, a)| *n > a.maximum);
    if over && open.len() < slices.len() && !state.is_balanced(&totals) {
        let all: Vec<usize> = (0..slices.len()).collect();
        return Ok(state.distribute(&all, vec![0; ratios.len()])?.0);
    }
    Ok(hints)
}

struct Assignment<'a> {
    ratios: &'a ZoneRatios,
    allocations: &'a [Allocation],
    slices: &'a [HintedSlice<'a>],
}

/// The number of endpoints that each zone gives and receives.
struct Moves {
    give: Vec<usize>,
    receive: Vec<usize>,
}

// === impl ZoneRatios ===

impl ZoneRatios {
    /// Returns each zone's share of this many endpoints, in the order of the zones.
    pub fn allocate(&self, endpoints: usize) -> Result<Vec<Allocation>, Disabled> {
        const OVERLOAD: f64 = 0.2;
        let zones = self.len();
        if zones > endpoints {
            return Err(Disabled::TooFewEndpoints {
                endpoints: endpoints as u32,
                zones: zones as u32,
            });
        }
        let mut allocations: Vec<Allocation> = self
            .iter()
            .map(|(_, ratio)| {
                let desired = ratio * endpoints as f64;
                // The same operations as upstream, which round differently from a division by 1.2.
                let minimum = (desired * (1.0 / (1.0 + OVERLOAD))).ceil();
                Allocation {
                    minimum: minimum as usize,
                    maximum: 0,
                    desired: desired.max(minimum),
                }
            })
            .collect();
        let needed: usize = allocations.iter().map(|a| a.minimum).sum();
        let spare = endpoints.checked_sub(needed).ok_or(Disabled::Overload {
            endpoints: endpoints as u32,
            zones: zones as u32,
        })?;
        for allocation in &mut allocations {
            allocation.maximum = allocation.minimum + spare;
        }
        Ok(allocations)
    }
}

// === impl HintedEndpoint ===

impl<'a> HintedEndpoint<'a> {
    fn own_zone(&self) -> Option<&'a Zone> {
        self.zone.filter(|zone| !zone.is_empty())
    }
}

// === impl Moves ===

impl Moves {
    fn is_empty(&self) -> bool {
        self.give.iter().all(|n| *n == 0)
    }
}

// === impl Assignment ===

impl Assignment<'_> {
    /// Returns whether nothing is touched, every hint is valid and no zone is over its maximum, as upstream asks after a change
    /// of the nodes. Where minimums are rounded up a lot, the stopping rule leaves a zone above its maximum.
    fn is_settled(&self) -> bool {
        let mut totals = vec![0; self.ratios.len()];
        let mut slices = self.slices.iter();
        if !slices.all(|slice| !slice.touched && self.count_hints(slice, &mut totals)) {
            return false;
        }
        let mut zones = totals.iter().zip(self.allocations);
        zones.all(|(has, allocation)| *has <= allocation.maximum) || self.is_balanced(&totals)
    }

    /// Returns whether [`Assignment::moves`] stops at these totals. A zone that received its last half endpoint is half
    /// an endpoint over, so half an endpoint is no reason to move on either side.
    fn is_balanced(&self, totals: &[usize]) -> bool {
        let (mut surplus, mut lack) = (0.0f64, 0.0f64);
        for (has, allocation) in totals.iter().zip(self.allocations) {
            let over = *has as f64 - allocation.desired;
            surplus = surplus.max(over);
            lack = lack.max(-over);
        }
        (surplus < 1.0 && lack < 1.0) || surplus <= 0.5 || lack <= 0.5
    }

    /// Returns the slices that need new hints, and the number of endpoints per zone in the others.
    fn keep_what_can_be(&self) -> (Vec<usize>, Vec<usize>) {
        let mut kept = vec![0; self.ratios.len()];
        let mut open = Vec::new();
        for (index, slice) in self.slices.iter().enumerate() {
            let mut counts = kept.clone();
            let keeps = !slice.touched && self.count_hints(slice, &mut counts) && {
                let mut pairs = counts.iter().zip(&kept).zip(self.allocations);
                // Only the zones of this slice count, since another one may already be over its maximum.
                pairs.all(|((new, old), allocation)| new == old || *new <= allocation.maximum)
            };
            if keeps {
                kept = counts;
            } else {
                open.push(index);
            }
        }
        (open, kept)
    }

    /// Adds up the hints of a slice by zone. Returns false if a ready endpoint has no hint or an impossible one: only
    /// an endpoint whose own zone has no capacity can be hinted to such a zone.
    fn count_hints(&self, slice: &HintedSlice<'_>, totals: &mut [usize]) -> bool {
        slice.endpoints.iter().filter(|e| e.ready).all(|endpoint| {
            let Some(hint) = endpoint.hint else { return false };
            match self.ratios.position(hint) {
                Some(zone) => totals[zone] += 1,
                None if endpoint.own_zone() == Some(hint) => {}
                None => return false,
            }
            true
        })
    }

    /// Plans how many endpoints the zones give and receive, starting from `totals`: always from the zone with the
    /// largest surplus to the one with the largest deficit, until neither has a whole endpoint to move, or one of them
    /// less than half.
    fn moves(&self, totals: &[usize]) -> Moves {
        let mut moves = Moves {
            give: vec![0; totals.len()],
            receive: vec![0; totals.len()],
        };
        loop {
            let (mut giver, mut surplus, mut taker, mut lack) = (0, 0.0, 0, 0.0);
            for (zone, allocation) in self.allocations.iter().enumerate() {
                let has = (totals[zone] + moves.receive[zone]) as f64 - moves.give[zone] as f64;
                let over = has - allocation.desired;
                // A zone never changes sides: half an endpoint too many is not given back.
                let was_over = totals[zone] as f64 > allocation.desired;
                if was_over && over > surplus {
                    (giver, surplus) = (zone, over);
                } else if !was_over && -over > lack {
                    (taker, lack) = (zone, -over);
                }
            }
            if (surplus < 1.0 && lack < 1.0) || surplus < 0.5 || lack < 0.5 {
                return moves;
            }
            moves.give[giver] += 1;
            moves.receive[taker] += 1;
        }
    }

    /// Returns new hints for the open slices and the resulting endpoints per zone. `totals` are those of the others.
    fn distribute(
        &self,
        open: &[usize],
        mut totals: Vec<usize>,
    ) -> Result<(Vec<SliceHints>, Vec<usize>), Disabled> {
        let mut result = Vec::with_capacity(open.len());
        for &index in open {
            let mut hints = Vec::with_capacity(self.slices[index].endpoints.len());
            for endpoint in &self.slices[index].endpoints {
                if !endpoint.ready {
                    hints.push(None);
                    continue;
                }
                let zone = endpoint.own_zone().ok_or(Disabled::NoZone)?;
                if let Some(zone) = self.ratios.position(zone) {
                    totals[zone] += 1;
                }
                hints.push(Some(zone.clone()));
            }
            result.push(SliceHints { slice: index, hints });
        }
        let mut moves = self.moves(&totals);
        // Endpoints that were moved before come first, so that as few hints as possible change.
        for again in [true, false] {
            if moves.is_empty() {
                break;
            }
            self.carry_out(&mut moves, &mut result, &mut totals, again);
        }
        Ok((result, totals))
    }

    /// Moves endpoints: if `again`, only those that were hinted to the receiving zone before, otherwise any.
    fn carry_out(&self, moves: &mut Moves, result: &mut [SliceHints], totals: &mut [usize], again: bool) {
        for SliceHints { slice, hints } in result {
            for (endpoint, hint) in self.slices[*slice].endpoints.iter().zip(hints) {
                // An endpoint moved in the first round is no longer hinted to its own zone.
                let Some(own) = hint.as_ref().filter(|hint| Some(*hint) == endpoint.own_zone()) else {
                    continue;
                };
                let Some(from) = self.ratios.position(own).filter(|zone| moves.give[*zone] > 0) else {
                    continue;
                };
                let to = if again {
                    let before = endpoint.hint.and_then(|zone| self.ratios.position(zone));
                    before.filter(|zone| moves.receive[*zone] > 0)
                } else {
                    (0..moves.receive.len())
                        .rev()
                        .max_by_key(|zone| moves.receive[*zone])
                        .filter(|zone| moves.receive[*zone] > 0)
                };
                let Some(to) = to else { continue };
                moves.give[from] -= 1;
                moves.receive[to] -= 1;
                totals[from] -= 1;
                totals[to] += 1;
                *hint = Some(self.ratios.zone(to).clone());
            }
        }
    }
}
