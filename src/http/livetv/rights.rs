//! Provenance and rights of external channels in request and response bodies.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::domain::address::Address;
use crate::domain::external::{Feed, MAX_FAILOVER, MAX_USER_AGENT};
use crate::domain::rights::{self, Claim, Clearance, Provenance};
use crate::domain::time::instant_of;
use crate::error::{Error, Result};
use crate::http::call::NAMED;

/// Where it comes from.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvenanceRequest {
    source_name: Option<String>,
    /// Where its origin and its terms can be looked up.
    source_url: Option<String>,
    /// An instant, or a day.
    imported_at: Option<String>,
}

/// On what basis it is shown.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RightsRequest {
    /// `own-content`, `public-domain`, `licensed`, `provider-subscription` or `other`.
    basis: Option<String>,
    /// 20 characters at least.
    statement: Option<String>,
    /// Why it may be recorded; null when it may not.
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<String>)]
    recording_basis: Option<Option<String>>,
}

/// Who vouches for it: whoever sends this. Name, time and text are set by the server.
#[derive(Default, Deserialize, ToSchema)]
pub struct AttestationRequest {
    /// False withdraws it.
    authorized: Option<bool>,
}

/// What is said of the right to show something, among the fields of whatever it is: a channel, or a source. Null takes away
/// what stood.
#[derive(Default, Deserialize, ToSchema)]
pub struct ClaimRequest {
    #[serde(default, deserialize_with = "provenance")]
    #[schema(value_type = Option<ProvenanceRequest>)]
    provenance: Option<Option<ProvenanceRequest>>,
    #[serde(default, deserialize_with = "rights")]
    #[schema(value_type = Option<RightsRequest>)]
    rights: Option<Option<RightsRequest>>,
    /// Whoever changes provenance, rights or source vouches for it anew.
    #[serde(default, deserialize_with = "attestation")]
    #[schema(value_type = Option<AttestationRequest>)]
    attestation: Option<Option<AttestationRequest>>,
}

/// The stream itself.
#[derive(Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedRequest {
    /// http or https: HLS, MPEG-TS or fragmented mp4; or `srt://host:port`, with `streamid`, `passphrase` and `latency`
    /// (ms) where need be: MPEG-TS; or `rtsp://name:password@host/path` of a camera: H.264 or H.265 with AAC or G.711,
    /// over TCP.
    pub url: Option<String>,
    /// Tried in this order when the first does not answer; 8 at most.
    pub failover_urls: Option<Vec<String>>,
    #[serde(default, deserialize_with = "told")]
    #[schema(value_type = Option<String>)]
    pub user_agent: Option<Option<String>>,
}

/// Tells null from absence.
pub fn told<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> std::result::Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

fn provenance<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Option<ProvenanceRequest>>, D::Error> {
    within("provenance", from)
}

fn rights<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Option<RightsRequest>>, D::Error> {
    within("rights", from)
}

fn attestation<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Option<Option<AttestationRequest>>, D::Error> {
    within("attestation", from)
}

/// As [`told`], naming the field that cannot be read: among the fields of another struct nobody else knows it.
fn within<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    name: &str,
    from: D,
) -> std::result::Result<Option<Option<T>>, D::Error> {
    let read = serde_path_to_error::deserialize(from);
    read.map(Some).map_err(|fault| match fault.path().to_string().as_str() {
        "." => D::Error::custom(format_args!("{name}{NAMED}{}", fault.inner())),
        path => D::Error::custom(format_args!("{name}.{path}{NAMED}{}", fault.inner())),
    })
}

impl ClaimRequest {
    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.provenance.is_none() && self.rights.is_none() && self.attestation.is_none()
    }

    /// What the three say together.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for a time that is none.
    pub fn claim(self) -> Result<Claim> {
        let emptied = || Some(String::new());
        let provenance = match self.provenance {
            Some(None) => ProvenanceRequest { source_name: emptied(), source_url: emptied(), imported_at: None },
            told => told.flatten().unwrap_or_default(),
        };
        let rights = match self.rights {
            Some(None) => RightsRequest { basis: emptied(), statement: emptied(), recording_basis: Some(None) },
            told => told.flatten().unwrap_or_default(),
        };
        let imported_at_ms = provenance.imported_at.as_deref().map(moment).transpose()?;
        Ok(Claim {
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

fn moment(text: &str) -> Result<i64> {
    let day = || Some(text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp());
    let instant = text.parse::<Timestamp>().ok().or_else(day);
    let instant = instant.ok_or_else(|| Error::field("provenance.importedAt", "must be an instant or a day"))?;
    Ok(instant.as_millisecond())
}

/// One address.
///
/// # Errors
/// `VALIDATION_ERROR` naming the field, with nothing of the address in it.
pub fn address(field: &str, text: &str) -> Result<Address> {
    Address::read(text).map_err(|why| Error::field(field, why))
}

/// The same of a stream, which may come by SRT or RTSP.
///
/// # Errors
/// As [`address`].
pub fn stream(field: &str, text: &str) -> Result<Address> {
    Address::stream(text).map_err(|why| Error::field(field, why))
}

impl FeedRequest {
    /// # Errors
    /// `VALIDATION_ERROR`.
    pub fn check(&self) -> Result<()> {
        if self.failover_urls.as_ref().is_some_and(|urls| urls.len() > MAX_FAILOVER) {
            return Err(Error::field("source.failoverUrls", format!("must be at most {MAX_FAILOVER}")));
        }
        let agent = self.user_agent.as_ref().and_then(Option::as_deref).unwrap_or("-");
        let plain = agent.bytes().all(|byte| (0x20..0x7f).contains(&byte));
        if agent.is_empty() || agent.len() > MAX_USER_AGENT || !plain {
            let message = format!("must be 1 to {MAX_USER_AGENT} printable ASCII characters");
            return Err(Error::field("source.userAgent", message));
        }
        Ok(())
    }

    /// The addresses to fall back on.
    ///
    /// # Errors
    /// `VALIDATION_ERROR`.
    pub fn failover(&self) -> Result<Option<Vec<Address>>> {
        let Some(urls) = &self.failover_urls else { return Ok(None) };
        let read = |(at, url): (usize, &String)| stream(&format!("source.failoverUrls[{at}]"), url);
        urls.iter().enumerate().map(read).collect::<Result<_>>().map(Some)
    }
}

/// Where it comes from.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Provenance)]
pub struct ProvenanceView {
    source_name: String,
    /// To admins as it was given, to all others its server alone: path and query may hold a password.
    source_url: String,
    #[schema(format = DateTime)]
    imported_at: String,
}

/// On what basis it is shown.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Rights)]
pub struct RightsView {
    basis: &'static str,
    statement: String,
    recording_basis: Option<String>,
}

/// Who vouches for it.
#[derive(Serialize, ToSchema)]
#[schema(as = Attestation)]
pub struct AttestationView {
    /// False once it was withdrawn.
    authorized: bool,
    /// Who said so last.
    by: String,
    #[schema(format = DateTime)]
    at: String,
    text: String,
}

/// The stream. Of addresses only scheme and host are shown: what is behind them may hold a password.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Feed)]
pub struct FeedView {
    url: String,
    failover_urls: Vec<String>,
    user_agent: Option<String>,
}

impl ProvenanceView {
    pub fn of(provenance: &Provenance) -> Self {
        let Provenance { source_name, source_url, imported_at_ms } = provenance.clone();
        Self { source_name, source_url, imported_at: instant_of(imported_at_ms) }
    }

    /// The same for people who are not admins.
    pub fn public(provenance: &Provenance) -> Self {
        let source_url = Address::read(&provenance.source_url).map_or_else(|_| String::new(), |url| url.origin());
        Self { source_url, ..Self::of(provenance) }
    }
}

impl RightsView {
    pub fn of(clearance: &Clearance) -> Self {
        let rights::Rights { basis, statement, recording_basis } = clearance.rights.clone();
        Self { basis: basis.as_str(), statement, recording_basis }
    }
}

impl AttestationView {
    pub fn of(clearance: &Clearance) -> Self {
        let rights::Attestation { authorized, by, at_ms, text } = clearance.attestation.clone();
        Self { authorized, by, at: instant_of(at_ms), text }
    }
}

impl FeedView {
    pub fn of(feed: &Feed) -> Self {
        Self {
            url: feed.url.to_string(),
            failover_urls: feed.failover.iter().map(Address::to_string).collect(),
            user_agent: feed.user_agent.clone(),
        }
    }
}
