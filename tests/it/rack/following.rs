//! A standby whose copy follows the database: it sends files itself, by the accounts and media folders of that moment.

use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::household::{Pair, Server, another_film};
use crate::kit::response::{expect_success, send_until_ready};
use crate::kit::wait::MAX_WAIT;

/// How long a standby may take that answers itself; one that passes the request on waits for the stopped server.
const ANSWER_TIME: Duration = Duration::from_millis(1500);

impl Pair {
    /// Something that an admin adds at the active server.
    async fn add(&self, path: &str, body: Value) -> Value {
        let request = self.active.client.post(format!("{}{path}", self.active.base)).bearer_auth(&self.household.admin);
        expect_success(request.json(&body).send().await.unwrap(), 201).await
    }

    /// Something that an admin removes there.
    async fn remove(&self, path: &str, id: &Value) {
        let url = format!("{}{path}/{}", self.active.base, id.as_str().expect("it has an id"));
        let request = self.active.client.delete(url).bearer_auth(&self.household.admin);
        assert_eq!(request.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    }

    /// The answer of the standby while the active server is stopped.
    async fn local_answer(&self, request: impl Fn() -> RequestBuilder) -> Response {
        self.active.suspend();
        let began = Instant::now();
        let answer = loop {
            match request().timeout(ANSWER_TIME).send().await {
                Ok(answer) => break answer,
                // Its copy may not be current yet.
                Err(fault) => assert!(began.elapsed() < MAX_WAIT, "the standby does not answer itself: {fault}"),
            }
        };
        self.active.signal(Signal::CONT);
        answer
    }

    /// Waits until the standby sends the whole film itself.
    async fn expect_local(&self, path: &str, token: Option<&str>, film: &Path) {
        let answer = self.local_answer(|| request(&self.standby, Method::GET, path, token)).await;
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.headers()["x-api-version"], "1");
        assert!(answer.bytes().await.unwrap() == std::fs::read(film).unwrap());
    }

    /// Waits until the standby answers with this status.
    async fn wait_for_status(&self, path: &str, token: Option<&str>, status: StatusCode) {
        let began = Instant::now();
        loop {
            let answered = answer_in_time(&self.standby, path, token).await.map(|response| response.status());
            if answered == Some(status) {
                return;
            }
            assert!(began.elapsed() < MAX_WAIT, "{path} was answered with {answered:?} instead of {status}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Asserts that the standby leaves the answer to the active server.
    async fn expect_passed_on(&self, path: &str, token: Option<&str>) {
        self.active.suspend();
        let answer = answer_in_time(&self.standby, path, token).await;
        self.active.signal(Signal::CONT);
        assert!(answer.is_none(), "{path} was answered with {answer:?}");
    }
}

fn request(server: &Server, method: Method, path: &str, token: Option<&str>) -> RequestBuilder {
    let request = server.client.request(method, format!("{}{path}", server.base));
    token.into_iter().fold(request, |request, token| request.bearer_auth(token))
}

/// The answer to a request; `None` if it does not come in time.
async fn answer_in_time(server: &Server, path: &str, token: Option<&str>) -> Option<Response> {
    request(server, Method::GET, path, token).timeout(ANSWER_TIME).send().await.ok()
}

fn file_path(film: &Path) -> String {
    let query = serde_urlencoded::to_string([("path", film.to_str().unwrap())]).unwrap();
    format!("/api/stream/file?{query}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_sends_files_itself_as_the_active_server_does() {
    let Some(pair) = Pair::start().await else { return };
    let (film, token) = (pair.household.film.clone(), pair.household.token.clone());
    let path = file_path(&film);
    pair.expect_local(&path, Some(&token), &film).await;

    // Ranges, validators and methods.
    let bytes = std::fs::read(&film).unwrap();
    let answer = request(&pair.active, Method::GET, &path, Some(&token)).send().await.unwrap();
    let etag = answer.headers()["etag"].clone();
    let request = |method, headers: &[(&'static str, &str)]| {
        let request = request(&pair.standby, method, &path, Some(&token));
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    };
    let etag_text = etag.to_str().unwrap();
    let part = || request(Method::GET, &[("range", "bytes=7-1006"), ("if-range", etag_text)]);
    let part = pair.local_answer(part).await;
    assert_eq!(part.status(), StatusCode::PARTIAL_CONTENT);
    assert_eq!(part.headers()["content-range"], format!("bytes 7-1006/{}", bytes.len()).as_str());
    assert!(part.bytes().await.unwrap() == bytes[7..=1006]);
    let head = pair.local_answer(|| request(Method::HEAD, &[])).await;
    assert_eq!(head.headers()["content-length"], bytes.len().to_string().as_str());
    assert_eq!(head.headers()["etag"], etag, "both servers send the same validator");
    let unchanged = pair.local_answer(|| request(Method::GET, &[("if-none-match", etag_text)])).await;
    assert_eq!(unchanged.status(), StatusCode::NOT_MODIFIED);

    // A signed link for this file opens it, and no other one.
    let info = format!("/api/stream/info/full?{}", path.split_once('?').unwrap().1);
    let response = send_until_ready(self::request(&pair.active, Method::GET, &info, Some(&token))).await;
    let text = expect_success(response, 200).await.to_string();
    let grant = text
        .split_once("/api/stream/file?")
        .and_then(|(_, link)| link.split_once("st="))
        .expect("a signed link")
        .1
        .split(['"', '&'])
        .next()
        .unwrap()
        .to_owned();
    pair.expect_local(&format!("{path}&st={grant}"), None, &film).await;
    let other = another_film(&pair.household, "other.mp4");
    pair.expect_passed_on(&format!("{}&st={grant}", file_path(&other)), None).await;
    // What is no media file's content, and what has no credentials.
    pair.expect_passed_on(&info, Some(&token)).await;
    pair.expect_passed_on(&path, None).await;
    pair.expect_passed_on(&file_path(Path::new("/etc/passwd")), Some(&token)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_follows_accounts_and_media_folders() {
    let Some(pair) = Pair::start().await else { return };
    let film = pair.household.film.clone();
    let path = file_path(&film);
    pair.expect_local(&path, Some(&pair.household.token), &film).await;

    // A new user.
    let user = json!({"username": "guest", "password": "a long password", "role": "user"});
    let user = pair.add("/api/users", user).await;
    let body = json!({"username": "guest", "password": "a long password", "deviceName": "test"});
    let login = request(&pair.active, Method::POST, "/api/auth/login", None).json(&body);
    let login = expect_success(login.send().await.unwrap(), 200).await;
    let token = login["token"].as_str().expect("a token").to_owned();
    pair.expect_local(&path, Some(&token), &film).await;

    // A folder that an admin adds, and removes again.
    let folder = pair.household.folder.path().join("added");
    std::fs::create_dir(&folder).unwrap();
    let added_film = folder.join("b.mp4");
    std::fs::copy(&film, &added_film).unwrap();
    let added = pair.add("/api/library/folders", json!({"path": folder})).await;
    let added_path = file_path(&added_film);
    pair.expect_local(&added_path, Some(&token), &added_film).await;
    pair.remove("/api/library/folders", &added["folder"]["id"]).await;
    pair.wait_for_status(&added_path, Some(&token), StatusCode::FORBIDDEN).await;
    pair.expect_local(&path, Some(&token), &film).await;

    pair.remove("/api/users", &user["user"]["id"]).await;
    pair.wait_for_status(&path, Some(&token), StatusCode::UNAUTHORIZED).await;
    pair.expect_passed_on(&path, Some(&token)).await;
    // What was followed is the state of the server that takes over.
    let Pair { household, mut active, mut standby } = pair;
    active.kill();
    standby.wait_until_listening();
    let refused = request(&standby, Method::GET, &path, Some(&token)).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    let answer = request(&standby, Method::GET, &path, Some(&household.token)).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let log = std::fs::read_to_string(household.folder.path().join("b/log")).unwrap();
    assert_eq!(log.matches("the copy of the database is made again").count(), 1, "only at its first start: {log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_cannot_follow_answers_nothing_itself() {
    let Some(pair) = Pair::start().await else { return };
    let (film, token) = (pair.household.film.clone(), pair.household.token.clone());
    let path = file_path(&film);
    pair.expect_local(&path, Some(&token), &film).await;
    // Its copy may lack a change from now on.
    pair.household.database.signal(Signal::STOP);
    let began = Instant::now();
    loop {
        pair.active.suspend();
        let answer = answer_in_time(&pair.standby, &path, Some(&token)).await;
        pair.active.signal(Signal::CONT);
        if answer.is_none() {
            break;
        }
        assert!(began.elapsed() < MAX_WAIT, "the standby answers from an outdated copy");
    }
    pair.wait_for_status(&path, Some(&token), StatusCode::OK).await;
    pair.household.database.signal(Signal::CONT);
    pair.expect_local(&path, Some(&token), &film).await;
    let log = std::fs::read_to_string(pair.household.folder.path().join("b/log")).unwrap();
    assert_eq!(log.matches("the copy of the database is made again").count(), 1, "the copy stayed open: {log}");
}
