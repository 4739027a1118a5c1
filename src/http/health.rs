//! `GET /api/health`: is the server up.

use std::sync::Arc;

use serde_json::json;

use super::endpoint::{Endpoint, get};
use super::reply;
use crate::domain::access::Access;
use crate::service::Service;

pub fn endpoints(service: &Arc<Service>) -> Vec<Endpoint> {
    vec![get("/api/health", Access::Public).to(service, |_, _| async { Ok(reply::json(&json!({"status": "ok"}))) })]
}
