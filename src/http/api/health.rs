//! `GET /api/health`: health check.

use crate::http::api::prelude::*;

/// The health of the server. Public, so it contains nothing else.
#[derive(Serialize, ToSchema)]
pub struct Health {
    /// `ok`, or `standby` on a server that passes requests on to the active one.
    #[schema(example = "ok")]
    status: &'static str,
}

impl Health {
    /// A standby, which passes on all other requests.
    pub const STANDBY: Self = Self { status: "standby" };
}

/// Health check
#[utoipa::path(get, path = "/api/health", responses((status = 200, description = "The server is up", body = Health)))]
pub async fn health(_: Arc<Service>, _: Call) -> Result<Response> {
    Ok(reply::json(&Health { status: "ok" }))
}
