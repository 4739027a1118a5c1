//! The household: a device changes its user with a PIN or a password, or without a proof.

use super::*;
use crate::domain::household::{MAX_WRONG_PINS, Picture, PictureColour, PictureSymbol, Proof};

/// The users ada (an admin), bob and kid, each with the password `correct horse`, and the principal of bob's device.
async fn family(accounts: &Accounts) -> Arc<Principal> {
    accounts.add_user(None, "ada", Role::Admin, "correct horse").await.unwrap();
    for name in ["bob", "kid"] {
        accounts.add_user(None, name, Role::User, "correct horse").await.unwrap();
    }
    sign_in(accounts, "bob").await
}

async fn sign_in(accounts: &Accounts, name: &str) -> Arc<Principal> {
    let issued = accounts.login(name, "correct horse", Some("TV"), HOME).await.unwrap();
    accounts.authenticate(&issued.token).unwrap()
}

fn id_of(accounts: &Accounts, name: &str) -> String {
    accounts.user_by_name(name).unwrap().id
}

/// Changes a member as its own user.
async fn change(accounts: &Accounts, name: &str, change: RequestedChange) -> Result<()> {
    let own = sign_in(accounts, name).await;
    accounts.change_own_member(&own, change, Some("correct horse"), HOME).await.map(drop)
}

fn pin(pin: &str) -> RequestedChange {
    RequestedChange { pin: Some(Some(pin.to_owned())), ..RequestedChange::default() }
}

#[tokio::test]
async fn a_pin_changes_the_user_of_a_device_and_ends_its_former_login() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let device = family(&accounts).await;
    let ada = id_of(&accounts, "ada");
    change(&accounts, "ada", pin("2468")).await.unwrap();
    let picture = Picture { colour: PictureColour::Teal, symbol: Some(PictureSymbol::Cat) };
    let only_picture = RequestedChange { picture: Some(Some(picture)), ..RequestedChange::default() };
    let admin = sign_in(&accounts, "ada").await;
    accounts.change_own_member(&admin, only_picture, None, HOME).await.unwrap();
    let accounts = {
        accounts.flush().await.unwrap();
        restart(accounts, &dir, &clock)
    };
    let offered = accounts.offered_members(&device);
    let names: Vec<_> = offered.iter().map(|one| (one.username.as_str(), one.proof, one.is_current)).collect();
    assert_eq!(names, [("ada", Proof::Pin, false), ("bob", Proof::Password, true)], "kid chose no way");
    assert_eq!(offered[0].picture, Some(picture));

    for (pin, password) in [(Some("1357"), None), (None, None), (None, Some("wrong horse"))] {
        let refused = accounts.change_user(&device, &ada, pin, password, HOME).await.unwrap_err();
        assert_eq!((refused.code, &refused.details.unwrap()["needs"]), (Code::InvalidCredentials, &"pin".into()));
    }
    let issued = accounts.change_user(&device, &ada, Some("2468"), None, HOME).await.unwrap();
    let principal = accounts.authenticate(&issued.token).unwrap();
    assert_eq!((principal.username.as_str(), principal.role), ("ada", Role::Admin));
    assert_eq!(accounts.devices(&ada)[0].login.device.as_deref(), Some("TV"), "it is the same device");
    let again = accounts.change_user(&device, &ada, Some("2468"), None, HOME).await;
    assert_eq!(error_code(again), Code::Unauthorized, "the former login has ended");
    clock.advance(Duration::from_secs(60));
    accounts.change_user(&principal, &id_of(&accounts, "bob"), None, Some("correct horse"), HOME).await.unwrap();
}

#[tokio::test]
async fn attempts_are_limited_at_home_too_and_a_guessed_pin_no_longer_counts() {
    let TestAccounts { accounts, clock, .. } = open_accounts();
    let device = family(&accounts).await;
    let kid = id_of(&accounts, "kid");
    change(&accounts, "kid", pin("2468")).await.unwrap();
    let attempt = async |pin: &str| accounts.change_user(&device, &kid, Some(pin), None, HOME).await;
    let mut wrong = 0;
    while wrong < MAX_WRONG_PINS {
        match error_code(attempt("0000").await) {
            Code::RateLimited => clock.advance(Duration::from_secs(60)),
            code => {
                assert_eq!(code, Code::InvalidCredentials);
                wrong += 1;
            }
        }
        assert!(clock.now() < Timestamp::now() + Duration::from_secs(3600));
    }
    clock.advance(Duration::from_secs(60));
    let refused = attempt("2468").await.unwrap_err();
    assert_eq!(&refused.details.unwrap()["needs"], "password", "the right PIN comes too late");
    let proof = |name: &str| accounts.offered_members(&device).into_iter().find(|one| one.username == name).unwrap();
    assert_eq!(proof("kid").proof, Proof::Password);
    change(&accounts, "kid", pin("1357")).await.unwrap();
    attempt("1357").await.unwrap();
}

#[tokio::test]
async fn without_a_proof_a_device_changes_only_to_open_users_who_see_no_more() {
    let TestAccounts { accounts, .. } = open_accounts();
    let device = family(&accounts).await;
    let admin = sign_in(&accounts, "ada").await;
    let open = || RequestedChange { is_open: Some(true), ..RequestedChange::default() };
    let films = || RequestedChange { folders: Some(Some(vec!["/lib/films".to_owned()])), ..open() };
    change(&accounts, "bob", open()).await.unwrap();
    assert_eq!(error_code(change(&accounts, "ada", open()).await), Code::ValidationError, "never an admin");
    assert_eq!(error_code(change(&accounts, "kid", films()).await), Code::Forbidden, "only admins choose folders");
    accounts.change_member(&admin, &id_of(&accounts, "kid"), films()).await.unwrap();

    let issued = accounts.change_user(&device, &id_of(&accounts, "kid"), None, None, HOME).await.unwrap();
    let child = accounts.authenticate(&issued.token).unwrap();
    assert!(!child.visibility.sees_root(std::path::Path::new("/lib/other")));
    let back = accounts.change_user(&child, &id_of(&accounts, "bob"), None, None, HOME).await.unwrap_err();
    assert_eq!(&back.details.unwrap()["needs"], "password", "bob sees more");
    let own = accounts.change_own_member(&child, pin("2468"), Some("wrong horse"), AWAY).await;
    assert_eq!(error_code(own), Code::InvalidCredentials, "a PIN needs the password");
}

#[tokio::test]
async fn a_new_password_removes_the_pin_and_a_removed_user_the_record() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let device = family(&accounts).await;
    change(&accounts, "kid", pin("2468")).await.unwrap();
    let kid = id_of(&accounts, "kid");
    accounts.set_password(None, &kid, "battery staple", KeptAccess::default()).await.unwrap();
    let accounts = restart(accounts, &dir, &clock);
    let refused = accounts.change_user(&device, &kid, Some("2468"), None, HOME).await.unwrap_err();
    assert_eq!(&refused.details.unwrap()["needs"], "password");
    accounts.remove_user(&kid).await.unwrap();
    assert!(accounts.store.keys(Tree::Household, "").unwrap().is_empty());
}
