//! The sessions of everybody, as an admin sees them.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;
use warp::reply::Response;

use super::status::StatusBody;
use crate::error::Result;
use crate::http::call::Call;
use crate::http::reply;
use crate::service::Service;
use crate::service::sessions::Session;

/// Sessions that serve.
#[derive(Serialize, ToSchema)]
pub struct SessionsAnswer {
    /// The oldest first.
    sessions: Vec<SessionView>,
}

/// Who plays what, and how it stands.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
pub struct SessionView {
    user_id: String,
    /// Null when the user is gone.
    username: Option<String>,
    media_path: String,
    start_position_seconds: f64,
    #[serde(flatten)]
    status: StatusBody,
}

/// Everybody's sessions
#[utoipa::path(get, path = "/api/stream/transcode/sessions",
    responses((status = 200, description = "Those that serve; any of them is stopped by its `DELETE`", body = SessionsAnswer)))]
pub async fn sessions(service: Arc<Service>, _: Call) -> Result<Response> {
    let names: HashMap<String, String> =
        service.accounts.users().into_iter().map(|user| (user.id, user.username)).collect();
    let view = |session: &Arc<Session>| SessionView {
        user_id: session.user_id.clone(),
        username: names.get(&session.user_id).cloned(),
        media_path: session.plan.request.media_path.clone(),
        start_position_seconds: session.plan.request.start_seconds,
        status: StatusBody::new(session),
    };
    Ok(reply::json(&SessionsAnswer { sessions: service.sessions.all().iter().map(view).collect() }))
}
