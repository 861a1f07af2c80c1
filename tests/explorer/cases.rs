//! The cases.

use crate::model::{CustomSpec, PodSpec, ServiceSpec};
use endpointd::core::facts::PodFacts;
use endpointd::core::outputs::Outputs;
use std::collections::BTreeMap;

/// Something that happens to the cluster. Pods and Services go by their number; pod `n` belongs to Service `n`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// The pod becomes ready, or ceases to be.
    Flip(u8),
    /// The pod goes, or comes back.
    Toggle(u8),
}

/// A change that users make to the Endpoints of the first Service, which has no selector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edit {
    /// They have one address.
    One,
    /// They have another one too.
    Two,
    /// They have addresses of both families.
    Families,
    /// They are not to be mirrored.
    Skip,
    /// They are deleted, and made again with one address.
    Again,
    /// They are deleted.
    Delete,
}

impl Edit {
    /// Returns the Endpoints after it; none if they are deleted.
    pub(crate) fn spec(self) -> Option<CustomSpec> {
        let spec = |addresses: u8| CustomSpec {
            skip: self == Self::Skip,
            again: self == Self::Again,
            ..CustomSpec::plain(addresses)
        };
        match self {
            Self::One | Self::Skip | Self::Again => Some(spec(1)),
            Self::Two => Some(spec(3)),
            Self::Families => Some(spec(5)),
            Self::Delete => None,
        }
    }
}

/// A fault, which strikes once in a history, at any point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// A request is not carried out, and no answer comes.
    LostBefore,
    /// A request is carried out, and no answer comes.
    LostAfter,
    /// 409, though no other client wrote.
    Conflict,
    /// 404 by a server that is not the API server, or 500: neither says anything of the object.
    BareNotFoundOr500,
    /// 429.
    Throttled,
    /// Another client takes an endpoint out of an object.
    ForeignEdit,
    /// Another client deletes an object.
    ForeignDelete,
    /// The watch of an output ends, and cannot be resumed: what it had not shown yet is shown by a list.
    OutputsExpire,
    /// The same of the watch of pods.
    PodsExpire,
    /// Creates are answered with 500, as often as five times.
    CreatesFail,
    /// The writer is not told of an event that the watch of an output shows.
    EchoLost,
    /// The writer is told of it twice.
    EchoTwice,
    /// A scrape, which is no fault: the writer takes the reports that wait, whether or not it was woken for them.
    Scrape,
}

impl Fault {
    /// The faults that strike once.
    pub(crate) const ALL: [Self; 10] = [
        Self::LostBefore,
        Self::LostAfter,
        Self::Conflict,
        Self::BareNotFoundOr500,
        Self::Throttled,
        Self::ForeignEdit,
        Self::ForeignDelete,
        Self::OutputsExpire,
        Self::PodsExpire,
        Self::Scrape,
    ];
}

/// A small cluster and all that happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) outputs: Outputs,
    pub(crate) services: Vec<ServiceSpec>,
    pub(crate) pods: Vec<PodSpec>,
    /// True if nothing was published when the controller began.
    pub(crate) empty: bool,
    /// The changes that happened while no controller ran.
    pub(crate) before: Vec<Change>,
    pub(crate) changes: Vec<Change>,
    /// The changes that users make to Endpoints: the first before the controller begins, the others at any point.
    pub(crate) edits: Vec<Edit>,
    pub(crate) fault: Option<Fault>,
    /// Requests that a namespace may have in flight.
    pub(crate) window: usize,
    /// Writes wait for the echoes of others: there are two places, one of them for removals.
    pub(crate) echoes: bool,
    /// Another process takes over, once, at any point.
    pub(crate) succession: bool,
    /// The process loses the lease, once, at any point, and wins it again some time.
    pub(crate) relapse: bool,
    /// Played only when all cases are asked for, since it takes long.
    pub(crate) long: bool,
}

const SLICES: Outputs = Outputs {
    slices: true,
    endpoints: false,
    mirrored: false,
    custom: false,
};

const CUSTOM: Outputs = Outputs {
    slices: false,
    endpoints: false,
    mirrored: false,
    custom: true,
};

const MIRRORED: Outputs = Outputs {
    slices: false,
    endpoints: false,
    mirrored: true,
    custom: false,
};

const ENDPOINTS: Outputs = Outputs {
    slices: false,
    endpoints: true,
    mirrored: false,
    custom: false,
};

fn pod(number: u8) -> PodSpec {
    PodSpec {
        name: number,
        labels: number,
        ..PodSpec::plain()
    }
}

fn service(number: u8) -> ServiceSpec {
    ServiceSpec {
        name: number,
        selector: Some(number),
        ..ServiceSpec::plain()
    }
}

/// Two Services with a slice each.
fn two_slices(before: &[Change], changes: &[Change], window: usize) -> Case {
    Case {
        name: format!("two slices, window {window}: {}", shown(before, changes)),
        outputs: SLICES,
        services: vec![service(0), service(1)],
        pods: vec![pod(0), pod(1)],
        empty: false,
        before: before.to_vec(),
        changes: changes.to_vec(),
        edits: Vec::new(),
        fault: None,
        window,
        echoes: false,
        succession: false,
        relapse: false,
        long: false,
    }
}

/// A Service with a slice and Endpoints.
fn slice_and_endpoints(before: &[Change], changes: &[Change]) -> Case {
    Case {
        name: format!("slice and Endpoints: {}", shown(before, changes)),
        outputs: Outputs::ALL,
        services: vec![service(0)],
        pods: vec![pod(0)],
        ..two_slices(before, changes, 2)
    }
}

/// A Service without a selector, whose Endpoints users write.
fn mirrored(edits: &[Edit]) -> Case {
    Case {
        name: format!("mirrored: {edits:?}"),
        outputs: MIRRORED,
        services: vec![ServiceSpec {
            selector: None,
            ..service(0)
        }],
        pods: Vec::new(),
        edits: edits.to_vec(),
        ..two_slices(&[], &[], 2)
    }
}

/// Two Services whose selectors are annotations, with a slice each.
fn annotated(changes: &[Change]) -> Case {
    let annotated = |number: u8| ServiceSpec {
        selector: None,
        // Each selects one of the pods: by a value of label `a`, and by the value that it must not have.
        annotation: Some([0, 8][usize::from(number)]),
        ..service(number)
    };
    Case {
        name: format!("annotated: {}", shown(&[], changes)),
        outputs: CUSTOM,
        services: vec![annotated(0), annotated(1)],
        ..two_slices(&[], changes, 2)
    }
}

fn shown(before: &[Change], changes: &[Change]) -> String {
    let show = |changes: &[Change]| {
        let texts = changes.iter().map(|change| match change {
            Change::Flip(pod) => format!("flip{pod}"),
            Change::Toggle(pod) => format!("toggle{pod}"),
        });
        texts.collect::<Vec<_>>().join(" ")
    };
    match before {
        [] => show(changes),
        _ => format!("({}) {}", show(before), show(changes)),
    }
}

/// Cases in which writes wait for echoes: without a fault, with each, and with a change of leader.
fn with_echoes() -> Vec<Case> {
    use Change::Flip;
    let faults = || Fault::ALL.into_iter().chain([Fault::EchoLost, Fault::EchoTwice]);
    let mut cases = Vec::new();
    // Two objects compete for the places.
    let two = Case {
        echoes: true,
        ..two_slices(&[Flip(0)], &[Flip(0), Flip(1)], 2)
    };
    for fault in faults() {
        cases.push(Case {
            name: format!("echoes, {}, {fault:?}", two.name),
            fault: Some(fault),
            long: true,
            ..two.clone()
        });
    }
    cases.push(Case {
        name: format!("echoes, {}", two.name),
        ..two
    });
    // One that is written again before its echo has come.
    for (outputs, kind) in [(SLICES, "slice"), (ENDPOINTS, "Endpoints")] {
        let case = Case {
            name: format!("echoes, {kind}: flip0 flip0"),
            outputs,
            echoes: true,
            ..slice_and_endpoints(&[], &[Flip(0), Flip(0)])
        };
        for fault in faults() {
            cases.push(Case {
                name: format!("{}, {fault:?}", case.name),
                fault: Some(fault),
                // Half of the time of all cases, and the writer treats both outputs alike.
                long: outputs == ENDPOINTS && matches!(fault, Fault::ForeignEdit | Fault::ForeignDelete),
                ..case.clone()
            });
        }
        cases.push(Case {
            name: format!("echoes, {kind}, succession: flip0 flip0"),
            succession: true,
            ..case.clone()
        });
        cases.push(Case {
            name: format!("echoes, {kind}, lost and won again: flip0 flip0"),
            relapse: true,
            long: outputs == ENDPOINTS,
            ..case.clone()
        });
        cases.push(case);
    }
    // The watch of mirrored slices, beside that of the Endpoints which users write.
    for fault in [None, Some(Fault::EchoLost), Some(Fault::EchoTwice)] {
        let case = mirrored(&[Edit::One, Edit::Two]);
        cases.push(Case {
            name: format!("echoes, {}, {fault:?}", case.name),
            fault,
            echoes: true,
            ..case
        });
    }
    cases
}

/// One object, two changes, and a change of leader, without a fault and with each.
fn with_successions() -> Vec<Case> {
    use Change::{Flip, Toggle};
    let mut cases = Vec::new();
    for outputs in [SLICES, ENDPOINTS] {
        let kind = if outputs.slices { "slice" } else { "Endpoints" };
        for changes in [[Flip(0), Flip(0)], [Flip(0), Toggle(0)], [Toggle(0), Toggle(0)]] {
            let case = Case {
                name: format!("{kind}, succession: {}", shown(&[], &changes)),
                outputs,
                succession: true,
                long: changes != [Flip(0); 2],
                ..slice_and_endpoints(&[], &changes)
            };
            for fault in Fault::ALL {
                // Its states are more than a third of all others': the same with one change is played always.
                let large = outputs.slices && fault == Fault::ForeignDelete;
                cases.push(Case {
                    name: format!("{}, {fault:?}", case.name),
                    fault: Some(fault),
                    long: case.long || large,
                    ..case.clone()
                });
            }
            cases.push(Case {
                name: format!("{kind}, lost and won again: {}", shown(&[], &changes)),
                succession: false,
                relapse: true,
                ..case.clone()
            });
            cases.push(case);
        }
        let fault = Fault::ForeignDelete;
        let case = slice_and_endpoints(&[], &[Flip(0)]);
        cases.push(Case {
            name: format!("{kind}, succession: flip0, {fault:?}"),
            outputs,
            succession: true,
            fault: Some(fault),
            ..case
        });
    }
    cases
}

pub(crate) fn all() -> Vec<Case> {
    use Change::{Flip, Toggle};
    let mut cases = Vec::new();
    // Three changes of two objects, in each order, in sync at first and not.
    for before in [&[][..], &[Flip(0)]] {
        for bits in 0..8u8 {
            let changes = [0, 1, 2].map(|at| Flip(bits >> at & 1));
            if before.is_empty() && bits >= 4 {
                // The same with the names exchanged.
                continue;
            }
            for window in [1, 2] {
                let case = two_slices(before, &changes, window);
                let long = !before.is_empty() && window == 2;
                cases.push(Case { long, ..case });
            }
        }
    }
    for changes in [[Flip(0), Flip(0), Flip(0)], [Flip(0), Toggle(0), Toggle(0)]] {
        cases.push(Case {
            long: true,
            ..slice_and_endpoints(&[], &changes)
        });
    }
    cases.push(slice_and_endpoints(&[], &[Flip(0)]));
    for fault in Fault::ALL {
        for case in [
            two_slices(&[], &[Flip(0), Flip(1)], 2),
            slice_and_endpoints(&[], &[Flip(0), Flip(0)]),
            slice_and_endpoints(&[], &[Toggle(0), Toggle(0)]),
        ] {
            cases.push(Case {
                name: format!("{}, {fault:?}", case.name),
                fault: Some(fault),
                long: case.outputs == Outputs::ALL,
                ..case
            });
        }
    }
    cases.extend(with_successions());
    cases.extend(with_echoes());
    cases.extend(of_mirroring());
    cases.push(annotated(&[Flip(0), Toggle(1), Toggle(1)]));
    for fault in Fault::ALL {
        let case = annotated(&[Flip(0), Toggle(1)]);
        cases.push(Case {
            name: format!("{}, {fault:?}", case.name),
            fault: Some(fault),
            // Their slices have the lifecycle of others.
            long: !matches!(fault, Fault::LostAfter | Fault::ForeignDelete | Fault::PodsExpire),
            ..case
        });
    }
    for changes in [&[Flip(0)][..], &[Flip(0), Flip(1)]] {
        cases.push(Case {
            name: format!("annotated, lost and won again: {}", shown(&[], changes)),
            relapse: true,
            // Two changes have a tenth of the states of all cases.
            long: changes.len() > 1,
            ..annotated(changes)
        });
    }
    for outputs in [SLICES, ENDPOINTS] {
        let kind = if outputs.slices { "slice" } else { "Endpoints" };
        cases.push(Case {
            name: format!("{kind}: creates fail five times"),
            outputs,
            fault: Some(Fault::CreatesFail),
            empty: true,
            ..slice_and_endpoints(&[], &[Flip(0)])
        });
    }
    cases
}

/// Endpoints that grow, get another family, are skipped, are made again and go, without a fault and with each; and the
/// same while the lease is lost and won again.
fn of_mirroring() -> Vec<Case> {
    let mut cases = Vec::new();
    for edits in [
        [Edit::One, Edit::Two, Edit::One],
        [Edit::One, Edit::Families, Edit::One],
        [Edit::One, Edit::Skip, Edit::Two],
        [Edit::One, Edit::Again, Edit::Two],
        [Edit::One, Edit::Delete, Edit::Two],
    ] {
        let case = mirrored(&edits);
        for fault in Fault::ALL.into_iter().filter(|fault| *fault != Fault::PodsExpire) {
            cases.push(Case {
                name: format!("{}, {fault:?}", case.name),
                fault: Some(fault),
                long: fault == Fault::OutputsExpire || edits[1] == Edit::Again,
                ..mirrored(&edits[..2])
            });
        }
        // Where one is made again, three objects wait for a window of two: it has as many states as ten others.
        cases.push(Case {
            name: format!("{}, lost and won again", case.name),
            relapse: true,
            long: edits[1] == Edit::Again,
            ..mirrored(&edits[..2])
        });
        cases.push(case);
    }
    cases
}

/// Applies a change to the pods, and returns what the watch of pods shows of it.
pub(crate) fn apply(pods: &mut BTreeMap<Box<str>, PodFacts>, change: Change) -> Result<PodFacts, Box<str>> {
    let (Change::Flip(number) | Change::Toggle(number)) = change;
    let name: Box<str> = format!("pod-{number}").into();
    match (change, pods.get_mut(&name)) {
        (Change::Flip(_), Some(pod)) => {
            pod.ready = !pod.ready;
            Ok(pod.clone())
        }
        (Change::Toggle(_), Some(_)) => {
            pods.remove(&name);
            Err(name)
        }
        (_, None) => {
            let pod = PodSpec {
                name: number,
                labels: number,
                generation: 1,
                ..PodSpec::plain()
            };
            pods.insert(name, pod.facts());
            Ok(pod.facts())
        }
    }
}

/// The pods when so many of a case's changes have happened, and what the watch shows of the last.
pub(crate) fn pods_after(
    case: &Case,
    happened: usize,
) -> (Vec<PodFacts>, Option<Result<PodFacts, Box<str>>>) {
    let pods = case
        .pods
        .iter()
        .map(|pod| (pod.facts().name.clone(), pod.facts()));
    let (mut pods, mut last) = (pods.collect(), None);
    for change in case.before.iter().chain(&case.changes[..happened]) {
        last = Some(apply(&mut pods, *change));
    }
    (pods.into_values().collect(), last)
}
