//! One request from HTTP to a worker process is one trace.

use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::media;
use crate::kit::program::ServerProcess;
use crate::kit::trace_collector::TraceCollector;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

#[tokio::test(flavor = "multi_thread")]
async fn the_start_of_a_session_is_one_trace_through_server_and_worker() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mkv");
    media::flash_and_beep(&path, 5, "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -b:a 192k");
    let collector = TraceCollector::start().await;
    let settings = [
        ("HEARTHCAST_OTLP_ENDPOINT", collector.address.as_str()),
        ("HEARTHCAST_BACKEND", "gstreamer"),
        // Long enough for a busy machine.
        ("HEARTHCAST_LIMITS_PROBE_DEADLINE_SECONDS", "60"),
    ];
    let program = ServerProcess::start(&[folder.path()], &settings).await;
    let call = |method: Method, path: &str| {
        program.client.request(method, format!("{}{path}", program.base)).bearer_auth(&program.token)
    };
    let start = call(Method::POST, "/api/stream/transcode/start")
        .header("traceparent", format!("00-{TRACE}-{CLIENT_SPAN}-01"))
        .json(&json!({"mediaPath": path, "maxHeight": 72}));
    let answer = start.send().await.unwrap();
    let (status, session) = (answer.status(), answer.json::<Value>().await.unwrap());
    assert_eq!(status, 200, "{session}");
    let made = collector.wait_for(TRACE, "make segment").await;
    // A run is part of the trace once it has ended.
    let stop = call(Method::DELETE, &format!("/api/stream/transcode/{}", session["sessionId"].as_str().unwrap()));
    assert_eq!(stop.send().await.unwrap().status(), 200);
    let request = collector.wait_for(TRACE, "POST /api/stream/transcode/start").await;
    let run = collector.wait_for(TRACE, "run").await;
    let spans = collector.spans(TRACE);
    let by_id =
        |id: &str| spans.iter().find(|span| span.text("spanId") == id).unwrap_or_else(|| panic!("{id}: {spans:?}"));
    let wait = by_id(run.text("parentSpanId"));
    assert_eq!((wait.text("name"), wait.text("parentSpanId")), ("wait for a segment", request.text("spanId")));
    assert_eq!((request.text("parentSpanId"), &request.span["kind"]), (CLIENT_SPAN, &json!(2)));
    assert_eq!(request.attribute("http.response.status_code"), &json!({"intValue": "200"}));
    assert_eq!(run.attribute("backend"), &json!({"stringValue": "gstreamer"}));
    assert_eq!((made.process.as_str(), made.text("parentSpanId")), ("hearthcast-worker", run.text("spanId")));
    assert_eq!(made.attribute("segment"), &json!({"intValue": "0"}));
    for span in [&request, wait, &run] {
        assert_eq!(span.process, "hearthcast");
    }
    for span in &spans {
        let nanos = |name: &str| span.text(name).parse::<u64>().unwrap();
        assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"), "{span:?}");
    }
    assert!(!spans.iter().any(|span| span.span.to_string().contains("film.mkv")), "no names: {spans:?}");
}
