//! The journal, a write-ahead log: one line per change, in the order the changes were made. It is the source of truth; sled
//! is an index that can be rebuilt from it.
//!
//! A line is `checksum TAB number TAB tree TAB key TAB value LF`. The checksum is hex; key and value are JSON, which
//! contains no raw tab and no raw line feed; a removal has an empty value. The first line names the layout. The journal is
//! text, so that a person can read what happened, and so that the line after a damaged one is found by its line feed.
//!
//! A batch is also one line, so that a crash leaves all of it or nothing. Its tree is `batch`, its key is empty, and its
//! value is the lines of its changes with a tab instead of each line feed. Its number is that of the first change.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use data_encoding::HEXLOWER;

use super::batch::{Edit, MAX_BATCH_CHANGES};
use super::if_exists;
use super::record::{self, MAX_RECORD_BYTES};
use super::tree::Tree;

/// Version of the file layout; raised when older programs cannot read the new one.
pub const LAYOUT: u32 = 2;

/// First word of a journal file.
const MAGIC: &str = "hearthcast-journal";

/// Longest line that is read, bytes; a longer one is damaged. It is far above [`MAX_RECORD_BYTES`], because a key may grow
/// sixfold in JSON and versions before 2026-11-22 wrote records of any length.
pub const MAX_LINE_BYTES: u64 = 64 << 20;

/// Most bytes of a line without its key and JSON: checksum, two numbers of 20 digits, tree, quotes and tabs.
const LINE_OVERHEAD_BYTES: u64 = 128;

const _: () =
    assert!(MAX_LINE_BYTES > 6 * MAX_RECORD_BYTES as u64 + (MAX_BATCH_CHANGES as u64 + 1) * LINE_OVERHEAD_BYTES);

/// Shortest possible line of a change, bytes: the checksum alone has 32.
const MIN_LINE_BYTES: u64 = 40;

/// Tree name in the line of a batch. Versions without batches take it for a tree of a newer version and refuse the
/// journal.
const BATCH_TREE: &str = "batch";

/// One change, parsed from its line.
#[derive(Debug, PartialEq)]
pub struct JournalEntry<'a> {
    pub number: u64,
    pub tree: Tree,
    pub key: Cow<'a, str>,
    /// `None` for a removal.
    pub json: Option<&'a [u8]>,
}

/// Position in the file of the last change of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePosition {
    pub number: u64,
    pub offset: u64,
    pub len: u32,
    /// Whether the change is a removal.
    pub is_removal: bool,
}

/// Content of a journal: the position of each record's last change, and the damage found.
#[derive(Debug, Default)]
pub struct JournalContents {
    pub positions: HashMap<(Tree, String), LinePosition>,
    /// Number of the last change.
    pub last_number: u64,
    /// Length of the valid part, bytes; after it comes at most an unfinished line.
    pub valid_bytes: u64,
    /// Byte offsets of damaged lines.
    pub fault_offsets: Vec<u64>,
    /// Most changes that damaged lines before the last intact line can hide.
    hidden_changes: u64,
    /// Number of damaged lines after the last intact one, and their bytes.
    trailing_damage: (u64, u64),
    /// Trees in intact lines that this version does not know.
    unknown_trees: BTreeSet<String>,
}

impl JournalContents {
    fn add_entry(&mut self, parsed: Result<JournalEntry<'_>, &str>, offset: u64, len: u64) {
        let entry = match parsed {
            Ok(entry) => entry,
            Err(tree) => {
                self.unknown_trees.insert(tree.to_owned());
                return;
            }
        };
        let (lines, bytes) = std::mem::take(&mut self.trailing_damage);
        // A damaged batch can hide as many changes as numbers are missing and as lines fit into its bytes.
        let skipped = entry.number.saturating_sub(self.last_number + 1).min(bytes / MIN_LINE_BYTES);
        self.hidden_changes += skipped.max(2 * lines);
        self.last_number = self.last_number.max(entry.number);
        let position = LinePosition { number: entry.number, offset, len: len as u32, is_removal: entry.json.is_none() };
        let newest = self.positions.entry((entry.tree, entry.key.into_owned())).or_insert(position);
        if newest.number <= position.number {
            *newest = position;
        }
    }

    fn add_damage(&mut self, offset: u64, len: u64) {
        self.fault_offsets.push(offset);
        self.trailing_damage = (self.trailing_damage.0 + 1, self.trailing_damage.1 + len);
    }

    /// Most changes that damaged lines can hide, not counting those numbered after [`Self::last_number`]. A damaged line can hide
    /// its own change and that of the next line, if the line feed between them is damaged; a batch can hide more.
    pub fn hidden_changes(&self) -> u64 {
        self.hidden_changes + 2 * self.trailing_damage.0
    }
}

/// Why a journal cannot be read at all.
#[derive(Debug)]
pub enum JournalError {
    Io(io::Error),
    /// A newer program wrote it, with this layout.
    NewerLayout(u32),
    /// A newer program wrote it with the same layout, and it contains records of these trees. A rewrite would drop those
    /// records, and rules stored in them (who may see what) would not be applied.
    UnknownTrees(Vec<String>),
}

impl From<io::Error> for JournalError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// First line of a journal.
pub fn header(layout: u32) -> String {
    let checksum = record::checksum(MAGIC, "", layout.into(), &[]);
    format!("{MAGIC}\t{layout}\t{}\n", HEXLOWER.encode(&checksum))
}

/// Appends the line of one record to a text.
pub fn write_line(lines: &mut Vec<u8>, tree: Tree, key: &str, number: u64, json: Option<&[u8]>) {
    push_line(lines, tree.name(), key, number, json.unwrap_or_default());
}

fn push_line(lines: &mut Vec<u8>, tree: &str, key: &str, number: u64, value: &[u8]) {
    let checksum = HEXLOWER.encode(&record::checksum(tree, key, number, value));
    let key = serde_json::to_string(key).expect("a string serializes to JSON");
    lines.extend_from_slice(format!("{checksum}\t{number}\t{tree}\t{key}\t").as_bytes());
    lines.extend_from_slice(value);
    lines.push(b'\n');
}

/// Appends one change, or the changes of a batch, to a text as one line; the first has the given number.
pub fn write_change(lines: &mut Vec<u8>, number: u64, edits: &[Edit]) {
    if let [Edit { tree, key, json }] = edits {
        return write_line(lines, *tree, key, number, json.as_deref());
    }
    let mut value = Vec::new();
    for (edit, number) in edits.iter().zip(number..) {
        write_line(&mut value, edit.tree, &edit.key, number, edit.json.as_deref());
        if let Some(last_byte) = value.last_mut() {
            *last_byte = b'\t';
        }
    }
    value.pop();
    push_line(lines, BATCH_TREE, "", number, &value);
}

/// Byte ranges of the changes within the line of a batch: each is the line of one change, without its end.
fn batch_lines(line: &[u8]) -> Vec<Range<usize>> {
    let tabs = line.iter().enumerate().filter(|(_, byte)| **byte == b'\t').map(|(offset, _)| offset);
    // The fourth tab precedes the value; after it, every fifth tab separates two changes.
    let bounds: Vec<usize> = tabs.skip(3).step_by(5).chain([line.len()]).collect();
    bounds.windows(2).map(|pair| pair[0] + 1..pair[1]).collect()
}

/// Parses one line, without its end; `None` if it is damaged, the tree's name if this version does not know the tree.
pub fn parse_entry(line: &[u8]) -> Option<Result<JournalEntry<'_>, &str>> {
    let mut fields = line.splitn(5, |byte| *byte == b'\t');
    let checksum = HEXLOWER.decode(fields.next()?).ok()?;
    let number = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let tree = std::str::from_utf8(fields.next()?).ok()?;
    let key: Cow<'_, str> = serde_json::from_slice(fields.next()?).ok().map(|JsonKey(key)| key)?;
    let value = fields.next()?;
    if checksum != record::checksum(tree, &key, number, value) {
        return None;
    }
    let json = (!value.is_empty()).then_some(value);
    Some(Tree::from_name(tree).map(|tree| JournalEntry { number, tree, key, json }).ok_or(tree))
}

#[derive(serde::Deserialize)]
struct JsonKey<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads a journal; `None` when the file does not exist.
///
/// # Errors
/// A newer layout, a tree this version does not know, or the system's error.
pub fn read(path: &Path) -> Result<Option<JournalContents>, JournalError> {
    if_exists(File::open(path))?.map(|file| read_from(&file)).transpose()
}

/// Reads an open journal up to its present length; a server may append meanwhile.
pub fn read_from(file: &File) -> Result<JournalContents, JournalError> {
    let mut reader = BufReader::with_capacity(256 * 1024, file.take(file.metadata()?.len()));
    let mut contents = JournalContents::default();
    let mut line = Vec::new();
    let mut line_offset = 0;
    loop {
        line.clear();
        let len = (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line)? as u64;
        if len == 0 {
            break;
        }
        let is_complete = line.last() == Some(&b'\n');
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        let is_unfinished = !is_complete && len < MAX_LINE_BYTES || text.iter().all(|byte| *byte == 0);
        if is_unfinished {
            // An unfinished last line was never acknowledged. If more follows, the line is damaged.
            if reader.fill_buf()?.is_empty() {
                break;
            }
            contents.add_damage(line_offset, len);
        } else if line_offset == 0 {
            read_header(text, &mut contents)?;
        } else {
            match parse_entry(text) {
                None => contents.add_damage(line_offset, len),
                Some(Err(BATCH_TREE)) => {
                    for range in batch_lines(text) {
                        let (offset, len) = (line_offset + range.start as u64, range.len() as u64 + 1);
                        match parse_entry(&text[range]) {
                            None => contents.add_damage(offset, len),
                            Some(parsed) => contents.add_entry(parsed, offset, len),
                        }
                    }
                }
                Some(parsed) => contents.add_entry(parsed, line_offset, len),
            }
        }
        line_offset += len;
        contents.valid_bytes = line_offset;
    }
    match contents.unknown_trees.is_empty() {
        true => Ok(contents),
        false => Err(JournalError::UnknownTrees(contents.unknown_trees.into_iter().collect())),
    }
}

fn read_header(text: &[u8], contents: &mut JournalContents) -> Result<(), JournalError> {
    let layout = std::str::from_utf8(text).ok().and_then(|text| text.split('\t').nth(1)?.parse().ok());
    // The layout counts only if the whole line is intact.
    let layout = layout.filter(|layout| header(*layout).trim_end().as_bytes() == text);
    match layout {
        Some(layout) if layout > LAYOUT => Err(JournalError::NewerLayout(layout)),
        Some(LAYOUT) => Ok(()),
        _ => {
            contents.add_damage(0, text.len() as u64);
            Ok(())
        }
    }
}

/// Reads the JSON of a change again from its position; `None` when it is no longer there.
///
/// # Errors
/// The system's error. It must not be treated as missing: the other copies of the record may be older.
pub fn read_json_at(file: &File, position: LinePosition) -> io::Result<Option<Vec<u8>>> {
    let mut line = vec![0; position.len as usize];
    match file.read_exact_at(&mut line, position.offset) {
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    // Within a batch, a tab ends the line of a change.
    let text = line.strip_suffix(b"\n").or_else(|| line.strip_suffix(b"\t"));
    let entry = text.and_then(parse_entry).and_then(Result::ok);
    let json = entry.filter(|entry| entry.number == position.number).and_then(|entry| entry.json);
    Ok(json.map(<[u8]>::to_vec))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, key: &str, json: Option<&str>) -> Vec<u8> {
        let mut line = Vec::new();
        write_line(&mut line, Tree::Users, key, number, json.map(str::as_bytes));
        line
    }

    fn read_text(text: &[u8]) -> JournalContents {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        std::fs::write(&path, text).unwrap();
        read(&path).unwrap().unwrap()
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        for (key, json) in [("u_1", Some(r#"{"name":"a\tb\n"}"#)), ("tab\there \"quoted\" \u{1f600}\n", None)] {
            let text = line(7, key, json);
            let read = parse_entry(text.strip_suffix(b"\n").unwrap()).unwrap().unwrap();
            assert_eq!((read.number, &*read.key, read.json), (7, key, json.map(str::as_bytes)));
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_no_other_line_is_lost() {
        let lines = [line(1, "a", Some("1")), line(2, "b", Some("[2]")), line(3, "a", None), line(4, "c", Some("4"))];
        let text = [header(LAYOUT).into_bytes(), lines.concat()].concat();
        let whole = read_text(&text);
        assert!(whole.fault_offsets.is_empty());
        assert_eq!((whole.last_number, whole.valid_bytes, whole.positions.len()), (4, text.len() as u64, 3));
        assert!(whole.positions[&(Tree::Users, "a".to_owned())].is_removal);
        for at in 0..text.len() - 1 {
            let is_header = at < header(LAYOUT).len();
            for bit in 0..8 {
                let mut text = text.clone();
                text[at] ^= 1 << bit;
                let read = read_text(&text);
                assert!(!read.fault_offsets.is_empty(), "byte {at} bit {bit}");
                let is_intact = |slot: &&LinePosition| whole.positions.values().any(|other| other == *slot);
                let intact = read.positions.values().filter(is_intact).count();
                assert!(intact >= if is_header { 2 } else { 1 }, "byte {at} bit {bit}: the others are read");
            }
        }
    }

    #[test]
    fn a_line_that_was_never_finished_is_no_damage() {
        let text = [header(LAYOUT).into_bytes(), line(1, "a", Some("1")), line(2, "b", Some("2"))].concat();
        let begin = text.len() - line(2, "b", Some("2")).len();
        for end in begin..text.len() {
            let read = read_text(&text[..end]);
            let found = (read.fault_offsets.len(), read.last_number, read.valid_bytes);
            assert_eq!(found, (0, 1, begin as u64), "cut at {end}");
        }
        let zeros = [&text[..], &[0; 100]].concat();
        assert_eq!(read_text(&zeros).valid_bytes, text.len() as u64);
        let between = [&text[..], &[0; 100], b"\n", &line(3, "c", Some("3"))].concat();
        assert_eq!((read_text(&between).fault_offsets.len(), read_text(&between).last_number), (1, 3));
    }

    #[test]
    fn a_newer_layout_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        std::fs::write(&path, header(LAYOUT + 1)).unwrap();
        assert!(matches!(read(&path), Err(JournalError::NewerLayout(newer)) if newer == LAYOUT + 1));
    }

    #[test]
    fn the_longest_record_is_read_back_and_so_are_longer_ones_of_older_versions() {
        for bytes in [MAX_RECORD_BYTES, 25 << 20] {
            let json = format!("\"{}\"", "x".repeat(bytes - 2));
            let text = [header(LAYOUT).into_bytes(), line(1, "a", Some(&json)), line(2, "b", Some("2"))].concat();
            let read = read_text(&text);
            assert_eq!((read.fault_offsets.len(), read.last_number, read.positions.len()), (0, 2, 2), "{bytes} bytes");
        }
    }
}
