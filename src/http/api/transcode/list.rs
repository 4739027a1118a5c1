//! `GET /api/stream/transcode/sessions`: the sessions of all users, for admins.

use std::collections::HashMap;

use super::status::StatusBody;
use crate::http::api::prelude::*;
use crate::service::sessions::Session;

/// Active sessions.
#[derive(Serialize, ToSchema)]
pub struct SessionsAnswer {
    /// Oldest first.
    sessions: Vec<SessionView>,
}

/// A session, its user and its status.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Session)]
pub struct SessionView {
    user_id: String,
    /// Null if the user was deleted.
    username: Option<String>,
    media_path: String,
    start_position_seconds: f64,
    #[serde(flatten)]
    status: StatusBody,
}

/// Sessions of all users
#[utoipa::path(get, path = "/api/stream/transcode/sessions", responses(
    (status = 200, description = "Active sessions; an admin can `DELETE` any of them", body = SessionsAnswer)))]
pub async fn sessions(service: Arc<Service>, _: Call) -> Result<Response> {
    let names: HashMap<_, _> = service.accounts.users().into_iter().map(|user| (user.id, user.username)).collect();
    let view = |session: &Arc<Session>| SessionView {
        user_id: session.user_id.clone(),
        username: names.get(&session.user_id).cloned(),
        media_path: session.plan.request.media_path.clone(),
        start_position_seconds: session.plan.request.start_seconds,
        status: StatusBody::new(session),
    };
    Ok(reply::json(&SessionsAnswer { sessions: service.sessions.live_sessions().iter().map(view).collect() }))
}
