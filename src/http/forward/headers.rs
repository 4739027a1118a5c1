//! Headers of messages that are passed on (RFC 9110, section 7.6).

use std::net::IpAddr;

use http::header::{CONNECTION, EXPECT, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Method};

use super::CLIENT_HEADER;
use crate::domain::forwarded_client::{self, SignedRequest};
use crate::domain::signing::SigningKey;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Headers that concern one connection only, beside those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// The headers of a client's request as the active server gets them: `peer` is added to the proxies.
pub fn of_request(received: &HeaderMap, peer: IpAddr) -> HeaderMap {
    let mut headers = without_hop_by_hop(received);
    // This server has answered it already: the client sends its body.
    headers.remove(EXPECT);
    headers.remove(CLIENT_HEADER);
    let text = peer.to_canonical().to_string();
    if let Ok(value) = HeaderValue::from_str(&text) {
        headers.append(X_FORWARDED_FOR, value);
    }
    headers
}

/// Signs the client's address, unless there is no key yet.
pub fn sign_client(
    headers: &mut HeaderMap,
    key: Option<&SigningKey>,
    client: IpAddr,
    request: SignedRequest,
    now: i64,
) {
    let signed = key.map(|key| forwarded_client::sign(key, client, request, now));
    if let Some(value) = signed.and_then(|signed| HeaderValue::try_from(signed).ok()) {
        headers.insert(CLIENT_HEADER, value);
    }
}

/// The headers of a message without those of its connection.
pub fn without_hop_by_hop(received: &HeaderMap) -> HeaderMap {
    let mut headers = received.clone();
    let lines = received.get_all(CONNECTION).into_iter().filter_map(|line| line.to_str().ok());
    for named in lines.flat_map(|line| line.split(',')) {
        if let Ok(name) = HeaderName::try_from(named.trim()) {
            headers.remove(name);
        }
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers
}

/// Whether a request without a body may be sent again although a server may have received it (RFC 9110, section 9.2.1).
pub fn is_safe(method: &Method) -> bool {
    [Method::GET, Method::HEAD, Method::OPTIONS].contains(method)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_the_connection_stay_and_the_client_is_added() {
        let mut received = HeaderMap::new();
        for (name, value) in [
            ("host", "tv.example"),
            ("connection", "close, X-Secret"),
            ("connection", "te"),
            ("x-secret", "1"),
            ("te", "trailers"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("expect", "100-continue"),
            ("x-hearthcast-client", "198.51.100.1 1000 forged"),
            ("x-forwarded-for", "203.0.113.7"),
            ("x-forwarded-proto", "https"),
            ("forwarded", "for=203.0.113.7"),
            ("range", "bytes=0-9"),
        ] {
            received.append(name, HeaderValue::from_static(value));
        }
        let sent = of_request(&received, "::ffff:192.0.2.1".parse().unwrap());
        let mut text: Vec<String> =
            sent.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        text.sort();
        let expected = [
            "forwarded: for=203.0.113.7",
            "host: tv.example",
            "range: bytes=0-9",
            "x-forwarded-for: 192.0.2.1",
            "x-forwarded-for: 203.0.113.7",
            "x-forwarded-proto: https",
        ];
        assert_eq!(text, expected);
        assert_eq!(sent.get_all(X_FORWARDED_FOR).iter().next_back().unwrap(), "192.0.2.1", "the peer is the last one");
    }
}
