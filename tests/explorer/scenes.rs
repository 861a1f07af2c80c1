//! The scenes.

use crate::scene::{Happening, LIMIT, Scene};
use endpointd::core::outputs::Outputs;

const SLICES: Outputs = Outputs {
    slices: true,
    ..Outputs::NONE
};
const CUSTOM: Outputs = Outputs {
    custom: true,
    ..Outputs::NONE
};
const MIRRORED: Outputs = Outputs {
    mirrored: true,
    ..Outputs::NONE
};

/// Scenes that are searched whole.
pub(crate) fn all() -> Vec<Scene> {
    use Happening::{Again, Annotated, Fails, Others, OthersGone, Scale};
    let both = Outputs {
        custom: true,
        ..SLICES
    };
    vec![
        yields("handed over: nobody publishes", &[Annotated(false)]),
        yields(
            "handed over, while its pods change",
            &[Scale(1), Annotated(false), Scale(2)],
        ),
        yields(
            "handed over: others appear and fill up",
            &[Annotated(false), Others(&[]), Others(&[0])],
        ),
        yields(
            "handed over: others stay empty, and go",
            &[Annotated(false), Others(&[]), OthersGone],
        ),
        yields(
            "handed over, and comes back",
            &[Annotated(false), Others(&[]), Annotated(true)],
        ),
        Scene {
            outputs: both,
            ..yields("a selector of its own", &[Annotated(false), Scale(3)])
        },
        Scene {
            outputs: both,
            ..yields(
                "a selector of its own, whose pods fail",
                &[Annotated(false), Fails(0), Fails(1)],
            )
        },
        Scene {
            outputs: MIRRORED,
            ..yields(
                "mirrored slices go, and come back",
                &[Annotated(false), Annotated(true)],
            )
        },
        Scene {
            outputs: SLICES,
            annotated: false,
            ..yields("a Service that is made again", &[Scale(3), Again])
        },
        Scene {
            loss: true,
            outputs: SLICES,
            annotated: false,
            controllers: 2,
            pods: 1,
            ..yields(
                "two controllers: scaled from 1 to 2, an answer is lost",
                &[Scale(2)],
            )
        },
    ]
}

/// One controller whose slices are for an annotation.
fn yields(name: &'static str, script: &[Happening]) -> Scene {
    Scene {
        name,
        outputs: CUSTOM,
        annotated: true,
        controllers: 1,
        pods: 2,
        script: script.to_vec(),
        limit: LIMIT,
        loss: false,
    }
}

/// Two controllers in scenes that are too large to be searched whole: they are played in orders chosen by chance.
pub(crate) fn large() -> Vec<Scene> {
    use Happening::{Again, Scale};
    let scene = |name, pods, script: &[Happening]| Scene {
        name,
        outputs: SLICES,
        annotated: false,
        controllers: 2,
        pods,
        script: script.to_vec(),
        limit: 10,
        loss: false,
    };
    vec![
        Scene {
            limit: LIMIT,
            ..scene("two controllers: scaled from 1 to 3", 1, &[Scale(3)])
        },
        scene("two controllers: scaled from 3 to 15", 3, &[Scale(15)]),
        scene(
            "two controllers: scaled up, down and up",
            3,
            &[Scale(45), Scale(12), Scale(60)],
        ),
        scene(
            "two controllers: the Service is made again",
            15,
            &[Again, Scale(25), Again],
        ),
    ]
}
