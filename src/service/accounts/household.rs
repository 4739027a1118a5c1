//! The household: users with picture and PIN, and a signed-in device that changes from one of them to another.

use std::net::IpAddr;
use std::sync::PoisonError;

use super::signin::network_key;
use super::{Accounts, IssuedLogin};
use crate::domain::access::{Principal, Role};
use crate::domain::account::{self, User};
use crate::domain::household::{MAX_WRONG_PINS, Member, MemberChange, Picture, Proof, validate_pin};
use crate::domain::library::check_absolute;
use crate::error::{Code, Error, Result};
use crate::store::{Batch, Tree};

/// Members that a device is offered, the first by name.
const MAX_OFFERED: usize = 100;

/// Media folders of one user at most.
const MAX_FOLDERS: usize = 100;

/// A member as a device is offered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedMember {
    pub user_id: String,
    pub username: String,
    pub picture: Option<Picture>,
    pub proof: Proof,
    pub is_current: bool,
}

/// A requested change of a user and their record as a member, checked when it is made.
#[derive(Clone, Debug, Default)]
pub struct RequestedChange {
    pub username: Option<String>,
    pub role: Option<Role>,
    pub picture: Option<Option<Picture>>,
    /// The PIN itself; `Some(None)` removes it.
    pub pin: Option<Option<String>>,
    pub is_open: Option<bool>,
    pub folders: Option<Option<Vec<String>>>,
}

impl RequestedChange {
    /// Whether it changes who may become this user, which needs their password.
    fn changes_access(&self) -> bool {
        self.pin.is_some() || self.is_open.is_some() || self.folders.is_some()
    }
}

impl Accounts {
    /// A user as a member of the household.
    pub fn member(&self, user_id: &str) -> Member {
        self.read_directory().member(user_id).cloned().unwrap_or_default()
    }

    /// The members that a device of this user may change to, by name, and the user.
    pub fn offered_members(&self, principal: &Principal) -> Vec<OfferedMember> {
        let members = self.users().into_iter().filter_map(|user| {
            let (member, is_current) = (self.member(&user.id), user.id == principal.user_id);
            (is_current || member.is_offered()).then(|| OfferedMember {
                proof: self.required_proof(&user, &member, principal),
                picture: member.picture,
                user_id: user.id,
                username: user.username,
                is_current,
            })
        });
        members.take(MAX_OFFERED).collect()
    }

    fn required_proof(&self, user: &User, member: &Member, principal: &Principal) -> Proof {
        match member.required_proof(user.role, &principal.visibility) {
            Proof::Pin if self.wrong_pins(&user.id) >= MAX_WRONG_PINS => Proof::Password,
            proof => proof,
        }
    }

    /// Signs the device of `principal` in as another user, and out as the present one: both, or nothing.
    ///
    /// Failed attempts are counted per address and per member, at home too: a PIN is short, and those who try it are at home.
    ///
    /// # Errors
    /// `INVALID_CREDENTIALS` for a wrong PIN or password, the same for unknown users, with `needs` in its details; `RATE_LIMITED`;
    /// `SERVER_BUSY`; `UNAUTHORIZED` when the login ended meanwhile.
    pub async fn change_user(
        &self,
        principal: &Principal,
        user_id: &str,
        pin: Option<&str>,
        password: Option<&str>,
        address: IpAddr,
    ) -> Result<IssuedLogin> {
        let member = self.member(user_id);
        let user = self.get_user(user_id).ok();
        let proof = user.as_ref().map_or(Proof::Password, |user| self.required_proof(user, &member, principal));
        let refused = || {
            let message = "the PIN or password is wrong";
            Error::new(Code::InvalidCredentials, message).with_details(serde_json::json!({"needs": proof.as_str()}))
        };
        let user = user.ok_or_else(refused)?;
        let attempt_keys = [format!("address/{}", network_key(address)), format!("member/{user_id}")];
        let secret = match (proof, pin, password) {
            (Proof::Nothing, ..) => None,
            (Proof::Pin, Some(pin), None) => Some((member.pin_hash.as_deref(), pin)),
            (Proof::Pin | Proof::Password, _, Some(password)) => Some((user.password_hash.as_deref(), password)),
            _ => return Err(refused()),
        };
        if let Some((hash, secret)) = secret {
            self.count_attempt(&attempt_keys)?;
            let fits = secret.len() <= *account::PASSWORD_BYTES.end();
            if !(fits && self.passwords.verify(hash, secret).await?) {
                if password.is_none() {
                    self.count_wrong_pin(user_id);
                }
                return Err(refused());
            }
        }

        let _change = self.change_by(Some(principal)).await?;
        // PIN, password, role or folders may have changed while the proof was verified.
        let is_unchanged = |now: &User| *now == user && self.member(user_id) == member;
        let user = self.get_user(user_id).ok().filter(is_unchanged).ok_or_else(refused)?;
        if secret.is_some() {
            self.refund_attempt(&attempt_keys);
            self.reset_wrong_pins(user_id);
        }
        let device =
            self.read_directory().device_by_login(&principal.login_id).and_then(|one| one.login.device.clone());
        self.add_device(&user, device.as_deref(), Some(address), Some(&principal.login_id)).await
    }

    /// Changes the user's own picture, or with their password who may become them.
    ///
    /// # Errors
    /// Those of [`Self::change_member`]; `INVALID_CREDENTIALS` for a wrong password; `RATE_LIMITED`; `FORBIDDEN` for name, role and
    /// folders.
    pub async fn change_own_member(
        &self,
        principal: &Principal,
        change: RequestedChange,
        password: Option<&str>,
        address: IpAddr,
    ) -> Result<Member> {
        if change.username.is_some() || change.role.is_some() || change.folders.is_some() {
            return Err(Error::new(Code::Forbidden, "only admins choose names, roles and folders"));
        }
        if change.changes_access() {
            self.verify_own_password(principal, password.unwrap_or_default(), address).await?;
        }
        self.change_member(principal, &principal.user_id, change).await
    }

    /// Changes a user and their record as a member, for an admin or for the user: all of it, or nothing. Their devices have the new
    /// name and role at once. A user who becomes an admin is no longer open or restricted to folders.
    ///
    /// # Errors
    /// `VALIDATION_ERROR` for an invalid name or PIN, and for an admin who would be open or restricted; `CONFLICT` for a name in use,
    /// for the last admin and for the declared one; `NOT_FOUND`; `STORAGE_FULL`; `UNAUTHORIZED` when the login of the request ended
    /// meanwhile, `FORBIDDEN` when it is no longer an admin's.
    pub async fn change_member(&self, by: &Principal, user_id: &str, change: RequestedChange) -> Result<Member> {
        let RequestedChange { username, role, picture, pin, is_open, folders } = change;
        check_folders(folders.iter().flatten().flatten())?;
        let pin_hash = match pin {
            None => None,
            Some(None) => Some(None),
            Some(Some(pin)) => {
                validate_pin(&pin).map_err(|fault| Error::invalid_field("pin", fault))?;
                Some(Some(self.passwords.hash(&pin).await?))
            }
        };
        let _change = self.change_by(Some(by)).await?;
        let present = self.get_user(user_id)?;
        let user = self.changed_user(&present, username.as_deref(), role)?;
        let is_new_pin = pin_hash.is_some();
        let mut member = self.member(user_id);
        if user.role != present.role && user.role == Role::Admin {
            member.apply(MemberChange { is_open: Some(false), folders: Some(None), ..MemberChange::default() });
        }
        member.apply(MemberChange { picture, pin_hash, is_open, folders });
        if user.role == Role::Admin && member.is_open {
            return Err(Error::invalid_field("isOpen", "must be false for an admin"));
        }
        if user.role == Role::Admin && member.folders.is_some() {
            return Err(Error::invalid_field("folders", "must be null for an admin"));
        }
        let mut batch = Batch::default();
        if user != present {
            batch.put(Tree::Users, user_id, &user)?;
        }
        batch.put(Tree::Household, user_id, &member)?;
        self.store.write(batch).await?;
        let mut directory = self.write_directory();
        directory.put_user(user);
        directory.put_member(user_id, member.clone());
        drop(directory);
        if is_new_pin {
            self.reset_wrong_pins(user_id);
        }
        Ok(member)
    }

    /// Adds the removal of a user's PIN to a batch; returns the member without it. The caller holds `change_lock`.
    pub(super) fn add_pin_removal(&self, user_id: &str, batch: &mut Batch) -> Result<Option<Member>> {
        let member = self.read_directory().member(user_id).filter(|member| member.pin_hash.is_some()).cloned();
        let without_pin = member.map(|member| Member { pin_hash: None, ..member });
        if let Some(member) = &without_pin {
            batch.put(Tree::Household, user_id, member)?;
        }
        Ok(without_pin)
    }

    fn wrong_pins(&self, user_id: &str) -> u32 {
        self.wrong_pins.lock().unwrap_or_else(PoisonError::into_inner).get(user_id).copied().unwrap_or(0)
    }

    /// Counts a wrong PIN of a user, who exists: the counts are bounded by the users.
    fn count_wrong_pin(&self, user_id: &str) {
        let mut counts = self.wrong_pins.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(user_id.to_owned()).or_default() += 1;
    }

    pub(super) fn reset_wrong_pins(&self, user_id: &str) {
        self.wrong_pins.lock().unwrap_or_else(PoisonError::into_inner).remove(user_id);
    }
}

/// Checks the paths of folders that a user is to see; whether they are media folders is decided when the user requests something.
fn check_folders<'a>(mut folders: impl Iterator<Item = &'a String> + Clone) -> Result<()> {
    if folders.clone().count() > MAX_FOLDERS {
        return Err(Error::invalid_field("folders", format!("must be at most {MAX_FOLDERS} paths, or null for all")));
    }
    folders.try_for_each(|folder| check_absolute(folder).map(drop))
}
