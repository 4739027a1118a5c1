//! The `demo`, `doctor` and `pipelines` commands.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use hearthcast::domain::worker::{ProvenFault, QuarantineKey, Stage};
use hearthcast::engine::versions;
use hearthcast::store::{Store, Tree};
use jiff::Timestamp;
use tempfile::TempDir;

fn hearthcast_command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
    command.args(args).env_clear().env("HOME", home).env("HEARTHCAST_LOG", "error");
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.stdin(Stdio::null());
    command
}

fn output_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn doctor_reports_no_problem_on_a_complete_machine() {
    let home = TempDir::new().unwrap();
    let output = hearthcast_command(home.path(), &["doctor"]).env("HEARTHCAST_LISTEN", "127.0.0.1:0").output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("encoder libx264 (software) encoded a frame"), "{text}");
    assert!(text.contains("the library has no folders"), "{text}");
    assert!(text.contains("media workers are confined by "), "{text}");
    assert!(!text.contains("BAD"), "{text}");
    for checked in ["MB/s, syncs in ", "the clock is 20", "time zone ", "127.0.0.1:0 is free", "files "] {
        assert!(text.contains(checked), "{checked:?} is missing in {text}");
    }
    let mut command = hearthcast_command(home.path(), &["doctor"]);
    let output = command.env("HEARTHCAST_LISTEN", "127.0.0.1:0").env("HEARTHCAST_ISOLATION", "none").output().unwrap();
    let text = output_text(&output);
    assert!(output.status.success() && text.contains("a file that crashes GStreamer ends the server"), "{text}");
}

#[tokio::test]
async fn doctor_lists_the_quarantine_of_a_stopped_server() {
    let home = TempDir::new().unwrap();
    let state = home.path().join("state");
    let run_doctor = || {
        let mut command = hearthcast_command(home.path(), &["doctor", "--state", state.to_str().unwrap()]);
        output_text(&command.env("HEARTHCAST_LISTEN", "127.0.0.1:0").output().unwrap())
    };
    let store = Store::open(&state).unwrap();
    let fault = ProvenFault {
        key: QuarantineKey {
            fingerprint: "f_0123".into(),
            stage: Stage::Run,
            pipeline: "segment".into(),
            version: versions::worker_version(),
        },
        path: "/library/bad.mkv".into(),
        cause: "SIGSEGV in thread queue0:src".into(),
        at: Timestamp::now(),
    };
    store.put(Tree::Quarantine, "0123", &fault).await.unwrap();
    let text = run_doctor();
    assert!(text.contains("GET /api/quarantine lists the files in quarantine"), "{text}");
    drop(store);
    let text = run_doctor();
    assert!(text.contains("/library/bad.mkv is in quarantine") && text.contains("queue0:src"), "{text}");
}

#[test]
fn pipelines_are_listed_checked_and_rendered() {
    let home = TempDir::new().unwrap();
    let run = |args: &[&str]| hearthcast_command(home.path(), args).output().unwrap();
    let list_output = output_text(&run(&["pipelines", "list"]));
    assert!(list_output.contains("decode-video-mp4 ") && list_output.contains("x264enc "), "{list_output}");
    let check_output = run(&["pipelines", "check"]);
    assert!(check_output.status.success(), "{}", output_text(&check_output));
    assert!(output_text(&check_output).contains("ok      segment with x264enc"), "{}", output_text(&check_output));
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/pipelines/README.md")).unwrap();
    assert_eq!(String::from_utf8(run(&["pipelines", "draw"]).stdout).unwrap(), page);
    assert!(
        output_text(&run(&["pipelines", "draw", "segment", "--text"])).contains("rotate.src -> video_encoder.sink")
    );
    assert!(output_text(&run(&["pipelines", "draw", "segment", "--svg"])).contains(">x264enc</text>"));
    assert!(!run(&["pipelines", "draw", "nothing"]).status.success());
}

#[test]
fn doctor_names_missing_parts_and_fails() {
    let home = TempDir::new().unwrap();
    let mut command = hearthcast_command(home.path(), &["doctor"]);
    command.env("HEARTHCAST_LISTEN", "127.0.0.1:0");
    command.env("HEARTHCAST_FFMPEG", home.path().join("no-such-ffmpeg"));
    command.env("HEARTHCAST_ROOTS", home.path().join("unmounted"));
    let output = command.output().unwrap();
    let text = output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.lines().any(|line| line.starts_with("BAD") && line.contains("no-such-ffmpeg")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("BAD") && line.contains("unmounted")), "{text}");
    assert!(text.contains("2 problems must be fixed"), "{text}");
}

#[test]
fn demo_uses_the_next_free_port_and_prints_a_setup_link() {
    let home = TempDir::new().unwrap();
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap();
    let mut demo = hearthcast_command(home.path(), &["demo", "--listen", &address.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut output_lines = Vec::new();
    let link = BufReader::new(demo.stdout.take().unwrap()).lines().map_while(Result::ok).find_map(|line| {
        output_lines.push(line.clone());
        line.trim().strip_prefix("http://").map(str::to_owned)
    });
    demo.kill().unwrap();
    demo.wait().unwrap();
    let link = link.unwrap_or_else(|| panic!("no link in {output_lines:?}"));
    let (host, code) = link.split_once("/#/setup?code=").unwrap();
    let port: u16 = host.strip_prefix("127.0.0.1:").unwrap().parse().unwrap();
    assert!(port > address.port(), "{link}");
    assert!(output_lines[0].contains("is busy"), "{output_lines:?}");
    let code_file = home.path().join(format!(".cache/hearthcast/demo/state-{port}/setup-code"));
    assert_eq!(std::fs::read_to_string(code_file).unwrap().trim(), code);
}
