//! Export and import of the whole state as JSON lines.
//!
//! The first line names the format; the last one has the number of records, so that a truncated export is detected.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::batch::Edit;
use super::draft::Draft;
use super::lock::StateLock;
use super::shared_state::{outside_of_runtime, refuse_copy};
use super::snapshot::Snapshot;
use super::tree::Tree;
use super::{Store, computed, database, draft, journal, open_error, permissions, quarantine, recover, secret, tail};
use crate::config::DatabaseSettings;
use crate::error::{Code, Error, Result};

/// Version of the export format.
const EXPORT_LAYOUT: u32 = 1;

/// Longest line that is read, bytes: longer than the export of any journal line.
const MAX_LINE_BYTES: u64 = journal::MAX_LINE_BYTES + 4096;

/// Files of the state folder that are exported with the records.
const STATE_FILES: [&str; 1] = ["signing-keys"];

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ExportLine {
    Begin { hearthcast: String, layout: u32 },
    Record { tree: String, key: String, value: Value },
    File { file: String, text: String },
    End { records: u64 },
}

/// Writes all journaled records of the state in `dir`, and the signing keys; returns the number of records. They include
/// password hashes.
///
/// If no server has the state open, it is opened and repaired as at a start. The state of a running server is read at one
/// moment, with every change acknowledged before it.
///
/// # Errors
/// `NOT_FOUND` when there is no state; `INTERNAL` naming what cannot be read or written, and what was lost. The output then
/// lacks its last line.
pub fn export(dir: &Path, mut output: impl Write) -> Result<u64> {
    if !dir.join("journal").exists() && !dir.join("db").exists() {
        return Err(Error::new(Code::NotFound, format!("there is no state in {}", dir.display())));
    }
    let _store = match Store::open(dir) {
        Ok(store) if !store.inner.lost_records.is_empty() => {
            let lost = store.inner.lost_records.join(" ");
            return Err(open_error(dir, format!("records are lost: {lost} (export again to get the others)")));
        }
        Ok(store) => Some(store),
        Err(error) if error.code == Code::Conflict => None,
        Err(error) => return Err(error),
    };
    let snapshot = Snapshot::take(dir)?;
    let mut write_line = |line: &ExportLine| {
        serde_json::to_writer(&mut output, line).map_err(Error::internal)?;
        output.write_all(b"\n").map_err(Error::internal)
    };
    write_line(&ExportLine::Begin { hearthcast: env!("CARGO_PKG_VERSION").to_owned(), layout: EXPORT_LAYOUT })?;
    let mut records = 0;
    for record in snapshot.records() {
        let (tree, key, json) = record?;
        let value: Value = serde_json::from_slice(&json)
            .map_err(|cause| open_error(dir, format!("record {}/{key}: {cause}", tree.name())))?;
        records += 1;
        write_line(&ExportLine::Record { tree: tree.name().to_owned(), key, value })?;
    }
    for file in STATE_FILES {
        if let Some(text) = secret::read(&dir.join(file)).map_err(|cause| open_error(&dir.join(file), cause))? {
            write_line(&ExportLine::File { file: file.to_owned(), text })?;
        }
    }
    write_line(&ExportLine::End { records })?;
    output.flush().map_err(Error::internal)?;
    Ok(records)
}

/// Exports the state in a PostgreSQL database as [`export`] does; a server may be running.
///
/// # Errors
/// `INTERNAL` naming what cannot be read or written. The output then lacks its last line.
pub fn export_database(database: DatabaseSettings, mut output: impl Write + Send) -> Result<u64> {
    outside_of_runtime(move || {
        let mut records = 0;
        let mut write_line = |line: &ExportLine| {
            serde_json::to_writer(&mut output, line).map_err(Error::internal)?;
            output.write_all(b"\n").map_err(Error::internal)
        };
        write_line(&ExportLine::Begin { hearthcast: env!("CARGO_PKG_VERSION").to_owned(), layout: EXPORT_LAYOUT })?;
        let text = database::read_all(database, |Edit { tree, key, json }| {
            let value = serde_json::from_slice(json.as_deref().unwrap_or_default())
                .map_err(|cause| Error::internal(format!("record {}/{key}: {cause}", tree.name())))?;
            records += 1;
            write_line(&ExportLine::Record { tree: tree.name().to_owned(), key, value })
        })?;
        write_line(&ExportLine::File { file: STATE_FILES[0].to_owned(), text })?;
        write_line(&ExportLine::End { records })?;
        output.flush().map_err(Error::internal)?;
        Ok(records)
    })
}

/// Writes [`export_database`] to a file as [`backup`] does.
///
/// # Errors
/// As for [`export_database`].
pub fn backup_database(database: DatabaseSettings, file: &Path) -> Result<u64> {
    write_backup(file, |writer| export_database(database, writer))
}

/// Replaces the state in a PostgreSQL database by an export; returns its number of records. Unless all lines are valid,
/// nothing changes. `dir` gets a draft of them meanwhile.
///
/// # Errors
/// `CONFLICT` when a server is active, or when the database has records and `replace` is false; `BAD_REQUEST` naming the
/// first invalid line.
pub fn import_into_database(
    dir: &Path,
    database: DatabaseSettings,
    from: impl BufRead + Send,
    replace: bool,
) -> Result<u64> {
    permissions::secure_folder(dir)?;
    let _lock = StateLock::acquire(dir, Duration::ZERO)?;
    outside_of_runtime(move || {
        let checked = read_export(dir, from)?;
        let to_error = |cause: std::io::Error| open_error(dir, cause);
        let path = dir.join(draft::FILE_NAME);
        let imported = (|| {
            checked.draft.complete().map_err(to_error)?;
            let file = File::open(&path).map_err(to_error)?;
            let contents =
                journal::read_from(&file).map_err(|cause| recover::unreadable_error(dir, draft::FILE_NAME, cause))?;
            let mut positions: Vec<_> = contents.positions.into_iter().collect();
            positions.sort_unstable_by_key(|(_, position)| position.number);
            let records = positions.into_iter().map(|((tree, key), position)| {
                let json = journal::read_json_at(&file, position).map_err(|cause| cause.to_string())?;
                Ok((tree, key, json.ok_or("the draft changed while it was read")?))
            });
            let keys = checked.files.first().map(|(_, text)| text.as_str());
            database::replace_all(database, replace, keys, records)
        })();
        let _ = secret::remove(&path);
        imported
    })
}

/// Exports the state as [`export`] does, to a file of mode 0600. The file is complete and synced, or not created; an
/// existing file is replaced.
///
/// # Errors
/// As for [`export`].
pub fn backup(dir: &Path, file: &Path) -> Result<u64> {
    write_backup(file, |writer| export(dir, writer))
}

fn write_backup(file: &Path, export: impl FnOnce(&mut BufWriter<File>) -> Result<u64>) -> Result<u64> {
    let to_error = |cause: std::io::Error| Error::internal(format!("{}: {cause}", file.display()));
    let name = file.file_name().ok_or_else(|| to_error(std::io::ErrorKind::InvalidInput.into()))?;
    let mut partial = name.to_owned();
    partial.push(".partial");
    let partial = file.with_file_name(partial);
    let write_file = move |partial: &Path| {
        secret::remove(partial).map_err(to_error)?;
        let mut options = OpenOptions::new();
        let partial_file = options.write(true).create_new(true).mode(0o600).open(partial).map_err(to_error)?;
        let mut writer = BufWriter::new(partial_file);
        let records = export(&mut writer)?;
        let partial_file = writer.into_inner().map_err(|fault| to_error(fault.into_error()))?;
        partial_file.sync_all().map_err(to_error)?;
        std::fs::rename(partial, file).map_err(to_error)?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(to_error)?;
        Ok(records)
    };
    write_file(&partial).inspect_err(|_| drop(secret::remove(&partial)))
}

/// Creates a state from an export; returns its number of records. Unless all lines are valid, nothing changes.
///
/// # Errors
/// `CONFLICT` when a server is running on `dir`, or when `dir` already contains a state and `replace` is false;
/// `BAD_REQUEST` naming the first invalid line.
pub fn import(dir: &Path, from: impl BufRead, replace: bool) -> Result<u64> {
    permissions::secure_folder(dir)?;
    let _lock = StateLock::acquire(dir, Duration::ZERO)?;
    let to_error = |cause: std::io::Error| open_error(dir, cause);
    let has_records = match journal::read(&dir.join("journal")) {
        Ok(found) => found.is_some_and(|found| found.positions.values().any(|position| !position.is_removal)),
        Err(_) => true,
    };
    if (has_records || dir.join("db").exists() && !dir.join("journal").exists()) && !replace {
        let message = format!("{} already contains a state: use --replace to replace it", dir.display());
        return Err(Error::new(Code::Conflict, message));
    }
    refuse_copy(dir)?;
    let ReadExport { draft, files, records } = read_export(dir, from)?;
    if dir.join("journal").exists() {
        quarantine::keep_copy(dir, "journal").map_err(to_error)?;
    }
    for name in ["db", computed::FOLDER, tail::FILE_NAME] {
        if dir.join(name).exists() {
            quarantine::move_away(dir, name).map_err(to_error)?;
        }
    }
    for (file, text) in files {
        secret::write(&dir.join(file), &text).map_err(to_error)?;
    }
    draft.complete_and_replace(dir).map_err(to_error)?;
    Ok(records)
}

/// A complete export, as a draft of a journal.
struct ReadExport {
    draft: Draft,
    /// Names and texts.
    files: Vec<(String, String)>,
    records: u64,
}

/// Reads an export and checks every line.
fn read_export(dir: &Path, from: impl BufRead) -> Result<ReadExport> {
    let to_error = |cause: std::io::Error| open_error(dir, cause);
    let mut draft = Draft::begin(dir).map_err(to_error)?;
    let (mut records, mut files, mut has_ended, mut exporter) = (0, Vec::new(), false, String::new());
    let line_error = |index: usize, why: &str| Error::new(Code::BadRequest, format!("line {}: {why}", index + 1));
    for (index, line) in BoundedLines(from).enumerate() {
        let line = line.map_err(|cause| line_error(index, &cause.to_string()))?;
        let parsed: ExportLine =
            serde_json::from_str(&line).map_err(|_| line_error(index, "is not a line of an export"))?;
        match parsed {
            _ if has_ended => return Err(line_error(index, "comes after the end of the export")),
            ExportLine::Begin { hearthcast, layout } if index == 0 && layout == EXPORT_LAYOUT => exporter = hearthcast,
            ExportLine::Begin { hearthcast, layout } if index == 0 && layout > EXPORT_LAYOUT => {
                let text = format!("was written by a newer version ({hearthcast}): import it with that version");
                return Err(line_error(index, &text));
            }
            _ if index == 0 => {
                return Err(line_error(index, "is not the start of an export this version can read"));
            }
            ExportLine::Begin { .. } => return Err(line_error(index, "begins a second export")),
            ExportLine::Record { tree, key, value } => {
                let known = Tree::from_name(&tree).filter(|tree| tree.journaled());
                let tree = known.ok_or_else(|| {
                    let remedy = format!("import it with version {exporter} or a newer one");
                    line_error(index, &format!("has a record of {tree:?}, which this version does not know: {remedy}"))
                })?;
                let json = serde_json::to_vec(&value).map_err(Error::internal)?;
                records += 1;
                draft.add_record(tree, &key, records, Some(&json)).map_err(to_error)?;
            }
            ExportLine::File { file, text } if STATE_FILES.contains(&file.as_str()) => files.push((file, text)),
            ExportLine::File { .. } => return Err(line_error(index, "names a file that is not part of a state")),
            ExportLine::End { records: expected } if expected == records => has_ended = true,
            ExportLine::End { records: expected } => {
                return Err(line_error(index, &format!("{expected} records expected, {records} found")));
            }
        }
    }
    if !has_ended {
        return Err(Error::new(Code::BadRequest, "the export has no last line: it is truncated"));
    }
    Ok(ReadExport { draft, files, records })
}

/// Lines of bounded length.
struct BoundedLines<R>(R);

impl<R: BufRead> Iterator for BoundedLines<R> {
    type Item = std::io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = String::new();
        match std::io::Read::take(&mut self.0, MAX_LINE_BYTES).read_line(&mut line) {
            Ok(0) => None,
            Ok(len) if len as u64 == MAX_LINE_BYTES => Some(Err(std::io::Error::other("is too long"))),
            Ok(_) => Some(Ok(line)),
            Err(cause) => Some(Err(cause)),
        }
    }
}
