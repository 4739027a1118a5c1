//! The program as a process: commands, start, stop.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Output, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::kit::wait::MAX_WAIT;

fn command(state: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
    command.args(args).arg("--state").arg(state).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn run(state: &Path, args: &[&str], input: &str) -> Output {
    let mut child = command(state, args).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
    timeout(MAX_WAIT, child.wait_with_output()).await.expect("a command ends").unwrap()
}

async fn run_successfully(state: &Path, args: &[&str], input: &str) -> String {
    let output = run(state, args, input).await;
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn run_refused(state: &Path, args: &[&str], input: &str) -> String {
    let output = run(state, args, input).await;
    assert_eq!(output.status.code(), Some(1), "{args:?}");
    assert!(output.stdout.is_empty(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Starts a server; returns it with its base URL.
async fn start_server(state: &Path) -> (Child, String) {
    let mut child = command(state, &["serve", "--listen", "127.0.0.1:0"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = timeout(MAX_WAIT, lines.next_line()).await.expect("a started server").unwrap().expect("one line");
    let base = line.strip_prefix("listening on ").unwrap_or_else(|| panic!("{line}")).to_owned();
    (child, base)
}

/// Ends it with SIGTERM, like systemd; returns its standard error.
async fn stop_gracefully(child: Child) -> String {
    let pid = rustix::process::Pid::from_raw(child.id().unwrap() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let output = timeout(MAX_WAIT, child.wait_with_output()).await.expect("a stopped server").unwrap();
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
async fn accounts_persist_and_commands_name_the_route_while_a_server_runs() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path();
    std::fs::set_permissions(state, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(run_refused(state, &["user", "add", "ada", "--password-stdin"], "short\n").await.contains("at least 8"));
    assert!(run_refused(state, &["user", "add", "ada", "--password-stdin"], "").await.contains("no password"));
    run_successfully(state, &["user", "add", "ada", "--admin", "--password-stdin"], "correct horse\nignored").await;
    // Checked after the first command, because the next one would correct the permissions.
    check_private(state);
    assert!(
        run_refused(state, &["user", "add", "ADA", "--password-stdin"], "correct horse\n")
            .await
            .contains("already in use")
    );
    assert!(run_refused(state, &["token", "new", "--user", "bob"], "").await.contains("no user \"bob\""));
    let token = run_successfully(state, &["token", "new", "--user", "ada"], "").await.trim().to_owned();
    run_successfully(state, &["keys", "rotate"], "").await;
    assert!(run_successfully(state, &["user", "list"], "").await.starts_with("ada\tadmin\t1 devices\tsince 2"));

    let (child, base) = start_server(state).await;
    let client = reqwest::Client::new();
    let me = client.get(format!("{base}/api/auth/me")).bearer_auth(&token).send().await.unwrap();
    assert_eq!(me.status(), 200);
    let stderr = run_refused(state, &["user", "add", "bob", "--password-stdin"], "battery staple\n").await;
    assert!(stderr.contains("in use by a running hearthcast") && stderr.contains("POST /api/users"), "{stderr}");
    assert!(run_refused(state, &["keys", "rotate"], "").await.contains("in use"));
    assert!(
        run_refused(state, &["serve", "--listen", "127.0.0.1:0"], "").await.contains("in use by a running hearthcast")
    );
    let address = base.strip_prefix("http://").unwrap();
    let other = tempfile::tempdir().unwrap();
    let stderr = run_refused(other.path(), &["serve", "--listen", address], "").await;
    assert!(stderr.contains(address) && stderr.contains("--listen"), "{stderr}");
    assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0, "a server without a port writes nothing");
    assert!(!stop_gracefully(child).await.contains(&token), "no token in the log");
    check_private(state);

    run_successfully(state, &["user", "passwd", "ada", "--password-stdin"], "battery staple\n").await;
    assert!(run_successfully(state, &["user", "list"], "").await.contains("0 devices"));
}

#[tokio::test]
async fn the_state_can_be_exported_and_imported() {
    let (first_state, second_state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    run_successfully(first_state.path(), &["user", "add", "ada", "--admin", "--password-stdin"], "correct horse\n")
        .await;
    let token = run_successfully(first_state.path(), &["token", "new", "--user", "ada"], "").await.trim().to_owned();
    let lines = run_successfully(first_state.path(), &["export"], "").await;
    assert!(lines.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{lines}");
    let half = &lines[..lines.trim_end().rfind('\n').unwrap()];
    assert!(run_refused(second_state.path(), &["import"], half).await.contains("is truncated"));
    let newer = "{\"hearthcast\":\"9.0.0\",\"layout\":9}\n{\"records\":0}\n";
    assert!(run_refused(second_state.path(), &["import"], newer).await.contains("a newer version (9.0.0)"));
    run_successfully(second_state.path(), &["import"], &lines).await;
    assert!(run_refused(second_state.path(), &["import"], &lines).await.contains("--replace"));
    run_successfully(second_state.path(), &["import", "--replace"], &lines).await;
    let (child, base) = start_server(second_state.path()).await;
    let me = reqwest::Client::new().get(format!("{base}/api/auth/me")).bearer_auth(&token).send().await.unwrap();
    assert_eq!(me.status(), 200, "sessions survive the move");
    // A backup of a running server.
    let third = tempfile::tempdir().unwrap();
    let file = third.path().join("backup.jsonl");
    run_successfully(second_state.path(), &["backup", file.to_str().unwrap()], "").await;
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let backup = std::fs::read_to_string(&file).unwrap();
    assert_eq!(run_successfully(second_state.path(), &["export"], "").await, backup);
    let missing_folder = third.path().join("missing/backup.jsonl");
    assert!(
        run_refused(second_state.path(), &["backup", missing_folder.to_str().unwrap()], "").await.contains("missing")
    );
    stop_gracefully(child).await;
    run_successfully(&third.path().join("state"), &["import", file.to_str().unwrap()], "").await;
    assert!(
        run_successfully(&third.path().join("state"), &["user", "list"], "").await.starts_with("ada\tadmin\t1 devices")
    );
    assert!(run_refused(&third.path().join("none"), &["export"], "").await.contains("there is no state in"));
}

#[tokio::test]
async fn a_fresh_server_shows_a_set_up_code_and_stops_despite_open_connections() {
    let dir = tempfile::tempdir().unwrap();
    let (child, base) = start_server(dir.path()).await;
    let code = std::fs::read_to_string(dir.path().join("setup-code")).unwrap();
    let set_up = serde_json::json!({"code": code.trim(), "username": "ada", "password": "correct horse"});
    let client = reqwest::Client::new();
    let response = client.post(format!("{base}/api/auth/setup")).json(&set_up).send().await.unwrap();
    assert_eq!(response.status(), 200);
    assert!(!dir.path().join("setup-code").exists());
    // Neither an idle connection nor an unfinished request delays the shutdown.
    let mut unfinished_request = tokio::net::TcpStream::connect(base.strip_prefix("http://").unwrap()).await.unwrap();
    unfinished_request.write_all(b"GET /api/health HTTP/1.1\r\nHost").await.unwrap();
    let log = stop_gracefully(child).await;
    assert!(log.contains(&format!("set-up code: {}", code.trim())), "{log}");
    assert!(!log.contains("correct horse"));
}

#[tokio::test]
async fn an_admin_reads_the_end_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    run_successfully(dir.path(), &["user", "add", "ada", "--admin", "--password-stdin"], "correct horse\n").await;
    let token = run_successfully(dir.path(), &["token", "new", "--user", "ada"], "").await.trim().to_owned();
    let (child, base) = start_server(dir.path()).await;
    let client = reqwest::Client::new();
    let get = async |path: &str| client.get(format!("{base}{path}")).bearer_auth(&token).send().await.unwrap();
    let log = async |after: u64| {
        let tail: serde_json::Value = get(&format!("/api/debug/log?after={after}")).await.json().await.unwrap();
        tail["lines"].as_array().unwrap().clone()
    };
    let last_number = log(0).await.last().map_or(0, |line| line["number"].as_u64().unwrap());
    let response = client.get(format!("{base}/api/auth/me")).send().await.unwrap();
    let request_id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
    let lines = log(last_number).await;
    let line = lines
        .iter()
        .find(|line| line["text"].as_str().unwrap().contains(&request_id))
        .expect("the request is in the log");
    assert_eq!(line["level"], "INFO");
    assert!(line["text"].as_str().unwrap().contains("status=401"), "{line}");
    assert!(line["number"].as_u64().unwrap() > last_number && !line["target"].as_str().unwrap().is_empty(), "{line}");
    assert_eq!(get("/api/debug/log?after=x").await.status(), 400);
    let console = stop_gracefully(child).await;
    assert!(console.contains(&request_id), "the console has it, too: {console}");
}

#[tokio::test]
async fn version_and_openapi_are_printed_without_a_server() {
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

/// The arenas of glibc besides the main one: each has reserved 64 MiB at a multiple of that, and uses the first part.
fn count_arenas(process: u32) -> usize {
    const ARENA_BYTES: u64 = 64 << 20;

    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    let mappings: Vec<(u64, u64, &str)> = maps
        .lines()
        .map(|line| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let address = |text| u64::from_str_radix(text, 16).unwrap();
            (address(start), address(end), &rest[..4])
        })
        .collect();
    let is_arena = |pair: &&[(u64, u64, &str)]| {
        let [(start, end, access), (reserved, reserved_end, reserved_access)] = pair else { return false };
        start % ARENA_BYTES == 0
            && (*access, *reserved_access) == ("rw-p", "---p")
            && reserved == end
            && *reserved_end == start + ARENA_BYTES
    };
    mappings.windows(2).filter(is_arena).count()
}

#[tokio::test]
async fn a_server_has_one_arena_of_memory_for_each_processor() {
    let dir = tempfile::tempdir().unwrap();
    let (child, _) = start_server(dir.path()).await;
    let processors = std::thread::available_parallelism().unwrap().get();
    let arenas = count_arenas(child.id().unwrap());
    assert!((1..processors.max(4)).contains(&arenas), "{arenas} arenas besides the main one, {processors} processors");
    stop_gracefully(child).await;
}
