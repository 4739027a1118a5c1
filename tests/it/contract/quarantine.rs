//! Files in quarantine: listed and lifted by admins.

use hearthcast::domain::worker::{ProvenFault, QuarantineKey, Stage};
use hearthcast::engine::versions;
use hearthcast::engine::worker::FaultRecorder;
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::response::expect_error;
use crate::kit::{self, Server};

async fn entries(server: &Server) -> Vec<Value> {
    let request = server.request(Method::GET, "/api/quarantine").bearer_auth(&server.admin);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.json::<Value>().await.unwrap()["entries"].as_array().unwrap().clone()
}

fn sample_fault() -> ProvenFault {
    ProvenFault {
        key: QuarantineKey {
            fingerprint: "f_0123".into(),
            stage: Stage::Probe,
            pipeline: "discover".into(),
            version: versions::worker_version(),
        },
        path: "/library/bad.mkv".into(),
        cause: "SIGSEGV in queue0:src".into(),
        at: Timestamp::now(),
    }
}

#[tokio::test]
async fn admins_list_and_lift_quarantines() {
    let server = kit::start_server(&[]).await;
    assert!(entries(&server).await.is_empty());
    let fault = sample_fault();
    server.service.quarantine.record(fault.clone());
    let listed = entries(&server).await;
    let [entry] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!(
        (&entry["path"], &entry["stage"], &entry["pipeline"], &entry["cause"], &entry["fingerprint"]),
        (&json!("/library/bad.mkv"), &json!("probe"), &json!("discover"), &json!(fault.cause), &json!("f_0123"))
    );
    let time = |name: &str| entry[name].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert_eq!(time("expiresAt").duration_since(time("at")).as_hours(), 30 * 24);
    let view: Value = server.get("/api/stream/v2-workers").send().await.unwrap().json().await.unwrap();
    assert_eq!(view["local"]["pool"]["quarantined"], 1);

    let path = format!("/api/quarantine/{}", entry["id"].as_str().unwrap());
    let lift = async |token: &str| server.request(Method::DELETE, &path).bearer_auth(token).send().await.unwrap();
    expect_error(lift(&server.token).await, 403, "FORBIDDEN").await;
    expect_error(server.get("/api/quarantine").send().await.unwrap(), 403, "FORBIDDEN").await;
    assert!(server.service.quarantine.is_quarantined(&fault.key), "a user lifts nothing");
    assert_eq!(lift(&server.admin).await.status(), 204);
    assert!(entries(&server).await.is_empty());
    assert!(!server.service.quarantine.is_quarantined(&fault.key));
    expect_error(lift(&server.admin).await, 404, "NOT_FOUND").await;
}
