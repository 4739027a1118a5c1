//! Commands on a state in PostgreSQL: with an active server and without, and with a database that cannot be used.

use std::net::TcpListener;
use std::path::Path;

use super::household::{Household, program};

const PASSWORD: &str = "hunter2-of-the-database";

/// The outcome of a command: success with this in its output, or a failure with this message.
type Expected = Result<&'static str, &'static str>;

/// Runs a command with a variable PGPASSWORD; the address and the password must not be in its output.
fn expect(arguments: &[&str], state: &str, folder: &Path, expected: Expected) {
    let output = program(state, folder).args(arguments).env("PGPASSWORD", PASSWORD).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.success(), expected.is_ok(), "{arguments:?}: {text}");
    let (Ok(part) | Err(part)) = expected;
    assert!(text.contains(part), "{arguments:?} without {part:?}: {text}");
    assert!(!text.contains(PASSWORD) && !text.contains("postgres://"), "{arguments:?}: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_on_a_database_do_their_work_or_say_why_not() {
    let Some(household) = Household::start().await else { return };
    let folder = household.folder.path().join("commands");
    let (backup, empty) = (folder.join("backup"), folder.join("empty"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(&empty, "").unwrap();
    let (backup, empty) = (backup.to_str().unwrap(), empty.to_str().unwrap());
    let url = household.database.url.clone();

    let mut server = household.server("a");
    server.wait_until_listening();
    let in_use = "the database is in use by a running server";
    let with_server: [(&[&str], Expected); 7] = [
        (&["export"], Ok("\"hearthcast\"")),
        (&["backup", backup], Ok("records in ")),
        (&["import", "--replace", backup], Err(in_use)),
        (&["user", "list"], Err("in use by a running server: use GET /api/users, or stop the server first")),
        (&["user", "revoke", "viewer"], Err("use POST /api/users/{id}/password, or stop the server first")),
        (&["doctor"], Ok("ok   the database of the state can be used")),
        (&["config", "check"], Ok("in PostgreSQL")),
    ];
    for (arguments, expected) in with_server {
        expect(arguments, &url, &folder, expected);
    }
    assert_eq!(server.save(5).await.unwrap().status(), 200, "the server is still the active one");
    server.kill();
    let without_server: [(&[&str], Expected); 8] = [
        (&["export"], Ok("\"hearthcast\"")),
        (&["backup", backup], Ok("records in ")),
        (&["import", backup], Err("already contains a state: use --replace")),
        (&["import", "--replace", empty], Err("the export has no last line: it is truncated")),
        (&["import", "--replace", backup], Ok("records")),
        (&["user", "list"], Ok("viewer")),
        (&["doctor"], Ok("ok   the database of the state can be used")),
        (&["config", "check"], Ok("in PostgreSQL")),
    ];
    for (arguments, expected) in without_server {
        expect(arguments, &url, &folder, expected);
    }

    let secured = household.database.add_user_with_password("secured", "another");
    household.database.sql("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
    let free_port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).unwrap().port();
    let other_database = |name: &str| format!("{}/{name}", url.rsplit_once('/').unwrap().0);
    let unusable = [
        (format!("postgres://secured:{PASSWORD}@{secured}"), "password authentication failed for user \"secured\""),
        (format!("postgres://secured@{secured}"), "password authentication failed for user \"secured\""),
        (format!("postgres://hearth:{PASSWORD}@127.0.0.1:{free_port}/postgres"), "Connection refused"),
        (other_database("latin"), "the encoding of the database must be UTF8"),
        (other_database("missing"), "database \"missing\" does not exist"),
        (format!("postgres://hearth:{PASSWORD}@127.0.0.1:no-port/postgres"), "state is not a valid address"),
    ];
    let commands: [&[&str]; 6] = [
        &["export"],
        &["backup", backup],
        &["import", "--replace", backup],
        &["user", "list"],
        &["doctor"],
        &["config", "check"],
    ];
    let kept = std::fs::read(backup).unwrap();
    for (state, message) in &unusable {
        for arguments in commands {
            // It does not connect.
            let connects = arguments != ["config", "check"] || message.contains("address");
            expect(arguments, state, &folder, if connects { Err(message) } else { Ok("in PostgreSQL") });
        }
    }
    assert_eq!(std::fs::read(backup).unwrap(), kept, "a backup that fails leaves the former one");
    let tables = household.database.sql_in("latin", "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'");
    assert_eq!(tables, "0", "nothing was made in a database with another encoding");
}
