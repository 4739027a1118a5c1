//! Distributed traces: the context of a span (W3C Trace Context), and finished spans as an OTLP request in JSON.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The name of the server's process in traces, and of its workers.
const SERVER_NAME: &str = "hearthcast";
const WORKER_NAME: &str = "hearthcast-worker";

/// Longest text of an attribute, bytes.
pub const MAX_ATTRIBUTE_BYTES: usize = 256;

/// A span of a trace. Neither number is 0. In messages it is a `traceparent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceContext {
    pub trace_id: u128,
    pub span_id: u64,
}

impl TraceContext {
    /// Reads the header `traceparent`: `00-<trace>-<span>-<flags>`. None if it is not valid.
    pub fn parse(traceparent: &str) -> Option<Self> {
        let mut parts = traceparent.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        // Later versions may append parts.
        let is_known = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
        if !is_known || !is_hex(trace, 32) || !is_hex(span, 16) || !is_hex(flags, 2) {
            return None;
        }
        let context =
            Self { trace_id: u128::from_str_radix(trace, 16).ok()?, span_id: u64::from_str_radix(span, 16).ok()? };
        (context.trace_id != 0 && context.span_id != 0).then_some(context)
    }
}

impl From<TraceContext> for String {
    fn from(context: TraceContext) -> Self {
        format!("00-{:032x}-{:016x}-01", context.trace_id, context.span_id)
    }
}

impl TryFrom<String> for TraceContext {
    type Error = &'static str;

    fn try_from(traceparent: String) -> Result<Self, Self::Error> {
        Self::parse(&traceparent).ok_or("not a traceparent")
    }
}

/// The role of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    Internal,
    /// A request that this server answers.
    Server,
}

/// The process of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanProcess {
    Server,
    Worker { pid: u32 },
}

/// A span that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedSpan {
    pub context: TraceContext,
    pub parent_span_id: Option<u64>,
    pub kind: SpanKind,
    pub process: SpanProcess,
    pub name: String,
    /// Nanoseconds since 1970.
    pub started_at: u64,
    pub ended_at: u64,
    pub has_failed: bool,
    pub attributes: Vec<(&'static str, AttributeValue)>,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    Text(String),
    Number(i64),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text[..text.floor_char_boundary(MAX_ATTRIBUTE_BYTES)].to_owned())
    }
}

impl From<usize> for AttributeValue {
    fn from(number: usize) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<u16> for AttributeValue {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

/// An `ExportTraceServiceRequest` of OTLP in JSON. Each process of the spans is a resource.
pub fn export_request(spans: &[FinishedSpan], version: &str) -> Value {
    let mut resources: Vec<(SpanProcess, Vec<Value>)> = Vec::new();
    for span in spans {
        let value = span_value(span);
        match resources.iter_mut().find(|(process, _)| *process == span.process) {
            Some((_, values)) => values.push(value),
            None => resources.push((span.process, vec![value])),
        }
    }
    let resource_spans = resources.into_iter().map(|(process, spans)| {
        let mut attributes = vec![attribute("service.version", &version.into())];
        match process {
            SpanProcess::Server => attributes.push(attribute("service.name", &SERVER_NAME.into())),
            SpanProcess::Worker { pid } => {
                attributes.push(attribute("service.name", &WORKER_NAME.into()));
                attributes.push(attribute("process.pid", &AttributeValue::Number(pid.into())));
            }
        }
        json!({"resource": {"attributes": attributes}, "scopeSpans": [{"scope": {"name": SERVER_NAME}, "spans": spans}]})
    });
    json!({"resourceSpans": resource_spans.collect::<Vec<_>>()})
}

fn span_value(span: &FinishedSpan) -> Value {
    let attributes: Vec<Value> = span.attributes.iter().map(|(name, value)| attribute(name, value)).collect();
    let mut value = json!({
        "traceId": format!("{:032x}", span.context.trace_id),
        "spanId": format!("{:016x}", span.context.span_id),
        "name": span.name,
        "kind": match span.kind { SpanKind::Internal => 1, SpanKind::Server => 2 },
        // JSON has 64-bit integers as text (proto3).
        "startTimeUnixNano": span.started_at.to_string(),
        "endTimeUnixNano": span.ended_at.to_string(),
        "attributes": attributes,
        "status": if span.has_failed { json!({"code": 2}) } else { json!({}) },
    });
    if let Some(parent) = span.parent_span_id {
        value["parentSpanId"] = json!(format!("{parent:016x}"));
    }
    value
}

fn attribute(name: &str, value: &AttributeValue) -> Value {
    match value {
        AttributeValue::Text(text) => json!({"key": name, "value": {"stringValue": text}}),
        AttributeValue::Number(number) => json!({"key": name, "value": {"intValue": number.to_string()}}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_read_strictly() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let expected =
            TraceContext { trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, span_id: 0x00f0_67aa_0ba9_02b7 };
        assert_eq!(TraceContext::parse(&format!("00-{trace}-{span}-01")), Some(expected));
        assert_eq!(TraceContext::parse(&format!("01-{trace}-{span}-00-more")), Some(expected), "a later version");
        let none = "0".repeat(32);
        for bad in [
            format!("00-{none}-{span}-01"),
            format!("00-{trace}-0000000000000000-01"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-+{}-{span}-01", &trace[1..]),
            format!("00-{trace}-{span}"),
            String::new(),
        ] {
            assert_eq!(TraceContext::parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_context_in_a_message_is_a_traceparent() {
        let context = TraceContext { trace_id: u128::MAX, span_id: 1 };
        let text = json!(context);
        assert_eq!(text, json!("00-ffffffffffffffffffffffffffffffff-0000000000000001-01"));
        assert_eq!(serde_json::from_value::<TraceContext>(text).unwrap(), context);
        assert!(serde_json::from_value::<TraceContext>(json!("00-1-2-03")).is_err());
    }

    #[test]
    fn spans_are_grouped_by_process_in_the_json_of_otlp() {
        let context = TraceContext { trace_id: 0xab, span_id: 1 };
        let server = FinishedSpan {
            context,
            parent_span_id: None,
            kind: SpanKind::Server,
            process: SpanProcess::Server,
            name: "GET /".into(),
            started_at: 1_795_000_000_000_000_001,
            ended_at: 1_795_000_000_000_000_002,
            has_failed: true,
            attributes: vec![("http.response.status_code", 500_u16.into())],
        };
        let worker = FinishedSpan {
            context: TraceContext { span_id: 2, ..context },
            parent_span_id: Some(1),
            kind: SpanKind::Internal,
            process: SpanProcess::Worker { pid: 7 },
            name: "encode".into(),
            has_failed: false,
            attributes: Vec::new(),
            ..server.clone()
        };
        let request = export_request(&[server.clone(), worker, server], "1.2.3");
        let [of_server, of_worker] = request["resourceSpans"].as_array().unwrap().as_slice() else {
            panic!("{request}")
        };
        let spans = &of_server["scopeSpans"][0]["spans"];
        assert_eq!(spans.as_array().unwrap().len(), 2);
        let expected = json!({
            "traceId": "000000000000000000000000000000ab", "spanId": "0000000000000001", "name": "GET /", "kind": 2,
            "startTimeUnixNano": "1795000000000000001", "endTimeUnixNano": "1795000000000000002",
            "attributes": [{"key": "http.response.status_code", "value": {"intValue": "500"}}], "status": {"code": 2},
        });
        assert_eq!(spans[0], expected);
        let child = &of_worker["scopeSpans"][0]["spans"][0];
        assert_eq!((&child["parentSpanId"], &child["status"]), (&json!("0000000000000001"), &json!({})));
        let name = json!({"key": "service.name", "value": {"stringValue": "hearthcast-worker"}});
        assert!(of_worker["resource"]["attributes"].as_array().unwrap().contains(&name), "{of_worker}");
    }
}
