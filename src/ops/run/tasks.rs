//! Tasks without which the controller cannot go on: if one fails, the controller ends with an error.

use super::RunError;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// Runs `work` as a task. If the task panics, the controller ends with an error.
pub(super) fn guarded(
    what: &str,
    work: impl Future<Output = ()> + Send + 'static,
    fatal: &watch::Sender<Option<String>>,
) -> JoinHandle<()> {
    let (what, fatal) = (what.to_owned(), fatal.clone());
    let task = tokio::spawn(work);
    let abort = task.abort_handle();
    tokio::spawn(async move {
        // Aborting this aborts the task too.
        let _guard = AbortOnDrop(abort);
        if let Err(error) = task.await
            && error.is_panic()
        {
            fatal.send_replace(Some(format!("{what} failed: {error}")));
        }
    })
}

/// Runs `work` on its own thread and runtime. If it fails, the controller ends with an error.
/// The returned handle completes when the work does.
pub(super) fn apart(
    what: &str,
    fatal: &watch::Sender<Option<String>>,
    work: impl Future<Output = Result<(), String>> + Send + 'static,
) -> Result<JoinHandle<()>, RunError> {
    let wrong = |error| RunError::Thread(what.to_owned(), error);
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(wrong)?;
    let (done, result) = oneshot::channel();
    std::thread::Builder::new()
        .name(what.to_owned())
        .spawn(move || {
            // The receiver is gone if the whole process is ending.
            let _ = done.send(runtime.block_on(work));
        })
        .map_err(wrong)?;
    let (what, fatal) = (what.to_owned(), fatal.clone());
    Ok(tokio::spawn(async move {
        let failure = match result.await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => "its thread panicked".to_owned(),
        };
        fatal.send_replace(Some(format!("{what} failed: {failure}")));
    }))
}

struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
