//! `/api/users`: user accounts; admins only.

use http::StatusCode;

use super::household::{MemberView, PictureView, parse_picture};
use super::livetv::tokens::{TokenGone, TokensAnswer};
use crate::domain::access::Role;
use crate::domain::account::User;
use crate::domain::time::format_timestamp;
use crate::http::api::prelude::*;
use crate::http::decode::present;
use crate::service::accounts::{KeptAccess, RequestedChange};

/// The role of a user.
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
    /// Number of stream tokens of the user; only in the list of users.
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_tokens: Option<usize>,
    /// Picture, PIN and folders; in the list of users and in `GET /api/auth/me`.
    #[serde(skip_serializing_if = "Option::is_none")]
    member: Option<MemberView>,
}

/// All users.
#[derive(Serialize, ToSchema)]
pub struct Users {
    users: Vec<UserView>,
}

/// A new user.
#[derive(Serialize, ToSchema)]
pub struct UserAnswer {
    user: UserView,
}

/// A user to create.
#[derive(Deserialize, ToSchema)]
pub struct UserRequest {
    username: String,
    /// At least 8 characters.
    password: String,
    /// Default `user`.
    role: Option<RoleName>,
}

/// A change of a user: name, role, picture, PIN and folders; absent fields stay.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemberRequest {
    username: Option<String>,
    /// A user who becomes an admin sees all folders and is no longer open.
    role: Option<RoleName>,
    /// Null for none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<PictureView>)]
    picture: Option<Option<PictureView>>,
    /// 4 to 8 digits; null for none.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    pin: Option<Option<String>>,
    /// Whether devices change to the user without a PIN; never for admins.
    is_open: Option<bool>,
    /// Paths of the media folders that the user sees, at most 100; null for all. Admins see all.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<Vec<String>>)]
    folders: Option<Option<Vec<String>>>,
}

/// A new password for another user.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewPasswordRequest {
    new_password: String,
    /// Keep the stream tokens of the user; default false: they are revoked.
    keep_stream_tokens: Option<bool>,
}

/// All users, by name
#[utoipa::path(get, path = "/api/users", responses((status = 200, description = "All users", body = Users)))]
pub async fn users(service: Arc<Service>, _: Call) -> Result<Response> {
    let counts = service.accounts.stream_token_counts();
    let count = |user: &User| counts.get(&user.id).copied().unwrap_or(0);
    let view = |user: User| {
        let stream_tokens = Some(count(&user));
        UserView { stream_tokens, ..UserView::with_member(&service, user) }
    };
    Ok(reply::json(&Users { users: service.accounts.users().into_iter().map(view).collect() }))
}

/// Add a user
#[utoipa::path(post, path = "/api/users", request_body = UserRequest, responses(
    (status = 201, description = "Created", body = UserAnswer),
    (status = 409, description = "`CONFLICT`: another user has this name")))]
pub async fn add_user(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: UserRequest = call.json().await?;
    let role = request.role.map_or(Role::User, Role::from);
    let user = service.accounts.add_user(Some(call.user()?), &request.username, role, &request.password).await?;
    Ok(reply::json_with(StatusCode::CREATED, &UserAnswer { user: user.into() }))
}

/// Change a user's name, role, picture and PIN, and the media folders that they see
///
/// Name and role apply to the next request of each of their devices, which stay signed in. Folders apply to the library at once: lists,
/// search, artwork, files and new sessions. Channels, their guide and recordings are listed for all users; what plays continues.
#[utoipa::path(patch, path = "/api/users/{id}", request_body = MemberRequest, params(
    ("id" = String, Path, description = "User id")), responses(
    (status = 200, description = "The changed user", body = UserAnswer),
    (status = 409, description = "`CONFLICT`: another user has this name, or it is the last admin or the admin of the configuration")))]
pub async fn change_user(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let MemberRequest { username, role, picture, pin, is_open, folders } = call.json().await?;
    let role = role.map(Role::from);
    let change = RequestedChange { username, role, picture: parse_picture(picture)?, pin, is_open, folders };
    let user_id = &call.params[0];
    service.accounts.change_member(call.user()?, user_id, change).await?;
    let user = UserView::with_member(&service, service.accounts.get_user(user_id)?);
    Ok(reply::json(&UserAnswer { user }))
}

/// Delete a user and sign out all their devices
#[utoipa::path(delete, path = "/api/users/{id}", params(("id" = String, Path, description = "User id")), responses(
    (status = 204, description = "Deleted"),
    (status = 409, description = "`CONFLICT`: the last admin cannot be deleted")))]
pub async fn remove_user(service: Arc<Service>, call: Call) -> Result<Response> {
    service.accounts.remove_user(&call.params[0]).await?;
    Ok(reply::empty())
}

/// Set a user's password and sign out all their devices
#[utoipa::path(post, path = "/api/users/{id}/password", request_body = NewPasswordRequest, params(
    ("id" = String, Path, description = "User id")), responses(
    (status = 204, description = "Changed")))]
pub async fn set_password(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: NewPasswordRequest = call.json().await?;
    let kept_access = KeptAccess { login: None, stream_tokens: request.keep_stream_tokens.unwrap_or(false) };
    service.accounts.set_password(Some(call.user()?), &call.params[0], &request.new_password, kept_access).await?;
    Ok(reply::empty())
}

/// List a user's stream tokens
#[utoipa::path(get, path = "/api/users/{id}/tokens", params(("id" = String, Path, description = "User id")), responses(
    (status = 200, description = "Oldest first, without their secrets", body = TokensAnswer)))]
pub async fn tokens(service: Arc<Service>, call: Call) -> Result<Response> {
    let user = service.accounts.get_user(&call.params[0])?;
    Ok(reply::json(&TokensAnswer::new(service.accounts.stream_tokens(&user.id))))
}

/// Revoke a stream token of a user and all URLs signed with it
#[utoipa::path(delete, path = "/api/users/{id}/tokens/{tokenId}", params(
    ("id" = String, Path, description = "User id"),
    ("tokenId" = String, Path, description = "Token id")), responses(
    (status = 200, description = "Revoked", body = TokenGone),
    (status = 404, description = "`NOT_FOUND`: the user has no such token")))]
pub async fn revoke_token(service: Arc<Service>, call: Call) -> Result<Response> {
    let id = call.params[1].clone();
    service.accounts.revoke_stream_token(&call.params[0], &id).await?;
    Ok(reply::json(&TokenGone { id, deleted: true }))
}

impl From<RoleName> for Role {
    fn from(name: RoleName) -> Self {
        match name {
            RoleName::Admin => Self::Admin,
            RoleName::User => Self::User,
        }
    }
}

impl UserView {
    pub(super) fn with_member(service: &Service, user: User) -> Self {
        let member = service.accounts.member(&user.id).into();
        Self { member: Some(member), ..user.into() }
    }
}

impl From<User> for UserView {
    fn from(user: User) -> Self {
        let User { id, username, created_at, .. } = user;
        let role = match user.role {
            Role::Admin => RoleName::Admin,
            Role::User => RoleName::User,
        };
        Self { id, username, role, created_at: format_timestamp(created_at), stream_tokens: None, member: None }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::{FutureExt, stream};
    use http::header::{AUTHORIZATION, CONTENT_LENGTH};
    use http::{HeaderMap, Method};

    use super::*;
    use crate::http::dispatch::tests::{request, service};
    use crate::http::dispatch::{Dispatcher, RequestParts};
    use crate::http::server::RequestBody;

    #[tokio::test]
    async fn a_body_that_arrives_after_its_login_ended_changes_nothing() {
        let (service, _dir) = service();
        let dispatcher = Arc::new(Dispatcher::new(&service, crate::http::endpoints()));
        service.accounts.issue_token("ada", Role::Admin).await.unwrap();
        let ada = service.accounts.user_by_name("ada").unwrap();
        for (path, body) in [
            ("/api/users".to_owned(), r#"{"username": "eve", "password": "correct horse"}"#),
            (format!("/api/users/{}/password", ada.id), r#"{"newPassword": "correct horse"}"#),
            ("/api/livetv/tokens".to_owned(), r#"{"name": "TV"}"#),
        ] {
            let token = service.accounts.issue_token("ada", Role::Admin).await.unwrap();
            let (send, rest) = tokio::sync::oneshot::channel::<Bytes>();
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
            headers.insert(CONTENT_LENGTH, body.len().into());
            let rest = stream::once(async move { Ok::<_, warp::Error>(rest.await.unwrap()) });
            let late_body = RequestBody::new(&headers, rest);
            let request = RequestParts { body: late_body, ..request(Method::POST, &path, headers) };
            let mut answer = Box::pin(dispatcher.clone().respond(request));
            assert!(answer.as_mut().now_or_never().is_none(), "{path}: admitted, and waiting for the body");
            service.accounts.revoke_all(&ada.id, KeptAccess::default()).await.unwrap();
            send.send(Bytes::from_static(body.as_bytes())).unwrap();
            assert_eq!(answer.await.status(), StatusCode::UNAUTHORIZED, "{path}");
        }
        assert_eq!(service.accounts.users().len(), 1);
        assert!(service.accounts.stream_tokens(&ada.id).is_empty());
        assert_eq!(service.accounts.get_user(&ada.id).unwrap().password_hash, None);
    }
}
