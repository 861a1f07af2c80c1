//! Reads the metrics page of a running endpointd, which is no API server: its admin port has an address, a certificate
//! and a token of its own.

use super::connect::adapt;
use super::connect::client_error::ClientError;
use super::connect::kubeconfig::check_url;
use super::http;
use super::silence::Silent;
use ::http::StatusCode;
use ::http::header::{AUTHORIZATION, HeaderValue};
use http_body_util::BodyExt as _;
use kube::client::ClientBuilder;
use kube::{Client, Config};
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};
use tokio::time::timeout;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;

/// Media type of metrics in the text format.
static METRICS: HeaderValue = HeaderValue::from_static("text/plain;version=0.0.4");

/// The page may have this many bytes. endpointd's has some hundred thousand.
const LONGEST: usize = 8 << 20;
/// The part of an error page that is shown, in characters.
const EXCERPT: usize = 200;

/// A metrics page and how to read it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MetricsPage {
    /// The URL. `/metrics` is meant if it has no path.
    pub(crate) url: String,
    /// A file with the certificates to trust in place of the system's.
    pub(crate) ca_file: Option<PathBuf>,
    /// Whether any certificate is accepted.
    pub(crate) any_certificate: bool,
    /// A file with the token to send, which is read for each request.
    pub(crate) token_file: Option<PathBuf>,
}

/// The reason why a page cannot be read. Prints as one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScrapeError {
    /// The URL cannot be used.
    #[error("--metrics-url {0}")]
    Url(&'static str),
    /// The certificates cannot be used.
    #[error("--metrics-ca-file {0}: {1}")]
    Ca(PathBuf, String),
    /// The token cannot be read.
    #[error("--metrics-token-file {0}: {1}")]
    Token(PathBuf, std::io::Error),
    /// There was no answer, or it broke off.
    #[error("{0}")]
    Client(#[from] ClientError),
    /// The server refused, with a status and the beginning of its page.
    #[error("the answer is {0}: {1}")]
    Refused(StatusCode, String),
    /// The page is longer than any that endpointd serves.
    #[error("the page is longer than {} MiB", LONGEST >> 20)]
    TooLong,
    /// The page is no text.
    #[error("the page is not UTF-8")]
    NotText,
    /// The server did not answer in time.
    #[error("{0}")]
    Silent(#[from] Silent),
}

/// Reads one page again and again.
#[derive(Clone)]
pub(crate) struct Scraper {
    client: Client,
    path: String,
    token: Option<Token>,
    limit: Duration,
}

/// A token from a file, as a header.
#[derive(Clone)]
struct Token {
    /// The file, unless it can be read only once, as a pipe.
    file: Option<PathBuf>,
    first: HeaderValue,
}

impl Token {
    fn read(file: &PathBuf) -> Result<Self, ScrapeError> {
        let wrong = |error| ScrapeError::Token(file.clone(), error);
        let first = std::fs::read_to_string(file).and_then(|text| Self::header_of(&text));
        let again = std::fs::metadata(file).is_ok_and(|file| file.is_file());
        Ok(Self {
            file: again.then(|| file.clone()),
            first: first.map_err(wrong)?,
        })
    }

    fn header_of(text: &str) -> io::Result<HeaderValue> {
        let header = HeaderValue::from_str(&format!("Bearer {}", text.trim()));
        let mut header =
            header.map_err(|_| io::Error::other("the file holds a character that cannot be sent"))?;
        header.set_sensitive(true);
        Ok(header)
    }

    /// Returns what the file holds now, or what it held first if it is gone.
    fn header(&self) -> HeaderValue {
        let text = self
            .file
            .as_ref()
            .and_then(|file| std::fs::read_to_string(file).ok());
        let now = text.and_then(|text| Self::header_of(&text).ok());
        now.unwrap_or_else(|| self.first.clone())
    }
}

impl fmt::Debug for Scraper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scraper")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Scraper {
    /// Creates a scraper that gives up a request after `limit`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the URL or a file cannot be used.
    pub(crate) fn new(page: &MetricsPage, limit: Duration) -> Result<Self, ScrapeError> {
        let url = check_url(&page.url).map_err(ScrapeError::Url)?;
        if url
            .authority()
            .is_some_and(|authority| authority.as_str().contains('@'))
        {
            return Err(ScrapeError::Url(
                "must not have a user; --metrics-token-file names a file with a token",
            ));
        }
        if page.token_file.is_some() && url.scheme_str() != Some("https") {
            return Err(ScrapeError::Url(
                "must begin with https:// if a token is sent: over http others could read it",
            ));
        }
        let path = match url.path() {
            "" | "/" => "/metrics".to_owned(),
            path => path.to_owned(),
        };
        let mut root = url.into_parts();
        root.path_and_query = Some("/".parse().expect("a slash is a path"));
        let root = root.try_into().expect("a URL stays one with another path");
        let mut config = Config::new(root);
        adapt(&mut config);
        config.accept_invalid_certs = page.any_certificate;
        if let Some(file) = &page.ca_file {
            let wrong = |why: String| ScrapeError::Ca(file.clone(), why);
            let text = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
            let certificates: Vec<_> = CertificateDer::pem_slice_iter(&text)
                .map(|certificate| certificate.map(|certificate| certificate.to_vec()))
                .collect::<Result<_, _>>()
                .map_err(|_| wrong("the file is not in PEM format".to_owned()))?;
            if certificates.is_empty() {
                return Err(wrong("the file holds no certificate".to_owned()));
            }
            config.root_cert = Some(certificates);
        }
        let token = page.token_file.as_ref().map(Token::read).transpose()?;
        let client = ClientBuilder::try_from(config)
            .map_err(ClientError::from)?
            .build();
        Ok(Self {
            client,
            path,
            token,
            limit,
        })
    }

    /// Reads the page.
    ///
    /// # Errors
    ///
    /// When there is no answer, or another one than a page.
    pub(crate) async fn read(&self) -> Result<String, ScrapeError> {
        let reading = timeout(self.limit, self.exchange()).await;
        reading.map_err(|_| Silent(self.limit))?
    }

    async fn exchange(&self) -> Result<String, ScrapeError> {
        let mut request = http::get(&self.path, &METRICS).map_err(ClientError::from)?;
        if let Some(token) = &self.token {
            request.headers_mut().insert(AUTHORIZATION, token.header());
        }
        let (head, mut body) = http::send(&self.client, request)
            .await
            .map_err(ClientError::from)?;
        let mut page = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(ClientError::from)?.into_data() {
                page.extend_from_slice(&data);
            }
            if page.len() > LONGEST {
                return Err(ScrapeError::TooLong);
            }
        }
        if head.code != StatusCode::OK {
            let text = String::from_utf8_lossy(&page);
            let words: Vec<&str> = text.split_whitespace().collect();
            let words = words
                .join(" ")
                .chars()
                .filter(|c| !c.is_control())
                .take(EXCERPT)
                .collect();
            return Err(ScrapeError::Refused(head.code, words));
        }
        String::from_utf8(page).map_err(|_| ScrapeError::NotText)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(url: &str) -> MetricsPage {
        MetricsPage {
            url: url.to_owned(),
            ca_file: None,
            any_certificate: false,
            token_file: None,
        }
    }

    #[tokio::test]
    async fn the_path_is_that_of_metrics_unless_another_is_given() {
        let scraper = |url| Scraper::new(&page(url), Duration::from_secs(1)).map(|scraper| scraper.path);
        assert_eq!(scraper("http://127.0.0.1:10270").unwrap(), "/metrics");
        assert_eq!(scraper("http://127.0.0.1:10270/").unwrap(), "/metrics");
        assert_eq!(scraper("https://host/proxy/metrics").unwrap(), "/proxy/metrics");
        for url in ["127.0.0.1:10270", "ftp://host", "http://user:canary@host"] {
            let error = scraper(url).unwrap_err().to_string();
            assert!(
                error.starts_with("--metrics-url ") && !error.contains("canary"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn a_token_is_sent_over_https_alone_and_files_are_named_in_errors() {
        let limit = Duration::from_secs(1);
        let mut plain = page("http://127.0.0.1:1");
        plain.token_file = Some("/absent".into());
        let error = Scraper::new(&plain, limit).unwrap_err().to_string();
        assert!(error.contains("https://"), "{error}");
        plain.url = "https://127.0.0.1:1".to_owned();
        let error = Scraper::new(&plain, limit).unwrap_err().to_string();
        assert!(error.starts_with("--metrics-token-file /absent: "), "{error}");
        plain.token_file = None;
        plain.ca_file = Some(env!("CARGO_MANIFEST_DIR").to_owned().into());
        let error = Scraper::new(&plain, limit).unwrap_err().to_string();
        assert!(error.starts_with("--metrics-ca-file "), "{error}");
    }

    #[test]
    fn a_token_is_read_again_and_may_end_with_a_line_break() {
        let file = std::env::temp_dir().join(format!("endpointd-test-{}.token", std::process::id()));
        std::fs::write(&file, "one\n").unwrap();
        let token = Token::read(&file).unwrap();
        assert_eq!(token.header(), "Bearer one");
        assert!(!format!("{:?}", token.header()).contains("one"));
        std::fs::write(&file, " two\r\n").unwrap();
        assert_eq!(token.header(), "Bearer two");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(token.header(), "Bearer one");
        std::fs::write(&file, "one\ntwo").unwrap();
        let error = Token::read(&file).err().unwrap().to_string();
        std::fs::remove_file(&file).unwrap();
        assert!(
            error.ends_with("a character that cannot be sent") && !error.contains("one"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_server_that_is_not_there_is_an_error_on_one_line() {
        let scraper = Scraper::new(&page("http://127.0.0.1:1"), Duration::from_secs(5)).unwrap();
        let error = scraper.read().await.unwrap_err().to_string();
        assert!(!error.is_empty() && !error.contains('\n'), "{error}");
    }
}
