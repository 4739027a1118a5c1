//! A request that was admitted before a new password has no effect after it.

use futures_util::FutureExt;

use super::*;

/// The user `ada` with one device; returns its principal.
async fn signed_in(accounts: &Accounts, role: Role) -> Arc<Principal> {
    accounts.add_user(None, "ada", role, "correct horse").await.unwrap();
    let issued = accounts.login("ada", "correct horse", Some("phone"), HOME).await.unwrap();
    accounts.authenticate(&issued.token).unwrap()
}

#[tokio::test]
async fn a_password_verified_before_a_reset_does_not_replace_the_new_one() {
    for is_kept in [false, true] {
        let TestAccounts { accounts, .. } = open_accounts();
        let principal = signed_in(&accounts, Role::User).await;
        let change = accounts.change_password(&principal, "correct horse", "a stolen password", false, AWAY);
        let mut change = std::pin::pin!(change);
        // The first poll reads the old hash; the next one is after the reset.
        assert!(change.as_mut().now_or_never().is_none());
        let kept_access = KeptAccess { login: is_kept.then_some(principal.login_id.as_str()), stream_tokens: false };
        accounts.set_password(None, &principal.user_id, "battery staple", kept_access).await.unwrap();
        let expected = if is_kept { Code::InvalidCredentials } else { Code::Unauthorized };
        assert_eq!(error_code(change.await), expected);
        accounts.login("ada", "battery staple", None, HOME).await.unwrap();
    }
}

#[tokio::test]
async fn a_login_that_has_ended_adds_no_access_and_sets_no_password() {
    let TestAccounts { accounts, .. } = open_accounts();
    let principal = signed_in(&accounts, Role::Admin).await;
    let by = Some(&*principal);
    accounts.add_stream_token(by, &principal.user_id, "TV", None, None).await.unwrap();
    let bob = accounts.add_user(by, "bob", Role::User, "correct horse").await.unwrap();
    accounts.set_password(by, &bob.id, "battery staple", KeptAccess::default()).await.unwrap();

    accounts.set_password(None, &principal.user_id, "battery staple", KeptAccess::default()).await.unwrap();
    let token = accounts.add_stream_token(by, &principal.user_id, "TV", None, None).await;
    assert_eq!(error_code(token), Code::Unauthorized);
    assert_eq!(error_code(accounts.add_user(by, "eve", Role::Admin, "correct horse").await), Code::Unauthorized);
    let set = accounts.set_password(by, &bob.id, "correct horse", KeptAccess::default()).await;
    assert_eq!(error_code(set), Code::Unauthorized);
    assert_eq!((accounts.users().len(), accounts.stream_tokens(&principal.user_id).len()), (2, 0));
    accounts.login("bob", "battery staple", None, HOME).await.unwrap();
}
