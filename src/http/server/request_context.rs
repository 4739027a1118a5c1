//! A request as its connection knows it: its ID, its peer, its slot.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use http::{HeaderMap, HeaderValue};

use super::connection_slots::ConnectionSlot;

/// The request's ID and the address of the connection's peer.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    pub request_id: RequestId,
    /// The peer, or the client of a request that a standby passed on.
    pub remote: IpAddr,
    /// Whether a standby passed the request on.
    pub is_forwarded: bool,
}

impl Default for RequestInfo {
    fn default() -> Self {
        Self {
            request_id: RequestId(HeaderValue::from_static("-")),
            remote: IpAddr::V4(Ipv4Addr::LOCALHOST),
            is_forwarded: false,
        }
    }
}

/// The connection's part of a request, passed in the request's extensions. The headers are moved here, because warp
/// filters would clone them.
#[derive(Clone)]
pub struct RequestContext {
    pub info: RequestInfo,
    pub headers: Arc<HeaderMap>,
    /// The connection's slot, which valid credentials protect from eviction.
    pub slot: Arc<ConnectionSlot>,
}

/// The ID of a request in `x-request-id`, in errors and in the log: 16 characters of base64url.
#[derive(Clone, Debug)]
pub struct RequestId(HeaderValue);

impl RequestId {
    /// Combines a connection's random bytes with the number of the request on it.
    pub fn new(connection_bytes: [u8; 8], request_number: u32) -> Self {
        let (mut raw, mut text) = ([0; 12], [0; 16]);
        raw[..8].copy_from_slice(&connection_bytes);
        raw[8..].copy_from_slice(&request_number.to_be_bytes());
        BASE64URL_NOPAD.encode_mut(&raw, &mut text);
        Self(HeaderValue::from_bytes(&text).expect("base64 is visible ASCII"))
    }

    pub fn as_str(&self) -> &str {
        self.0.to_str().expect("made of visible ASCII")
    }

    pub fn header(&self) -> &HeaderValue {
        &self.0
    }
}
