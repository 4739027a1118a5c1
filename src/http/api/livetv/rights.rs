//! Provenance and rights of external channels in request and response bodies.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::Deserializer;
use serde::de::Error as _;

use crate::domain::address::Address;
use crate::domain::external::{ExternalStream, MAX_FAILOVER, MAX_USER_AGENT};
use crate::domain::rights::{self, Clearance, Provenance, RightsClaim};
use crate::domain::time::format_ms;
use crate::http::api::prelude::*;
use crate::http::call::FIELD_SEPARATOR;

/// Where an external stream or playlist comes from.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvenanceRequest {
    source_name: Option<String>,
    /// URL of a page that documents the origin and its terms.
    source_url: Option<String>,
    /// An instant or a date.
    imported_at: Option<String>,
}

/// The legal basis for showing it.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RightsRequest {
    /// `own-content`, `public-domain`, `licensed`, `provider-subscription` or `other`.
    basis: Option<String>,
    /// Explanation of the basis, at least 20 characters.
    statement: Option<String>,
    /// The basis for recording it; null if it must not be recorded.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    recording_basis: Option<Option<String>>,
}

/// The attestation of the user who sends the request. The server sets name, time and text.
#[derive(Default, Deserialize, ToSchema)]
pub struct AttestationRequest {
    /// False withdraws it.
    authorized: Option<bool>,
}

/// Provenance, rights and attestation among the fields of a channel or source request. Null removes the stored value.
#[derive(Default, Deserialize, ToSchema)]
pub struct ClaimRequest {
    #[serde(default, deserialize_with = "deserialize_provenance")]
    provenance: Option<Option<ProvenanceRequest>>,
    #[serde(default, deserialize_with = "deserialize_rights")]
    rights: Option<Option<RightsRequest>>,
    /// Required again after a change of `provenance`, `rights` or `source`.
    #[serde(default, deserialize_with = "deserialize_attestation")]
    attestation: Option<Option<AttestationRequest>>,
}

/// The external stream.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedRequest {
    /// `http` or `https`: HLS, MPEG-TS or fragmented MP4. `srt://host:port` with optional `streamid`, `passphrase` and
    /// `latency` (ms): MPEG-TS. `rtsp://name:password@host/path` of a camera: H.264 or H.265 with AAC or G.711, over TCP.
    pub url: Option<String>,
    /// Fallback URLs, at most 8, tried in this order when `url` does not respond.
    pub failover_urls: Option<Vec<String>>,
    #[serde(default, deserialize_with = "deserialize_nullable")]
    pub user_agent: Option<Option<String>>,
}

/// A nullable field that was deserialized.
type NullableResult<T, E> = std::result::Result<Option<Option<T>>, E>;

/// Deserializes a nullable field: None if absent, `Some(None)` if null.
pub fn deserialize_nullable<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> NullableResult<T, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

fn deserialize_provenance<'de, D: Deserializer<'de>>(deserializer: D) -> NullableResult<ProvenanceRequest, D::Error> {
    deserialize_with_path("provenance", deserializer)
}

fn deserialize_rights<'de, D: Deserializer<'de>>(deserializer: D) -> NullableResult<RightsRequest, D::Error> {
    deserialize_with_path("rights", deserializer)
}

fn deserialize_attestation<'de, D: Deserializer<'de>>(deserializer: D) -> NullableResult<AttestationRequest, D::Error> {
    deserialize_with_path("attestation", deserializer)
}

/// Like [`deserialize_nullable`], but puts the path of an invalid field into the error: `serde(flatten)` would lose it.
fn deserialize_with_path<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    name: &str,
    deserializer: D,
) -> NullableResult<T, D::Error> {
    let result = serde_path_to_error::deserialize(deserializer);
    result.map(Some).map_err(|error| match error.path().to_string().as_str() {
        "." => D::Error::custom(format_args!("{name}{FIELD_SEPARATOR}{}", error.inner())),
        path => D::Error::custom(format_args!("{name}.{path}{FIELD_SEPARATOR}{}", error.inner())),
    })
}

impl ClaimRequest {
    /// Whether all three are absent.
    pub fn is_empty(&self) -> bool {
        self.provenance.is_none() && self.rights.is_none() && self.attestation.is_none()
    }

    /// The three as one claim.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid `importedAt`.
    pub fn into_claim(self) -> Result<RightsClaim> {
        let empty = || Some(String::new());
        let provenance = match self.provenance {
            Some(None) => ProvenanceRequest { source_name: empty(), source_url: empty(), imported_at: None },
            requested => requested.flatten().unwrap_or_default(),
        };
        let rights = match self.rights {
            Some(None) => RightsRequest { basis: empty(), statement: empty(), recording_basis: Some(None) },
            requested => requested.flatten().unwrap_or_default(),
        };
        let imported_at_ms = provenance.imported_at.as_deref().map(parse_imported_at).transpose()?;
        Ok(RightsClaim {
            source_name: provenance.source_name,
            source_url: provenance.source_url,
            imported_at_ms,
            basis: rights.basis,
            statement: rights.statement,
            recording_basis: rights.recording_basis,
            authorized: self.attestation.flatten().and_then(|attestation| attestation.authorized),
        })
    }
}

fn parse_imported_at(text: &str) -> Result<i64> {
    let parse_date = || Some(text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let instant = text.parse::<Timestamp>().ok().or_else(parse_date);
    let instant =
        instant.ok_or_else(|| Error::invalid_field("provenance.importedAt", "must be an instant or a date"))?;
    Ok(instant.as_millisecond())
}

/// Parses an http or https URL.
///
/// # Errors
/// `VALIDATION_ERROR` naming the field. The message contains no part of the URL, which may hold a password.
pub fn parse_address(field: &str, text: &str) -> Result<Address> {
    Address::parse(text).map_err(|message| Error::invalid_field(field, message))
}

/// Parses the URL of a stream: http, https, SRT or RTSP.
///
/// # Errors
/// As [`parse_address`].
pub fn parse_stream_address(field: &str, text: &str) -> Result<Address> {
    Address::parse_stream(text).map_err(|message| Error::invalid_field(field, message))
}

impl FeedRequest {
    pub fn validate(&self) -> Result<()> {
        if self.failover_urls.as_ref().is_some_and(|urls| urls.len() > MAX_FAILOVER) {
            let message = format!("must have at most {MAX_FAILOVER} entries");
            return Err(Error::invalid_field("source.failoverUrls", message));
        }
        let user_agent = self.user_agent.as_ref().and_then(Option::as_deref).unwrap_or("-");
        let is_printable = user_agent.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if user_agent.is_empty() || user_agent.len() > MAX_USER_AGENT || !is_printable {
            let message = format!("must be 1 to {MAX_USER_AGENT} printable ASCII characters");
            return Err(Error::invalid_field("source.userAgent", message));
        }
        Ok(())
    }

    /// The parsed fallback URLs; None if absent.
    pub fn failover_addresses(&self) -> Result<Option<Vec<Address>>> {
        let Some(urls) = &self.failover_urls else { return Ok(None) };
        let parse = |(n, url): (usize, &String)| parse_stream_address(&format!("source.failoverUrls[{n}]"), url);
        urls.iter().enumerate().map(parse).collect::<Result<_>>().map(Some)
    }
}

/// Where an external stream or playlist comes from.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Provenance)]
pub struct ProvenanceView {
    source_name: String,
    /// Admins see the URL as given. Other users see scheme and host only: path and query may hold a password.
    source_url: String,
    #[schema(format = DateTime)]
    imported_at: String,
}

/// The legal basis for showing it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Rights)]
pub struct RightsView {
    basis: &'static str,
    statement: String,
    recording_basis: Option<String>,
}

/// The attestation of the rights.
#[derive(Serialize, ToSchema)]
#[schema(as = Attestation)]
pub struct AttestationView {
    /// False after withdrawal.
    authorized: bool,
    /// Name of the user who attested or withdrew last.
    by: String,
    #[schema(format = DateTime)]
    at: String,
    text: String,
}

/// The external stream. URLs are shortened to scheme and host: the rest may hold a password.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Feed)]
pub struct FeedView {
    url: String,
    failover_urls: Vec<String>,
    user_agent: Option<String>,
}

impl ProvenanceView {
    pub fn new(provenance: &Provenance) -> Self {
        let Provenance { source_name, source_url, imported_at_ms } = provenance.clone();
        Self { source_name, source_url, imported_at: format_ms(imported_at_ms) }
    }

    /// The provenance as users who are not admins see it.
    pub fn for_users(origin: &Provenance) -> Self {
        let source_url = Address::parse(&origin.source_url).map_or_else(|_| String::new(), |url| url.server_address());
        Self { source_url, ..Self::new(origin) }
    }
}

impl RightsView {
    pub fn new(clearance: &Clearance) -> Self {
        let rights::Rights { basis, statement, recording_basis } = clearance.rights.clone();
        Self { basis: basis.as_str(), statement, recording_basis }
    }
}

impl AttestationView {
    pub fn new(clearance: &Clearance) -> Self {
        let rights::Attestation { authorized, user_id: by, at_ms, text } = clearance.attestation.clone();
        Self { authorized, by, at: format_ms(at_ms), text }
    }
}

impl FeedView {
    pub fn new(feed: &ExternalStream) -> Self {
        Self {
            url: feed.url.to_string(),
            failover_urls: feed.failover.iter().map(Address::to_string).collect(),
            user_agent: feed.user_agent.clone(),
        }
    }
}
