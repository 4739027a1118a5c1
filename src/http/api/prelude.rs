//! The names that nearly every handler needs.

pub(super) use std::sync::Arc;

pub(super) use serde::{Deserialize, Serialize};
pub(super) use utoipa::ToSchema;
pub(super) use warp::reply::Response;

pub(super) use crate::error::{Code, Error, Result};
pub(super) use crate::http::call::Call;
pub(super) use crate::http::decode::{check_integer, parse_choice};
pub(super) use crate::http::reply;
pub(super) use crate::http::urls::ResourceUrls;
pub(super) use crate::service::Service;
