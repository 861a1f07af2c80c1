//! The steps that can happen next in a world.

use endpointd::core::namespace::Kind;
use endpointd::core::object::ObjectName;

/// A step of a history.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The next change of the cluster, as the watch of pods shows it.
    Change,
    /// Users make their next change to Endpoints.
    Edit,
    /// The watch of an output shows its next event.
    Watch(Kind),
    /// A list arrives.
    List(Kind),
    Shard,
    Writer,
    /// The time comes that the writer waits for.
    Time,
    /// The time comes for which an object of the shard waits.
    Wait,
    /// The server looks at a request.
    Serve(ObjectName),
    /// The answer to a request arrives.
    Answer(ObjectName),
    /// The fault strikes: a request, an object, or a watch.
    FaultOf(ObjectName),
    FaultIn(Kind),
    /// The fault is a scrape.
    Scrape,
    /// Another process takes over. Its watch of pods has shown so many changes, and may be broken.
    Lead {
        shown: usize,
        broken: bool,
    },
    /// The new leader reads the version of pods, gets a bookmark or a list of them, or its view's time has come.
    ReadVersion,
    Bookmark,
    ListPods,
    View,
    /// A request of the last leader is carried out after all.
    Late(ObjectName),
    /// The process loses the lease, or wins it again.
    Lose,
    WinAgain,
}
