use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_credential_that_cannot_be_used_is_refused_in_words() {
    let fault = |text: &str| Credential::parse(text.as_bytes()).unwrap_err().to_string();
    for (text, words) in [
        ("<html>", "is not an ExecCredential"),
        ("{}", "has no status"),
        (r#"{"status": {}}"#, "neither a token nor a certificate"),
        (
            r#"{"status": {"clientKeyData": "k"}}"#,
            "without its key, or the reverse",
        ),
        (r#"{"status": {"token": "a\nb"}}"#, "cannot be sent"),
        (
            r#"{"status": {"token": "t", "expirationTimestamp": "soon"}}"#,
            "the expiry time is malformed",
        ),
    ] {
        assert!(fault(text).contains(words), "{text}: {}", fault(text));
    }
    let whole = r#"{"status": {"token": "t", "clientCertificateData": "c", "clientKeyData": "k"}}"#;
    let credential = Credential::parse(whole.as_bytes()).unwrap();
    assert_eq!(credential.header.unwrap(), "Bearer t");
    assert_eq!(credential.identity.unwrap(), ("c".to_owned(), "k".to_owned()));
}

/// Runs of a plugin, on clocks of the test's own.
struct Trial {
    runs: Runs,
    now: Instant,
    clock: Timestamp,
    token: u32,
}

impl Trial {
    fn new() -> Self {
        Self {
            runs: Runs::default(),
            now: Instant::now(),
            clock: "2026-01-01T00:00:00Z".parse().unwrap(),
            token: 0,
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.clock += SignedDuration::try_from(time).unwrap();
    }

    fn next(&mut self) -> (Option<Result<Credential, ClientError>>, bool) {
        self.runs.next(self.now, self.clock)
    }

    /// Ends a run with another token, which is valid for so many seconds.
    fn succeed(&mut self, seconds: Option<i64>) {
        self.token += 1;
        let credential = Credential {
            header: Some(self.header()),
            identity: None,
            expires: seconds.map(|seconds| self.clock + SignedDuration::from_secs(seconds)),
        };
        self.runs.ended(Ok(credential), self.now);
    }

    /// The header with the token of the last run.
    fn header(&self) -> HeaderValue {
        HeaderValue::try_from(format!("Bearer number-{}", self.token)).unwrap()
    }

    fn fail(&mut self) {
        self.runs.ended(Err(ClientError::new("it failed")), self.now);
    }

    /// Asks ten times a second for a minute, with runs that end at once. Returns their number.
    fn ask(&mut self, mut end: impl FnMut(&mut Self)) -> usize {
        let mut begun = 0;
        for _ in 0..600 {
            if self.next().1 {
                begun += 1;
                end(self);
            }
            self.wait(SECOND / 10);
        }
        begun
    }
}

#[test]
fn there_is_one_run_at_a_time_and_all_wait_for_it() {
    let mut trial = Trial::new();
    assert!(matches!(trial.next(), (None, true)));
    for _ in 0..100 {
        trial.wait(SECOND / 10);
        assert!(matches!(trial.next(), (None, false)));
    }
    trial.succeed(Some(3600));
    assert!(matches!(trial.next(), (Some(Ok(_)), false)));
}

#[test]
fn a_token_is_replaced_before_it_expires_and_used_until_then() {
    let mut trial = Trial::new();
    trial.next();
    trial.succeed(Some(3600));
    trial.wait(3539 * SECOND);
    assert!(!trial.next().1);
    trial.wait(2 * SECOND);
    assert!(matches!(trial.next(), (Some(Ok(_)), true)), "nothing waits");
    trial.wait(58 * SECOND);
    assert!(matches!(trial.next(), (Some(Ok(_)), false)));
    trial.wait(2 * SECOND);
    assert!(matches!(trial.next(), (None, false)), "the run goes on");
    trial.fail();
    assert!(matches!(trial.next(), (Some(Err(_)), false)), "it fails at once");
}

#[test]
fn a_plugin_is_not_run_in_a_loop() {
    for valid in [-3600, 0, 5] {
        let begun = Trial::new().ask(|trial| trial.succeed(Some(valid)));
        assert_eq!(begun, 6, "tokens that have expired already");
    }
    // The credential of such a run is used.
    let mut trial = Trial::new();
    trial.next();
    trial.succeed(Some(-3600));
    assert!(matches!(trial.next(), (Some(Ok(_)), false)));
    assert_eq!(Trial::new().ask(Trial::fail), 6);
    let mut trial = Trial::new();
    let begun = trial.ask(|trial| {
        trial.succeed(None);
        trial.runs.refused(&trial.header());
    });
    assert_eq!(begun, 6, "tokens that the API server refuses");
}

#[test]
fn a_token_that_is_refused_is_replaced_and_goes_on_meanwhile() {
    let mut trial = Trial::new();
    trial.next();
    trial.succeed(None);
    let first = trial.header();
    trial.wait(900 * SECOND);
    assert!(!trial.next().1);
    trial.runs.refused(&first);
    assert!(
        matches!(trial.next(), (Some(Ok(_)), true)),
        "one server may be wrong"
    );
    trial.fail();
    assert!(matches!(trial.next(), (Some(Ok(_)), false)));
    trial.wait(PAUSE);
    assert!(trial.next().1);
    trial.succeed(None);
    // Answers to requests that carried the first one come late.
    trial.wait(PAUSE);
    trial.runs.refused(&first);
    let (answer, begins) = trial.next();
    assert!(!begins);
    assert_eq!(answer.unwrap().unwrap().header, Some(trial.header()));
}

/// A plugin that is a shell script.
fn shell(script: &str, run: Duration, request: Duration) -> Arc<Plugin> {
    let exec: ExecConfig = serde_json::from_value(serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "interactiveMode": "Never",
    }))
    .unwrap();
    let timeouts = Timeouts {
        run: Some(run),
        request: Some(request),
    };
    Plugin::of(&exec, timeouts)
}

/// Sends a request to a server that answers with the header that it was sent.
async fn send(plugin: &Arc<Plugin>) -> Result<HeaderValue, BoxError> {
    let request = Request::get("/api").body(Body::empty()).unwrap();
    let answer = plugin.send(request, async |request: Request<Body>| {
        Ok(Response::new(request.headers()[AUTHORIZATION].clone()))
    });
    Ok(answer.await?.into_body())
}

#[tokio::test]
async fn requests_share_a_run_and_each_gets_its_token() {
    let script = r#"sleep 0.3; echo "{\"status\": {\"token\": \"$$\"}}""#;
    let plugin = shell(script, 30 * SECOND, 20 * SECOND);
    let asked = (0..20).map(|_| send(&plugin));
    let sent = futures::future::try_join_all(asked).await.unwrap();
    let first = &sent[0];
    assert!(first.to_str().unwrap().starts_with("Bearer "));
    for other in &sent {
        assert_eq!(other, first);
    }
    assert!(
        Arc::ptr_eq(&plugin, &shell(script, SECOND, SECOND)),
        "as all clients of the process do"
    );
}

#[tokio::test]
async fn a_plugin_that_hangs_is_named_and_killed_with_its_children() {
    let file = std::env::temp_dir().join(format!("endpointd-plugin-{}", std::process::id()));
    let script = format!("sleep 300 & echo $! > {}; wait", file.display());
    let plugin = shell(&script, SECOND, SECOND / 2);
    let error = send(&plugin).await.unwrap_err().to_string();
    assert!(
        error.contains("the credential plugin") && error.ends_with(" has not ended after 0.5 s"),
        "{error}"
    );
    let error = plugin.first().await.unwrap_err().to_string();
    assert!(error.ends_with(" has not ended after 1 s"), "{error}");
    let child: u32 = std::fs::read_to_string(&file).unwrap().trim().parse().unwrap();
    std::fs::remove_file(&file).unwrap();
    let mut runs = true;
    for _ in 0..100 {
        // Where nothing waits for orphans, it stays as a zombie.
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        runs = !(stat.is_empty() || stat.contains(") Z"));
        if !runs {
            break;
        }
        tokio::time::sleep(SECOND / 20).await;
    }
    assert!(!runs, "the plugin's child {child} still runs");
}
