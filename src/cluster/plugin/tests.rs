use super::runs::Next;
use super::*;
use jiff::SignedDuration;

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
}

impl Trial {
    fn new() -> Self {
        Self {
            runs: Runs::new(),
            now: Instant::now(),
            clock: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.clock += SignedDuration::try_from(time).unwrap();
    }

    fn next(&mut self) -> Next {
        self.runs.next(self.now, self.clock)
    }

    /// Ends a run with a token that is valid for so many seconds.
    fn succeed(&mut self, seconds: i64) {
        let credential = Credential {
            header: Some(HeaderValue::from_static("Bearer t")),
            identity: None,
            expires: Some(self.clock + SignedDuration::from_secs(seconds)),
        };
        self.runs.ended(Ok(credential), self.now, self.clock, 1.0);
    }

    fn fail(&mut self) {
        let error = ClientError::new("it failed");
        self.runs.ended(Err(error), self.now, self.clock, 1.0);
    }

    /// Asks a hundred times a second for so many seconds, with runs that end at once. Returns their number.
    fn ask(&mut self, seconds: u64, mut end: impl FnMut(&mut Self)) -> usize {
        let mut begun = 0;
        for _ in 0..seconds * 100 {
            if self.next().begins {
                begun += 1;
                end(self);
            }
            self.wait(SECOND / 100);
        }
        begun
    }
}

#[test]
fn there_is_one_run_at_a_time_and_all_wait_for_it() {
    let mut trial = Trial::new();
    let first = trial.next();
    assert!(first.begins && first.answer.is_none());
    for _ in 0..100 {
        trial.wait(SECOND / 10);
        let other = trial.next();
        assert!(!other.begins && other.answer.is_none());
        assert_eq!(other.since, first.since);
    }
    trial.succeed(3600);
    let after = trial.next();
    assert!(!after.begins && after.answer.unwrap().is_ok());
}

#[test]
fn a_token_is_replaced_before_it_expires_and_used_until_then() {
    let mut trial = Trial::new();
    trial.next();
    trial.succeed(3600);
    trial.wait(3539 * SECOND);
    assert!(!trial.next().begins);
    trial.wait(2 * SECOND);
    let early = trial.next();
    assert!(early.begins && early.answer.unwrap().is_ok(), "nothing waits");
    trial.wait(50 * SECOND);
    assert!(trial.next().answer.unwrap().is_ok());
    trial.wait(10 * SECOND);
    let expired = trial.next();
    assert!(!expired.begins && expired.answer.is_none(), "the run goes on");
    trial.fail();
    assert!(trial.next().answer.unwrap().is_err());
}

#[test]
fn a_plugin_whose_tokens_have_expired_already_is_not_run_for_each_request() {
    for valid in [-3600, 0, 5] {
        let mut trial = Trial::new();
        let begun = trial.ask(60, |trial| trial.succeed(valid));
        assert!((10..=13).contains(&begun), "{begun} runs in a minute");
    }
    // The credential of such a run is used.
    let mut trial = Trial::new();
    trial.next();
    trial.succeed(-3600);
    assert!(trial.next().answer.unwrap().is_ok());
}

#[test]
fn a_plugin_that_fails_is_run_again_after_growing_pauses() {
    let mut trial = Trial::new();
    let first = trial.ask(60, Trial::fail);
    assert!((3..=7).contains(&first), "{first} runs in the first minute");
    let later = trial.ask(600, Trial::fail);
    assert!((18..=21).contains(&later), "{later} runs in ten minutes");
    assert!(
        trial.next().answer.unwrap().is_err(),
        "requests fail at once in the pause"
    );
}

/// A plugin that is a shell script.
fn shell(script: &str, run: Duration, request: Duration) -> Arc<Plugin> {
    let exec: ExecConfig = serde_json::from_value(serde_json::json!({
        "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "interactiveMode": "Never",
    }))
    .unwrap();
    let patience = Patience {
        run: Some(run),
        request: Some(request),
    };
    Plugin::of(&exec, patience)
}

fn request() -> Request<Body> {
    Request::get("/api").body(Body::empty()).unwrap()
}

#[tokio::test]
async fn requests_share_a_run_and_each_gets_its_token() {
    let script = r#"sleep 0.3; echo "{\"status\": {\"token\": \"$$\"}}""#;
    let plugin = shell(script, 30 * SECOND, 20 * SECOND);
    let asked = (0..20).map(|_| plugin.authorize(request()));
    let authorized = futures::future::try_join_all(asked).await.unwrap();
    let first = &authorized[0].headers()[AUTHORIZATION];
    assert!(first.to_str().unwrap().starts_with("Bearer "));
    for other in &authorized {
        assert_eq!(&other.headers()[AUTHORIZATION], first);
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
    let error = plugin.authorize(request()).await.unwrap_err().to_string();
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

#[tokio::test]
async fn a_process_that_a_plugin_leaves_behind_holds_nothing_up() {
    let script = r#"sleep 5 & echo "{\"status\": {\"token\": \"t\"}}""#;
    let plugin = shell(script, 30 * SECOND, 20 * SECOND);
    let start = Instant::now();
    plugin.authorize(request()).await.unwrap();
    assert!(Instant::now().saturating_duration_since(start) < 4 * SECOND);
}
