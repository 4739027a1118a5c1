//! `/api/auth/…`: set-up, sign-in and sign-out, and the devices a user is signed in on.

use std::net::IpAddr;

use http::header::USER_AGENT;

use super::users::UserView;
use crate::domain::time::format_timestamp;
use crate::http::api::prelude::*;
use crate::http::client;
use crate::service::accounts::{DeviceView, IssuedLogin, KeptAccess};

/// Whether the server must be set up first.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthStatus {
    setup_required: bool,
}

/// The credentials of a sign-in.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginRequest {
    username: String,
    password: String,
    /// Name shown in the list of devices; the `User-Agent` when absent.
    device_name: Option<String>,
}

/// Creates the first admin.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetupRequest {
    /// From the server's console or the file `setup-code` in its state folder.
    code: String,
    username: String,
    password: String,
    device_name: Option<String>,
}

/// Changes the signed-in user's password.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PasswordRequest {
    current_password: String,
    new_password: String,
    /// True keeps the user's stream tokens (for players that cannot sign in). When absent or false they are revoked.
    keep_stream_tokens: Option<bool>,
}

/// A bearer token and its user.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginAnswer {
    /// Returned only once.
    token: String,
    #[schema(example = "Bearer")]
    token_type: &'static str,
    /// Extended whenever the token is used.
    #[schema(format = DateTime)]
    expires_at: String,
    user: UserView,
}

/// The signed-in user and device.
#[derive(Serialize, ToSchema)]
pub struct Me {
    user: UserView,
    session: SessionView,
}

/// The devices the user is signed in on.
#[derive(Serialize, ToSchema)]
pub struct Sessions {
    sessions: Vec<SessionView>,
}

/// A signed-in device.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    id: String,
    device_name: Option<String>,
    /// The address it signed in from.
    address: Option<String>,
    #[schema(format = DateTime)]
    created_at: String,
    #[schema(format = DateTime)]
    last_seen_at: String,
    #[schema(format = DateTime)]
    expires_at: String,
    /// Whether this request came from this device.
    current: bool,
}

/// How many devices were signed out.
#[derive(Serialize, ToSchema)]
pub struct Revoked {
    revoked: usize,
}

/// Whether the server must be set up first
#[utoipa::path(get, path = "/api/auth/status", responses(
    (status = 200, description = "The state of the server", body = AuthStatus)))]
pub async fn status(service: Arc<Service>, _: Call) -> Result<Response> {
    Ok(reply::json(&AuthStatus { setup_required: service.accounts.needs_setup() }))
}

/// Create the first admin, with the code from the console
#[utoipa::path(post, path = "/api/auth/setup", request_body = SetupRequest, responses(
    (status = 200, description = "Signed in as the new admin", body = LoginAnswer),
    (status = 401, description = "`INVALID_CREDENTIALS`: wrong or expired code"),
    (status = 409, description = "`CONFLICT`: an admin already exists"),
    (status = 429, description = "`RATE_LIMITED`")))]
pub async fn set_up(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: SetupRequest = call.json().await?;
    let (device, address) = (device_name(&call, request.device_name), client_address(&service, &call));
    let SetupRequest { code, username, password, .. } = request;
    let issued = service.accounts.set_up(&code, &username, &password, device.as_deref(), address).await?;
    Ok(reply::json(&LoginAnswer::from(issued)))
}

/// Sign in
#[utoipa::path(post, path = "/api/auth/login", request_body = LoginRequest, responses(
    (status = 200, description = "Signed in", body = LoginAnswer),
    (status = 401, description = "`INVALID_CREDENTIALS`, the same for unknown names"),
    (status = 429, description = "`RATE_LIMITED`, with `Retry-After`")))]
pub async fn login(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: LoginRequest = call.json().await?;
    let (device, address) = (device_name(&call, request.device_name), client_address(&service, &call));
    let issued = service.accounts.login(&request.username, &request.password, device.as_deref(), address).await?;
    Ok(reply::json(&LoginAnswer::from(issued)))
}

/// Sign this device out
#[utoipa::path(post, path = "/api/auth/logout", responses(
    (status = 204, description = "Signed out; the token and every link signed with it are revoked")))]
pub async fn logout(service: Arc<Service>, call: Call) -> Result<Response> {
    let principal = call.user()?;
    service.accounts.revoke(&principal.user_id, &principal.login_id).await?;
    Ok(reply::empty())
}

/// The signed-in user and device
#[utoipa::path(get, path = "/api/auth/me", responses(
    (status = 200, description = "User and device of the token", body = Me)))]
pub async fn me(service: Arc<Service>, call: Call) -> Result<Response> {
    let principal = call.user()?;
    let devices = service.accounts.devices(&principal.user_id);
    let device = devices.into_iter().find(|device| device.login.id == principal.login_id);
    let session = SessionView::from_device(device.ok_or_else(token_revoked)?, &principal.login_id);
    let user = service.accounts.get_user(&principal.user_id).map_err(|_| token_revoked())?;
    Ok(reply::json(&Me { user: UserView::with_member(&service, user), session }))
}

/// Change your own password; all other devices are signed out, and stream tokens are revoked unless kept
#[utoipa::path(post, path = "/api/auth/password", request_body = PasswordRequest, responses(
    (status = 204, description = "Changed"),
    (status = 401, description = "`INVALID_CREDENTIALS`: the current password is wrong"),
    (status = 429, description = "`RATE_LIMITED`")))]
pub async fn change_password(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let request: PasswordRequest = call.json().await?;
    let (principal, address) = (call.user()?, client_address(&service, &call));
    let PasswordRequest { current_password, new_password, keep_stream_tokens } = request;
    let keeps_stream_tokens = keep_stream_tokens.unwrap_or(false);
    service.accounts.change_password(principal, &current_password, &new_password, keeps_stream_tokens, address).await?;
    Ok(reply::empty())
}

/// The devices the user is signed in on, last seen first
#[utoipa::path(get, path = "/api/auth/sessions", responses(
    (status = 200, description = "All devices whose sign-in has not expired", body = Sessions)))]
pub async fn sessions(service: Arc<Service>, call: Call) -> Result<Response> {
    let principal = call.user()?;
    let devices = service.accounts.devices(&principal.user_id).into_iter();
    let sessions = devices.map(|device| SessionView::from_device(device, &principal.login_id)).collect();
    Ok(reply::json(&Sessions { sessions }))
}

/// Sign every other device out; stream tokens stay valid
#[utoipa::path(delete, path = "/api/auth/sessions", responses(
    (status = 200, description = "Signed out", body = Revoked)))]
pub async fn revoke_others(service: Arc<Service>, call: Call) -> Result<Response> {
    let principal = call.user()?;
    let kept_access = KeptAccess { login: Some(&principal.login_id), stream_tokens: true };
    let revoked = service.accounts.revoke_all(&principal.user_id, kept_access).await?.logins;
    Ok(reply::json(&Revoked { revoked }))
}

/// Sign one device out
#[utoipa::path(delete, path = "/api/auth/sessions/{id}", params(("id" = String, Path, description = "As listed")), responses(
    (status = 204, description = "Signed out immediately"),
    (status = 404, description = "`NOT_FOUND`: no such device of this user")))]
pub async fn revoke(service: Arc<Service>, call: Call) -> Result<Response> {
    service.accounts.revoke(&call.user()?.user_id, &call.params[0]).await?;
    Ok(reply::empty())
}

impl From<IssuedLogin> for LoginAnswer {
    fn from(issued: IssuedLogin) -> Self {
        let IssuedLogin { token, expires_at, user } = issued;
        Self { token, token_type: "Bearer", expires_at: format_timestamp(expires_at), user: user.into() }
    }
}

impl SessionView {
    fn from_device(device: DeviceView, current_login_id: &str) -> Self {
        let DeviceView { login, expires_at } = device;
        Self {
            current: login.id == current_login_id,
            id: login.id,
            device_name: login.device,
            address: login.address,
            created_at: format_timestamp(login.created_at),
            last_seen_at: format_timestamp(login.last_seen_at),
            expires_at: format_timestamp(expires_at),
        }
    }
}

/// The token was revoked between authentication and the handler.
fn token_revoked() -> Error {
    Error::new(Code::Unauthorized, "the token was revoked").with_header("www-authenticate", "Bearer")
}

fn device_name(call: &Call, requested_name: Option<String>) -> Option<String> {
    requested_name.or_else(|| call.header(USER_AGENT).map(str::to_owned))
}

pub(super) fn client_address(service: &Service, call: &Call) -> IpAddr {
    client::address(&call.headers, call.info.remote, &service.config.trusted_proxies)
}
