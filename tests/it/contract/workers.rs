//! The worker capability view.

use hearthcast::config::IsolationSetting;
use serde_json::{Value, json};

use crate::kit;

async fn worker_view(server: &kit::Server) -> Value {
    let answer = server.get("/api/stream/v2-workers").send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["cache-control"], "no-store");
    answer.json().await.unwrap()
}

#[tokio::test]
async fn encoders_are_listed_after_a_real_encode() {
    let server = kit::start_server(&[]).await;
    let view = worker_view(&server).await;
    let local = &view["local"];
    assert_eq!(view["nodes"], json!([]));
    assert_eq!(view["workers"], json!([]));
    assert_eq!(local["kind"], "transcoding");
    assert_eq!(local["status"], "available");
    assert_eq!(local["protocol"], json!({"name": "media-worker", "version": "0.1-draft"}));
    assert!(local["boundary"].as_str().unwrap().contains("subprocess"));
    assert!(local["supportedEncoders"].as_array().unwrap().contains(&json!("libx264")));
    let x264 = json!({"name": "libx264", "codec": "h264", "kind": "software", "device": null, "verified": true});
    assert!(local["encoders"].as_array().unwrap().contains(&x264));
    assert!(local["encoders"].to_string().contains("libsvtav1"), "{local}");
    let codec = |name: &str, encoder: &str| json!({"codec": name, "encoder": encoder, "setting": "auto", "enabled": false, "speed": null, "reason": "not measured yet"});
    assert_eq!(local["optionalCodecs"], json!([codec("hevc", "libx265"), codec("av1", "libsvtav1")]));
    assert_eq!(local["maxConcurrentJobs"], server.service.config.limits.concurrent_jobs);
    assert_eq!(local["activeJobCount"], 0);
    assert_eq!(local["queueLength"], 0);
    assert_eq!(local["lastError"], Value::Null);
    assert_eq!(local["pipelines"]["native"], "gstreamer");
    assert!(local["pipelines"]["version"].as_str().unwrap().starts_with("1."));
    assert_eq!(local["pipelines"]["backend"], "auto");
    assert!(local["pipelines"]["reason"].as_str().unwrap().contains("GStreamer encodes what it was measured"));
    assert_eq!(local["fallback"]["mode"], "local-subprocess");
    assert_eq!(local["fallback"]["reason"], "worker-fallback-used");
    assert!(local["fallback"]["userMessage"].as_str().unwrap().contains("baseline path"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pool_reports_its_workers_and_their_sandbox() {
    let server = kit::start_server(&[]).await;
    server.service.isolation.warm().await;
    server.service.isolation.examine().await.unwrap();
    let local = &worker_view(&server).await["local"];
    let pool = &local["pool"];
    assert_eq!(local["isolation"], "process");
    assert!(local["boundary"].as_str().unwrap().contains("worker processes"), "{local}");
    assert!(pool["ready"].is_u64() && pool["busy"].is_u64(), "{pool}");
    assert_eq!((&pool["restarted"], &pool["causes"], &pool["lastDeath"]), (&json!(0), &json!({}), &Value::Null));
    assert_eq!(pool["quarantined"], 0);
    let sandbox = &pool["sandbox"];
    assert!(sandbox["seccomp"].is_boolean() && sandbox["gaps"].is_array(), "{pool}");
    // A kernel without Landlock is a gap, and says so.
    let has_gaps = !sandbox["gaps"].as_array().unwrap().is_empty();
    assert!(sandbox["landlockAbi"].is_u64() || has_gaps, "{pool}");
}

#[tokio::test]
async fn without_isolation_there_is_no_pool() {
    let server = kit::start_server_with(&[], |config| config.isolation = IsolationSetting::None).await;
    let local = &worker_view(&server).await["local"];
    assert_eq!((&local["isolation"], &local["pool"]), (&json!("none"), &Value::Null));
    assert!(local["boundary"].as_str().unwrap().contains("server process"), "{local}");
}

#[tokio::test]
async fn a_missing_backend_is_reported() {
    let server = kit::start_server_with(&[], |config| config.ffmpeg = "/nonexistent/ffmpeg".into()).await;
    let view = worker_view(&server).await;
    let local = &view["local"];
    assert_eq!(local["status"], "unsupported");
    assert_eq!(local["supportedEncoders"], json!([]));
    assert_eq!(local["encoders"], json!([]));
    assert_eq!(local["fallback"]["mode"], "unsupported-state");
    assert_eq!(local["fallback"]["reason"], "local-transcoder-missing");
    assert!(local["rejectedEncoders"][0]["reason"].as_str().unwrap().contains("does not start"));
}

#[tokio::test]
async fn the_worker_view_needs_a_sign_in() {
    let server = kit::start_server(&[]).await;
    let answer = server.client.get(format!("{}/api/stream/v2-workers", server.base)).send().await.unwrap();
    assert_eq!(answer.status(), 401);
}
