//! An OpenTelemetry collector for one test: OTLP over HTTP, in JSON.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::wait::MAX_WAIT;

/// A received span, with the name of the process that it is from.
#[derive(Clone, Debug)]
pub struct ReceivedSpan {
    pub process: String,
    pub span: Value,
}

impl ReceivedSpan {
    /// A field of the span that is a text.
    pub fn text(&self, name: &str) -> &str {
        self.span[name].as_str().unwrap_or("")
    }

    /// The value of an attribute.
    pub fn attribute(&self, key: &str) -> &Value {
        let attributes = self.span["attributes"].as_array().expect("a list of attributes");
        attributes.iter().find(|one| one["key"] == key).map_or(&Value::Null, |one| &one["value"])
    }
}

pub struct TraceCollector {
    pub address: String,
    spans: Arc<Mutex<Vec<ReceivedSpan>>>,
}

impl TraceCollector {
    /// Listens on a port of its own.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let spans = Arc::<Mutex<Vec<ReceivedSpan>>>::default();
        let received = spans.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, received.clone()));
            }
        });
        Self { address, spans }
    }

    /// The spans of a trace so far.
    pub fn spans(&self, trace_id: &str) -> Vec<ReceivedSpan> {
        let spans = self.spans.lock().unwrap();
        spans.iter().filter(|received| received.text("traceId") == trace_id).cloned().collect()
    }

    /// The first span of a trace with this name, once it has come.
    pub async fn wait_for(&self, trace_id: &str, name: &str) -> ReceivedSpan {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            if let Some(found) = self.spans(trace_id).into_iter().find(|received| received.text("name") == name) {
                return found;
            }
            assert!(Instant::now() < deadline, "no span {name}: {:?}", self.spans(trace_id));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Receives requests of a connection until it ends.
async fn serve(stream: TcpStream, spans: Arc<Mutex<Vec<ReceivedSpan>>>) {
    let mut stream = BufReader::new(stream);
    while let Some(body) = read_request(&mut stream).await {
        let request: Value = serde_json::from_slice(&body).expect("a body in JSON");
        spans.lock().unwrap().extend(spans_of(&request));
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The body of the next request; None at the end of the connection.
async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_ascii_lowercase());
    }
    assert!(head[0].starts_with("post /v1/traces "), "{head:?}");
    assert!(head.contains(&"content-type: application/json".to_owned()), "{head:?}");
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().expect("a length")];
    stream.read_exact(&mut body).await.ok()?;
    Some(body)
}

fn spans_of(request: &Value) -> Vec<ReceivedSpan> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut spans = Vec::new();
    for resource in list(&request["resourceSpans"]) {
        let attributes = list(&resource["resource"]["attributes"]);
        let name = attributes.iter().find(|attribute| attribute["key"] == "service.name").expect("a name");
        let process = name["value"]["stringValue"].as_str().expect("a text").to_owned();
        for scope in list(&resource["scopeSpans"]) {
            spans.extend(list(&scope["spans"]).into_iter().map(|span| ReceivedSpan { process: process.clone(), span }));
        }
    }
    spans
}
