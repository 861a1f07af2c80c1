//! Notifications about single published objects, whatever their kind.

use super::{Id, Published as _, Publishing, Trouble, context_mut, object_mut, objects, objects_mut};
use crate::core::namespace::WorkItem;
use crate::core::namespace::notifications::{Notification, failure_message};
use crate::core::object::{Editor, Interference, Phase, RequestKind};
use crate::core::rival::Rival;

/// Notifications for users about objects of any kind.
pub(in crate::core::namespace) trait Notices: Publishing {
    /// Reports that an object is left to others, who have changed it again and again.
    fn notify_contested(&mut self, id: Id<Self>) {
        let WorkItem { object, service, .. } = objects(self)[id].work_item();
        let contested = Notification::Contested { object, service };
        context_mut(self).notifications.push(contested);
    }

    /// Reports that a client has given the object of a name to another controller, and that another one takes its place.
    fn notify_given_away(&mut self, id: Id<Self>, name: Box<str>, editor: Option<Box<str>>) {
        let kind = objects(self)[id].work_item().object.output.kind();
        let by = editor
            .as_deref()
            .unwrap_or("a client that managedFields do not name");
        let message = format!(
            "{kind} {name} was given to another controller by {by}: it stays as it is, and a new one takes its place; \
             unless that controller keeps it up to date, delete it"
        );
        if let Some(notice) = self.notice(&objects(self)[id], Trouble::Rival, message) {
            context_mut(self).notifications.push(Notification::Event(notice));
        }
        object_mut(self, id).interfere(Interference::GivenAway { name, editor });
    }

    /// Reports that a write has put an object right that another client had changed or deleted.
    fn notify_corrected(&mut self, id: Id<Self>) {
        let object = object_mut(self, id);
        if let Some(interference) = object.take_interference()
            && object.phase == Phase::Managed
        {
            let item = objects(self)[id].work_item();
            context_mut(self).notify_corrected(item, interference);
        }
    }

    /// Reports a failed request, if it is time: one failure is normal; one that lasts, or an outright refusal, is not.
    /// `bytes` is the size of an object that is too large.
    fn notify_failure(&mut self, id: Id<Self>, flight: RequestKind, bytes: Option<usize>, why: Option<&str>) {
        let object = objects_mut(self)[id].as_mut();
        let Some(message) = failure_message(object, bytes, why) else {
            return;
        };
        let entry = &objects(self)[id];
        let Some(notice) = self.notice(entry, Trouble::Failed(flight), message) else {
            return;
        };
        let object = entry.work_item().object;
        let notifications = &mut context_mut(self).notifications;
        notifications.push(Notification::Event(notice));
        if let Some(bytes) = bytes {
            notifications.push(Notification::TooLarge {
                object,
                bytes,
                why: why.unwrap_or_default().into(),
            });
        }
    }

    /// Notes that an object was read in a version that this process has not written. `editor` is the client that wrote it;
    /// `settled` is true if the object was not as it should be before, and is now.
    fn note_foreign_version(&mut self, id: Id<Self>, editor: &Editor, settled: bool) {
        let context = context_mut(self);
        let Some(rival) = context.rivals.suspect(editor, settled, context.now) else {
            return;
        };
        context.notifications.push(Notification::RivalWrote { rival });
        if !context.rivals.is_to_be_told(rival, context.now) {
            return;
        }
        let other = match rival {
            Rival::Endpointd => "Another endpointd, which is no replica of this one (it uses another Lease),",
            Rival::Builtin => "kube-controller-manager",
            Rival::Untracked => {
                "Another controller, perhaps an endpointd that uses another Lease (--clear-managed-fields hides its name),"
            }
        };
        let message =
            format!("{other} also writes what this controller publishes here; switch one of the two off");
        let entry = &objects(self)[id];
        let Some(notice) = self.notice(entry, Trouble::Rival, message) else {
            return;
        };
        let WorkItem { object, service, .. } = entry.work_item();
        let context = context_mut(self);
        context.rivals.told(rival, context.now);
        context.notifications.push(Notification::Event(notice));
        context.notifications.push(Notification::Rival {
            rival,
            object,
            service,
        });
    }
}

impl<P: Publishing> Notices for P {}
