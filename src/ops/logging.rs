//! Sets up logging: its format, a bound on what libraries log, and errors on one line.

use super::flags::{LogFormat, RunArgs};
use crate::core::excerpt::Excerpt;
use tracing::Level;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The length in bytes to which an error is cut.
const LONGEST_LINE: usize = 8192;

/// Formats an error and its causes on one line.
pub(crate) fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Excerpt::new(&text, LONGEST_LINE).to_string()
}

/// Starts logging as configured by the flags.
pub(crate) fn start_logging(args: &RunArgs) {
    // The client library logs each request at its more verbose levels, and ractor would put a number of its own for an
    // actor in front of each line.
    let filter = format!("kube=warn,hyper=warn,tower=warn,ractor=warn,{}", args.log_level);
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // It would complain to the same stream that it cannot write to, and panic when that fails, too.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let bounded = filter_fn(|metadata| may_be_logged(metadata.target(), *metadata.level()));
    // Logging may already be set up, in a test for example.
    let _ = match args.log_format {
        LogFormat::Text => builder
            .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
            .finish()
            .with(bounded)
            .try_init(),
        LogFormat::Json => builder.json().finish().with(bounded).try_init(),
    };
}

/// Returns whether a line may be logged, whatever `--log-level` asks for. At trace level, libraries print what they
/// send and receive: headers with tokens, bodies, TLS messages. kube prints URLs and bodies at debug level too.
fn may_be_logged(target: &str, level: Level) -> bool {
    let ours = target.strip_prefix("endpointd");
    if ours.is_some_and(|module| module.is_empty() || module.starts_with("::")) {
        return true;
    }
    // kube logs a line for each failed request without naming it. Our own lines do, and are bounded for each tenant.
    // And one for each connection whose certificate is not verified. Ours says so once, and why.
    if target == "kube_client::client::builder" || target.starts_with("kube_client::client::tls") {
        return false;
    }
    let most = if target.starts_with("kube") {
        Level::INFO
    } else {
        Level::DEBUG
    };
    level <= most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libraries_print_of_requests_is_not_logged() {
        assert!(may_be_logged("endpointd", Level::TRACE));
        assert!(may_be_logged("endpointd::cluster::watch", Level::TRACE));
        assert!(!may_be_logged("endpointd_evil", Level::TRACE));
        assert!(may_be_logged("kube_client::client::auth", Level::WARN));
        assert!(!may_be_logged("kube_client::client::auth", Level::DEBUG));
        assert!(!may_be_logged("kube_client::client::builder", Level::ERROR));
        assert!(!may_be_logged(
            "kube_client::client::tls::rustls_tls::danger",
            Level::WARN
        ));
        assert!(may_be_logged("hyper_util::client::legacy::pool", Level::DEBUG));
        assert!(!may_be_logged("rustls::client::hs", Level::TRACE));
    }
}
