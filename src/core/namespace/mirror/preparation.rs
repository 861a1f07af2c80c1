//! Lays out Endpoints that were read, and compares them with what was there before, in steps: one of them may be as
//! large as a thousand others.

use super::{Arrived, Mirroring};
use crate::core::mirror::{Comparison, Laid, Layout, MirroredGroup, MirroredObject};
use crate::core::object::ForeignChanges;
use crate::core::work::TurnBudget;
use std::sync::Arc;

/// The work on Endpoints that were read, before their mirror is evaluated.
#[derive(Clone, Debug)]
pub(in crate::core::namespace) struct Preparation {
    name: Arc<str>,
    before_start: bool,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    LayOut(Box<Layout>),
    Compare(Box<MirroredObject>, Comparison),
    Done,
}

impl Preparation {
    /// Returns the name of the Service.
    pub(in crate::core::namespace) fn name(&self) -> &Arc<str> {
        &self.name
    }
}

impl Mirroring<'_> {
    /// Begins to lay out the Endpoints of a Service, if they have been read.
    pub(in crate::core::namespace) fn begin_preparation(&mut self, name: &Arc<str>) -> Option<Preparation> {
        let mirror = self.mirrors.by_name.get_mut(name)?;
        let Arrived { facts, before_start } = mirror.arrived.take()?;
        let layout = Layout::new(self.ctx.namespace.clone(), facts, self.ctx.settings.max_mirrored);
        Some(Preparation {
            name: name.clone(),
            before_start,
            stage: Stage::LayOut(Box::new(layout)),
        })
    }

    /// Continues, as far as the budget goes. Returns true when the mirror can be evaluated.
    pub(in crate::core::namespace) fn step_preparation(
        &mut self,
        preparation: &mut Preparation,
        budget: &mut TurnBudget,
    ) -> bool {
        let Preparation {
            name,
            before_start,
            stage,
        } = preparation;
        if let Stage::LayOut(layout) = stage {
            match layout.step(budget, &mut self.ctx.work) {
                Laid::Partly => return false,
                Laid::Out(content) => *stage = Stage::Compare(content, Comparison::default()),
                Laid::TooLarge(meta) => {
                    if let Some(mirror) = self.mirrors.by_name.get_mut(name) {
                        // The published slices stay.
                        mirror.content = None;
                        if !std::mem::replace(&mut mirror.refused, true) {
                            self.notify_not_mirrored(&meta);
                        }
                    }
                    return true;
                }
            }
        }
        let (Stage::Compare(content, comparison), Some(mirror)) =
            (&mut *stage, self.mirrors.by_name.get_mut(name))
        else {
            return true;
        };
        let changes = comparison.step(mirror.content.as_deref(), content, budget, &mut self.ctx.work);
        let Some(changes) = changes else {
            return false;
        };
        let Stage::Compare(content, _) = std::mem::replace(stage, Stage::Done) else {
            return true;
        };
        if !*before_start {
            mirror.moves.add(changes);
        }
        let old = mirror.content.as_deref().map_or(&[][..], |old| &old.groups);
        let fingerprints =
            |groups: &[MirroredGroup]| -> Vec<u64> { groups.iter().map(|group| group.fingerprint).collect() };
        if fingerprints(old) != fingerprints(&content.groups) {
            mirror.foreign = ForeignChanges::default();
        }
        (mirror.refused, mirror.whole) = (false, true);
        let told = std::mem::replace(&mut mirror.told, content.left_out);
        if !*before_start {
            self.notify_left_out(&content, told);
        }
        if let Some(mirror) = self.mirrors.by_name.get_mut(name) {
            mirror.content = Some(content);
        }
        true
    }
}
