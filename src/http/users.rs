//! `/api/users`: who may sign in; for admins.

use std::sync::Arc;

use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use warp::reply::Response;

use super::call::Call;
use super::endpoint::{Endpoint, delete, get, post};
use super::reply;
use crate::domain::access::{Access, Role};
use crate::domain::account::User;
use crate::domain::time::instant;
use crate::error::Result;
use crate::service::Service;

pub fn endpoints(service: &Arc<Service>) -> Vec<Endpoint> {
    vec![
        get("/api/users", Access::Admin).to(service, users),
        post("/api/users", Access::Admin).to(service, add_user),
        delete("/api/users/{id}", Access::Admin).to(service, remove_user),
        post("/api/users/{id}/password", Access::Admin).to(service, set_password),
    ]
}

/// What a user may do.
#[derive(Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RoleName {
    Admin,
    User,
}

/// A user.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserView {
    id: String,
    username: String,
    role: RoleName,
    #[schema(format = DateTime)]
    created_at: String,
}

/// All users.
#[derive(Serialize, ToSchema)]
pub struct Users {
    users: Vec<UserView>,
}

/// A user who was made.
#[derive(Serialize, ToSchema)]
pub struct UserAnswer {
    user: UserView,
}

/// A user to make.
#[derive(Deserialize, ToSchema)]
pub struct UserRequest {
    username: String,
    /// At least 8 characters.
    password: String,
    /// `user` when absent.
    role: Option<RoleName>,
}

/// A password somebody else is given.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewPasswordRequest {
    new_password: String,
}

/// All users, by name
#[utoipa::path(get, path = "/api/users", tag = "Accounts",
    responses((status = 200, description = "All users", body = Users)))]
pub(super) async fn users(service: Arc<Service>, _: Call) -> Result<Response> {
    Ok(reply::json(&Users { users: service.accounts.users().into_iter().map(UserView::from).collect() }))
}

/// Add a user
#[utoipa::path(post, path = "/api/users", tag = "Accounts", request_body = UserRequest, responses(
    (status = 201, description = "Made", body = UserAnswer),
    (status = 409, description = "`CONFLICT`: the name is taken")))]
pub(super) async fn add_user(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let asked: UserRequest = call.json().await?;
    let role = match asked.role {
        Some(RoleName::Admin) => Role::Admin,
        Some(RoleName::User) | None => Role::User,
    };
    let user = service.accounts.add_user(&asked.username, role, &asked.password).await?;
    Ok(reply::json_with(StatusCode::CREATED, &UserAnswer { user: user.into() }))
}

/// Remove a user and sign all their devices out
#[utoipa::path(delete, path = "/api/users/{id}", tag = "Accounts",
    params(("id" = String, Path, description = "As listed")), responses(
    (status = 204, description = "Removed"),
    (status = 404, description = "`NOT_FOUND`"),
    (status = 409, description = "`CONFLICT`: the last admin stays")))]
pub(super) async fn remove_user(service: Arc<Service>, call: Call) -> Result<Response> {
    service.accounts.remove_user(&call.params[0]).await?;
    Ok(reply::empty())
}

/// Give a user a new password and sign all their devices out
#[utoipa::path(post, path = "/api/users/{id}/password", tag = "Accounts", request_body = NewPasswordRequest,
    params(("id" = String, Path, description = "As listed")), responses(
    (status = 204, description = "Changed"),
    (status = 404, description = "`NOT_FOUND`")))]
pub(super) async fn set_password(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let asked: NewPasswordRequest = call.json().await?;
    service.accounts.set_password(&call.params[0], &asked.new_password, None).await?;
    Ok(reply::empty())
}

impl From<User> for UserView {
    fn from(user: User) -> Self {
        let role = match user.role {
            Role::Admin => RoleName::Admin,
            Role::User => RoleName::User,
        };
        Self { id: user.id, username: user.username, role, created_at: instant(user.created_at) }
    }
}
