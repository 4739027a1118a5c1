//! `GET /api/health`: health check.

use crate::http::api::prelude::*;

/// The health of the server. Public, so it contains nothing else.
#[derive(Serialize, ToSchema)]
pub struct Health {
    #[schema(example = "ok")]
    status: &'static str,
}

/// Health check
#[utoipa::path(get, path = "/api/health", responses((status = 200, description = "The server is up", body = Health)))]
pub async fn health(_: Arc<Service>, _: Call) -> Result<Response> {
    Ok(reply::json(&Health { status: "ok" }))
}
