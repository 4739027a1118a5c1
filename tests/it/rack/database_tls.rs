//! TLS to PostgreSQL: what connects with it, and which servers are refused.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reqwest::StatusCode;

use super::certificates::{Authority, ServerCertificate};
use super::household::{Household, Server, program};

use crate::kit::wait::MAX_WAIT;

/// Sessions of our program, and whether all of them have TLS.
const SESSIONS: &str = "SELECT count(*), bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
     WHERE application_name = 'hearthcast'";

/// A household whose database has TLS, and the file of its authority.
struct SecureHousehold {
    household: Household,
    authority: Authority,
    ca_file: PathBuf,
    /// The address with `sslmode=require`.
    url: String,
}

impl SecureHousehold {
    /// Starts it; only connections with TLS are accepted.
    async fn start() -> Option<Self> {
        let mut household = Household::start().await?;
        let authority = Authority::new("authority");
        let ca_file = household.folder.path().join("authority.pem");
        std::fs::write(&ca_file, &authority.own.certificate).unwrap();
        household.database.use_tls(&authority.issue("127.0.0.1"));
        household.database.refuse_plain_connections();
        household.settings = vec![("HEARTHCAST_STATE_CA_FILE", ca_file.display().to_string())];
        let url = format!("{}?sslmode=require", household.database.url);
        Some(Self { household, authority, ca_file, url })
    }

    fn server(&self, name: &str) -> Server {
        self.household.server_with_database(name, &self.url)
    }

    /// Runs a command with the file of the authority; its output must have this part. `Err` for a command that must fail.
    fn expect(&self, arguments: &[&str], expected: Result<&str, &str>) {
        expect(&self.household, &self.url, Some(&self.ca_file), arguments, expected);
    }
}

fn expect(household: &Household, url: &str, ca_file: Option<&Path>, arguments: &[&str], expected: Result<&str, &str>) {
    let mut command = program(url, &household.folder.path().join("commands"));
    command.envs(ca_file.map(|file| ("HEARTHCAST_STATE_CA_FILE", file)));
    let output = command.args(arguments).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.success(), expected.is_ok(), "{arguments:?}: {text}");
    let (Ok(part) | Err(part)) = expected;
    assert!(text.contains(part), "{arguments:?} without {part:?}: {text}");
    assert!(!text.contains("postgres://"), "{arguments:?}: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_and_commands_use_tls() {
    let Some(mut secure) = SecureHousehold::start().await else { return };
    let plain = secure.household.database.url.clone();
    expect(&secure.household, &plain, None, &["export"], Err("no encryption"));
    let mut active = secure.server("a");
    active.wait_until_listening();
    assert_eq!(active.save(5).await.unwrap().status(), StatusCode::OK);
    let mut standby = secure.server("b");
    standby.wait_until_standby();
    assert_eq!(secure.household.database.sql(SESSIONS), "2|t");
    let backup = secure.household.folder.path().join("backup");
    let backup = backup.to_str().unwrap();
    secure.expect(&["export"], Ok("\"hearthcast\""));
    secure.expect(&["backup", backup], Ok("records in "));
    secure.expect(&["doctor"], Ok("ok   the database of the state can be used"));
    secure.expect(&["config", "check"], Ok("in PostgreSQL"));
    active.kill();
    standby.wait_until_listening();
    assert_eq!(standby.position().await, 5);

    // The file of the authority is read again when the new one has issued the certificate.
    secure.authority = Authority::new("another authority");
    std::fs::write(&secure.ca_file, &secure.authority.own.certificate).unwrap();
    let certificate = secure.authority.issue("127.0.0.1");
    secure.household.database.use_tls(&certificate);
    let began = Instant::now();
    while standby.save(6).await.unwrap().status() != StatusCode::OK {
        assert!(began.elapsed() < MAX_WAIT, "changes are accepted again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    standby.kill();
    secure.expect(&["keys", "rotate"], Ok("rotated"));
    secure.expect(&["import", "--replace", backup], Ok("records"));
    secure.expect(&["user", "list"], Ok("viewer"));
    secure.household.expect_dense_numbers();
}

/// A certificate of the server, the file of the authority, and the sentence with which commands fail.
type Refusal<'a> = (&'a ServerCertificate, Option<&'a Path>, &'a str);

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_be_verified_is_refused_with_the_reason() {
    let Some(mut secure) = SecureHousehold::start().await else { return };
    let valid = secure.authority.issue("127.0.0.1");
    let foreign = Authority::new("foreign authority").issue("127.0.0.1");
    // The same name, with another key.
    let forged = Authority::new("authority").issue("127.0.0.1");
    let other_name = secure.authority.issue("db.example");
    let expired = secure.authority.issue_until("127.0.0.1", 2020);
    let own = secure.authority.own.clone();
    let ca_file = secure.ca_file.clone();
    let trusted = Some(&*ca_file);
    let not_trusted = "the certificate of PostgreSQL is not trusted: set state_ca_file";
    let refusals: [Refusal; 6] = [
        (&valid, None, not_trusted),
        (&foreign, trusted, not_trusted),
        (&forged, trusted, not_trusted),
        (&other_name, trusted, "the certificate of PostgreSQL is not for 127.0.0.1: its names are db.example"),
        (&expired, trusted, "the certificate of PostgreSQL expired on 2020-01-01T00:00:00Z"),
        (
            &own,
            trusted,
            "the certificate of PostgreSQL is that of an authority: make one with basicConstraints CA:FALSE",
        ),
    ];
    for (certificate, ca_file, sentence) in refusals {
        secure.household.database.use_tls(certificate);
        expect(&secure.household, &secure.url, ca_file, &["export"], Err(sentence));
    }
    secure.expect(&["doctor"], Err("the certificate of PostgreSQL is that of an authority"));

    // A standby waits while a certificate is renewed.
    secure.household.database.use_tls(&expired);
    let mut server = secure.server("a");
    let log = secure.household.folder.path().join("a/log");
    let began = Instant::now();
    while !std::fs::read_to_string(&log)
        .unwrap()
        .contains("waiting for the database: the certificate of PostgreSQL expired")
    {
        assert!(began.elapsed() < MAX_WAIT, "it waits");
        std::thread::sleep(Duration::from_millis(50));
    }
    secure.household.database.use_tls(&valid);
    server.wait_until_listening();
    assert_eq!(server.position().await, 0);
    server.kill();

    // It does not wait for another name.
    secure.household.database.use_tls(&other_name);
    let mut server = secure.server("b");
    assert!(!server.child.wait().unwrap().success());
    let log = std::fs::read_to_string(secure.household.folder.path().join("b/log")).unwrap();
    assert!(log.contains("the certificate of PostgreSQL is not for 127.0.0.1"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_tls_at_the_server_or_with_wrong_settings_nothing_connects() {
    let Some(household) = Household::start().await else { return };
    let require = |url: &str| format!("{url}?sslmode=require");
    let url = household.database.url.clone();
    let file = |name: &str, text: &str| {
        let path = household.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let authority = file("authority.pem", &Authority::new("authority").own.certificate);
    let (empty, key) = (file("empty.pem", ""), file("key.pem", &Authority::new("authority").own.key));
    let damaged = file("damaged.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let missing = household.folder.path().join("missing.pem");
    let socket = "postgres://hearth@%2Frun%2Fpostgresql/postgres".to_owned();
    let verify = format!("{url}?sslmode=verify-full");
    let without_tls =
        "PostgreSQL has no TLS, which sslmode=require in state demands: set ssl = on in its postgresql.conf";
    expect(&household, &require(&url), Some(&authority), &["export"], Err(without_tls));
    expect(&household, &require(&url), Some(&authority), &["doctor"], Err(without_tls));
    // It does not connect.
    expect(&household, &require(&url), Some(&authority), &["config", "check"], Ok("in PostgreSQL"));
    let settings: [(String, &Path, &str); 7] = [
        (require(&url), &missing, "missing.pem: it cannot be read: No such file or directory"),
        (require(&url), &empty, "empty.pem: it has no certificate in PEM format"),
        (require(&url), &key, "key.pem: it has no certificate in PEM format"),
        (require(&url), &damaged, "damaged.pem: it has a damaged certificate"),
        (url.clone(), &authority, "state_ca_file is set, but state has no sslmode=require"),
        (require(&socket), &authority, "sslmode=require in state needs the name or address of a host"),
        (verify, &authority, "sslmode in state must be disable or require"),
    ];
    // A package may be built on a machine without the file.
    let only_settings = ["config", "check", "--settings-only"];
    expect(&household, &require(&url), Some(&missing), &only_settings, Ok("in PostgreSQL"));
    for (url, ca_file, sentence) in &settings {
        for arguments in [&["config", "check"][..], &["export"]] {
            expect(&household, url, Some(*ca_file), arguments, Err(sentence));
        }
    }
}
