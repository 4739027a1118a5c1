//! States that released versions left, with their answers beside them (`README.md`): this version starts on a copy, and every record
//! reads as it did. States and exports of newer versions are refused with a sentence.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kit::{self, Server, response::expect_success};

/// Released versions that wrote the state in a way of their own.
const VERSIONS: [&str; 2] = ["0.1", "0.2"];

/// Fields that may differ: those that depend on the time or on the sign-in, and whether a file is still in its folder.
const OTHER_FIELDS: [&str; 8] =
    ["available", "generatedAt", "isLive", "lastSeenAt", "lastUsedAt", "next", "now", "session"];

/// The answers of a version.
#[derive(Deserialize)]
struct Recorded {
    version: String,
    /// Its library folder.
    library: String,
    /// Of its users `ada`, an admin, and `bob`.
    password: String,
    /// By user and target.
    answers: BTreeMap<String, BTreeMap<String, Value>>,
}

/// A copy of the fixture of one version.
struct Fixture {
    folder: TempDir,
    source: PathBuf,
    recorded: Recorded,
}

impl Fixture {
    fn unpack(version: &str) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/upgrade").join(version);
        let folder = tempfile::tempdir().unwrap();
        for name in ["library.tar.gz", "state.tar.gz"] {
            let mut tar = Command::new("tar");
            tar.arg("--extract").arg("--file").arg(source.join(name)).arg("--directory").arg(folder.path());
            assert!(tar.status().expect("tar runs").success(), "{name}");
        }
        let recorded = serde_json::from_slice(&std::fs::read(source.join("answers.json")).unwrap()).unwrap();
        Self { folder, source, recorded }
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("library")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The export that the version wrote.
    fn export(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let file = std::fs::File::open(self.source.join("export.jsonl.gz")).unwrap();
        GzDecoder::new(file).read_to_end(&mut text).unwrap();
        text
    }

    /// Starts this version over a state and compares every answer.
    async fn compare_answers(&self, state: PathBuf) {
        let library = self.library();
        let recordings = self.folder.path().join("recorded");
        std::fs::create_dir_all(&recordings).unwrap();
        let server = kit::start_unclaimed(&[&library], |config| {
            config.state = state;
            config.recordings = Some(recordings);
        })
        .await;
        let mut differences = Vec::new();
        for (user, answers) in &self.recorded.answers {
            let token = sign_in(&server, user, &self.recorded.password).await;
            for (target, recorded) in answers {
                let folder = encoded(library.to_str().unwrap());
                let target = target.replace(&encoded(&self.recorded.library), &folder);
                let request = server.request(reqwest::Method::GET, &target).bearer_auth(&token);
                let answer: Value = expect_success(request.send().await.unwrap(), 200).await;
                let text = answer.to_string().replace(library.to_str().unwrap(), &self.recorded.library);
                let answer: Value =
                    serde_json::from_str(&text.replace(&folder, &encoded(&self.recorded.library))).unwrap();
                compare(&format!("{user} {target}"), recorded, &answer, &mut differences);
            }
        }
        assert!(differences.is_empty(), "of {}:\n{}", self.recorded.version, differences.join("\n"));
    }
}

/// A text as it stands in a query, like `encodeURIComponent` and jq's `@uri`.
fn encoded(text: &str) -> String {
    const KEPT: &percent_encoding::AsciiSet =
        &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    percent_encoding::utf8_percent_encode(text, KEPT).to_string()
}

async fn sign_in(server: &Server, username: &str, password: &str) -> String {
    let body = json!({"username": username, "password": password});
    let request = server.request(reqwest::Method::POST, "/api/auth/login").json(&body);
    expect_success(request.send().await.unwrap(), 200).await["token"].as_str().unwrap().to_owned()
}

/// Notes where an answer lacks something that was recorded. It may have more fields, as the interface only gains them.
fn compare(place: &str, recorded: &Value, answer: &Value, differences: &mut Vec<String>) {
    match (recorded, answer) {
        (Value::Object(before), Value::Object(now)) => {
            for (name, value) in before.iter().filter(|(name, _)| !OTHER_FIELDS.contains(&name.as_str())) {
                compare(&format!("{place} {name}"), value, now.get(name).unwrap_or(&Value::Null), differences);
            }
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            for (index, (value, now)) in before.iter().zip(now).enumerate() {
                compare(&format!("{place} {index}"), value, now, differences);
            }
        }
        // jq writes 6.0 as 6.
        _ if recorded == answer || recorded.as_f64().is_some() && recorded.as_f64() == answer.as_f64() => {}
        _ => differences.push(format!("{place}: {recorded} became {answer}")),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_of_a_released_version_reads_as_it_did() {
    for version in VERSIONS {
        let fixture = Fixture::unpack(version);
        fixture.compare_answers(fixture.state()).await;
        // A second start, over what the first one made of it.
        fixture.compare_answers(fixture.state()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_export_of_a_released_version_is_imported() {
    for version in VERSIONS {
        let fixture = Fixture::unpack(version);
        let state = fixture.folder.path().join("imported");
        let output = import(&state, &fixture.export());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fixture.compare_answers(state).await;
    }
}

/// Runs `hearthcast import` with these lines.
fn import(state: &Path, lines: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
    command.args(["import", "--state"]).arg(state).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(lines);
    child.wait_with_output().unwrap()
}

#[test]
fn a_state_and_an_export_of_a_newer_version_are_refused_with_a_sentence() {
    let fixture = Fixture::unpack(VERSIONS[0]);
    let journal = fixture.state().join("journal");
    let text = std::fs::read_to_string(&journal).unwrap();
    let (header, lines) = text.split_once('\n').unwrap();
    let [magic, layout, _] = header.split('\t').collect::<Vec<_>>()[..] else { panic!("{header}") };
    let newer = layout.parse::<u32>().unwrap() + 1;
    std::fs::write(&journal, format!("{}{lines}", journal_header(magic, newer))).unwrap();
    let before = std::fs::read(&journal).unwrap();
    let mut serve = Command::new(env!("CARGO_BIN_EXE_hearthcast"));
    serve.args(["serve", "--listen", "127.0.0.1:0", "--state"]).arg(fixture.state()).stdin(Stdio::null());
    let output = serve.env("HEARTHCAST_CACHE", fixture.folder.path().join("cache")).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("written by a newer version (layout 3"), "{error}");
    assert!(error.contains("import a backup"), "it says what to do: {error}");
    assert_eq!(std::fs::read(&journal).unwrap(), before, "the state is as it was");

    let export = String::from_utf8(fixture.export()).unwrap();
    let newer = export.replacen("\"layout\":1", "\"layout\":2", 1).replacen(
        "\"hearthcast\":\"0.1.0\"",
        "\"hearthcast\":\"9.0.0\"",
        1,
    );
    let output = import(&fixture.folder.path().join("imported"), newer.as_bytes());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("was written by a newer version (9.0.0): import it with that version"), "{error}");
}

/// First line of a journal with this layout (`store::journal::header`).
fn journal_header(magic: &str, layout: u32) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [magic.as_bytes(), b"", &u64::from(layout).to_le_bytes(), b""] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let checksum = &hasher.finalize().to_hex()[..32];
    format!("{magic}\t{layout}\t{checksum}\n")
}
