//! Notices about single published objects, whatever their kind.

use super::{Id, Published as _, Publishing, Trouble, context_mut, object_mut, objects, objects_mut};
use crate::core::namespace::notices::failure_message;
use crate::core::object::{Editor, RequestKind};

/// What users are told about objects of any kind.
pub(in crate::core::namespace) trait Notices: Publishing {
    /// Reports that a client has given the object of a name to another controller, and that another one takes its place.
    fn notify_given_away(&mut self, id: Id<Self>, name: &str, editor: &Editor) {
        let kind = objects(self)[id].work_item().object.output.kind();
        let message = format!(
            "{kind} {name} was given to another controller by {}: it stays as it is, and a new one takes its place; \
             unless that controller keeps it up to date, delete it",
            named(editor)
        );
        self.notify(id, Trouble::Rival, message);
    }

    /// Reports a failed request, if it is time: one failure is normal; one that lasts, or an outright refusal, is not.
    /// `bytes` is the size of an object that is too large.
    fn notify_failure(&mut self, id: Id<Self>, flight: RequestKind, bytes: Option<usize>, why: Option<&str>) {
        let object = objects_mut(self)[id].as_mut();
        if let Some(message) = failure_message(object, bytes, why) {
            self.notify(id, Trouble::Failed(flight), message);
        }
    }

    /// Counts a change of an object by another client, which delays its next request, and tells users if such changes do not
    /// end.
    fn note_foreign_change(&mut self, id: Id<Self>, editor: &Editor) {
        let now = context_mut(self).now;
        let object = object_mut(self, id);
        let mut changes = object.foreign_changes();
        changes.add(now);
        let tells = changes.is_contested() && changes.tell(now);
        object.set_foreign_changes(changes);
        if changes.is_contested() {
            let output = objects(self)[id].work_item().object.output;
            context_mut(self).contested[output as usize] += 1;
        }
        if tells {
            let message = format!(
                "{} keeps changing or deleting what this controller publishes here, which is put right ever later; if it is \
                 a controller, switch one of the two off",
                named(editor)
            );
            self.notify(id, Trouble::Rival, message);
        }
    }

    /// Gives users a notice about an object, where they should hear of it.
    fn notify(&mut self, id: Id<Self>, trouble: Trouble, message: String) {
        if let Some(notice) = self.notice(&objects(self)[id], trouble, message) {
            context_mut(self).notify(notice);
        }
    }
}

impl<P: Publishing> Notices for P {}

/// Returns the client that wrote an object, in words.
fn named(editor: &Editor) -> &str {
    match editor {
        Editor::Unknown => "A client that managedFields do not name",
        Editor::Endpointd => "Another endpointd, which is no replica of this one (it uses another Lease),",
        Editor::Other(name) => name,
    }
}
