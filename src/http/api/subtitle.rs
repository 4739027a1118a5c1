//! `GET /api/stream/subtitle`: a text subtitle of an item as WebVTT, SRT or ASS.

use http::header::{CACHE_CONTROL, ETAG, HeaderValue};

use crate::domain::subtitles::{SubtitleFormat, write_srt, write_webvtt};
use crate::http::api::prelude::*;
use crate::http::conditional::{PreconditionResult, Validators};
use crate::service::media::subtitles::{SubtitleLocation, SubtitleScript};

#[utoipa::path(get, path = "/api/stream/subtitle", params(
    ("path" = String, Query, description = "Absolute path of the media file"),
    ("id" = String, Query, description = "`id` of one of the media info's `subtitles`, e.g. `e2` or `x0`"),
    ("format" = Option<String>, Query, description = "`vtt` (default), `srt` or `ass`; `ass` only if the subtitle is ASS")), responses(
    (status = 200, description = "The subtitle as UTF-8 text", content((String = "text/vtt"), (String = "application/x-subrip"), (String = "text/x-ssa"))),
    (status = 304, description = "The cached subtitle is still valid"),
    (status = 404, description = "`NOT_FOUND`: no such file or subtitle"),
    (status = 415, description = "`UNSUPPORTED_MEDIA_TYPE`: a bitmap subtitle, or not available in this format"),
    (status = 503, description = "`PROBE_TIMED_OUT`: the disk is slow or the server is busy; try again")))]
pub async fn subtitle(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = call.query("id").ok_or_else(|| Error::invalid_field("id", "is missing"))?;
    let format = match call.query("format").unwrap_or("vtt") {
        "vtt" => SubtitleFormat::WebVtt,
        "srt" => SubtitleFormat::Srt,
        "ass" | "ssa" => SubtitleFormat::Ass,
        other => return Err(Error::invalid_field("format", format!("{:.20} must be vtt, srt or ass", other))),
    };
    let source = service.library.open_seen(&call.user()?.visibility, call.media_path()?).await?;
    let location = service.subtitles.resolve_id(&source, id).await?;
    let script = match &location {
        SubtitleLocation::File(path) => service.subtitles.read_file(path).await?,
        SubtitleLocation::Stream(stream) => {
            let media = service.media.probe(&source).await?.media;
            service.subtitles.read_stream(&source, &media, *stream).await?
        }
    };
    let (content_type, text) = render(&script, format)?;
    let etag = format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..24]);
    let mut response = match (Validators { etag: &etag, modified: None }).evaluate(&call.headers) {
        PreconditionResult::NotModified => reply::not_modified(),
        PreconditionResult::Proceed | PreconditionResult::Failed => reply::bytes(content_type, text.into()),
    };
    let headers = response.headers_mut();
    headers.insert(ETAG, HeaderValue::from_str(&etag).expect("hex in quotes"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    Ok(response)
}

/// Content type and text of the subtitle in the requested format.
fn render(script: &SubtitleScript, format: SubtitleFormat) -> Result<(&'static str, String)> {
    match format {
        SubtitleFormat::WebVtt => Ok(("text/vtt; charset=utf-8", write_webvtt(&script.cues))),
        SubtitleFormat::Srt => Ok(("application/x-subrip; charset=utf-8", write_srt(&script.cues))),
        SubtitleFormat::Ass if script.format == SubtitleFormat::Ass => {
            Ok(("text/x-ssa; charset=utf-8", script.text.clone()))
        }
        SubtitleFormat::Ass => Err(Error::new(
            Code::UnsupportedMediaType,
            format!("format ass is only available for ASS subtitles, this one is {}", script.format.as_str()),
        )),
    }
}
