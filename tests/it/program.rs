//! The program as a process: commands, start, stop.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

fn command(state: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
    command.args(args).arg("--state").arg(state).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn run(state: &Path, args: &[&str], input: &str) -> Output {
    let mut child = command(state, args).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    timeout(PATIENCE, child.wait_with_output()).await.expect("a command ends").unwrap()
}

async fn done(state: &Path, args: &[&str], input: &str) -> String {
    let output = run(state, args, input).await;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn refused(state: &Path, args: &[&str], input: &str) -> String {
    let output = run(state, args, input).await;
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Starts a server; returns it with its base URL.
async fn serve(state: &Path) -> (Child, String) {
    let mut child = command(state, &["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = timeout(PATIENCE, lines.next_line()).await.expect("a started server").unwrap().expect("one line");
    let base = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
    (child, base)
}

/// Ends it with SIGTERM, like systemd; returns its standard error.
async fn stop(child: Child) -> String {
    let pid = rustix::process::Pid::from_raw(child.id().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = timeout(Duration::from_secs(10), child.wait_with_output()).await.expect("within 10 s").unwrap();
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stderr).unwrap()
}

/// Asserts that other users of the machine have no access to the state folder and its contents.
fn check_private(state: &Path) {
    let mut paths = vec![state.to_owned()];
    while let Some(path) = paths.pop() {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o077, 0, "{} is private", path.display());
        let entries = std::fs::read_dir(&path).into_iter().flatten();
        paths.extend(entries.map(|entry| entry.unwrap().path()));
    }
}

#[tokio::test]
async fn accounts_are_kept_between_runs_and_named_routes_do_it_during_one() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    std::fs::set_permissions(state, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(refused(state, &["user", "add", "ada", "--password-stdin"], "short\n").await.contains("at least 8"));
    assert!(refused(state, &["user", "add", "ada", "--password-stdin"], "").await.contains("no password"));
    done(state, &["user", "add", "ada", "--admin", "--password-stdin"], "correct horse\nignored").await;
    // Checked after the first command, because the next one would correct the permissions.
    check_private(state);
    assert!(
        refused(state, &["user", "add", "ADA", "--password-stdin"], "correct horse\n").await.contains("already in use")
    );
    assert!(refused(state, &["token", "new", "--user", "bob"], "").await.contains("no user \"bob\""));
    let token = done(state, &["token", "new", "--user", "ada"], "").await.trim().to_owned();
    done(state, &["keys", "rotate"], "").await;
    assert!(done(state, &["user", "list"], "").await.starts_with("ada\tadmin\t1 devices\tsince 2"));

    let (child, base) = serve(state).await;
    let client = reqwest::Client::new();
    let me = client.get(format!("{base}/api/auth/me")).bearer_auth(&token).send().await.unwrap();
    assert_eq!(me.status(), 200);
    let told = refused(state, &["user", "add", "bob", "--password-stdin"], "battery staple\n").await;
    assert!(told.contains("in use by a running hearthcast") && told.contains("POST /api/users"), "{told}");
    assert!(refused(state, &["keys", "rotate"], "").await.contains("in use"));
    assert!(refused(state, &["serve", "--listen", "127.0.0.1:0"], "").await.contains("in use by a running hearthcast"));
    let address = base.strip_prefix("http://").unwrap();
    let other = tempfile::tempdir().unwrap();
    let busy = refused(other.path(), &["serve", "--listen", address], "").await;
    assert!(busy.contains(address) && busy.contains("--listen"), "{busy}");
    assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0, "a server without a port writes nothing");
    assert!(!stop(child).await.contains(&token), "no token in the log");
    check_private(state);

    done(state, &["user", "passwd", "ada", "--password-stdin"], "battery staple\n").await;
    assert!(done(state, &["user", "list"], "").await.contains("0 devices"));
}

#[tokio::test]
async fn the_state_moves_to_another_machine_as_lines_of_text() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    done(here.path(), &["user", "add", "ada", "--admin", "--password-stdin"], "correct horse\n").await;
    let token = done(here.path(), &["token", "new", "--user", "ada"], "").await.trim().to_owned();
    let lines = done(here.path(), &["export"], "").await;
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{lines}");
    let half = &lines[..lines.trim_end().rfind('\n').unwrap()];
    assert!(refused(there.path(), &["import"], half).await.contains("is truncated"));
    done(there.path(), &["import"], &lines).await;
    assert!(refused(there.path(), &["import"], &lines).await.contains("--replace"));
    done(there.path(), &["import", "--replace"], &lines).await;
    let (child, base) = serve(there.path()).await;
    let me = reqwest::Client::new().get(format!("{base}/api/auth/me")).bearer_auth(&token).send().await.unwrap();
    assert_eq!(me.status(), 200, "sessions survive the move");
    // A backup of a running server.
    let third = tempfile::tempdir().unwrap();
    let file = third.path().join("backup.jsonl");
    done(there.path(), &["backup", file.to_str().unwrap()], "").await;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let backup = std::fs::read_to_string(&file).unwrap();
    assert_eq!(done(there.path(), &["export"], "").await, backup);
    let elsewhere = third.path().join("missing/backup.jsonl");
    assert!(refused(there.path(), &["backup", elsewhere.to_str().unwrap()], "").await.contains("missing"));
    stop(child).await;
    done(&third.path().join("state"), &["import", file.to_str().unwrap()], "").await;
    assert!(done(&third.path().join("state"), &["user", "list"], "").await.starts_with("ada\tadmin\t1 devices"));
    assert!(refused(&third.path().join("none"), &["export"], "").await.contains("there is no state in"));
}

#[tokio::test]
async fn a_fresh_server_shows_a_set_up_code_and_stops_while_a_client_waits() {
    let dir = tempfile::tempdir().unwrap();
    let (child, base) = serve(dir.path()).await;
    let code = std::fs::read_to_string(dir.path().join("setup-code")).unwrap();
    let set_up = serde_json::json!({"code": code.trim(), "username": "ada", "password": "correct horse"});
    let client = reqwest::Client::new();
    let made = client.post(format!("{base}/api/auth/setup")).json(&set_up).send().await.unwrap();
    assert_eq!(made.status(), 200);
    assert!(!dir.path().join("setup-code").exists());
    // Neither an idle connection nor an unfinished request delays the shutdown.
    let mut half = tokio::net::TcpStream::connect(base.strip_prefix("http://").unwrap()).await.unwrap();
    half.write_all(b"GET /api/health HTTP/1.1\r\nHost").await.unwrap();
    let said = stop(child).await;
    assert!(said.contains(&format!("set-up code: {}", code.trim())), "{said}");
    assert!(!said.contains("correct horse"));
}

#[tokio::test]
async fn an_admin_reads_the_end_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    done(dir.path(), &["user", "add", "ada", "--admin", "--password-stdin"], "correct horse\n").await;
    let token = done(dir.path(), &["token", "new", "--user", "ada"], "").await.trim().to_owned();
    let (child, base) = serve(dir.path()).await;
    let client = reqwest::Client::new();
    let ask = async |path: &str| client.get(format!("{base}{path}")).bearer_auth(&token).send().await.unwrap();
    let log = async |after: u64| {
        let tail: serde_json::Value = ask(&format!("/api/debug/log?after={after}")).await.json().await.unwrap();
        tail["lines"].as_array().unwrap().clone()
    };
    let before = log(0).await.last().map_or(0, |line| line["number"].as_u64().unwrap());
    let stranger = client.get(format!("{base}/api/auth/me")).send().await.unwrap();
    let request = stranger.headers()["x-request-id"].to_str().unwrap().to_owned();
    let lines = log(before).await;
    let line =
        lines.iter().find(|line| line["text"].as_str().unwrap().contains(&request)).expect("the request is in the log");
    assert_eq!(line["level"], "INFO");
    assert!(line["text"].as_str().unwrap().contains("status=401"), "{line}");
    assert!(line["number"].as_u64().unwrap() > before && !line["target"].as_str().unwrap().is_empty(), "{line}");
    assert_eq!(ask("/api/debug/log?after=x").await.status(), 400);
    let said = stop(child).await;
    assert!(said.contains(&request), "the console has it, too: {said}");
}

#[tokio::test]
async fn what_needs_no_server_is_printed() {
    let program = async |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_hearthcast")).args(args).output().await.unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, version) = program(&["--version"]).await;
    assert_eq!(code, Some(0));
    assert!(
        version.starts_with("hearthcast ") && version.contains("\nGStreamer 1.") && version.contains("\nffmpeg "),
        "{version}"
    );
    let (code, openapi) = program(&["openapi"]).await;
    assert_eq!((code, openapi.trim()), (Some(0), hearthcast::http::openapi::text()));
    assert_eq!(program(&["nonsense"]).await.0, Some(2));
}
