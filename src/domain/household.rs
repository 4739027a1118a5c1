//! Members of the household: the picture of a user, their PIN, and who may change to them on a device that is signed in.

use serde::{Deserialize, Serialize};

use super::access::Role;
use super::visibility::Visibility;

/// Digits of a PIN.
const PIN_DIGITS: std::ops::RangeInclusive<usize> = 4..=8;

/// Wrong PINs in a row after which a user's PIN no longer counts, until their password was entered or they have a new PIN.
pub const MAX_WRONG_PINS: u32 = 20;

named_values! {
    /// The colour of a user's picture.
    pub enum PictureColour {
        Red = "red",
        Orange = "orange",
        Yellow = "yellow",
        Green = "green",
        Teal = "teal",
        Blue = "blue",
        Violet = "violet",
        Pink = "pink",
    }
}

named_values! {
    /// The symbol in a user's picture.
    pub enum PictureSymbol {
        Star = "star",
        Heart = "heart",
        Moon = "moon",
        Sun = "sun",
        Cat = "cat",
        Fish = "fish",
        Flower = "flower",
        Rocket = "rocket",
    }
}

/// The picture of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Picture {
    pub colour: PictureColour,
    /// None for the first letter of the name.
    pub symbol: Option<PictureSymbol>,
}

/// A user as a member of the household. Those who chose nothing have no record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub picture: Option<Picture>,
    /// Argon2id in PHC form.
    pub pin_hash: Option<String>,
    /// Whether devices change to the user without a PIN.
    pub is_open: bool,
    /// Paths of the media folders that the user sees; None for all.
    pub folders: Option<Vec<String>>,
}

/// A change of a member: an absent part stays, `Some(None)` removes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberChange {
    pub picture: Option<Option<Picture>>,
    pub pin_hash: Option<Option<String>>,
    pub is_open: Option<bool>,
    pub folders: Option<Option<Vec<String>>>,
}

impl Member {
    pub fn apply(&mut self, change: MemberChange) {
        let MemberChange { picture, pin_hash, is_open, folders } = change;
        self.picture = picture.unwrap_or(self.picture);
        self.is_open = is_open.unwrap_or(self.is_open);
        if let Some(pin_hash) = pin_hash {
            self.pin_hash = pin_hash;
        }
        if let Some(folders) = folders {
            self.folders = folders;
        }
    }

    /// The part of the library that a user of this role sees. Admins see all of it, because they could change this.
    pub fn visibility(&self, role: Role) -> Visibility {
        match (role, &self.folders) {
            (Role::User, Some(folders)) => Visibility::folders(folders),
            _ => Visibility::All,
        }
    }

    /// The proof that a device must give before it changes from a user who sees `current` to this one.
    ///
    /// Without a proof it changes only to an open user who is no admin and sees no more than the present one: otherwise a
    /// restricted user would only have to change to another one.
    pub fn required_proof(&self, role: Role, current: &Visibility) -> Proof {
        match &self.pin_hash {
            Some(_) => Proof::Pin,
            None if self.is_open && role != Role::Admin && self.visibility(role).is_within(current) => Proof::Nothing,
            None => Proof::Password,
        }
    }

    /// Whether other users see the member when they change the user of a device: only those who chose a way.
    pub fn is_offered(&self) -> bool {
        self.pin_hash.is_some() || self.is_open
    }
}

named_values! {
    /// The proof that a device must give before it changes to a user.
    pub enum Proof {
        Nothing = "nothing",
        /// The PIN, or the password.
        Pin = "pin",
        Password = "password",
    }
}

/// Checks a new PIN; the error is the reason it is invalid.
pub fn validate_pin(pin: &str) -> Result<(), &'static str> {
    let is_pin = PIN_DIGITS.contains(&pin.len()) && pin.bytes().all(|byte| byte.is_ascii_digit());
    if is_pin { Ok(()) } else { Err("must have 4 to 8 digits") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_are_four_to_eight_digits() {
        assert!(["0000", "12345678"].iter().all(|pin| validate_pin(pin).is_ok()));
        assert!(["", "123", "123456789", "12a4", "١٢٣٤", " 1234"].iter().all(|pin| validate_pin(pin).is_err()));
    }

    #[test]
    fn a_proof_is_needed_unless_an_open_user_sees_no_more() {
        let films = || Some(vec!["/lib/films".to_owned()]);
        let open = Member { is_open: true, ..Member::default() };
        let with_pin = Member { pin_hash: Some("hash".to_owned()), ..open.clone() };
        let child = Member { folders: films(), ..open.clone() };
        let proof = |member: &Member, role| member.required_proof(role, &Visibility::All);
        assert_eq!(proof(&open, Role::User), Proof::Nothing);
        assert_eq!(proof(&with_pin, Role::User), Proof::Pin);
        assert_eq!(proof(&Member::default(), Role::User), Proof::Password);
        assert_eq!((proof(&open, Role::Admin), proof(&with_pin, Role::Admin)), (Proof::Password, Proof::Pin));
        let seen_by_child = child.visibility(Role::User);
        assert_eq!(open.required_proof(Role::User, &seen_by_child), Proof::Password);
        assert_eq!(child.required_proof(Role::User, &seen_by_child), Proof::Nothing);
        assert_eq!(child.visibility(Role::Admin), Visibility::All);
    }

    #[test]
    fn a_change_leaves_what_it_does_not_name() {
        let picture = Picture { colour: PictureColour::Teal, symbol: None };
        let mut member = Member { picture: Some(picture), pin_hash: Some("hash".to_owned()), ..Member::default() };
        member.apply(MemberChange { pin_hash: Some(None), is_open: Some(true), ..MemberChange::default() });
        assert_eq!(member, Member { picture: Some(picture), is_open: true, ..Member::default() });
    }
}
