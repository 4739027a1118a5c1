//! A connection to PostgreSQL that blocks its thread, with a time limit on every wait.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Row, Statement};

use super::schema::{self, Head};
use super::target::Target;
use super::tls;
use crate::store::batch::Edit;
use crate::store::tree::Tree;

/// Time limits of connecting and of one statement. Reading all records has a limit for each one.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
pub const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// The error of a statement that took longer than [`STATEMENT_TIMEOUT`].
const NO_ANSWER: &str = "the database did not answer in time";

/// For every session: what is acknowledged is on the database's disk, and it notices within 11 s that this machine is gone.
const SESSION_SETTINGS: &str = "SET synchronous_commit = on; SET statement_timeout = '9s'; SET tcp_keepalives_idle = 5; \
     SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3; SET client_min_messages = warning";

/// Why there is no connection.
#[derive(Debug)]
pub enum ConnectError {
    /// It may be there later.
    Unreachable(String),
    /// It must be configured in another way.
    Unusable(String),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (Self::Unreachable(cause) | Self::Unusable(cause)) = self;
        f.write_str(cause)
    }
}

/// Why a group of changes was not committed.
pub enum CommitFailure {
    /// The database rolled it back.
    Rejected(String),
    /// Epoch or last number are another server's; nothing was written.
    Fenced,
    /// It may have been committed.
    ConnectionLost(String),
}

/// A connection with a runtime of its own. Dropping it closes it, and the database releases its lock.
pub struct Session {
    /// Taken on drop, because a runtime must not block when it is dropped inside another one.
    runtime: Option<Runtime>,
    client: Client,
    notifications: Arc<Notify>,
    /// Prepared for this connection by its first commit.
    commit_statement: Option<Statement>,
    target: Target,
}

impl Session {
    /// Connects, and creates tables and columns that are missing. Must be called outside of a runtime.
    pub fn connect(target: Target) -> Result<Self, ConnectError> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|cause| ConnectError::Unusable(cause.to_string()))?;
        let (client, notifications) = connect_client(&runtime, &target)?;
        let session = Self { runtime: Some(runtime), client, notifications, commit_statement: None, target };
        session.create_tables()?;
        Ok(session)
    }

    /// Replaces the connection by a new one.
    pub fn reconnect(&mut self) -> Result<(), ConnectError> {
        let connected = connect_client(self.runtime(), &self.target);
        if matches!(connected, Err(ConnectError::Unusable(_))) {
            // A server that waits for nothing else must get a new authority without a restart.
            self.target.read_certificates_again();
        }
        (self.client, self.notifications) = connected?;
        self.commit_statement = None;
        Ok(())
    }

    /// Takes the lock of the active server, if it is free. It is held as long as the connection.
    pub fn try_lock(&mut self) -> Result<bool, String> {
        let query = self.client.query_one("SELECT pg_try_advisory_lock($1)", &[&schema::LOCK_KEY]);
        self.limited(query)?.try_get(0).map_err(text)
    }

    /// Lets the database notify this connection about each commit.
    pub fn listen(&mut self) -> Result<(), String> {
        self.limited(self.client.batch_execute(schema::LISTEN))
    }

    /// Waits for the next notification, at most for `limit`.
    pub fn wait_for_notification(&mut self, limit: Duration) {
        let notifications = self.notifications.clone();
        // The caller looks for changes in any case.
        let _ = self.wait_for(limit, notifications.notified());
    }

    /// Begins a new epoch, after which no other server can commit; returns it. The caller must have the lock. `address` is where
    /// the other servers reach this one, if it listens.
    pub fn begin_epoch(&mut self, address: Option<&str>) -> Result<i64, String> {
        let statement = "UPDATE hearthcast_state SET epoch = epoch + 1, active_address = $1 RETURNING epoch";
        self.limited(self.client.query_one(statement, &[&address]))?.try_get(0).map_err(text)
    }

    /// The address of this machine as the database sees it; `None` over a local socket.
    pub fn client_ip(&mut self) -> Result<Option<IpAddr>, String> {
        let query = self.client.query_one("SELECT host(inet_client_addr())", &[]);
        let ip: Option<String> = self.limited(query)?.try_get(0).map_err(text)?;
        Ok(ip.and_then(|ip| ip.parse().ok()))
    }

    pub fn head(&self) -> Result<Head, String> {
        let statement =
            "SELECT state_id, epoch, last_number, signing_keys, layout, active_address FROM hearthcast_state";
        let row = self.limited(self.client.query_one(statement, &[]))?;
        let layout: i32 = row.try_get(4).map_err(text)?;
        if layout > schema::LAYOUT {
            return Err(format!("the database was written by a newer version (layout {layout})"));
        }
        let last_number: i64 = row.try_get(2).map_err(text)?;
        Ok(Head {
            state_id: row.try_get(0).map_err(text)?,
            epoch: row.try_get(1).map_err(text)?,
            last_number: last_number.max(0) as u64,
            signing_keys: row.try_get(3).map_err(text)?,
            active_address: row.try_get(5).map_err(text)?,
        })
    }

    /// Replaces the signing keys.
    pub fn set_signing_keys(&mut self, keys: &str) -> Result<(), String> {
        self.limited(self.client.execute("UPDATE hearthcast_state SET signing_keys = $1", &[&keys])).map(drop)
    }

    /// Commits changes whose numbers follow `last_number`, all or none.
    pub fn commit(&mut self, epoch: i64, last_number: u64, edits: &[&Edit]) -> Result<(), CommitFailure> {
        let (before, after) = (last_number as i64, last_number as i64 + edits.len() as i64);
        let numbers: Vec<i64> = (before + 1..=after).collect();
        let trees: Vec<&str> = edits.iter().map(|edit| edit.tree.name()).collect();
        let keys: Vec<&str> = edits.iter().map(|edit| edit.key.as_str()).collect();
        let json: Result<Vec<Option<&str>>, _> =
            edits.iter().map(|edit| edit.json.as_deref().map(std::str::from_utf8).transpose()).collect();
        let json = json.map_err(|cause| CommitFailure::Rejected(cause.to_string()))?;
        let oldest = after - schema::RETAINED_CHANGES;
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 8] =
            [&epoch, &before, &after, &numbers, &trees, &keys, &json, &oldest];
        let prepared = self.commit_statement.take();
        let query = async {
            let statement = match prepared {
                Some(statement) => statement,
                None => self.client.prepare(schema::COMMIT).await?,
            };
            let row = self.client.query_opt(&statement, &parameters).await?;
            Ok::<_, tokio_postgres::Error>((row, statement))
        };
        let outcome = self.runtime().block_on(async { tokio::time::timeout(STATEMENT_TIMEOUT, query).await });
        let outcome = outcome.map(|outcome| {
            outcome.map(|(row, statement)| {
                self.commit_statement = Some(statement);
                row
            })
        });
        match outcome {
            Ok(Ok(Some(_))) => Ok(()),
            Ok(Ok(None)) => Err(CommitFailure::Fenced),
            // An error with a code was rolled back, unless the database ended the session.
            Ok(Err(cause)) if !self.client.is_closed() && cause.code().is_some_and(is_about_statement) => {
                Err(CommitFailure::Rejected(text(cause)))
            }
            Ok(Err(cause)) => Err(CommitFailure::ConnectionLost(text(cause))),
            Err(_) => Err(CommitFailure::ConnectionLost(NO_ANSWER.to_owned())),
        }
    }

    /// The changes after `number`, in order; `None` when they are too many or some are no longer kept.
    pub fn changes_after(&mut self, number: u64) -> Result<Option<Vec<Edit>>, String> {
        // The active server may write more while a standby reads.
        let (number, last) = (number as i64, self.head()?.last_number as i64);
        let statement = "SELECT count(*), coalesce(sum(octet_length(json)), 0)::bigint FROM hearthcast_change \
             WHERE number > $1 AND number <= $2";
        let row = self.limited(self.client.query_one(statement, &[&number, &last]))?;
        let (count, bytes): (i64, i64) = (row.try_get(0).map_err(text)?, row.try_get(1).map_err(text)?);
        if count != last - number || count > schema::MAX_MISSING_CHANGES || bytes > schema::MAX_MISSING_BYTES {
            return Ok(None);
        }
        let statement =
            "SELECT number, tree, key, json FROM hearthcast_change WHERE number > $1 AND number <= $2 ORDER BY number";
        let rows = self.limited(self.client.query(statement, &[&number, &last]))?;
        rows.iter().map(|row| to_change(row).map(|(_, edit)| edit)).collect::<Result<_, _>>().map(Some)
    }

    /// Calls a function with the number and content of every record, ordered by number.
    pub fn for_each_record(&mut self, mut visit: impl FnMut(u64, Edit) -> Result<(), String>) -> Result<(), String> {
        let read = async {
            let limit = |cause: tokio::time::error::Elapsed| format!("the database did not answer in time: {cause}");
            let statement = "SET statement_timeout = 0";
            tokio::time::timeout(STATEMENT_TIMEOUT, self.client.batch_execute(statement))
                .await
                .map_err(limit)?
                .map_err(text)?;
            let statement = "SELECT number, tree, key, json FROM hearthcast_record ORDER BY number";
            let rows = self.client.query_raw(statement, Vec::<i32>::new()).await.map_err(text)?;
            let mut rows = pin!(rows);
            while let Some(row) =
                tokio::time::timeout(6 * STATEMENT_TIMEOUT, rows.try_next()).await.map_err(limit)?.map_err(text)?
            {
                let (number, edit) = to_change(&row)?;
                visit(number, edit)?;
            }
            let reset = self.client.batch_execute(SESSION_SETTINGS);
            tokio::time::timeout(STATEMENT_TIMEOUT, reset).await.map_err(limit)?.map_err(text)
        };
        self.runtime().block_on(read)
    }

    /// Replaces all records and the signing keys in one transaction, with another id of the state, so that every copy is made
    /// again. Returns the number of records.
    pub fn replace_all(
        &mut self,
        signing_keys: Option<&str>,
        records: impl Iterator<Item = Result<(Tree, String, Vec<u8>), String>>,
    ) -> Result<u64, String> {
        self.limited(self.client.batch_execute("BEGIN; DELETE FROM hearthcast_record; DELETE FROM hearthcast_change"))?;
        let row = self.limited(self.client.query_one("SELECT last_number FROM hearthcast_state FOR UPDATE", &[]))?;
        let first: i64 = row.try_get(0).map_err(text)?;
        let insert = "INSERT INTO hearthcast_record (tree, key, number, json) VALUES ($1, $2, $3, $4) \
             ON CONFLICT (tree, key) DO UPDATE SET number = excluded.number, json = excluded.json";
        let insert = self.limited(self.client.prepare(insert))?;
        let mut number = first;
        for record in records {
            let (tree, key, json) = record?;
            let json = String::from_utf8(json).map_err(|cause| cause.to_string())?;
            number += 1;
            self.limited(self.client.execute(&insert, &[&tree.name(), &key, &number, &json]))?;
        }
        let statement = "UPDATE hearthcast_state SET last_number = $1, epoch = epoch + 1, \
             state_id = gen_random_uuid()::text, signing_keys = coalesce($2, signing_keys)";
        self.limited(self.client.execute(statement, &[&number, &signing_keys]))?;
        self.limited(self.client.batch_execute("COMMIT"))?;
        Ok((number - first) as u64)
    }

    /// Whether there is a record.
    pub fn has_records(&mut self) -> Result<bool, String> {
        let query = self.client.query_one("SELECT EXISTS (SELECT FROM hearthcast_record)", &[]);
        self.limited(query)?.try_get(0).map_err(text)
    }

    /// Waits for `work` at most for `limit`; an error when it takes longer.
    pub fn wait_for<T>(&mut self, limit: Duration, work: impl Future<Output = T>) -> Result<T, ()> {
        self.runtime().block_on(async { tokio::time::timeout(limit, work).await }).map_err(|_| ())
    }

    fn create_tables(&self) -> Result<(), ConnectError> {
        let unusable = ConnectError::Unusable;
        let failed = |cause: String| match self.client.is_closed() || cause == NO_ANSWER {
            true => ConnectError::Unreachable(cause),
            false => unusable(cause),
        };
        let settings = "SELECT current_setting('fsync'), current_setting('server_encoding')";
        let row = self.limited(self.client.query_one(settings, &[])).map_err(failed)?;
        let setting = |index| row.try_get::<_, String>(index).map_err(|cause| unusable(text(cause)));
        if setting(0)? != "on" {
            return Err(unusable(
                "fsync is off in PostgreSQL, so a power cut would lose changes: set it to on".to_owned(),
            ));
        }
        if setting(1)? != "UTF8" {
            return Err(unusable("the encoding of the database must be UTF8".to_owned()));
        }
        // Two servers that create the tables at once disturb each other, so each does under a lock of this transaction.
        let (lock_key, create, add_columns) = (schema::LOCK_KEY + 1, schema::CREATE, schema::ADD_COLUMNS);
        let create = format!("BEGIN; SELECT pg_advisory_xact_lock({lock_key}); {create} {add_columns} COMMIT");
        let is_current = self.client.query_one(schema::IS_CURRENT, &[]);
        if !self.limited(is_current).and_then(|row| row.try_get::<_, bool>(0).map_err(text)).map_err(failed)? {
            self.limited(self.client.batch_execute(&create)).map_err(failed)?;
        }
        self.head().map(drop).map_err(failed)
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it is taken on drop only")
    }

    fn limited<T>(&self, query: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, String> {
        let outcome = self.runtime().block_on(async { tokio::time::timeout(STATEMENT_TIMEOUT, query).await });
        outcome.map_err(|_| NO_ANSWER.to_owned())?.map_err(text)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn connect_client(runtime: &Runtime, target: &Target) -> Result<(Client, Arc<Notify>), ConnectError> {
    let connect = async {
        let (client, notifications) = target.connect().await?;
        client.batch_execute(SESSION_SETTINGS).await?;
        Ok((client, notifications))
    };
    let connected = runtime.block_on(async { tokio::time::timeout(2 * CONNECT_TIMEOUT, connect).await });
    match connected {
        Ok(Ok(connected)) => Ok(connected),
        Ok(Err(cause)) => {
            let cause: tokio_postgres::Error = cause;
            if let Some(error) = tls::connect_error(&cause) {
                return Err(error);
            }
            let is_permanent = cause.code().is_some_and(is_about_statement);
            let cause = format!("PostgreSQL: {}", text(cause));
            Err(if is_permanent { ConnectError::Unusable(cause) } else { ConnectError::Unreachable(cause) })
        }
        Err(_) => Err(ConnectError::Unreachable("PostgreSQL does not answer".to_owned())),
    }
}

/// Whether the database rejected what it was given. Other errors (classes 08, 53, 57, 58) may pass: it starts, stops, or
/// lacks resources.
fn is_about_statement(code: &SqlState) -> bool {
    !["08", "53", "57", "58", "XX"].iter().any(|class| code.code().starts_with(class))
}

fn to_change(row: &Row) -> Result<(u64, Edit), String> {
    let (number, tree): (i64, &str) = (row.try_get(0).map_err(text)?, row.try_get(1).map_err(text)?);
    let known = Tree::from_name(tree).filter(|tree| tree.journaled());
    let tree = known.ok_or_else(|| {
        format!(
            "the database was written by a newer version: it has records of {tree}, which this version does not know"
        )
    })?;
    let json: Option<String> = row.try_get(3).map_err(text)?;
    let edit = Edit { tree, key: row.try_get(2).map_err(text)?, json: json.map(String::into_bytes) };
    Ok((number.max(0) as u64, edit))
}

/// The text of an error with its cause.
fn text(cause: tokio_postgres::Error) -> String {
    match (cause.as_db_error(), std::error::Error::source(&cause)) {
        (Some(fault), _) => format!("{} ({})", fault.message(), fault.code().code()),
        (None, Some(source)) => format!("{cause}: {source}"),
        (None, None) => cause.to_string(),
    }
}
