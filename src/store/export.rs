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

use super::draft::Draft;
use super::lock::Lock;
use super::snapshot::Snapshot;
use super::tree::Tree;
use super::{Store, journal, private, quarantine, secret, tail, unusable};
use crate::error::{Code, Error, Result};

/// Version of the export format.
const LAYOUT: u32 = 1;

/// Longest line that is read, bytes: longer than the export of any journal line.
const MAX_LINE: u64 = journal::MAX_LINE + 4096;

/// Files of the state folder that are exported with the records.
const FILES: [&str; 1] = ["signing-keys"];

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
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
pub fn export(dir: &Path, mut to: impl Write) -> Result<u64> {
    if !dir.join("journal").exists() && !dir.join("db").exists() {
        return Err(Error::new(Code::NotFound, format!("there is no state in {}", dir.display())));
    }
    let _open = match Store::open(dir) {
        Ok(store) if !store.inner.lost.is_empty() => {
            let lost = store.inner.lost.join(" ");
            return Err(unusable(dir, format!("records are lost: {lost} (export again to get the others)")));
        }
        Ok(store) => Some(store),
        Err(error) if error.code == Code::Conflict => None,
        Err(error) => return Err(error),
    };
    let snapshot = Snapshot::take(dir)?;
    let mut line = |line: &Line| {
        serde_json::to_writer(&mut to, line).map_err(Error::internal)?;
        to.write_all(b"\n").map_err(Error::internal)
    };
    line(&Line::Begin { hearthcast: env!("CARGO_PKG_VERSION").to_owned(), layout: LAYOUT })?;
    let mut records = 0;
    for record in snapshot.records() {
        let (tree, key, json) = record?;
        let value: Value = serde_json::from_slice(&json)
            .map_err(|cause| unusable(dir, format!("record {}/{key}: {cause}", tree.name())))?;
        records += 1;
        line(&Line::Record { tree: tree.name().to_owned(), key, value })?;
    }
    for file in FILES {
        if let Some(text) = secret::read(&dir.join(file)).map_err(|cause| unusable(&dir.join(file), cause))? {
            line(&Line::File { file: file.to_owned(), text })?;
        }
    }
    line(&Line::End { records })?;
    to.flush().map_err(Error::internal)?;
    Ok(records)
}

/// Exports the state as [`export`] does, to a file of mode 0600. The file is complete and synced, or not created; an
/// existing file is replaced.
///
/// # Errors
/// As for [`export`].
pub fn backup(dir: &Path, file: &Path) -> Result<u64> {
    let failed = |cause: std::io::Error| Error::internal(format!("{}: {cause}", file.display()));
    let name = file.file_name().ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
    let mut partial = name.to_owned();
    partial.push(".partial");
    let partial = file.with_file_name(partial);
    let written = || {
        secret::remove(&partial).map_err(failed)?;
        let mut options = OpenOptions::new();
        let text = options.write(true).create_new(true).mode(0o600).open(&partial).map_err(failed)?;
        let mut text = BufWriter::new(text);
        let records = export(dir, &mut text)?;
        let text = text.into_inner().map_err(|fault| failed(fault.into_error()))?;
        text.sync_all().map_err(failed)?;
        std::fs::rename(&partial, file).map_err(failed)?;
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        Ok(records)
    };
    written().inspect_err(|_| drop(secret::remove(&partial)))
}

/// Creates a state from an export; returns its number of records. Unless all lines are valid, nothing changes.
///
/// # Errors
/// `CONFLICT` when a server is running on `dir`, or when `dir` already contains a state and `replace` is false;
/// `BAD_REQUEST` naming the first invalid line.
pub fn import(dir: &Path, from: impl BufRead, replace: bool) -> Result<u64> {
    private::folder(dir)?;
    let _lock = Lock::take(dir, Duration::ZERO)?;
    let failed = |cause: std::io::Error| unusable(dir, cause);
    let known = match journal::read(&dir.join("journal")) {
        Ok(known) => known.is_some_and(|known| known.slots.values().any(|slot| !slot.gone)),
        Err(_) => true,
    };
    if (known || dir.join("db").exists() && !dir.join("journal").exists()) && !replace {
        let message = format!("{} already contains a state: use --replace to replace it", dir.display());
        return Err(Error::new(Code::Conflict, message));
    }
    let mut draft = Draft::begin(dir).map_err(failed)?;
    let (mut records, mut files, mut ended) = (0, Vec::new(), false);
    let wrong = |at: usize, why: String| Error::new(Code::BadRequest, format!("line {}: {why}", at + 1));
    for (at, line) in Lines(from).enumerate() {
        let line = line.map_err(|cause| wrong(at, cause.to_string()))?;
        let read: Line = serde_json::from_str(&line).map_err(|_| wrong(at, "is not a line of an export".to_owned()))?;
        match read {
            _ if ended => return Err(wrong(at, "comes after the end of the export".to_owned())),
            Line::Begin { layout, .. } if at == 0 && layout == LAYOUT => {}
            _ if at == 0 => return Err(wrong(at, "is not the start of an export this version can read".to_owned())),
            Line::Begin { .. } => return Err(wrong(at, "begins a second export".to_owned())),
            Line::Record { tree, key, value } => {
                let tree = Tree::named(&tree).filter(|tree| tree.journaled());
                let tree = tree.ok_or_else(|| wrong(at, "names a tree that this version does not know".to_owned()))?;
                let json = serde_json::to_vec(&value).map_err(Error::internal)?;
                records += 1;
                draft.add(tree, &key, records, Some(&json)).map_err(failed)?;
            }
            Line::File { file, text } if FILES.contains(&file.as_str()) => files.push((file, text)),
            Line::File { .. } => return Err(wrong(at, "names a file that is not part of a state".to_owned())),
            Line::End { records: said } if said == records => ended = true,
            Line::End { records: said } => return Err(wrong(at, format!("{said} records expected, {records} found"))),
        }
    }
    if !ended {
        return Err(Error::new(Code::BadRequest, "the export has no last line: it is truncated"));
    }
    if dir.join("journal").exists() {
        quarantine::keep(dir, "journal").map_err(failed)?;
    }
    for name in ["db", tail::NAME] {
        if dir.join(name).exists() {
            quarantine::away(dir, name).map_err(failed)?;
        }
    }
    for (file, text) in files {
        secret::write(&dir.join(file), &text).map_err(failed)?;
    }
    draft.finish(dir).map_err(failed)?;
    Ok(records)
}

/// Lines of bounded length.
struct Lines<R>(R);

impl<R: BufRead> Iterator for Lines<R> {
    type Item = std::io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut line = String::new();
        match std::io::Read::take(&mut self.0, MAX_LINE).read_line(&mut line) {
            Ok(0) => None,
            Ok(len) if len as u64 == MAX_LINE => Some(Err(std::io::Error::other("is too long"))),
            Ok(_) => Some(Ok(line)),
            Err(cause) => Some(Err(cause)),
        }
    }
}
