//! Tables and statements. Keys are compared by their bytes. The text of a record is its JSON.

/// Version of the tables; raised when older programs cannot use them.
pub const LAYOUT: i32 = 1;

/// Changes that stay in the table of changes, with which a copy catches up; an older one is made again.
pub const RETAINED_CHANGES: i64 = 100_000;

/// Most changes, and bytes of their JSON, with which a copy catches up; with more it is made again.
pub const MAX_MISSING_CHANGES: i64 = 20_000;
pub const MAX_MISSING_BYTES: i64 = 64 << 20;

/// Key of the advisory lock that the active server has.
pub const LOCK_KEY: i64 = 0x6865_6172_7468;

/// The row of the state has the signing keys from the start, so that all servers have the same.
pub const CREATE: &str = r#"
CREATE TABLE IF NOT EXISTS hearthcast_state (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    layout integer NOT NULL,
    state_id text NOT NULL DEFAULT gen_random_uuid()::text,
    epoch bigint NOT NULL DEFAULT 0,
    last_number bigint NOT NULL DEFAULT 0,
    signing_keys text NOT NULL DEFAULT
        encode(sha256((gen_random_uuid()::text || gen_random_uuid()::text)::bytea), 'hex') || E'\n'
);
CREATE TABLE IF NOT EXISTS hearthcast_change (
    number bigint PRIMARY KEY,
    tree text NOT NULL,
    key text NOT NULL,
    json text,
    epoch bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS hearthcast_record (
    tree text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    json text NOT NULL,
    PRIMARY KEY (tree, key)
);
INSERT INTO hearthcast_state (layout) VALUES (1) ON CONFLICT DO NOTHING;
"#;

/// Columns that the first version of the tables lacks; none of them disturbs servers of that version. `ALTER TABLE` waits for
/// readers such as a backup, and commits of the active server wait for it, so it soon gives up.
pub const ADD_COLUMNS: &str =
    "SET LOCAL lock_timeout = '2s'; ALTER TABLE hearthcast_state ADD COLUMN IF NOT EXISTS active_address text;";

/// Whether the tables have all columns.
pub const IS_CURRENT: &str = "SELECT EXISTS (SELECT FROM pg_attribute \
     WHERE attrelid = to_regclass('hearthcast_state') AND attname = 'active_address')";

/// One group of changes, in one statement and so in one transaction. Its first part changes the row of the state only if
/// epoch and last number are those of this server, and the others write nothing without it. It returns one row then, and notifies
/// the standbys.
pub const COMMIT: &str = r"
WITH head AS (
    UPDATE hearthcast_state SET last_number = $3 WHERE epoch = $1 AND last_number = $2 RETURNING epoch
), input AS (
    SELECT i.number, i.tree, i.key, i.json, head.epoch
    FROM unnest($4::bigint[], $5::text[], $6::text[], $7::text[]) AS i(number, tree, key, json), head
), logged AS (
    INSERT INTO hearthcast_change (number, tree, key, json, epoch)
    SELECT number, tree, key, json, epoch FROM input
), pruned AS (
    DELETE FROM hearthcast_change WHERE number <= $8 AND EXISTS (SELECT FROM head)
), newest AS (
    SELECT DISTINCT ON (tree, key) tree, key, number, json FROM input ORDER BY tree, key, number DESC
), removed AS (
    DELETE FROM hearthcast_record AS r USING newest AS n WHERE n.json IS NULL AND r.tree = n.tree AND r.key = n.key
), written AS (
    INSERT INTO hearthcast_record (tree, key, number, json)
    SELECT tree, key, number, json FROM newest WHERE json IS NOT NULL
    ON CONFLICT (tree, key) DO UPDATE SET number = excluded.number, json = excluded.json
)
SELECT pg_notify('hearthcast_change', '') FROM head";

/// Requests the notifications of [`COMMIT`].
pub const LISTEN: &str = "LISTEN hearthcast_change";

/// The row of the state.
pub struct Head {
    pub state_id: String,
    pub epoch: i64,
    pub last_number: u64,
    pub signing_keys: String,
    /// Where the other servers reach the active one.
    pub active_address: Option<String>,
}
