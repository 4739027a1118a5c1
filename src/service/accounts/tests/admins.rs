//! The first admin, the last one, and the one that the configuration declares.

use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::domain::visibility::Visibility;

#[tokio::test]
async fn the_setup_code_creates_one_admin_within_a_day() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let file = dir.path().join("setup-code");
    let code = accounts.prepare().await.unwrap().unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), code);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    for wrong in ["", "aaaaa", &code[1..], &format!("{code}a"), "a a"] {
        let tried = accounts.set_up(wrong, "ada", "correct horse", None, AWAY).await;
        assert_eq!(error_code(tried), Code::InvalidCredentials);
    }
    assert_eq!(error_code(accounts.set_up(&code, "ada", "correct horse", None, AWAY).await), Code::RateLimited);
    assert_eq!(error_code(accounts.set_up(&code, "ada", "short", None, HOME).await), Code::ValidationError);
    clock.advance(DAY);
    assert_eq!(error_code(accounts.set_up(&code, "ada", "correct horse", None, HOME).await), Code::InvalidCredentials);

    let code = accounts.prepare().await.unwrap().unwrap();
    let typed = code.to_uppercase().replace('-', " ");
    let issued = accounts.set_up(&typed, "ada", "correct horse", Some("laptop"), HOME).await.unwrap();
    assert_eq!(accounts.authenticate(&issued.token).unwrap().role, Role::Admin);
    assert!(!file.exists() && !accounts.needs_setup());
    assert_eq!(error_code(accounts.set_up(&code, "eve", "correct horse", None, HOME).await), Code::Conflict);
    assert_eq!(accounts.prepare().await.unwrap(), None);
}

#[tokio::test]
async fn the_last_admin_stays_and_names_are_unique() {
    let TestAccounts { accounts, .. } = open_accounts();
    let ada = accounts.add_user(None, "Ada", Role::Admin, "correct horse").await.unwrap();
    assert_eq!(error_code(accounts.add_user(None, "ADA", Role::User, "correct horse").await), Code::Conflict);
    assert_eq!(error_code(accounts.add_user(None, "", Role::User, "correct horse").await), Code::ValidationError);
    assert_eq!(error_code(accounts.remove_user(&ada.id).await), Code::Conflict);
    accounts.add_user(None, "bob", Role::Admin, "correct horse").await.unwrap();
    let token = accounts.issue_token("ada", Role::Admin).await.unwrap();
    accounts.remove_user(&ada.id).await.unwrap();
    assert_eq!(error_code(accounts.authenticate(&token)), Code::Unauthorized);
    assert_eq!(error_code(accounts.remove_user(&ada.id).await), Code::NotFound);
    assert_eq!(accounts.users().iter().map(|user| user.username.as_str()).collect::<Vec<_>>(), ["bob"]);
}

/// The names and roles of all users.
fn names_and_roles(accounts: &Accounts) -> Vec<(String, Role)> {
    accounts.users().into_iter().map(|user| (user.username, user.role)).collect()
}

#[tokio::test]
async fn a_user_is_given_another_role_and_name_on_all_devices_at_once() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let ada = accounts.add_user(None, "Ada", Role::Admin, "correct horse").await.unwrap();
    let kid = accounts.add_user(None, "Kid", Role::User, "correct horse").await.unwrap();
    let tokens = [
        accounts.issue_token("kid", Role::User).await.unwrap(),
        accounts.issue_token("kid", Role::User).await.unwrap(),
    ];
    let admin = accounts.authenticate(&accounts.issue_token("ada", Role::Admin).await.unwrap()).unwrap();
    let role = |role| RequestedChange { role: Some(role), ..RequestedChange::default() };
    let name = |name: &str| RequestedChange { username: Some(name.to_owned()), ..RequestedChange::default() };

    assert_eq!(error_code(accounts.change_member(&admin, &ada.id, role(Role::User)).await), Code::Conflict);
    assert_eq!(error_code(accounts.change_member(&admin, &kid.id, name(" ADA ")).await), Code::Conflict);
    assert_eq!(error_code(accounts.change_member(&admin, &kid.id, name("")).await), Code::ValidationError);
    let restricted = RequestedChange {
        folders: Some(Some(vec!["/lib/films".to_owned()])),
        is_open: Some(true),
        ..RequestedChange::default()
    };
    accounts.change_member(&admin, &kid.id, restricted.clone()).await.unwrap();
    let still_open = RequestedChange { role: Some(Role::Admin), ..restricted };
    assert_eq!(error_code(accounts.change_member(&admin, &kid.id, still_open).await), Code::ValidationError);
    assert_eq!(names_and_roles(&accounts), [("Ada".to_owned(), Role::Admin), ("Kid".to_owned(), Role::User)]);

    let both = RequestedChange { role: Some(Role::Admin), ..name("Eve") };
    let member = accounts.change_member(&admin, &kid.id, both).await.unwrap();
    assert_eq!((member.is_open, member.folders), (false, None), "an admin is not restricted");
    for token in &tokens {
        let principal = accounts.authenticate(token).unwrap();
        assert_eq!((principal.username.as_str(), principal.role), ("Eve", Role::Admin));
        assert_eq!(principal.visibility, Visibility::All);
    }
    accounts.login("eve", "correct horse", None, HOME).await.unwrap();
    assert_eq!(error_code(accounts.login("kid", "correct horse", None, HOME).await), Code::InvalidCredentials);
    accounts.change_member(&admin, &kid.id, name("EVE")).await.unwrap();

    // Ada is no longer the last admin, and decides nothing more afterwards.
    accounts.change_member(&admin, &ada.id, role(Role::User)).await.unwrap();
    assert_eq!(error_code(accounts.change_member(&admin, &ada.id, role(Role::Admin)).await), Code::Forbidden);
    accounts.flush().await.unwrap();
    let accounts = restart(accounts, &dir, &clock);
    assert_eq!(names_and_roles(&accounts), [("Ada".to_owned(), Role::User), ("EVE".to_owned(), Role::Admin)]);
    assert_eq!(accounts.authenticate(&tokens[1]).unwrap().role, Role::Admin);
}

#[tokio::test]
async fn the_declared_admin_follows_its_file() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    drop(accounts);
    let file = dir.path().join("hash");
    let declared = DeclaredAdmin { username: "root".to_owned(), password_hash_file: file.clone() };
    let start = async |password: &str| {
        std::fs::write(&file, passwords::hash(password).unwrap() + "\n").unwrap();
        let accounts = reopen(dir.path(), &clock, |config| config.admin = Some(declared.clone()));
        assert_eq!(accounts.prepare().await.unwrap(), None, "no set-up code is needed");
        accounts
    };
    let accounts = start("correct horse").await;
    let issued = accounts.login("root", "correct horse", None, HOME).await.unwrap();
    assert_eq!(issued.user.role, Role::Admin);
    let root = accounts.authenticate(&issued.token).unwrap();
    accounts.add_user(None, "ada", Role::Admin, "correct horse").await.unwrap();
    for (username, role) in [(Some("toor".to_owned()), None), (None, Some(Role::User))] {
        let change = RequestedChange { username, role, ..RequestedChange::default() };
        assert_eq!(error_code(accounts.change_member(&root, &root.user_id, change).await), Code::Conflict);
    }
    drop(accounts);
    let accounts = start("battery staple").await;
    assert_eq!(error_code(accounts.authenticate(&issued.token)), Code::Unauthorized);
    accounts.login("root", "battery staple", None, HOME).await.unwrap();
    drop(accounts);
    std::fs::write(&file, "battery staple").unwrap();
    let accounts = reopen(dir.path(), &clock, |config| config.admin = Some(declared.clone()));
    assert_eq!(error_code(accounts.prepare().await), Code::Internal);
}
