//! Request bodies that create or change sources: JSON, or a multipart form with a file.

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use multer::Multipart;
use serde_json::{Map, Value};

use crate::domain::source::{ChannelFilter, SourceKind};
use crate::http::api::livetv::rights::{self, ClaimRequest, deserialize_nullable};
use crate::http::api::prelude::*;
use crate::http::server::RequestBody;
use crate::service::channels::sources::SourceChange;

/// Largest upload, bytes.
const MAX_UPLOAD_BYTES: usize = 16 << 20;

/// Largest part of a form other than the upload, bytes.
const MAX_FIELD_BYTES: usize = 64 << 10;

/// Most parts of a form, and most names in each list of `select`.
const MAX_PARTS: usize = 32;
const MAX_SELECTED_NAMES: usize = 20_000;

/// Longest refresh interval, hours: 31 days.
const MAX_REFRESH_HOURS: u32 = 744;

/// A playlist or a guide. Absent fields keep their value. A new source needs `kind`, `name`, `provenance` and either `url`
/// or `upload`; a playlist also needs `rights` and `attestation`.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceRequest {
    /// `m3u` or `xmltv`.
    kind: Option<String>,
    /// 1 to 100 characters.
    name: Option<String>,
    /// http or https URL.
    url: Option<String>,
    /// The text of the file; in a form, the file itself. At most 16 MiB.
    upload: Option<String>,
    /// Refresh interval in hours, 1 to 744; null (default) for no automatic refresh.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    refresh_hours: Option<Option<u32>>,
    #[serde(flatten)]
    claim: ClaimRequest,
    /// Which entries become channels; null (default) for all.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    select: Option<Option<SelectRequest>>,
    /// Number of the first new channel; null (default) for the numbers in the playlist.
    #[serde(default, deserialize_with = "deserialize_nullable")]
    number_from: Option<Option<u32>>,
}

/// Which entries become channels: those that match one of the lists.
#[derive(Default, Deserialize, ToSchema)]
#[serde(default)]
pub struct SelectRequest {
    groups: Vec<String>,
    names: Vec<String>,
    /// Values of `tvg-id`.
    ids: Vec<String>,
}

/// Reads and validates the body of a request.
///
/// # Errors
/// As [`Call::json`]; `VALIDATION_ERROR`, `PAYLOAD_TOO_LARGE`.
pub async fn read_change(call: &mut Call) -> Result<SourceChange> {
    let username = call.user()?.username.clone();
    let form_type = call.header(CONTENT_TYPE).filter(|kind| kind.trim_start().starts_with("multipart/form-data"));
    let boundary = form_type.map(multer::parse_boundary).transpose();
    let boundary =
        boundary.map_err(|_| Error::new(Code::BadRequest, "the Content-Type of the form has no boundary"))?;
    let (request, file): (SourceRequest, _) = match boundary {
        None => (call.json().await?, None),
        Some(boundary) => {
            let body = call.body().await?;
            let (fields, file) = read_form(body, boundary).await?;
            let text = serde_json::to_vec(&Value::Object(fields)).map_err(Error::internal)?;
            (call.parse(&text)?, file)
        }
    };
    request.into_change(file, username)
}

/// Reads a form: its fields as a JSON object, and the file.
async fn read_form(body: Bytes, boundary: String) -> Result<(Map<String, Value>, Option<Bytes>)> {
    let stream = futures_util::stream::once(async move { Ok::<_, std::convert::Infallible>(body) });
    let mut form = Multipart::new(stream, boundary);
    let invalid = |_| Error::new(Code::BadRequest, "the body is not a valid multipart form");
    let (mut fields, mut file, mut part_count) = (Map::new(), None, 0);
    while let Some(mut part) = form.next_field().await.map_err(invalid)? {
        part_count += 1;
        if part_count > MAX_PARTS {
            return Err(Error::new(Code::BadRequest, format!("the form has more than {MAX_PARTS} parts")));
        }
        let name = part.name().unwrap_or_default().to_owned();
        let max_bytes = if name == "upload" { MAX_UPLOAD_BYTES } else { MAX_FIELD_BYTES };
        let mut text = BytesMut::new();
        while let Some(chunk) = part.chunk().await.map_err(invalid)? {
            if text.len() + chunk.len() > max_bytes {
                return Err(RequestBody::too_large(max_bytes as u64));
            }
            text.extend_from_slice(&chunk);
        }
        if name == "upload" {
            file = Some(text.freeze());
            continue;
        }
        let text = std::str::from_utf8(&text).map_err(|_| Error::invalid_field(&name, "must be UTF-8"))?;
        let is_text_field = ["kind", "name", "url"].contains(&name.as_str());
        let value = if is_text_field { None } else { serde_json::from_str(text).ok() };
        match value.unwrap_or_else(|| Value::String(text.to_owned())) {
            // The part `source` holds all fields as one JSON object.
            Value::Object(all) if name == "source" => fields.extend(all),
            value => {
                fields.insert(name, value);
            }
        }
    }
    Ok((fields, file))
}

impl SourceRequest {
    fn into_change(self, file: Option<Bytes>, username: String) -> Result<SourceChange> {
        check_integer("refreshHours", self.refresh_hours.flatten(), 1..=MAX_REFRESH_HOURS)?;
        check_integer("numberFrom", self.number_from.flatten(), 1..=crate::domain::channel::MAX_NUMBER)?;
        let unknown = || Error::invalid_field("kind", "must be m3u or xmltv");
        let kind = self.kind.as_deref().map(|kind| SourceKind::parse(kind).ok_or_else(unknown)).transpose()?;
        let select = self.select.map(Option::unwrap_or_default);
        if let Some(SelectRequest { groups, names, ids }) = &select
            && [groups, names, ids].iter().any(|list| list.len() > MAX_SELECTED_NAMES)
        {
            let message = format!("each list must have at most {MAX_SELECTED_NAMES} entries");
            return Err(Error::invalid_field("select", message));
        }
        let upload = file.or(self.upload.map(Bytes::from));
        if upload.as_ref().is_some_and(|upload| upload.len() > MAX_UPLOAD_BYTES) {
            return Err(RequestBody::too_large(MAX_UPLOAD_BYTES as u64));
        }
        Ok(SourceChange {
            kind,
            name: self.name,
            url: self.url.as_deref().map(|url| rights::parse_address("url", url)).transpose()?,
            upload,
            refresh_hours: self.refresh_hours,
            claim: self.claim.into_claim()?,
            filter: select.map(|SelectRequest { groups, names, ids }| ChannelFilter { groups, names, ids }),
            number_from: self.number_from,
            changed_by: username,
        })
    }
}
