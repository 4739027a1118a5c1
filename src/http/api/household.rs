//! `/api/household`: the members of the household, and the user of a device that is signed in.

use super::auth::{LoginAnswer, client_address};
use crate::domain::household::{Member, Picture, PictureColour, PictureSymbol};
use crate::http::api::prelude::*;
use crate::http::decode::present;
use crate::service::accounts::{OfferedMember, RequestedChange};

/// The picture of a user.
#[derive(Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = UserPicture)]
pub struct PictureView {
    /// `red`, `orange`, `yellow`, `green`, `teal`, `blue`, `violet` or `pink`.
    colour: String,
    /// `star`, `heart`, `moon`, `sun`, `cat`, `fish`, `flower` or `rocket`; null for the first letter of the name.
    symbol: Option<String>,
}

/// A member of the household.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HouseholdMember {
    id: String,
    username: String,
    picture: Option<PictureView>,
    /// The proof that this device must give before it changes to the user: `nothing`, `pin` (or the password) or `password`.
    needs: &'static str,
    /// Whether it is the user of this request.
    is_current: bool,
}

/// The members of the household.
#[derive(Serialize, ToSchema)]
pub struct Household {
    members: Vec<HouseholdMember>,
}

/// The user a device changes to.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserChangeRequest {
    user_id: String,
    pin: Option<String>,
    /// Accepted in place of the PIN.
    password: Option<String>,
}

/// A change of the user's own picture and PIN; absent fields stay.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OwnMemberRequest {
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
    /// Required for `pin` and `isOpen`.
    current_password: Option<String>,
}

/// Picture, PIN and folders of a user.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemberView {
    picture: Option<PictureView>,
    has_pin: bool,
    /// Whether devices change to the user without a PIN.
    is_open: bool,
    /// Paths of the media folders that the user sees; null for all.
    folders: Option<Vec<String>>,
}

/// The members that this device may change to, by name
///
/// The user, and those who have a PIN or may be chosen without one; at most 100.
#[utoipa::path(get, path = "/api/household", responses(
    (status = 200, description = "Members of the household", body = Household)))]
pub async fn household(service: Arc<Service>, call: Call) -> Result<Response> {
    let members = service.accounts.offered_members(call.user()?).into_iter().map(HouseholdMember::from).collect();
    Ok(reply::json(&Household { members }))
}

/// Change the user of this device
///
/// The token of the request ends, with every link signed with it. After 20 wrong PINs in a row only the password counts.
#[utoipa::path(post, path = "/api/household/user", request_body = UserChangeRequest, responses(
    (status = 200, description = "Signed in as the other user", body = LoginAnswer),
    (status = 401, description = "`INVALID_CREDENTIALS`: wrong PIN or password; `details.needs` is the proof that counts"),
    (status = 429, description = "`RATE_LIMITED`, with `Retry-After`")))]
pub async fn change_user(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let UserChangeRequest { user_id, pin, password } = call.json().await?;
    let (principal, address) = (call.user()?, client_address(&service, &call));
    let (pin, password) = (pin.as_deref(), password.as_deref());
    let issued = service.accounts.change_user(principal, &user_id, pin, password, address).await?;
    Ok(reply::json(&LoginAnswer::from(issued)))
}

/// Picture and PIN of the signed-in user
#[utoipa::path(get, path = "/api/household/me", responses(
    (status = 200, description = "The user as a member", body = MemberView)))]
pub async fn own_member(service: Arc<Service>, call: Call) -> Result<Response> {
    Ok(reply::json(&MemberView::from(service.accounts.member(&call.user()?.user_id))))
}

/// Change your own picture, and with your password your PIN
#[utoipa::path(patch, path = "/api/household/me", request_body = OwnMemberRequest, responses(
    (status = 200, description = "The user as a member", body = MemberView),
    (status = 401, description = "`INVALID_CREDENTIALS`: the current password is wrong"),
    (status = 429, description = "`RATE_LIMITED`")))]
pub async fn change_own_member(service: Arc<Service>, mut call: Call) -> Result<Response> {
    let OwnMemberRequest { picture, pin, is_open, current_password } = call.json().await?;
    let change = RequestedChange { picture: parse_picture(picture)?, pin, is_open, ..RequestedChange::default() };
    let (principal, address) = (call.user()?, client_address(&service, &call));
    let changed = service.accounts.change_own_member(principal, change, current_password.as_deref(), address).await?;
    Ok(reply::json(&MemberView::from(changed)))
}

/// The requested picture.
pub(super) fn parse_picture(requested: Option<Option<PictureView>>) -> Result<Option<Option<Picture>>> {
    let parse = |PictureView { colour, symbol }: PictureView| {
        let symbol_of = |name: String| {
            PictureSymbol::parse(&name).ok_or_else(|| Error::invalid_field("picture.symbol", "is unknown"))
        };
        Ok(Picture {
            colour: PictureColour::parse(&colour)
                .ok_or_else(|| Error::invalid_field("picture.colour", "is unknown"))?,
            symbol: symbol.map(symbol_of).transpose()?,
        })
    };
    requested.map(|picture| picture.map(parse).transpose()).transpose()
}

impl From<Picture> for PictureView {
    fn from(Picture { colour, symbol }: Picture) -> Self {
        let symbol = symbol.map(|symbol| symbol.as_str().to_owned());
        Self { colour: colour.as_str().to_owned(), symbol }
    }
}

impl From<OfferedMember> for HouseholdMember {
    fn from(member: OfferedMember) -> Self {
        let OfferedMember { user_id, username, picture, proof, is_current } = member;
        Self { id: user_id, username, picture: picture.map(Into::into), needs: proof.as_str(), is_current }
    }
}

impl From<Member> for MemberView {
    fn from(member: Member) -> Self {
        let Member { picture, pin_hash, is_open, folders } = member;
        Self { picture: picture.map(Into::into), has_pin: pin_hash.is_some(), is_open, folders }
    }
}
