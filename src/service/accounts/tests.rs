use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::domain::access::Role;

mod admins;
mod household;
mod resets;
mod shutdown;

const HOME: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 0, 2));
const AWAY: IpAddr = IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9));
const DAY: Duration = Duration::from_secs(86_400);

struct TestAccounts {
    accounts: Accounts,
    clock: Clock,
    dir: TempDir,
}

fn open_accounts() -> TestAccounts {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::default();
    clock.advance(Duration::ZERO);
    TestAccounts { accounts: reopen(dir.path(), &clock, |_| ()), clock, dir }
}

fn reopen(dir: &std::path::Path, clock: &Clock, change: impl FnOnce(&mut Config)) -> Accounts {
    let mut config = Config::new(dir.to_owned(), dir.join("cache"));
    change(&mut config);
    Accounts::open(&config, Store::open_waiting(dir).unwrap(), clock.clone()).unwrap()
}

fn restart(accounts: Accounts, dir: &TempDir, clock: &Clock) -> Accounts {
    drop(accounts);
    reopen(dir.path(), clock, |_| ())
}

fn error_code<T: std::fmt::Debug>(result: Result<T>) -> Code {
    result.unwrap_err().code
}

#[tokio::test]
async fn tokens_slide_expire_and_survive_a_restart_as_hashes() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let token = accounts.issue_token("ada", Role::Admin).await.unwrap();
    assert!(token.starts_with("hc_") && token.len() == 46, "{token}");
    let principal = accounts.authenticate(&token).unwrap();
    assert_eq!((principal.username.as_str(), principal.role), ("ada", Role::Admin));
    let grant = accounts.sign_grant(&principal, "stream/transcode/ts_1", clock.now().as_second() + 40 * 86_400);
    assert_eq!(error_code(accounts.authenticate(&token[..45])), Code::Unauthorized);

    clock.advance(29 * DAY);
    accounts.authenticate(&token).unwrap();
    accounts.flush().await.unwrap();
    drop(accounts);
    for file in std::fs::read_dir(dir.path().join("db")).unwrap().map(|entry| entry.unwrap().path()) {
        let bytes = if file.is_file() { std::fs::read(&file).unwrap() } else { Vec::new() };
        assert!(!bytes.windows(20).any(|part| part == &token.as_bytes()[3..23]), "a token lies in {}", file.display());
    }

    let accounts = reopen(dir.path(), &clock, |_| ());
    clock.advance(29 * DAY);
    assert_eq!(accounts.authenticate(&token).unwrap(), principal, "29 days after its last use");
    assert_eq!(error_code(accounts.redeem("stream/transcode/ts_1", &grant)), Code::SignatureExpired);
    clock.advance(31 * DAY);
    assert_eq!(error_code(accounts.authenticate(&token)), Code::TokenExpired);
    accounts.cleanup().await.unwrap();
    assert_eq!(error_code(accounts.authenticate(&token)), Code::TokenExpired);
    clock.advance(30 * DAY);
    accounts.cleanup().await.unwrap();
    assert_eq!(error_code(accounts.authenticate(&token)), Code::Unauthorized, "deleted in the end");
}

#[tokio::test]
async fn a_grant_ends_with_its_login_and_covers_one_resource() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let token = accounts.issue_token("ada", Role::User).await.unwrap();
    let principal = accounts.authenticate(&token).unwrap();
    let exp = clock.now().as_second() + 3600;
    let grant = accounts.sign_grant(&principal, "stream/file:/a", exp);
    assert_eq!(*accounts.redeem("stream/file:/a", &grant).unwrap(), principal.limited_to(exp));
    assert_eq!(error_code(accounts.redeem("stream/file:/b", &grant)), Code::SignatureInvalid);
    drop(accounts);

    keys::rotate(dir.path()).unwrap();
    let accounts = reopen(dir.path(), &clock, |_| ());
    accounts.redeem("stream/file:/a", &grant).unwrap();
    clock.advance(Duration::from_secs(3700));
    assert_eq!(error_code(accounts.redeem("stream/file:/a", &grant)), Code::SignatureExpired);
    let grant = accounts.sign_grant(&principal, "stream/file:/a", exp + 9_999);
    accounts.revoke(&principal.user_id, &principal.login_id).await.unwrap();
    assert_eq!(error_code(accounts.redeem("stream/file:/a", &grant)), Code::SignatureInvalid);
    assert_eq!(error_code(accounts.authenticate(&token)), Code::Unauthorized);
    let accounts = restart(accounts, &dir, &clock);
    assert_eq!(error_code(accounts.authenticate(&token)), Code::Unauthorized, "revoked for good");
}

#[tokio::test]
async fn a_signature_ends_with_the_signature_or_token_that_admitted_its_principal() {
    let TestAccounts { accounts, clock, .. } = open_accounts();
    let token = accounts.issue_token("ada", Role::User).await.unwrap();
    let principal = accounts.authenticate(&token).unwrap();
    let now = clock.now().as_second();
    let (minute, week, later) = (now + 60, now + 7 * 86_400, now + 400 * 86_400);
    assert_eq!(accounts.sign_link(&principal, "livetv/m3u", later).exp, week.to_string());
    assert!(accounts.sign_grant(&principal, "livetv/watch/1", later).starts_with(&week.to_string()));

    let link = accounts.sign_link(&principal, "livetv/watch/1", minute);
    let mut signed = accounts.redeem_link("livetv/watch/1", &link.token, &link.exp, &link.sig).unwrap();
    for generation in 0..3 {
        assert_eq!(signed.expires_at, Some(minute), "{generation}");
        assert_eq!(accounts.sign_link(&signed, "livetv/m3u", later).exp, minute.to_string());
        signed = accounts.redeem("livetv/watch/1", &accounts.sign_grant(&signed, "livetv/watch/1", later)).unwrap();
    }

    let end = Timestamp::from_second(minute).unwrap();
    let (_, secret) = accounts.add_stream_token(None, &principal.user_id, "TV", None, Some(end)).await.unwrap();
    let signed = accounts.authenticate_stream(&secret).unwrap();
    assert_eq!(accounts.sign_link(&signed, "livetv/m3u", later).exp, minute.to_string());
}

#[tokio::test]
async fn a_link_in_use_does_not_keep_its_login_alive() {
    let TestAccounts { accounts, clock, .. } = open_accounts();
    let token = accounts.issue_token("ada", Role::User).await.unwrap();
    let principal = accounts.authenticate(&token).unwrap();
    clock.advance(25 * DAY);
    let week = clock.now().as_second() + 7 * 86_400;
    let grant = accounts.sign_grant(&principal, "livetv/watch/1", week);
    let link = accounts.sign_link(&principal, "livetv/m3u", week);
    let open = || {
        let linked = accounts.redeem_link("livetv/m3u", &link.token, &link.exp, &link.sig);
        (accounts.redeem("livetv/watch/1", &grant), linked)
    };
    clock.advance(4 * DAY);
    assert!(matches!(open(), (Ok(_), Ok(_))));
    clock.advance(2 * DAY);
    assert_eq!(error_code(accounts.authenticate(&token)), Code::TokenExpired);
    let (granted, linked) = open();
    assert_eq!((error_code(granted), error_code(linked)), (Code::SignatureExpired, Code::SignatureExpired));
}

#[tokio::test]
async fn a_login_from_a_fast_clock_expires_nevertheless() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let years = 73 * 365 * DAY;
    clock.advance(years);
    let token = accounts.issue_token("ada", Role::User).await.unwrap();
    let user = accounts.authenticate(&token).unwrap().user_id.clone();
    let (_, stream) = accounts.add_stream_token(None, &user, "TV", None, None).await.unwrap();
    accounts.authenticate_stream(&stream).unwrap();
    accounts.flush().await.unwrap();
    drop(accounts);
    clock.set_back(years);
    let accounts = reopen(dir.path(), &clock, |_| ());
    accounts.authenticate(&token).unwrap();
    accounts.cleanup().await.unwrap();
    clock.advance(DAY);
    accounts.cleanup().await.unwrap();
    assert!(accounts.devices(&user)[0].login.last_seen_at <= clock.now());
    assert!(accounts.stream_tokens(&user)[0].last_used_at <= Some(clock.now()));
    let accounts = restart(accounts, &dir, &clock);
    clock.advance(31 * DAY);
    assert_eq!(error_code(accounts.authenticate(&token)), Code::TokenExpired);
}

#[tokio::test]
async fn a_slow_clock_signs_no_user_out() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let token = accounts.issue_token("ada", Role::User).await.unwrap();
    drop(accounts);
    // A machine without a clock battery, before it has reached a time server.
    let years = 50 * 365 * DAY;
    clock.set_back(years);
    let accounts = reopen(dir.path(), &clock, |_| ());
    accounts.authenticate(&token).unwrap();
    accounts.cleanup().await.unwrap();
    clock.advance(years);
    accounts.cleanup().await.unwrap();
    accounts.authenticate(&token).unwrap();
}

#[tokio::test]
async fn guessing_is_rate_limited_and_the_owner_is_never_locked_out() {
    let TestAccounts { accounts, clock, .. } = open_accounts();
    accounts.add_user(None, "Ada", Role::User, "correct horse").await.unwrap();
    let at_home = accounts.login("ada ", "correct horse", Some("tv"), HOME).await.unwrap();
    assert_eq!(at_home.user.username, "Ada");
    for _ in 0..20 {
        accounts.login("ada", "correct horse", None, HOME).await.expect("successful attempts are not counted");
    }
    for _ in 0..5 {
        assert_eq!(error_code(accounts.login("ADA", "guess", None, AWAY).await), Code::InvalidCredentials);
    }
    let refused = accounts.login("ada", "correct horse", None, AWAY).await.unwrap_err();
    assert_eq!((refused.code, refused.retry_after), (Code::RateLimited, Some(12)));
    let third = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
    assert_eq!(error_code(accounts.login("ada", "guess", None, third).await), Code::RateLimited, "counted per account");
    accounts.login("ada", "correct horse", None, HOME).await.expect("a known address is not limited");
    clock.advance(Duration::from_secs(12));
    accounts.login("ada", "correct horse", None, AWAY).await.expect("the right password works again");

    let (one, other) = (Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1), Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 9, 9, 9, 9));
    for n in 0..5 {
        let failed = accounts.login(&format!("unknown{n}"), "x", None, one.into()).await;
        assert_eq!(error_code(failed), Code::InvalidCredentials);
    }
    let refused = accounts.login("unknown9", "x", None, other.into()).await;
    assert_eq!(error_code(refused), Code::RateLimited, "counted per network");
}

#[tokio::test]
async fn unknown_names_and_wrong_passwords_get_the_same_answer() {
    let TestAccounts { accounts, .. } = open_accounts();
    accounts.add_user(None, "ada", Role::User, "correct horse").await.unwrap();
    let wrong = accounts.login("ada", "guess", None, HOME).await.unwrap_err();
    let unknown = accounts.login("bob", "guess", None, HOME).await.unwrap_err();
    assert_eq!((wrong.code, &wrong.message, &wrong.details), (unknown.code, &unknown.message, &unknown.details));
    assert_eq!(error_code(accounts.login("ada", &"x".repeat(5000), None, HOME).await), Code::InvalidCredentials);
    accounts.issue_token("token only", Role::User).await.unwrap();
    assert_eq!(error_code(accounts.login("token only", "", None, HOME).await), Code::InvalidCredentials);
}

#[tokio::test]
async fn a_password_change_signs_every_other_device_out() {
    let TestAccounts { accounts, .. } = open_accounts();
    accounts.add_user(None, "ada", Role::User, "correct horse").await.unwrap();
    let tv = accounts.login("ada", "correct horse", Some("tv"), HOME).await.unwrap();
    let phone = accounts.login("ada", "correct horse", Some("phone"), HOME).await.unwrap();
    let principal = accounts.authenticate(&phone.token).unwrap();
    let devices: Vec<_> = accounts.devices(&principal.user_id).into_iter().filter_map(|one| one.login.device).collect();
    assert_eq!(devices.len(), 2);
    let wrong = accounts.change_password(&principal, "guess", "battery staple", false, HOME).await;
    assert_eq!(error_code(wrong), Code::InvalidCredentials);
    let short = accounts.change_password(&principal, "correct horse", "short", false, HOME).await;
    assert_eq!(error_code(short), Code::ValidationError);
    accounts.change_password(&principal, "correct horse", "battery staple", false, HOME).await.unwrap();
    assert_eq!(error_code(accounts.authenticate(&tv.token)), Code::Unauthorized);
    accounts.authenticate(&phone.token).unwrap();
    assert_eq!(error_code(accounts.login("ada", "correct horse", None, HOME).await), Code::InvalidCredentials);
    accounts.login("ada", "battery staple", None, HOME).await.unwrap();
}

#[tokio::test]
async fn a_new_password_ends_stream_tokens_and_links_unless_tokens_are_kept() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let ada = accounts.add_user(None, "ada", Role::User, "correct horse").await.unwrap();
    let tv = accounts.login("ada", "correct horse", Some("tv"), HOME).await.unwrap();
    let (_, stream) = accounts.add_stream_token(None, &ada.id, "Kodi", None, None).await.unwrap();
    let hour = clock.now().as_second() + 3600;
    let sign = |principal: &Principal| accounts.sign_link(principal, "livetv/m3u", hour);
    let redeem = |one: &SignedParameters| accounts.redeem_link("livetv/m3u", &one.token, &one.exp, &one.sig).map(drop);
    let by_login = sign(&accounts.authenticate(&tv.token).unwrap());
    let by_stream = sign(&accounts.authenticate_stream(&stream).unwrap());

    let kept_access = KeptAccess { login: None, stream_tokens: true };
    let ended = accounts.set_password(None, &ada.id, "battery staple", kept_access).await.unwrap();
    assert_eq!(ended, EndedAccess { logins: 1, stream_tokens: 0 });
    assert_eq!(error_code(redeem(&by_login)), Code::SignatureInvalid, "signed by a device that is signed out");
    redeem(&by_stream).unwrap();
    let ended = accounts.set_password(None, &ada.id, "correct horse", KeptAccess::default()).await.unwrap();
    assert_eq!(ended, EndedAccess { logins: 0, stream_tokens: 1 });
    assert_eq!(error_code(accounts.authenticate_stream(&stream)), Code::Unauthorized);
    assert_eq!(error_code(redeem(&by_stream)), Code::SignatureInvalid);

    let phone = accounts.login("ada", "correct horse", Some("phone"), HOME).await.unwrap();
    let principal = accounts.authenticate(&phone.token).unwrap();
    let (_, own) = accounts.add_stream_token(None, &ada.id, "Kodi", None, None).await.unwrap();
    accounts.change_password(&principal, "correct horse", "battery staple", true, HOME).await.unwrap();
    accounts.authenticate_stream(&own).unwrap();
    accounts.change_password(&principal, "battery staple", "correct horse", false, HOME).await.unwrap();
    accounts.authenticate(&phone.token).unwrap();
    let (_, last) = accounts.add_stream_token(None, &ada.id, "Kodi", None, None).await.unwrap();
    let ended = accounts.revoke_all(&ada.id, KeptAccess::default()).await.unwrap();
    assert_eq!(ended, EndedAccess { logins: 1, stream_tokens: 1 });
    accounts.cleanup().await.unwrap();
    let accounts = restart(accounts, &dir, &clock);
    for secret in [stream, own, last] {
        assert_eq!(error_code(accounts.authenticate_stream(&secret)), Code::Unauthorized, "ended for good");
    }
}

#[tokio::test]
async fn cleanup_stores_no_token_while_one_is_revoked() {
    let TestAccounts { accounts, clock, dir: _dir } = open_accounts();
    let ada = accounts.add_user(None, "ada", Role::User, "correct horse").await.unwrap();
    let (_, secret) = accounts.add_stream_token(None, &ada.id, "Kodi", None, None).await.unwrap();
    clock.advance(DAY);
    accounts.authenticate_stream(&secret).unwrap();
    // A change is under way, such as a revocation: a token stored now would come back at the next start.
    let change = accounts.change_lock.lock().await;
    let cleanup = tokio::time::timeout(Duration::from_millis(200), accounts.cleanup_stream_tokens()).await;
    assert!(cleanup.is_err(), "it waits for the change");
    drop(change);
    accounts.cleanup_stream_tokens().await.unwrap();
}

#[tokio::test]
async fn a_user_has_at_most_a_hundred_devices() {
    let TestAccounts { accounts, clock, .. } = open_accounts();
    let first = accounts.issue_token("ada", Role::User).await.unwrap();
    clock.advance(Duration::from_secs(61));
    let second = accounts.issue_token("ada", Role::User).await.unwrap();
    for _ in 0..99 {
        accounts.issue_token("ada", Role::User).await.unwrap();
    }
    assert_eq!(error_code(accounts.authenticate(&first)), Code::Unauthorized);
    let principal = accounts.authenticate(&second).unwrap();
    assert_eq!(accounts.devices(&principal.user_id).len(), 100);
}

#[tokio::test]
async fn later_users_with_a_stored_duplicate_name_are_renamed() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let first = accounts.add_user(None, "Ada", Role::Admin, "first password").await.unwrap();
    let later = clock.now() + Duration::from_secs(1);
    for (id, created_at) in [("u_0", later), ("u_z", later + Duration::from_secs(1))] {
        let user = User { id: id.to_owned(), username: "ADA".to_owned(), created_at, ..first.clone() };
        accounts.store.put(Tree::Users, id, &user).await.unwrap();
    }
    drop(accounts);
    for _ in 0..2 {
        let accounts = reopen(dir.path(), &clock, |_| ());
        assert_eq!(accounts.user_by_name("ada").unwrap().id, first.id);
        assert_eq!(accounts.user_by_name("ADA-2").unwrap().id, "u_0");
        assert_eq!(accounts.user_by_name("ADA-3").unwrap().id, "u_z");
        assert_eq!(accounts.users().len(), 3);
    }
}

/// Number of changes in the journal, each of which is atomic.
fn journal_changes(dir: &TempDir) -> usize {
    std::fs::read_to_string(dir.path().join("journal")).unwrap().lines().count()
}

#[tokio::test]
async fn a_request_makes_one_change_in_the_journal() {
    let TestAccounts { accounts, clock, dir } = open_accounts();
    let code = accounts.prepare().await.unwrap().unwrap();
    let mut expected = journal_changes(&dir);
    let mut one_more = |change: &str| {
        expected += 1;
        assert_eq!(journal_changes(&dir), expected, "{change}");
    };
    accounts.set_up(&code, "root", "first password", None, HOME).await.unwrap();
    one_more("the first admin and their device");
    accounts.issue_token("ada", Role::User).await.unwrap();
    one_more("a user and their device");
    let ada = accounts.user_by_name("ada").unwrap().id;
    let last = accounts.issue_token("ada", Role::User).await.unwrap();
    one_more("a device");
    let (stream, _) = accounts.add_stream_token(None, &ada, "Kodi", None, None).await.unwrap();
    one_more("a stream token");
    let login_id = accounts.authenticate(&last).unwrap().login_id.clone();
    let kept_access = KeptAccess { login: Some(&login_id), stream_tokens: false };
    let ended = accounts.set_password(None, &ada, "second password", kept_access).await.unwrap();
    assert_eq!((ended.logins, ended.stream_tokens), (1, 1));
    one_more("a password, a device and a stream token");
    assert_eq!(accounts.stream_tokens(&ada).iter().filter(|token| token.id == stream.id).count(), 0);
    accounts.authenticate(&last).unwrap();
    accounts.remove_user(&ada).await.unwrap();
    one_more("a user and their device");
    assert_eq!(error_code(accounts.authenticate(&last)), Code::Unauthorized);
    let root = accounts.user_by_name("root").unwrap().id;
    for _ in 0..2 {
        accounts.issue_token("root", Role::Admin).await.unwrap();
        one_more("a device");
    }
    assert_eq!(accounts.revoke_all(&root, KeptAccess::default()).await.unwrap().logins, 3);
    one_more("all devices");
    let accounts = restart(accounts, &dir, &clock);
    assert_eq!((accounts.users().len(), accounts.devices(&root).len()), (1, 0));
}
