//! Enrolment over HTTP, and the reach of a worker's token.

use hearthcast::engine::remote::identity::WorkerIdentity;
use hearthcast::engine::remote::message::renewal_text;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::worker_program::new_code;
use crate::kit::response::{expect_error, expect_success};
use crate::kit::{self, Server};

/// A server with a queue that nothing answers.
async fn start_server() -> Server {
    kit::start_server_with(&[], |config| config.queue = Some("nats://127.0.0.1:9".into())).await
}

fn enrol(server: &Server, code: &str, identity: &WorkerIdentity) -> RequestBuilder {
    let body = json!({"code": code, "name": "desktop", "publicKey": identity.public_key()});
    server.request(Method::POST, "/api/workers/enrol").json(&body)
}

#[tokio::test(flavor = "multi_thread")]
async fn five_wrong_codes_make_the_right_one_void() {
    let server = start_server().await;
    let identity = WorkerIdentity::generate().unwrap();
    let code = new_code(&server).await;
    for _ in 0..5 {
        expect_error(enrol(&server, "AAAAAAAA", &identity).send().await.unwrap(), 401, "INVALID_CREDENTIALS").await;
    }
    expect_error(enrol(&server, &code, &identity).send().await.unwrap(), 401, "INVALID_CREDENTIALS").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_of_a_worker_reaches_its_runs_only_until_it_is_removed() {
    let server = start_server().await;
    let identity = WorkerIdentity::generate().unwrap();
    let code = new_code(&server).await;
    let credential: Value = expect_success(enrol(&server, &code, &identity).send().await.unwrap(), 201).await;
    expect_error(enrol(&server, &code, &identity).send().await.unwrap(), 401, "INVALID_CREDENTIALS").await;
    let (id, token) = (credential["workerId"].as_str().unwrap(), credential["token"].as_str().unwrap());
    let as_worker = |method: Method, path: &str| server.request(method, path).bearer_auth(token);
    let claim =
        |encoder| as_worker(Method::POST, "/api/workers/runs/1/claim").json(&json!({"encoder": encoder})).send();
    expect_error(claim("libx264").await.unwrap(), 404, "NOT_FOUND").await;
    expect_error(claim("unknown").await.unwrap(), 400, "BAD_REQUEST").await;
    for (method, path) in [(Method::GET, "/api/workers/runs/1/source"), (Method::PUT, "/api/workers/runs/1/segments/0")]
    {
        let answer = as_worker(method, path).json(&json!({})).send().await.unwrap();
        expect_error(answer, 404, "NOT_FOUND").await;
    }
    for path in ["/api/library", "/api/workers", "/api/stream/file?path=%2Fa", "/api/stream/v2-workers"] {
        expect_error(as_worker(Method::GET, path).send().await.unwrap(), 401, "UNAUTHORIZED").await;
    }
    let as_grant = server.request(Method::GET, &format!("/api/stream/file?path=%2Fa&st={token}"));
    expect_error(as_grant.send().await.unwrap(), 403, "SIGNATURE_INVALID").await;
    let as_user = server.request(Method::POST, "/api/workers/runs/1/claim").bearer_auth(&server.admin);
    expect_error(as_user.send().await.unwrap(), 401, "UNAUTHORIZED").await;

    let time = jiff::Timestamp::now().as_second();
    let renew = |signature: String| {
        let body = json!({"workerId": id, "time": time, "signature": signature});
        server.request(Method::POST, "/api/workers/renew").json(&body).send()
    };
    let renewed: Value = expect_success(renew(identity.sign(&renewal_text(id, time))).await.unwrap(), 200).await;
    assert_eq!(renewed["workerId"], id);
    expect_error(renew(identity.sign("other")).await.unwrap(), 401, "INVALID_CREDENTIALS").await;

    let admin = |method: Method, path: &str| server.request(method, path).bearer_auth(&server.admin).send();
    let list: Value = expect_success(admin(Method::GET, "/api/workers").await.unwrap(), 200).await;
    assert_eq!((&list["workers"][0]["id"], &list["workers"][0]["name"]), (&json!(id), &json!("desktop")));
    let removed = admin(Method::DELETE, &format!("/api/workers/{id}")).await.unwrap();
    assert_eq!(removed.status(), 204);
    let answer = as_worker(Method::POST, "/api/workers/runs/1/claim").send().await.unwrap();
    expect_error(answer, 401, "UNAUTHORIZED").await;
}
