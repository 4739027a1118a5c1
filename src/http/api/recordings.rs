//! `/api/livetv/recordings`: recordings and series rules (DVR).

use crate::domain::access::Role;
use crate::domain::recording::{Recording, RecordingState};
use crate::http::api::prelude::*;
use crate::service::recordings::{FileAction, RemovedRecording};

mod request;
mod view;

use request::{RecordingRequest, SeriesChangeRequest};
use view::{RecordingView, SeriesView};

/// Recordings, and the series rules that schedule more.
#[derive(Serialize, ToSchema)]
pub(super) struct RecordingsAnswer {
    /// Whether a recordings folder is configured. Without one, nothing can be scheduled.
    enabled: bool,
    recordings: Vec<RecordingView>,
    series: Vec<SeriesView>,
}

/// One recording.
#[derive(Serialize, ToSchema)]
pub(super) struct RecordingAnswer {
    recording: RecordingView,
}

/// The recording and the series that a request scheduled.
#[derive(Serialize, ToSchema)]
pub(super) struct RecordingMade {
    /// Null if the guide has no programme of the new series yet.
    recording: Option<RecordingView>,
    series: Option<SeriesView>,
}

/// A recording that was cancelled or deleted.
#[derive(Serialize, ToSchema)]
pub(super) struct RecordingGone {
    id: String,
    /// False for a scheduled or running recording: it was cancelled and stays listed.
    deleted: bool,
    /// `cancelled`, or null if the recording was deleted.
    state: Option<&'static str>,
    #[serde(rename = "fileDeleted")]
    file_deleted: bool,
}

/// A series rule.
#[derive(Serialize, ToSchema)]
#[schema(as = SeriesRuleAnswer)]
pub(super) struct SeriesAnswer {
    series: SeriesView,
}

/// A deleted series rule.
#[derive(Serialize, ToSchema)]
pub(super) struct SeriesGone {
    id: String,
    deleted: bool,
}

/// Recordings, latest first; users see only their own
#[utoipa::path(get, path = "/api/livetv/recordings", params(
    ("state" = Option<String>, Query, description = "Only recordings in this state: `scheduled`, `recording`, `complete`, `failed` or `cancelled`"),
    ("channelId" = Option<u32>, Query, description = "Only recordings of this channel")), responses(
    (status = 200, description = "The recordings and the series rules", body = RecordingsAnswer)))]
pub async fn recordings(service: Arc<Service>, call: Call) -> Result<Response> {
    let user = call.user()?;
    let is_admin = user.role == Role::Admin;
    let state = call.query("state").map(parse_state).transpose()?;
    let parse = |text: &str| text.parse::<u32>().map_err(|_| Error::invalid_field("channelId", "must be a channel id"));
    let channel = call.query("channelId").map(parse).transpose()?;
    let visible = service.recordings.all().into_iter().filter(|recording| {
        (is_admin || recording.user_id == user.user_id)
            && state.is_none_or(|state| recording.state == state)
            && channel.is_none_or(|channel| recording.channel_id == channel)
    });
    let recordings = visible.map(|recording| RecordingView::new(&service, &recording)).collect();
    let rules = service.recordings.rules().into_iter().filter(|rule| is_admin || rule.user_id == user.user_id);
    let series = rules.map(|rule| SeriesView::new(&rule)).collect();
    let enabled = service.recordings.folder().is_ok();
    Ok(reply::json(&RecordingsAnswer { enabled, recordings, series }))
}

/// One recording
#[utoipa::path(get, path = "/api/livetv/recordings/{id}", params(("id" = String, Path, description = "Recording id")), responses(
    (status = 200, description = "The recording", body = RecordingAnswer),
    (status = 404, description = "`NOT_FOUND`: no such recording, or it belongs to another user")))]
pub async fn recording(service: Arc<Service>, call: Call) -> Result<Response> {
    let user = call.user()?;
    let recording = service.recordings.get(&call.params[0])?;
    if user.role != Role::Admin && recording.user_id != user.user_id {
        return Err(Error::new(Code::NotFound, "no such recording"));
    }
    Ok(reply::json(&RecordingAnswer { recording: RecordingView::new(&service, &recording) }))
}

/// Record a guide entry, a range of time, or a series
#[utoipa::path(post, path = "/api/livetv/recordings", request_body = RecordingRequest, responses(
    (status = 201, description = "Scheduled", body = RecordingMade),
    (status = 400, description = "`VALIDATION_ERROR`"),
    (status = 404, description = "`CHANNEL_NOT_FOUND`; `NOT_FOUND`: the guide has no such entry"),
    (status = 409, description = "`CONFLICT`: no recordings folder is configured, or there are too many recordings"),
    (status = 422, description = "`RIGHTS_BASIS_REQUIRED`: `details.missing` names what an external channel lacks")))]
pub async fn add(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let user_id = call.user()?.user_id.clone();
    let request: RecordingRequest = call.json().await?;
    let scheduled = service.schedule_recording(request.validate(user_id)?).await?;
    let urls = ResourceUrls::from_config(&service.config);
    let location = |one: &Recording| urls.external_path(format_args!("/api/livetv/recordings/{}", one.id));
    let location = scheduled.recording.as_ref().map(location);
    let recording = scheduled.recording.map(|recording| RecordingView::new(&service, &recording));
    let series = scheduled.rule.map(|rule| SeriesView::new(&rule));
    reply::created(&RecordingMade { recording, series }, location)
}

/// Cancel or delete a recording
#[utoipa::path(delete, path = "/api/livetv/recordings/{id}", params(
    ("id" = String, Path, description = "Recording id"),
    ("file" = Option<String>, Query, description = "What happens to the file: `keep` (default) or `delete`")), responses(
    (status = 200, description = "A scheduled or running recording is cancelled; any other is deleted", body = RecordingGone)))]
pub async fn remove(service: Arc<Service>, call: Call) -> Result<Response> {
    let choices = [("keep", FileAction::Keep), ("delete", FileAction::Delete)];
    let file_action = parse_choice("file", call.query("file").unwrap_or("keep"), &choices)?;
    let id = call.params[0].clone();
    let RemovedRecording { state, file_deleted } = service.recordings.remove(&id, file_action).await?;
    let state = state.map(RecordingState::as_str);
    Ok(reply::json(&RecordingGone { id, deleted: state.is_none(), state, file_deleted }))
}

/// Change a series rule
///
/// Recordings that have not begun follow the change. Programmes that were recorded or cancelled are not scheduled again.
#[utoipa::path(patch, path = "/api/livetv/recordings/series/{id}", request_body = SeriesChangeRequest,
    params(("id" = String, Path, description = "Series rule id")), responses(
    (status = 200, description = "The changed rule", body = SeriesAnswer),
    (status = 400, description = "`VALIDATION_ERROR`"),
    (status = 404, description = "`NOT_FOUND`: no such series rule")))]
pub async fn change_series(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: SeriesChangeRequest = call.json().await?;
    let rule = service.change_series_rule(&call.params[0], request.validate()?).await?;
    Ok(reply::json(&SeriesAnswer { series: SeriesView::new(&rule) }))
}

/// Delete a series rule and cancel its scheduled recordings
#[utoipa::path(delete, path = "/api/livetv/recordings/series/{id}", params(("id" = String, Path, description = "Series rule id")), responses(
    (status = 200, description = "Deleted; finished recordings are kept", body = SeriesGone)))]
pub async fn remove_series(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = call.params[0].clone();
    service.recordings.remove_rule(&id).await?;
    Ok(reply::json(&SeriesGone { id, deleted: true }))
}

fn parse_state(text: &str) -> Result<RecordingState> {
    let unknown = || Error::invalid_field("state", "must be scheduled, recording, complete, failed or cancelled");
    RecordingState::parse(text).ok_or_else(unknown)
}
