//! `GET /api/health`: is the server up.

use std::sync::Arc;

use serde::Serialize;
use utoipa::ToSchema;
use warp::reply::Response;

use super::call::Call;
use super::endpoint::{Endpoint, get};
use super::reply;
use crate::domain::access::Access;
use crate::error::Result;
use crate::service::Service;

pub fn endpoints(service: &Arc<Service>) -> Vec<Endpoint> {
    vec![get("/api/health", Access::Public).to(service, health)]
}

/// That it is up, and nothing else: anybody may ask.
#[derive(Serialize, ToSchema)]
pub struct Health {
    #[schema(example = "ok")]
    status: &'static str,
}

/// Whether the server answers
#[utoipa::path(get, path = "/api/health",
    responses((status = 200, description = "It does", body = Health)))]
pub(super) async fn health(_: Arc<Service>, _: Call) -> Result<Response> {
    Ok(reply::json(&Health { status: "ok" }))
}
