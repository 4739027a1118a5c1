//! The last uses of devices and stream tokens, stored at shutdown.

use super::*;

#[tokio::test]
async fn shutdown_stores_every_last_use_in_two_changes() {
    let test_accounts = open_accounts();
    let mut tokens = Vec::new();
    for _ in 0..60 {
        tokens.push(test_accounts.accounts.issue_token("ada", Role::User).await.unwrap());
    }
    let ada = test_accounts.accounts.user_by_name("ada").unwrap().id;
    let (_, stream) = test_accounts.accounts.add_stream_token(None, &ada, "Kodi", None, None).await.unwrap();
    test_accounts.clock.advance(Duration::from_secs(600));
    for token in &tokens {
        test_accounts.accounts.authenticate(token).unwrap();
    }
    test_accounts.accounts.authenticate_stream(&stream).unwrap();
    let (seen, before) = (test_accounts.accounts.devices(&ada), journal_changes(&test_accounts));
    let used = test_accounts.accounts.stream_tokens(&ada)[0].last_used_at;
    assert!(used.is_some() && seen.iter().all(|device| device.login.last_seen_at > device.login.created_at));
    test_accounts.accounts.flush().await.unwrap();
    assert_eq!(journal_changes(&test_accounts), before + 2, "one for the devices, one for the stream tokens");
    test_accounts.accounts.flush().await.unwrap();
    assert_eq!(journal_changes(&test_accounts), before + 2, "nothing is left to store");

    let TestAccounts { accounts, clock, dir } = test_accounts;
    drop(accounts);
    let accounts = reopen(dir.path(), &clock, |_| ());
    let logins = |devices: Vec<DeviceView>| devices.into_iter().map(|device| device.login).collect::<Vec<_>>();
    assert_eq!(logins(accounts.devices(&ada)), logins(seen));
    assert_eq!(accounts.stream_tokens(&ada)[0].last_used_at, used);
}
