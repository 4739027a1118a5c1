//! Records that can be computed again: for each of their trees a file of lines like those of the journal, without sync.
//!
//! Memory has where a record's line is, not the record. Lines that are damaged are passed over, because their records are
//! computed again.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use super::index::{Index, catch_panics};
use super::journal::{self, JournalContents, JournalError, LinePosition};
use super::record;
use super::tree::Tree;

/// Folder of the files in the state folder.
pub const FOLDER: &str = "computed";

/// Length below which a file is never compacted, bytes.
const COMPACT_FROM_BYTES: u64 = 1 << 20;

/// A file is compacted at this many times its current lines.
const COMPACT_FACTOR: u64 = 2;

/// All trees whose records can be computed again.
pub struct ComputedRecords {
    trees: Vec<ComputedTree>,
}

/// The records of one tree.
pub struct ComputedTree {
    tree: Tree,
    path: PathBuf,
    /// None until there is one, and after a failure.
    file: RwLock<Option<RecordFile>>,
}

/// An open file, and where the current lines are.
struct RecordFile {
    file: File,
    bytes: u64,
    /// Of the current lines.
    live_bytes: u64,
    /// By the hash of the key. Two keys with one hash displace each other, which costs a computation.
    lines: HashMap<u64, Line>,
    hasher: RandomState,
}

/// Offset and length of a line in one number, because memory has one for each record.
#[derive(Clone, Copy)]
struct Line(u64);

impl Line {
    /// Bits of the length, so lines have less than 16 MiB and files less than 1 TiB.
    const LENGTH_BITS: u32 = 24;

    fn new(offset: u64, bytes: usize) -> io::Result<Self> {
        let fits = bytes < 1 << Self::LENGTH_BITS && offset < 1 << (u64::BITS - Self::LENGTH_BITS);
        let line = fits.then_some(Self(offset << Self::LENGTH_BITS | bytes as u64));
        line.ok_or_else(|| io::Error::new(io::ErrorKind::FileTooLarge, "the record or its file is too long"))
    }

    fn offset(self) -> u64 {
        self.0 >> Self::LENGTH_BITS
    }

    fn bytes(self) -> u64 {
        self.0 & ((1 << Self::LENGTH_BITS) - 1)
    }
}

impl ComputedRecords {
    /// Opens the files, so that no request waits until one is read.
    pub fn open(dir: &Path) -> Self {
        let computed = |tree: &Tree| ComputedTree {
            tree: *tree,
            path: dir.join(FOLDER).join(tree.name()),
            file: RwLock::default(),
        };
        let trees: Vec<_> = Tree::computed_trees().map(|tree| computed(&tree)).collect();
        for computed in &trees {
            if let Err(fault) = computed.contains("") {
                tracing::warn!(%fault, path = %computed.path.display(), "computed records cannot be read yet");
            }
        }
        Self { trees }
    }

    /// The records of a tree; None if its records cannot be computed.
    pub fn get(&self, tree: Tree) -> Option<&ComputedTree> {
        self.trees.iter().find(|computed| computed.tree == tree)
    }
}

/// Moves the records that versions before 0.3.0 have in the index to their files. Those that cannot be read are computed again.
pub fn take_from_index(dir: &Path, index: &Index) {
    for tree in Tree::computed_trees() {
        let path = dir.join(FOLDER).join(tree.name());
        let take = || match index.tree(tree).is_empty() {
            true => Ok(()),
            false if path.exists() => index.tree(tree).clear(),
            false => {
                copy_from_index(tree, &path, index)?;
                index.tree(tree).clear()
            }
        };
        if let Err(fault) = catch_panics(take) {
            tracing::warn!(%fault, tree = tree.name(), "records of an earlier version are computed again");
        }
    }
}

fn copy_from_index(tree: Tree, path: &Path, index: &Index) -> sled::Result<()> {
    let (mut draft, mut line) = (Draft::begin(path)?, Vec::new());
    for entry in index.tree(tree).iter() {
        let (key, stored) = entry?;
        let key = String::from_utf8_lossy(&key);
        if let Ok((_, json)) = record::verify(tree.name(), &key, &stored) {
            line.clear();
            journal::write_line(&mut line, tree, &key, 0, Some(json));
            draft.file.write_all(&line)?;
        }
    }
    draft.replace(path)?;
    Ok(())
}

impl ComputedTree {
    /// Reads the JSON of a record.
    pub fn get(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        self.with_file(|open| open.read(key))
    }

    pub fn contains(&self, key: &str) -> io::Result<bool> {
        self.with_file(|open| Ok(open.lines.contains_key(&open.hasher.hash_one(key))))
    }

    /// Writes a record, or removes it without JSON; returns whether it existed.
    pub fn set(&self, key: &str, json: Option<&[u8]>) -> io::Result<bool> {
        let mut file = self.lock();
        let open = match &mut *file {
            Some(open) => open,
            closed => closed.insert(RecordFile::open(&self.path)?),
        };
        let existed = open.lines.contains_key(&open.hasher.hash_one(key));
        if json.is_none() && !existed {
            return Ok(false);
        }
        let written = open.write(self.tree, key, json).and_then(|()| open.compact_if_worthwhile(&self.path));
        if written.is_err() {
            // A part of a line is truncated when it is opened again.
            *file = None;
        }
        written.map(|()| existed)
    }

    /// Calls a function with key and JSON of every record, ordered by key.
    pub fn for_each(&self, mut visit: impl FnMut(&str, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let Some(file) = super::if_exists(File::open(&self.path))? else { return Ok(()) };
        for (key, position) in sorted_records(&file)? {
            if let Some(json) = journal::read_json_at(&file, position)? {
                visit(&key, &json)?;
            }
        }
        Ok(())
    }

    /// The keys of all records, in order.
    pub fn keys(&self) -> io::Result<Vec<String>> {
        let Some(file) = super::if_exists(File::open(&self.path))? else { return Ok(Vec::new()) };
        Ok(sorted_records(&file)?.into_iter().map(|(key, _)| key).collect())
    }

    fn with_file<T: Default>(&self, read: impl Fn(&RecordFile) -> io::Result<T>) -> io::Result<T> {
        if let Some(open) = &*self.file.read().unwrap_or_else(PoisonError::into_inner) {
            return read(open);
        }
        if !self.path.try_exists()? {
            return Ok(T::default());
        }
        let mut file = self.lock();
        match &mut *file {
            Some(open) => read(open),
            closed => read(closed.insert(RecordFile::open(&self.path)?)),
        }
    }

    fn lock(&self) -> RwLockWriteGuard<'_, Option<RecordFile>> {
        self.file.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The keys of the current records in order, with their positions.
fn sorted_records(file: &File) -> io::Result<Vec<(String, LinePosition)>> {
    let contents = read_lines(file)?.unwrap_or_default();
    let current = contents.positions.into_iter().filter(|(_, position)| !position.is_removal);
    let mut records: Vec<_> = current.map(|((_, key), position)| (key, position)).collect();
    records.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(records)
}

/// Reads the lines of a file; None if they are those of a newer version.
fn read_lines(file: &File) -> io::Result<Option<JournalContents>> {
    match journal::read_from(file) {
        Ok(contents) => Ok(Some(contents)),
        Err(JournalError::Io(cause)) => Err(cause),
        Err(JournalError::NewerLayout(_) | JournalError::UnknownTrees(_)) => Ok(None),
    }
}

impl RecordFile {
    fn open(path: &Path) -> io::Result<Self> {
        let existing = super::if_exists(OpenOptions::new().read(true).append(true).open(path))?;
        let Some(file) = existing else { return Self::create(path) };
        let Some(contents) = read_lines(&file)? else { return Self::create(path) };
        if !contents.fault_offsets.is_empty() {
            let lines = contents.fault_offsets.len();
            tracing::warn!(path = %path.display(), lines, "damaged lines: their records are computed again");
        }
        if contents.valid_bytes == 0 {
            return Self::create(path);
        }
        file.set_len(contents.valid_bytes)?;
        let mut open = Self::new(file, contents.valid_bytes);
        for ((_, key), position) in contents.positions.iter().filter(|(_, position)| !position.is_removal) {
            // A line that is too long is not written, so its record is computed again.
            if let Ok(line) = Line::new(position.offset, position.len as usize) {
                open.put(key, line);
            }
        }
        Ok(open)
    }

    fn create(path: &Path) -> io::Result<Self> {
        let file = Draft::begin(path)?.replace(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self::new(file, bytes))
    }

    fn new(file: File, bytes: u64) -> Self {
        Self { file, bytes, live_bytes: 0, lines: HashMap::new(), hasher: RandomState::new() }
    }

    fn put(&mut self, key: &str, line: Line) {
        self.live_bytes += line.bytes();
        let former = self.lines.insert(self.hasher.hash_one(key), line);
        self.live_bytes -= former.map_or(0, Line::bytes);
    }

    fn read(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        let Some(line) = self.lines.get(&self.hasher.hash_one(key)) else { return Ok(None) };
        let line = self.read_line(*line)?;
        let text = line.strip_suffix(b"\n").and_then(journal::parse_entry).and_then(Result::ok);
        let entry = text.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its checksum does not match"))?;
        Ok(entry.json.filter(|_| entry.key == key).map(<[u8]>::to_vec))
    }

    fn read_line(&self, line: Line) -> io::Result<Vec<u8>> {
        let mut text = vec![0; line.bytes() as usize];
        self.file.read_exact_at(&mut text, line.offset())?;
        Ok(text)
    }

    fn write(&mut self, tree: Tree, key: &str, json: Option<&[u8]>) -> io::Result<()> {
        let mut text = Vec::new();
        journal::write_line(&mut text, tree, key, 0, json);
        let line = Line::new(self.bytes, text.len())?;
        self.file.write_all(&text)?;
        self.bytes += text.len() as u64;
        match json {
            Some(_) => self.put(key, line),
            None => {
                let former = self.lines.remove(&self.hasher.hash_one(key));
                self.live_bytes -= former.map_or(0, Line::bytes);
            }
        }
        Ok(())
    }

    /// Rewrites the file with its current lines only, once most of it is outdated.
    fn compact_if_worthwhile(&mut self, path: &Path) -> io::Result<()> {
        if self.bytes < COMPACT_FROM_BYTES || self.bytes < COMPACT_FACTOR * self.live_bytes {
            return Ok(());
        }
        let mut draft = Draft::begin(path)?;
        let mut current: Vec<(u64, Line)> = self.lines.iter().map(|(hash, line)| (*hash, *line)).collect();
        current.sort_unstable_by_key(|(_, line)| line.offset());
        let mut bytes = draft.header_bytes;
        for (_, line) in &mut current {
            let text = self.read_line(*line)?;
            draft.file.write_all(&text)?;
            *line = Line::new(bytes, text.len())?;
            bytes += text.len() as u64;
        }
        self.file = draft.replace(path)?;
        self.bytes = bytes;
        self.lines = current.into_iter().collect();
        Ok(())
    }
}

/// A new file, written beside the one in use and then put in its place.
struct Draft {
    file: BufWriter<File>,
    path: PathBuf,
    header_bytes: u64,
}

impl Draft {
    fn begin(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path.parent().unwrap_or(path))?;
        let path = path.with_extension("new");
        let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(&path)?;
        let header = journal::header(journal::LAYOUT);
        let mut file = BufWriter::with_capacity(64 << 10, file);
        file.write_all(header.as_bytes())?;
        Ok(Self { file, path, header_bytes: header.len() as u64 })
    }

    /// Puts the file in place of `path`. It is not synced, so a power failure may empty it.
    fn replace(self, path: &Path) -> io::Result<File> {
        drop(self.file.into_inner().map_err(io::IntoInnerError::into_error)?);
        fs::rename(&self.path, path)?;
        OpenOptions::new().read(true).append(true).open(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(dir: &Path) -> ComputedTree {
        ComputedRecords::open(dir).trees.into_iter().find(|computed| computed.tree == Tree::Catalogue).unwrap()
    }

    fn text(computed: &ComputedTree, key: &str) -> Option<String> {
        computed.get(key).unwrap().map(|json| String::from_utf8(json).unwrap())
    }

    #[test]
    fn records_are_read_back_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let computed = tree(dir.path());
        assert_eq!((text(&computed, "/a"), computed.set("/a", None).unwrap()), (None, false));
        assert!(!computed.set("/b\t\"", Some(b"1")).unwrap() && !computed.set("/a", Some(b"[2]")).unwrap());
        assert!(computed.set("/b\t\"", Some(b"3")).unwrap());
        assert!(!computed.set("/c", Some(b"4")).unwrap() && computed.set("/c", None).unwrap());
        for computed in [computed, tree(dir.path())] {
            let read = ["/a", "/b\t\"", "/c"].map(|key| text(&computed, key));
            assert_eq!(read, [Some("[2]".to_owned()), Some("3".to_owned()), None]);
            assert!(computed.contains("/a").unwrap() && !computed.contains("/c").unwrap());
            assert_eq!(computed.keys().unwrap(), ["/a", "/b\t\""]);
            let mut all = String::new();
            let append = |_: &str, json: &[u8]| {
                all.push_str(std::str::from_utf8(json).unwrap());
                Ok(())
            };
            computed.for_each(append).unwrap();
            assert_eq!(all, "[2]3");
        }
    }

    #[test]
    fn a_file_that_has_grown_is_compacted() {
        let dir = tempfile::tempdir().unwrap();
        let computed = tree(dir.path());
        let json = format!("\"{}\"", "x".repeat(10_000));
        for n in 0..1_000 {
            computed.set(&format!("{}", n % 7), Some(format!("[{n},{json}]").as_bytes())).unwrap();
            assert!(fs::metadata(&computed.path).unwrap().len() < COMPACT_FROM_BYTES + 20_000);
        }
        for computed in [computed, tree(dir.path())] {
            assert!(text(&computed, "5").unwrap().starts_with("[999,"));
            assert_eq!(computed.keys().unwrap().len(), 7);
        }
    }

    #[test]
    fn damage_costs_the_damaged_records_only() {
        let dir = tempfile::tempdir().unwrap();
        let computed = tree(dir.path());
        for n in 0..20 {
            computed.set(&format!("{n:02}"), Some(b"\"value\"")).unwrap();
        }
        let whole = fs::read(&computed.path).unwrap();
        for cut in [0, 10, whole.len() / 2, whole.len() - 1] {
            fs::write(&computed.path, &whole[..cut]).unwrap();
            let computed = tree(dir.path());
            let found = (0..20).filter(|n| text(&computed, &format!("{n:02}")).is_some()).count();
            assert!(found == computed.keys().unwrap().len() && found < 20, "cut at {cut}");
            assert!(!computed.set("new", Some(b"1")).unwrap());
            assert_eq!(text(&tree(dir.path()), "new").as_deref(), Some("1"), "cut at {cut}");
        }
        for at in (0..whole.len()).step_by(7) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(&computed.path, &bytes).unwrap();
            let found = tree(dir.path()).keys().unwrap().len();
            assert!(found >= 18, "byte {at}: {found}");
        }
        let mut bytes = whole.clone();
        fs::write(&computed.path, &whole).unwrap();
        let open = tree(dir.path());
        assert!(open.contains("05").unwrap());
        bytes.fill(b'x');
        fs::write(&computed.path, &bytes).unwrap();
        assert!(open.get("05").is_err(), "damage while it is open is an error, as in every tree");
    }

    #[test]
    fn a_file_of_a_newer_version_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let computed = tree(dir.path());
        fs::create_dir_all(dir.path().join(FOLDER)).unwrap();
        fs::write(&computed.path, journal::header(journal::LAYOUT + 1)).unwrap();
        assert_eq!(text(&computed, "a"), None);
        computed.set("a", Some(b"1")).unwrap();
        assert_eq!(text(&tree(dir.path()), "a").as_deref(), Some("1"));
    }
}
