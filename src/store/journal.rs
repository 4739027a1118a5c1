//! The journal, a write-ahead log: every change, one line each, in the order they were made. It is the truth; sled is an index
//! that can be rebuilt from it.
//!
//! A line is `checksum TAB number TAB tree TAB key TAB value LF`: checksum in hex, key and value as JSON (which holds no
//! raw tab and no raw line end), the value empty for a removal. The first line names the layout. Text, so that a person
//! can read what happened, and so that a line behind a damaged one is found by the next line end.
//!
//! A batch is one line too, so that a crash leaves all of it or nothing: its tree is `batch`, its key empty, and its value
//! the lines of its changes with a tab in the place of each line end. Its number is that of the first change.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use data_encoding::HEXLOWER;

use super::batch::{Edit, MAX_CHANGES};
use super::record;
use super::tree::Tree;

/// Layout of what is kept; raised when an older program could not read it.
pub const LAYOUT: u32 = 2;

/// The first word of a journal.
const NAME: &str = "hearthcast-journal";

/// Longest record that is written, bytes of key and JSON together.
pub const MAX_RECORD: usize = 8 << 20;

/// Longest line that is read, bytes; anything longer is damage. It is far above [`MAX_RECORD`] (a key may grow sixfold
/// in JSON), because versions before 2026-11-22 wrote records of any length.
pub const MAX_LINE: u64 = 64 << 20;

/// Bytes of a line beside key and JSON at most: the checksum, two numbers of 20 digits' length, the tree, quotes, tabs.
const LINE_OVERHEAD: u64 = 128;

const _: () = assert!(MAX_LINE > 6 * MAX_RECORD as u64 + (MAX_CHANGES as u64 + 1) * LINE_OVERHEAD);

/// Bytes of the shortest line of a change: the checksum alone has 32.
const SHORTEST_LINE: u64 = 40;

/// Stands in the place of a tree in the line of a batch. Versions that know no batches take it for a tree of a newer
/// version and refuse the journal.
const BATCH: &str = "batch";

/// One change.
#[derive(Debug, PartialEq)]
pub struct Entry<'a> {
    pub number: u64,
    pub tree: Tree,
    pub key: Cow<'a, str>,
    /// None for a removal.
    pub json: Option<&'a [u8]>,
}

/// Where the last change of a key stands in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    pub number: u64,
    pub offset: u64,
    pub len: u32,
    /// A removal.
    pub gone: bool,
}

/// What a journal says.
#[derive(Debug, Default)]
pub struct Reading {
    pub slots: HashMap<(Tree, String), Slot>,
    /// The number of the last change.
    pub last: u64,
    /// Bytes that are good: behind them stands the beginning of a line that was never finished.
    pub end: u64,
    /// Where lines are damaged.
    pub faults: Vec<u64>,
    /// Changes that damaged lines before the last intact one can hide.
    hidden: u64,
    /// Damaged lines after the last intact one, and their bytes.
    damaged: (u64, u64),
    /// Trees of intact lines that this version does not know.
    unknown: BTreeSet<String>,
}

impl Reading {
    fn add(&mut self, found: Result<Entry<'_>, &str>, offset: u64, len: u64) {
        let entry = match found {
            Ok(entry) => entry,
            Err(tree) => {
                self.unknown.insert(tree.to_owned());
                return;
            }
        };
        let (lines, bytes) = std::mem::take(&mut self.damaged);
        // As many as numbers are missing and fit into the bytes, where they are those of batches.
        let skipped = entry.number.saturating_sub(self.last + 1).min(bytes / SHORTEST_LINE);
        self.hidden += skipped.max(2 * lines);
        self.last = self.last.max(entry.number);
        let slot = Slot { number: entry.number, offset, len: len as u32, gone: entry.json.is_none() };
        let known = self.slots.entry((entry.tree, entry.key.into_owned())).or_insert(slot);
        if known.number <= slot.number {
            *known = slot;
        }
    }

    fn damage(&mut self, at: u64, len: u64) {
        self.faults.push(at);
        self.damaged = (self.damaged.0 + 1, self.damaged.1 + len);
    }

    /// Changes that the damaged lines can hide, without those numbered after [`Self::last`]. A damaged line can hide its
    /// own change and the one of the next line, whose line end it swallowed; those of a batch are more.
    pub fn hidden(&self) -> u64 {
        self.hidden + 2 * self.damaged.0
    }
}

/// Why a journal cannot be read at all.
#[derive(Debug)]
pub enum Unreadable {
    System(io::Error),
    /// Written by a newer program.
    Newer(u32),
    /// Written by a newer program of the same layout: it holds records of these trees. Without them a rewrite would drop
    /// records, and a rule they express (who may see what) would not be applied.
    UnknownTrees(Vec<String>),
}

impl From<io::Error> for Unreadable {
    fn from(cause: io::Error) -> Self {
        Self::System(cause)
    }
}

pub fn header(layout: u32) -> String {
    let sum = record::checksum(NAME, "", layout.into(), &[]);
    format!("{NAME}\t{layout}\t{}\n", HEXLOWER.encode(&sum))
}

/// Appends one change to a text.
pub fn write(into: &mut Vec<u8>, tree: Tree, key: &str, number: u64, json: Option<&[u8]>) {
    let value = json.unwrap_or_default();
    let sum = record::checksum(tree.name(), key, number, value);
    let key = serde_json::to_string(key).expect("a text is JSON");
    into.extend_from_slice(HEXLOWER.encode(&sum).as_bytes());
    into.extend_from_slice(format!("\t{number}\t{}\t{key}\t", tree.name()).as_bytes());
    into.extend_from_slice(value);
    into.push(b'\n');
}

/// Appends several changes to a text as one line; the first has this number.
pub fn write_batch(into: &mut Vec<u8>, number: u64, edits: &[Edit]) {
    let mut value = Vec::new();
    for (edit, number) in edits.iter().zip(number..) {
        write(&mut value, edit.tree, &edit.key, number, edit.json.as_deref());
        if let Some(end) = value.last_mut() {
            *end = b'\t';
        }
    }
    value.pop();
    into.extend_from_slice(HEXLOWER.encode(&record::checksum(BATCH, "", number, &value)).as_bytes());
    into.extend_from_slice(format!("\t{number}\t{BATCH}\t\"\"\t").as_bytes());
    into.extend_from_slice(&value);
    into.push(b'\n');
}

/// Where the changes of a batch stand in its line: each range is a line of a change, without its end.
fn parts(line: &[u8]) -> Vec<Range<usize>> {
    let tabs = line.iter().enumerate().filter(|(_, byte)| **byte == b'\t').map(|(at, _)| at);
    // The fourth is before the value, and every fifth from there between two changes.
    let bounds: Vec<usize> = tabs.skip(3).step_by(5).chain([line.len()]).collect();
    bounds.windows(2).map(|pair| pair[0] + 1..pair[1]).collect()
}

/// Reads one line, without its end; None for one that is damaged. For a tree this program does not know: its name.
pub fn entry(line: &[u8]) -> Option<Result<Entry<'_>, &str>> {
    let mut parts = line.splitn(5, |byte| *byte == b'\t');
    let sum = HEXLOWER.decode(parts.next()?).ok()?;
    let number = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let tree = std::str::from_utf8(parts.next()?).ok()?;
    let key: Cow<'_, str> = serde_json::from_slice(parts.next()?).ok().map(|Key(key)| key)?;
    let value = parts.next()?;
    if sum != record::checksum(tree, &key, number, value) {
        return None;
    }
    let json = (!value.is_empty()).then_some(value);
    Some(Tree::named(tree).map(|tree| Entry { number, tree, key, json }).ok_or(tree))
}

#[derive(serde::Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a journal; None when there is none.
///
/// # Errors
/// A newer layout, a tree this version does not know, or what the system says.
pub fn read(path: &Path) -> Result<Option<Reading>, Unreadable> {
    match File::open(path) {
        Ok(file) => read_from(&file).map(Some),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause.into()),
    }
}

/// Reads an open journal as long as it is now; a server may append meanwhile.
///
/// # Errors
/// As of [`read`].
pub fn read_from(file: &File) -> Result<Reading, Unreadable> {
    let mut lines = BufReader::with_capacity(256 * 1024, file.take(file.metadata()?.len()));
    let mut reading = Reading::default();
    let mut line = Vec::new();
    let mut at = 0;
    loop {
        line.clear();
        let len = (&mut lines).take(MAX_LINE).read_until(b'\n', &mut line)? as u64;
        if len == 0 {
            break;
        }
        let whole = line.last() == Some(&b'\n');
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let torn = !whole && len < MAX_LINE || text.iter().all(|byte| *byte == 0);
        if torn {
            // Never finished, so never acknowledged; unless more follows.
            if lines.fill_buf()?.is_empty() {
                break;
            }
            reading.damage(at, len);
        } else if at == 0 {
            head(text, &mut reading)?;
        } else {
            match entry(text) {
                None => reading.damage(at, len),
                Some(Err(BATCH)) => {
                    for part in parts(text) {
                        let (offset, len) = (at + part.start as u64, part.len() as u64 + 1);
                        match entry(&text[part]) {
                            None => reading.damage(offset, len),
                            Some(found) => reading.add(found, offset, len),
                        }
                    }
                }
                Some(found) => reading.add(found, at, len),
            }
        }
        at += len;
        reading.end = at;
    }
    match reading.unknown.is_empty() {
        true => Ok(reading),
        false => Err(Unreadable::UnknownTrees(reading.unknown.into_iter().collect())),
    }
}

fn head(text: &[u8], reading: &mut Reading) -> Result<(), Unreadable> {
    let layout = std::str::from_utf8(text).ok().and_then(|text| text.split('\t').nth(1)?.parse().ok());
    // A layout is believed only when the whole line is as it was written.
    let layout = layout.filter(|layout| header(*layout).trim_end().as_bytes() == text);
    match layout {
        Some(layout) if layout > LAYOUT => Err(Unreadable::Newer(layout)),
        Some(LAYOUT) => Ok(()),
        _ => {
            reading.damage(0, text.len() as u64);
            Ok(())
        }
    }
}

/// The JSON of a change read again where it is; None when it is not there any more.
///
/// # Errors
/// What the system says. That is not taken for missing: a copy of the record elsewhere may be older.
pub fn reread(file: &File, slot: Slot) -> io::Result<Option<Vec<u8>>> {
    let mut line = vec![0; slot.len as usize];
    match file.read_exact_at(&mut line, slot.offset) {
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    // Within a batch a tab ends it.
    let text = line.strip_suffix(b"\n").or_else(|| line.strip_suffix(b"\t"));
    let entry = text.and_then(entry).and_then(Result::ok);
    let json = entry.filter(|entry| entry.number == slot.number).and_then(|entry| entry.json);
    Ok(json.map(<[u8]>::to_vec))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, key: &str, json: Option<&str>) -> Vec<u8> {
        let mut line = Vec::new();
        write(&mut line, Tree::Users, key, number, json.map(str::as_bytes));
        line
    }

    fn read_text(text: &[u8]) -> Reading {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        std::fs::write(&path, text).unwrap();
        read(&path).unwrap().unwrap()
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        for (key, json) in [("u_1", Some(r#"{"name":"a\tb\n"}"#)), ("tab\there \"quoted\" \u{1f600}\n", None)] {
            let text = line(7, key, json);
            let read = entry(text.strip_suffix(b"\n").unwrap()).unwrap().unwrap();
            assert_eq!((read.number, &*read.key, read.json), (7, key, json.map(str::as_bytes)));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_no_other_line_is_lost() {
        let lines = [line(1, "a", Some("1")), line(2, "b", Some("[2]")), line(3, "a", None), line(4, "c", Some("4"))];
        let text = [header(LAYOUT).into_bytes(), lines.concat()].concat();
        let whole = read_text(&text);
        assert!(whole.faults.is_empty());
        assert_eq!((whole.last, whole.end, whole.slots.len()), (4, text.len() as u64, 3));
        assert!(whole.slots[&(Tree::Users, "a".to_owned())].gone);
        for at in 0..text.len() - 1 {
            let ahead = at < header(LAYOUT).len();
            for bit in 0..8 {
                let mut text = text.clone();
                text[at] ^= 1 << bit;
                let read = read_text(&text);
                assert!(!read.faults.is_empty(), "byte {at} bit {bit}");
                let good = read.slots.values().filter(|slot| whole.slots.values().any(|known| known == *slot)).count();
                assert!(good >= if ahead { 2 } else { 1 }, "byte {at} bit {bit}: the others are read");
            }
        }
    }

    #[test]
    fn a_line_that_was_never_finished_is_no_damage() {
        let text = [header(LAYOUT).into_bytes(), line(1, "a", Some("1")), line(2, "b", Some("2"))].concat();
        let begin = text.len() - line(2, "b", Some("2")).len();
        for end in begin..text.len() {
            let read = read_text(&text[..end]);
            assert_eq!((read.faults.len(), read.last, read.end), (0, 1, begin as u64), "cut at {end}");
        }
        let zeros = [&text[..], &[0; 100]].concat();
        assert_eq!(read_text(&zeros).end, text.len() as u64);
        let between = [&text[..], &[0; 100], b"\n", &line(3, "c", Some("3"))].concat();
        assert_eq!((read_text(&between).faults.len(), read_text(&between).last), (1, 3));
    }

    #[test]
    fn a_newer_layout_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        std::fs::write(&path, header(LAYOUT + 1)).unwrap();
        assert!(matches!(read(&path), Err(Unreadable::Newer(newer)) if newer == LAYOUT + 1));
    }

    #[test]
    fn the_longest_record_is_read_back_and_so_are_longer_ones_of_older_versions() {
        for bytes in [MAX_RECORD, 25 << 20] {
            let json = format!("\"{}\"", "x".repeat(bytes - 2));
            let text = [header(LAYOUT).into_bytes(), line(1, "a", Some(&json)), line(2, "b", Some("2"))].concat();
            let read = read_text(&text);
            assert_eq!((read.faults.len(), read.last, read.slots.len()), (0, 2, 2), "{bytes} bytes");
        }
    }
}
