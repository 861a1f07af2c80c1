//! The signals that stop the controller.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// Listens for SIGTERM and SIGINT. Returns a future that ends with the first signal, and one that ends with the second; the
/// latter has to be polled for either to notice anything.
pub(super) fn stop_signals() -> std::io::Result<(impl Future<Output = ()>, impl Future<Output = ()>)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (first, stop) = oneshot::channel();
    let second_signal = async move {
        let mut first = Some(first);
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            let Some(first) = first.take() else { return };
            tracing::info!(
                "stopping; requests in flight are finished first, and a second signal ends the process at once"
            );
            let _ = first.send(());
        }
    };
    let first_signal = async {
        let _ = stop.await;
    };
    Ok((first_signal, second_signal))
}
