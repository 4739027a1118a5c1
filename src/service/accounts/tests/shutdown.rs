//! The last uses of devices and stream tokens, stored at shutdown.

use super::*;

#[tokio::test]
async fn shutdown_stores_every_last_use_in_two_changes() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let mut tokens = Vec::new();
    for _ in 0..60 {
        tokens.push(accounts.issue_token("ada", Role::User).await.unwrap());
    }
    let ada = accounts.user_by_name("ada").unwrap().id;
    let (_, stream) = accounts.add_stream_token(None, &ada, "Kodi", None, None).await.unwrap();
    clock.advance(Duration::from_secs(600));
    for token in &tokens {
        accounts.authenticate(token).unwrap();
    }
    accounts.authenticate_stream(&stream).unwrap();
    let (seen, before) = (accounts.devices(&ada), journal_changes(&dir));
    let used = accounts.stream_tokens(&ada)[0].last_used_at;
    assert!(used.is_some() && seen.iter().all(|device| device.login.last_seen_at > device.login.created_at));
    accounts.flush().await.unwrap();
    assert_eq!(journal_changes(&dir), before + 2, "one for the devices, one for the stream tokens");
    accounts.flush().await.unwrap();
    assert_eq!(journal_changes(&dir), before + 2, "nothing is left to store");

    let accounts = restart(accounts, &dir, &clock);
    let logins = |devices: Vec<DeviceView>| devices.into_iter().map(|device| device.login).collect::<Vec<_>>();
    assert_eq!(logins(accounts.devices(&ada)), logins(seen));
    assert_eq!(accounts.stream_tokens(&ada)[0].last_used_at, used);
}
