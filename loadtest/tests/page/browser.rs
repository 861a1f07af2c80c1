//! A real Chromium without a window, driven over a pair of pipes by its protocol for developers' tools.

use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use std::{env, fs, thread};

/// Longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where Debian and others put it; the variable is for other places.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
];
const VARIABLE: &str = "CHROMIUM";

/// Chromium's path, if there is one.
pub(crate) fn find() -> Option<PathBuf> {
    if let Some(path) = env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Some(PathBuf::from(path)).filter(|path| path.is_file());
    }
    let paths = env::var_os("PATH")?;
    let dirs: Vec<PathBuf> = env::split_paths(&paths).collect();
    NAMES
        .iter()
        .flat_map(|name| dirs.iter().map(move |dir| dir.join(name)))
        .find(|path| path.is_file())
}

/// A browser, ended with this value.
pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    profile: PathBuf,
    last: u64,
}

/// The behaviour of a page while it was loaded and looked at.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    /// All that it asked for, itself included.
    pub(crate) requests: Vec<String>,
    /// The messages on the console: errors of scripts, and what the page's policy forbade.
    pub(crate) complaints: Vec<String>,
}

/// How a page is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) width: u32,
    pub(crate) dark: bool,
}

/// An open page.
pub(crate) struct Page<'a> {
    browser: &'a mut Browser,
    session: String,
    target: String,
    seen: Seen,
}

// === impl Browser ===

impl Browser {
    /// Starts a browser that can reach nothing: no name is resolved, and nothing of its own is fetched.
    pub(crate) fn start(program: &Path, profile: PathBuf) -> Self {
        fs::create_dir_all(&profile).unwrap();
        let log = fs::File::create(profile.join("stderr")).unwrap();
        let mut user_data = OsString::from("--user-data-dir=");
        user_data.push(&profile);
        // The protocol's pipes are those of the numbers 3 and 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .args([
                "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
                "--no-proxy-server",
            ])
            .args(["--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(user_data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while output.read_until(0, &mut message).is_ok_and(|read| read > 0) {
                message.pop();
                let value = serde_json::from_slice(&message).unwrap_or(Value::Null);
                if sender.send(value).is_err() {
                    return;
                }
                message.clear();
            }
        });
        Self {
            input: child.stdin.take().unwrap(),
            child,
            messages,
            profile,
            last: 0,
        }
    }

    /// Opens a page of a file and waits until it is loaded.
    pub(crate) fn open(&mut self, file: &Path, view: View) -> Page<'_> {
        let target = self.call(
            None,
            "Target.createTarget",
            &json!({ "url": "about:blank" }),
            &mut Seen::default(),
        );
        let target = text(&target["targetId"]);
        let attach = json!({ "targetId": target, "flatten": true });
        let session =
            text(&self.call(None, "Target.attachToTarget", &attach, &mut Seen::default())["sessionId"]);
        let mut page = Page {
            browser: self,
            session,
            target,
            seen: Seen::default(),
        };
        for domain in ["Page", "Network", "Log", "Runtime"] {
            page.call(&format!("{domain}.enable"), &json!({}));
        }
        page.view(view);
        // Requests and messages of about:blank are not the page's.
        page.seen = Seen::default();
        page.call(
            "Page.navigate",
            &json!({ "url": format!("file://{}", file.display()) }),
        );
        page.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', () => done()))",
        );
        page
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: &Value, seen: &mut Seen) -> Value {
        self.last += 1;
        let mut message = json!({ "id": self.last, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let mut bytes = serde_json::to_vec(&message).unwrap();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        loop {
            let message = self.messages.recv_timeout(PATIENCE).unwrap_or_else(|error| {
                let log = fs::read_to_string(self.profile.join("stderr")).unwrap_or_default();
                panic!("{method}: {error}; the browser's log: {log}")
            });
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            seen.note(&message);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // In order, so that its children go too; and if it does not listen, without.
        let _ = self.input.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.profile);
    }
}

// === impl Page ===

impl Page<'_> {
    /// Changes the window's width and the colours that the reader prefers.
    pub(crate) fn view(&mut self, view: View) {
        let View { width, dark } = view;
        let size = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({ "media": "", "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &media);
    }

    /// The value of an expression; a promise is waited for.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let outcome = self.call("Runtime.evaluate", &params);
        assert!(outcome["exceptionDetails"].is_null(), "{expression}: {outcome}");
        outcome["result"]["value"].clone()
    }

    /// Moves the pointer.
    pub(crate) fn point(&mut self, x: f64, y: f64) {
        self.call(
            "Input.dispatchMouseEvent",
            &json!({ "type": "mouseMoved", "x": x, "y": y }),
        );
    }

    /// A picture of the whole page, as PNG.
    pub(crate) fn picture(&mut self) -> Vec<u8> {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let data = text(&self.call("Page.captureScreenshot", &params)["data"]);
        STANDARD.decode(data).unwrap()
    }

    /// Closes the page and tells what it did.
    pub(crate) fn close(mut self) -> Seen {
        let target = json!({ "targetId": self.target });
        self.browser
            .call(None, "Target.closeTarget", &target, &mut self.seen);
        self.seen
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.browser
            .call(Some(&self.session), method, params, &mut self.seen)
    }
}

// === impl Seen ===

impl Seen {
    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Network.requestWillBeSent") => self.requests.push(text(&params["request"]["url"])),
            Some("Log.entryAdded") => self.complaints.push(text(&params["entry"]["text"])),
            Some("Runtime.exceptionThrown") => self.complaints.push(params["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") => self.complaints.push(params["args"].to_string()),
            _ => {}
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
