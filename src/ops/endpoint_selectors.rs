//! Tells when there are `EndpointSelectors` and no controller serves them: upstream's endpointslice controller would, and
//! endpointd takes its place.

use crate::cluster::read::{ReadError, Reader, SelectorName};
use crate::metrics::SelectorMetrics;
use std::time::Duration;
use tokio::time::sleep;

/// The time between two looks.
const PAUSE: Duration = Duration::from_secs(300);

/// The result of the looks so far, as far as the log has told it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Told {
    /// None needs slices, or it is not known.
    #[default]
    Nothing,
    /// There are some.
    Unserved,
    /// The rules do not permit the look.
    Forbidden,
}

/// Looks from time to time. Never returns. Whatever fails is tried again with the next look, and changes nothing else.
pub(super) async fn watch_for(reader: Reader) {
    let metrics = SelectorMetrics::new();
    let mut told = Told::Nothing;
    loop {
        match reader.endpoint_selector(None).await {
            Ok(found) => {
                metrics.unserved(found.is_some());
                told = tell_found(told, found.as_ref());
            }
            Err(error) => told = tell_failed(told, &error),
        }
        sleep(PAUSE).await;
    }
}

fn tell_found(told: Told, found: Option<&SelectorName>) -> Told {
    match found {
        Some(selector) if told != Told::Unserved => {
            tracing::warn!(
                %selector,
                "there are EndpointSelectors, and endpointd makes no slices for them: no controller serves them"
            );
        }
        None if told == Told::Unserved => {
            tracing::info!("there are no EndpointSelectors any more that need slices");
        }
        _ => {}
    }
    if found.is_some() {
        Told::Unserved
    } else {
        Told::Nothing
    }
}

/// Handles a look that failed. The earlier finding still stands.
fn tell_failed(told: Told, error: &ReadError) -> Told {
    if error.is_forbidden() && told == Told::Nothing {
        tracing::warn!(%error, "cannot check whether there are EndpointSelectors; endpointd does not serve them");
        return Told::Forbidden;
    }
    tracing::debug!(%error, "cannot check whether there are EndpointSelectors");
    told
}
