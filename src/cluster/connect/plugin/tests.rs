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
    /// The last token, if each run is to return another one.
    token: Option<u32>,
}

impl Trial {
    fn new() -> Self {
        Self {
            runs: Runs::new(),
            now: Instant::now(),
            clock: "2026-01-01T00:00:00Z".parse().unwrap(),
            token: None,
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
        let expires = self.clock + SignedDuration::from_secs(seconds);
        self.succeed_until(Some(expires));
    }

    fn succeed_until(&mut self, expires: Option<Timestamp>) {
        self.token = self.token.map(|token| token + 1);
        let credential = Credential {
            header: Some(self.header()),
            identity: None,
            expires,
        };
        self.runs.ended(Ok(credential), self.now, self.clock, 1.0);
    }

    /// The header with the token of the last run.
    fn header(&self) -> HeaderValue {
        let token = self
            .token
            .map_or("t".to_owned(), |token| format!("number-{token}"));
        HeaderValue::try_from(format!("Bearer {token}")).unwrap()
    }

    /// Asks for a credential and has the API server refuse it, if there is one.
    fn refuse(&mut self) -> Next {
        let next = self.next();
        if let Some(Ok(credential)) = &next.answer {
            self.runs.refused(credential.header.as_ref().unwrap(), self.now);
        }
        next
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

#[test]
fn a_token_that_is_refused_is_replaced_although_it_never_expires_or_not_yet() {
    for valid in [None, Some(3600)] {
        let mut trial = Trial::new();
        trial.token = Some(0);
        let expires = valid.map(|seconds| trial.clock + SignedDuration::from_secs(seconds));
        trial.next();
        trial.succeed_until(expires);
        let first = trial.header();
        trial.wait(900 * SECOND);
        assert!(trial.next().answer.unwrap().is_ok());
        assert!(!trial.refuse().begins);
        let next = trial.next();
        assert!(next.begins && next.answer.is_none(), "it waits for another one");
        trial.succeed_until(None);
        // Answers to requests that carried the first one come late.
        for _ in 0..100 {
            trial.wait(SECOND);
            trial.runs.refused(&first, trial.now);
            let next = trial.next();
            assert!(!next.begins);
            assert_eq!(next.answer.unwrap().unwrap().header, Some(trial.header()));
        }
    }
}

#[test]
fn a_plugin_whose_tokens_are_always_refused_is_not_run_in_a_loop() {
    for first in [None, Some(0)] {
        let mut trial = Trial::new();
        trial.token = first;
        let mut runs = |seconds: u64| {
            let mut runs = 0;
            for _ in 0..seconds * 100 {
                if trial.refuse().begins {
                    runs += 1;
                    trial.succeed_until(None);
                }
                trial.wait(SECOND / 100);
            }
            runs
        };
        let begun = runs(60);
        assert!((3..=5).contains(&begun), "{begun} runs in the first minute");
        let begun = runs(600);
        assert!((18..=21).contains(&begun), "{begun} runs in ten minutes");
        // One that was good for long is replaced at once.
        while !trial.refuse().begins {
            trial.wait(SECOND);
        }
        trial.succeed_until(None);
        trial.wait(900 * SECOND);
        assert!(!trial.refuse().begins);
        assert!(trial.next().begins);
    }
}

#[test]
fn a_refused_token_goes_on_where_the_plugin_cannot_give_another() {
    let mut trial = Trial::new();
    trial.next();
    trial.succeed_until(None);
    trial.wait(60 * SECOND);
    trial.refuse();
    assert!(trial.next().begins);
    assert!(!trial.runs.is_stuck());
    trial.fail();
    assert!(trial.runs.is_stuck());
    let meanwhile = trial.next();
    assert!(
        meanwhile.answer.unwrap().is_ok(),
        "the server may accept it again"
    );
    let begun = trial.ask(60, Trial::fail);
    assert!((3..=7).contains(&begun), "{begun} runs in a minute");
    trial.wait(60 * SECOND);
    assert!(trial.next().begins);
    trial.succeed_until(None);
    assert!(!trial.runs.is_stuck() && trial.next().answer.unwrap().is_ok());
}

/// One of several API servers has answered 401 by mistake, and the plugin hangs until it is killed, again and again.
#[test]
fn a_refused_token_that_is_valid_goes_on_while_the_plugin_hangs() {
    let mut trial = Trial::new();
    trial.next();
    trial.succeed(3600);
    trial.wait(60 * SECOND);
    trial.refuse();
    let (mut began, mut without) = (None, Vec::new());
    for second in 0..120u32 {
        if began.is_some_and(|began| second == began + 30) {
            trial.fail();
            began = None;
        }
        let next = trial.next();
        if next.begins {
            began = Some(second);
        }
        if !matches!(next.answer, Some(Ok(_))) {
            without.push(second);
        }
        trial.wait(SECOND);
    }
    assert_eq!(without, [0, 1], "requests wait for two seconds, and once");
    trial.wait(3600 * SECOND);
    assert!(!matches!(trial.next().answer, Some(Ok(_))), "it has expired");
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

/// Sends a request to a server that answers with the header that it was sent, and refuses these.
async fn send(plugin: &Arc<Plugin>, refused: &[HeaderValue]) -> Result<(u16, HeaderValue), BoxError> {
    let request = Request::get("/api").body(Body::empty()).unwrap();
    let answer = plugin.send(request, async |request: Request<Body>| {
        let header = request.headers()[AUTHORIZATION].clone();
        tokio::time::sleep(SECOND / 10).await;
        let status = if refused.contains(&header) { 401 } else { 200 };
        Ok(Response::builder().status(status).body(header).unwrap())
    });
    let answer = answer.await?;
    Ok((answer.status().as_u16(), answer.into_body()))
}

#[tokio::test]
async fn many_answers_of_401_to_one_token_are_one_run() {
    let file = std::env::temp_dir().join(format!("endpointd-runs-{}", std::process::id()));
    let script = format!(
        r#"echo run >> {}; sleep 0.2; echo "{{"status": {{"token": "$$"}}}}""#,
        file.display()
    );
    let plugin = shell(&script, 30 * SECOND, 20 * SECOND);
    let (status, first) = send(&plugin, &[]).await.unwrap();
    assert_eq!(status, 200);
    // A run is followed by a pause.
    tokio::time::sleep(6 * SECOND).await;
    let refused = [first];
    let asked = (0..20).map(|_| send(&plugin, &refused));
    for (status, _) in futures::future::try_join_all(asked).await.unwrap() {
        assert_eq!(status, 401, "they were on the way with it");
    }
    let asked = (0..20).map(|_| send(&plugin, &refused));
    for (status, _) in futures::future::try_join_all(asked).await.unwrap() {
        assert_eq!(status, 200);
    }
    let runs = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(runs.lines().count(), 2);
}

#[tokio::test]
async fn a_request_that_waits_goes_on_with_a_refused_token_when_the_plugin_hangs() {
    let file = std::env::temp_dir().join(format!("endpointd-hangs-{}", std::process::id()));
    let script = format!(
        r#"[ -e {0} ] && sleep 9; touch {0}; echo '{{"status": {{"token": "t"}}}}'"#,
        file.display()
    );
    let plugin = shell(&script, 8 * SECOND, 4 * SECOND);
    let (_, first) = send(&plugin, &[]).await.unwrap();
    // A run is followed by a pause.
    tokio::time::sleep(6 * SECOND).await;
    let (status, _) = send(&plugin, &[first]).await.unwrap();
    assert_eq!(status, 401);
    let start = Instant::now();
    let sent = send(&plugin, &[]).await;
    std::fs::remove_file(&file).unwrap();
    assert_eq!(sent.unwrap().0, 200);
    let took = Instant::now().saturating_duration_since(start);
    assert!(took >= 2 * SECOND, "{took:?}: it waits for another token first");
}

#[tokio::test]
async fn requests_share_a_run_and_each_gets_its_token() {
    let script = r#"sleep 0.3; echo "{\"status\": {\"token\": \"$$\"}}""#;
    let plugin = shell(script, 30 * SECOND, 20 * SECOND);
    let asked = (0..20).map(|_| send(&plugin, &[]));
    let sent = futures::future::try_join_all(asked).await.unwrap();
    let (_, first) = &sent[0];
    assert!(first.to_str().unwrap().starts_with("Bearer "));
    for (_, other) in &sent {
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
    let error = send(&plugin, &[]).await.unwrap_err().to_string();
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
    send(&plugin, &[]).await.unwrap();
    assert!(Instant::now().saturating_duration_since(start) < 4 * SECOND);
}
