//! `GET /api/health`: health check.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;
use warp::reply::Response;

use crate::domain::access::Access;
use crate::error::Result;
use crate::http::call::Call;
use crate::http::endpoint::{Endpoint, route};
use crate::http::reply;
use crate::service::Service;

pub fn endpoints() -> Vec<Endpoint> {
    vec![route!(health, Access::Public)]
}

/// The health of the server. Public, so it contains nothing else.
#[derive(Serialize, ToSchema)]
pub struct Health {
    #[schema(example = "ok")]
    status: &'static str,
}

/// Health check
#[utoipa::path(get, path = "/api/health",
    responses((status = 200, description = "The server is up", body = Health)))]
pub async fn health(_: Arc<Service>, _: Call) -> Result<Response> {
    Ok(reply::json(&Health { status: "ok" }))
}
