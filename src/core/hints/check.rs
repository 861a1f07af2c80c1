//! Checks whether an assignment of hints is valid, independently of how this controller computes one. Used in tests,
//! and to compare with hints that another controller wrote.

use super::{Disabled, HintedSlice, SliceHints, Zone, ZoneRatios};
use std::collections::{BTreeMap, BTreeSet};

/// The tolerance for rounding in sums of shares.
const EPSILON: f64 = 1e-9;

/// Checks that `result` is one of the valid results of [`assign`](super::assign) for this input; an error says what is
/// wrong. Any endpoint may be the one that moves, and slices other than the touched ones may be rewritten.
pub fn check(
    ratios: &ZoneRatios,
    slices: &[HintedSlice<'_>],
    result: &Result<Vec<SliceHints>, Disabled>,
) -> Result<(), String> {
    let ready = slices
        .iter()
        .flat_map(|s| &s.endpoints)
        .filter(|e| e.ready)
        .count();
    let bounds = Bounds::new(ratios, ready);
    match (result, bounds) {
        (Err(Disabled::NoZone), Ok(_)) => slices
            .iter()
            .flat_map(|s| &s.endpoints)
            .any(|e| e.ready && e.zone.is_none_or(|zone| zone.is_empty()))
            .then_some(())
            .ok_or_else(|| "every ready endpoint has a zone".to_owned()),
        (Err(got), Err(want)) if *got == want => Ok(()),
        (Ok(hints), Ok(bounds)) => bounds.check(slices, hints),
        (got, want) => Err(format!("got {got:?}, but the bounds are {:?}", want.err())),
    }
}

struct Bounds<'a> {
    /// The maximum and the desired number of endpoints by zone.
    zones: BTreeMap<&'a str, (f64, f64)>,
}

impl<'a> Bounds<'a> {
    fn new(ratios: &'a ZoneRatios, ready: usize) -> Result<Self, Disabled> {
        let (endpoints, zones) = (ready as u32, ratios.len() as u32);
        if endpoints < zones {
            return Err(Disabled::TooFewEndpoints { endpoints, zones });
        }
        let minimum = |ratio: f64| (ratio * ready as f64 * (1.0 / 1.2)).ceil();
        let spare = ready as f64 - ratios.iter().map(|(_, ratio)| minimum(ratio)).sum::<f64>();
        if spare < 0.0 {
            return Err(Disabled::Overload { endpoints, zones });
        }
        let zones = ratios
            .iter()
            .map(|(zone, ratio)| {
                let least = minimum(ratio);
                (&**zone, (least + spare, least.max(ratio * ready as f64)))
            })
            .collect();
        Ok(Self { zones })
    }

    fn knows(&self, zone: &str) -> bool {
        self.zones.contains_key(zone)
    }

    fn check(&self, slices: &[HintedSlice<'_>], result: &[SliceHints]) -> Result<(), String> {
        let mut rewritten: BTreeMap<usize, &[Option<Zone>]> = BTreeMap::new();
        for SliceHints { slice, hints } in result {
            let there = slices
                .get(*slice)
                .is_some_and(|s| s.endpoints.len() == hints.len());
            if !there || rewritten.insert(*slice, hints).is_some() {
                return Err(format!("slice {slice} is unknown, repeated or of another length"));
            }
        }
        // The number of endpoints by zone, before and after moves.
        let (mut before, mut after) = (BTreeMap::<&str, f64>::new(), BTreeMap::<&str, f64>::new());
        let (mut givers, mut takers, mut stayed) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (index, slice) in slices.iter().enumerate() {
            let hints = rewritten.get(&index);
            if slice.touched && hints.is_none() {
                return Err(format!("slice {index} is touched, and has no result"));
            }
            for (at, endpoint) in slice.endpoints.iter().enumerate() {
                let here = format!("endpoint {at} of slice {index}");
                let own = endpoint.zone.map(|zone| &**zone).filter(|zone| !zone.is_empty());
                let hint = match hints {
                    Some(hints) => hints[at].as_deref(),
                    None => endpoint.hint.map(|zone| &**zone),
                };
                if !endpoint.ready {
                    if hints.is_some() && hint.is_some() {
                        return Err(format!("{here} is not ready, and has a hint"));
                    }
                    continue;
                }
                let Some(hint) = hint else {
                    return Err(format!("{here} has no hint"));
                };
                if !self.knows(hint) && own != Some(hint) {
                    return Err(format!("{here} is hinted to {hint}, a zone without capacity"));
                }
                *after.entry(hint).or_default() += 1.0;
                if hints.is_none() {
                    *before.entry(hint).or_default() += 1.0;
                    continue;
                }
                let Some(own) = own else {
                    return Err(format!("{here} has a hint but no zone"));
                };
                *before.entry(own).or_default() += 1.0;
                if own == hint {
                    stayed.insert(own);
                } else {
                    givers.insert(own);
                    takers.insert(hint);
                }
            }
        }
        self.check_moves(&before, &after, &givers, &takers)?;
        self.check_end(&after, &stayed, rewritten.len() == slices.len())
    }

    /// Checks that endpoints move from zones above the desired number to zones below it, and not too many of them.
    fn check_moves(
        &self,
        before: &BTreeMap<&str, f64>,
        after: &BTreeMap<&str, f64>,
        givers: &BTreeSet<&str>,
        takers: &BTreeSet<&str>,
    ) -> Result<(), String> {
        for zone in givers.union(takers) {
            let Some((_, desired)) = self.zones.get(zone) else {
                return Err(format!("{zone} has no capacity, and gives or takes"));
            };
            let had = before.get(zone).copied().unwrap_or_default();
            let has = after.get(zone).copied().unwrap_or_default();
            if givers.contains(zone) && (had <= *desired || has + 0.5 + EPSILON < *desired) {
                return Err(format!("{zone} gives: {had} to {has}, desired {desired}"));
            }
            if takers.contains(zone) && (had >= *desired || has > *desired + 0.5 + EPSILON) {
                return Err(format!("{zone} takes: {had} to {has}, desired {desired}"));
            }
        }
        Ok(())
    }

    /// Checks that nothing more can be moved, and that what cannot be moved is within the maximum.
    fn check_end(
        &self,
        after: &BTreeMap<&str, f64>,
        stayed: &BTreeSet<&str>,
        all: bool,
    ) -> Result<(), String> {
        let has = |zone: &str| after.get(zone).copied().unwrap_or_default();
        let lack = self
            .zones
            .iter()
            .map(|(zone, (_, desired))| desired - has(zone))
            .fold(0.0, f64::max);
        let surplus = |zone: &str| has(zone) - self.zones[zone].1;
        let rests = |surplus: f64| {
            (surplus < 1.0 + EPSILON && lack < 1.0 + EPSILON)
                || surplus < 0.5 + EPSILON
                || lack < 0.5 + EPSILON
        };
        if self.zones.keys().all(|zone| rests(surplus(zone))) {
            return Ok(());
        }
        // A deficit may be due from a zone that has nothing left to move; the next zone is not asked for it.
        let stuck = |zone: &str| !stayed.contains(zone) && surplus(zone) > 0.5 - EPSILON;
        if !self.zones.keys().any(|zone| stuck(zone)) {
            return Err("zones are apart, and endpoints are left to move".to_owned());
        }
        if all {
            return Err("everything is rewritten, and zones are still apart".to_owned());
        }
        match self
            .zones
            .iter()
            .find(|(zone, (maximum, _))| has(zone) > maximum + EPSILON)
        {
            Some((zone, _)) => Err(format!("{zone} has {}, over its maximum", has(zone))),
            None => Ok(()),
        }
    }
}
