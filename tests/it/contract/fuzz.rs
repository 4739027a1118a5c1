//! Random requests: each gets an answer below 500, in the common shape, in time.

use hearthcast::http::endpoints;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::kit::response::send_until_ready;
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, media, player};

/// Number of random requests. More find more; these take a few seconds.
const REQUESTS: usize = 400;
const START_REQUESTS: u32 = 300;

/// A value in a request target: plain, odd, encoded or malformed.
fn arbitrary_value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9._-]{0,12}",
        "(%[0-9a-f]{2}|%|[!-~&&[^?#&]]){0,20}",
        Just("%2Fetc%2Fpasswd".to_owned()),
        Just("..%2f..%2f".to_owned()),
        Just("%00".to_owned()),
        Just("-1".to_owned()),
        Just("NaN".to_owned()),
        Just("1e309".to_owned()),
        Just("18446744073709551616".to_owned()),
        Just("x".repeat(5000)),
    ]
}

fn arbitrary_query() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        Just("path"),
        Just("st"),
        Just("limit"),
        Just("cursor"),
        Just("id"),
        Just("wait"),
        Just("format"),
        Just("x")
    ];
    proptest::collection::vec((name, arbitrary_value()), 0..4)
        .prop_map(|pairs| pairs.into_iter().map(|(name, value)| format!("{name}={value}&")).collect::<String>())
}

/// JSON objects with known field names and invalid values.
fn arbitrary_body() -> impl Strategy<Value = String> {
    let field = prop_oneof![
        Just("mediaPath"),
        Just("audioStreamIndex"),
        Just("startPositionSeconds"),
        Just("profile"),
        Just("subtitleMode"),
        Just("deviceProfile"),
        Just("username"),
        Just("password"),
        Just("code"),
        Just("path"),
        Just("role"),
    ];
    let value = prop_oneof![
        Just("null".to_owned()),
        Just("-1".to_owned()),
        Just("1e308".to_owned()),
        Just("99999999999999999999".to_owned()),
        Just("[]".to_owned()),
        Just("{\"resolution\":\"\\u0000\"}".to_owned()),
        Just("\"/etc/passwd\"".to_owned()),
        Just(format!("{}{}", "[".repeat(500), "]".repeat(500))),
        "\"[ -!#-\\[\\]-~]{0,20}\"",
    ];
    prop_oneof![
        4 => proptest::collection::vec((field, value), 0..5).prop_map(|fields| {
            let fields: Vec<String> = fields.into_iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
            format!("{{{}}}", fields.join(","))
        }),
        1 => "[ -~]{0,40}",
        1 => Just(String::new()),
    ]
}

fn arbitrary_header() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(String::new()),
        1 => "Range: bytes=[0-9-]{0,24}(,[0-9-]{0,9}){0,3}\r\n",
        1 => "If-None-Match: [ -~]{0,30}\r\n",
        1 => "If-Modified-Since: [ -~]{0,30}\r\n",
        1 => "Content-Type: [a-z/]{0,20}\r\n",
        1 => "Origin: [!-~]{0,20}\r\n",
        1 => "X-Forwarded-For: [ -~]{0,30}\r\n",
    ]
}

#[tokio::test]
async fn no_request_causes_a_server_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.mp4"), b"no film at all").unwrap();
    let server = kit::start_server(&[folder.path()]).await;
    let address = server.base.strip_prefix("http://").unwrap();
    let paths: Vec<&str> =
        endpoints().iter().map(|endpoint| endpoint.path).filter(|path| !path.ends_with("logout")).collect();
    let methods = prop_oneof![
        5 => Just("GET"), 3 => Just("POST"), 1 => Just("DELETE"), 1 => Just("HEAD"), 1 => Just("OPTIONS"), 1 => Just("PATCH")
    ];
    let strategy = (
        methods,
        proptest::sample::select(paths),
        arbitrary_value(),
        arbitrary_query(),
        arbitrary_header(),
        arbitrary_body(),
        0..3_u8,
    );
    // Deterministic, so that a failure can be reproduced.
    let mut runner = TestRunner::deterministic();
    for _ in 0..REQUESTS {
        let (method, path, part, query, header, body, who) = strategy.new_tree(&mut runner).unwrap().current();
        let path: String = path
            .split('/')
            .map(|segment| if segment.starts_with('{') { part.as_str() } else { segment })
            .collect::<Vec<_>>()
            .join("/");
        let authorization = match who {
            0 => String::new(),
            1 => format!("Authorization: Bearer {}\r\n", server.token),
            _ => format!("Authorization: Bearer {}\r\n", server.admin),
        };
        let length = body.len();
        let request = format!(
            "{method} {path}?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{authorization}{header}Content-Length: {length}\r\n\r\n{body}"
        );
        let exchange = async {
            let mut socket = TcpStream::connect(address).await.unwrap();
            socket.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            while socket.read_buf(&mut answer).await.unwrap() > 0 {
                // The event stream has no end.
                let text = String::from_utf8_lossy(&answer);
                if text.split_once("\r\n\r\n").is_some_and(|(head, _)| head.contains("text/event-stream")) {
                    break;
                }
            }
            String::from_utf8_lossy(&answer).into_owned()
        };
        let answer = tokio::time::timeout(MAX_WAIT, exchange).await;
        let answer = answer.unwrap_or_else(|_| panic!("no answer to {request}"));
        let status: u16 = answer
            .get(9..12)
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("{answer:?} to {request}"));
        assert!((200..500).contains(&status), "{answer} to {request}");
        let (_, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?} to {request}"));
        if status >= 400 && !text.is_empty() {
            let body: serde_json::Value =
                serde_json::from_str(text).unwrap_or_else(|_| panic!("{answer} to {request}"));
            assert!(body["code"].is_string() && body["error"].is_string() && body["requestId"].is_string(), "{answer}");
        }
    }
}

/// Arbitrary JSON, with some of the numbers and words that the server knows.
fn arbitrary_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        prop_oneof![Just(-1.0), Just(0.0), Just(0.5), Just(1.0), Just(8.0), Just(1e-300), Just(1e308), Just(-0.0)]
            .prop_map(Value::from),
        prop_oneof![Just(0_u64), Just(1), Just(2), Just(255), Just(1 << 32), Just(u64::MAX)].prop_map(Value::from),
        prop_oneof!["[ -~]{0,8}", Just("h264".to_owned()), Just("mp4".to_owned()), Just("240p".to_owned())]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let name = prop::sample::select(vec![
            "containers",
            "video",
            "audio",
            "codec",
            "maxWidth",
            "maxHeight",
            "maxFps",
            "bitDepths",
            "profiles",
            "hdr",
            "maxLevel",
            "maxChannels",
            "subtitles",
            "resolution",
            "maxBitrateKbps",
            "videoCodec",
            "x",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..5).prop_map(|fields| Value::Object(
                fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            )),
        ]
    })
}

/// Mostly one of `valid`, sometimes arbitrary JSON.
fn usually(valid: Vec<Value>) -> impl Strategy<Value = Value> {
    prop_oneof![7 => prop::sample::select(valid), 1 => arbitrary_json()]
}

fn object(fields: Vec<(&'static str, Value)>) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Start requests whose fields mostly have the right form, sometimes with extreme values.
fn start_request() -> impl Strategy<Value = Value> {
    let numbers = || vec![json!(0), json!(1), json!(8), json!(u32::MAX), json!(null)];
    let video_field = prop_oneof![
        (Just("codec"), usually(vec![json!("h264"), json!("hevc"), json!("")])),
        (Just("maxWidth"), usually(numbers())),
        (Just("maxFps"), usually(vec![json!(0), json!(1e-300), json!(1e308), json!(-1)])),
        (Just("bitDepths"), usually(vec![json!([]), json!([8, 255])])),
        (Just("maxLevel"), usually(vec![json!(1e308), json!(-1), json!(4.1)])),
    ];
    let video = prop::collection::vec(video_field, 0..4).prop_map(|fields| {
        let mut video = object(fields);
        video.as_object_mut().expect("an object").entry("codec").or_insert(json!("h264"));
        json!([video])
    });
    let device = prop_oneof![
        (Just("containers"), usually(vec![json!([]), json!(["mkv"]), json!(["mp4", ""])])),
        (Just("video"), video),
        (Just("audio"), usually(vec![json!([]), json!([{"codec": "aac", "maxChannels": 0}])])),
        (Just("maxBitrateKbps"), usually(numbers())),
    ];
    let profile = prop_oneof![
        (Just("resolution"), usually(vec![json!("240p"), json!("2160p"), json!("original")])),
        (Just("maxBitrateKbps"), usually(numbers())),
        (Just("maxAudioChannels"), usually(numbers())),
    ];
    let objects = prop_oneof![
        (Just("deviceProfile"), prop::collection::vec(device, 0..4).prop_map(object)),
        (Just("profile"), prop::collection::vec(profile, 0..3).prop_map(object)),
    ];
    let plain = prop_oneof![
        (Just("audioStreamIndex"), usually(vec![json!(1), json!(1), json!(null), json!(2)])),
        (Just("subtitleMode"), usually(vec![json!("none"), json!("embedded"), json!("burn"), json!("external")])),
        (Just("subtitlePath"), usually(vec![json!("/etc/passwd"), json!("a.srt"), json!(null)])),
        (Just("startPositionSeconds"), usually(vec![json!(0), json!(0.5), json!(-0.0), json!(1e-300)])),
        (Just("forceTranscode"), usually(vec![json!(true), json!(false)])),
    ];
    prop::collection::vec(prop_oneof![objects, plain], 1..5).prop_map(object)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_start_request_causes_a_server_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.mkv");
    media::flash_and_beep(&path, 1, "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac");
    let server = kit::start_server_with(&[folder.path()], |config| config.limits.concurrent_jobs = 8).await;
    let query = serde_urlencoded::to_string([("path", path.to_str().unwrap())]).unwrap();
    let mut runner = TestRunner::deterministic();
    let mut accepted = 0;
    for _ in 0..START_REQUESTS {
        let options = start_request().new_tree(&mut runner).unwrap().current();
        let info = send_until_ready(server.post(&format!("/api/stream/info/full?{query}"), &options)).await;
        assert!(matches!(info.status().as_u16(), 200 | 400), "{} to {options}", info.text().await.unwrap());
        let (status, started) = player::start(&server, &path, options.clone()).await;
        assert!((200..500).contains(&status), "{started} to {options}");
        assert!(status == 200 || started["code"].is_string() && started["error"].is_string(), "{started} to {options}");
        accepted += u32::from(status == 200);
        player::stop(&server, &started).await;
    }
    assert!(
        accepted > START_REQUESTS / 4,
        "only {accepted} of {START_REQUESTS} were accepted: code after validation was hardly tested"
    );
}
