//! 10,000 random edits of a library: files that are created, renamed, moved, replaced and removed, with NFO files, images and playlists.
//! After them the index equals that of a fresh scan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::*;
use crate::domain::catalogue::ItemKind;
use crate::domain::media::Tags;
use crate::service::catalogue::artwork::FolderImages;
use crate::service::catalogue::item::join_path;
use crate::service::catalogue::record::Technical;

const EDITS: usize = 10_000;

/// The index is compared with a fresh scan after this many edits.
const CHECK_INTERVAL: usize = 2000;

const FOLDERS: [&str; 11] = [
    "Movies",
    "Movies/Alien (1979)",
    "TV/Lost (2004)/Season 1",
    "TV/Lost (2004)/Season 2",
    "TV/LOST (2004)",
    "TV/Rome",
    "Music/ABBA/Gold (1992)",
    "Music/ABBA/Gold (1992)/CD1",
    "Music/ABBA/Gold (1992)/CD2",
    "Audiobooks/Verne/Island",
    "Audiobooks/Verne",
];

const NAMES: [&str; 10] = [
    "Alien (1979).mkv",
    "Brazil (1985).mkv",
    "Lost S01E01.mkv",
    "LOST S02E03 Pilot.mkv",
    "Rome S01E01.mkv",
    "01 - Sea.mp3",
    "02 - Fire.mp3",
    "Queen - One.mp3",
    "Moon.m4b",
    "Trailer.mkv",
];

const IMAGES: [&str; 5] = ["poster.jpg", "folder.png", "season01-poster.jpg", "Alien (1979)-thumb.jpg", "cover.jpg"];

const NFO: [&str; 3] = [
    "<movie><title>The Eighth Passenger</title><year>1979</year><genre>Horror</genre><actor><name>Ada</name></actor></movie>",
    "<episodedetails><title>Tabula Rasa</title><showtitle>Lost!</showtitle><season>1</season><episode>2</episode>
        <genre>Drama</genre><genre>Horror</genre><actor><name>Ada</name></actor><actor><name>Bob</name></actor></episodedetails>",
    "<movie><title>Other</title><genre>horror</genre><director>Bob</director></movie>",
];

/// A file is described by one of the NFO files if a number below this is that of one.
const NFO_ODDS: usize = 20;

const QUERIES: [&str; 8] = ["lost", "alien", "abba gold", "ada", "island", "tabla", "episode", "m"];

static PARSED_NFO: LazyLock<Vec<Nfo>> =
    LazyLock::new(|| NFO.iter().map(|text| Nfo::parse(text.as_bytes()).unwrap().remove(0)).collect());

/// The interpreted names of all paths.
static PARSED_NAMES: LazyLock<HashMap<String, Names>> = LazyLock::new(|| {
    let paths = FOLDERS.iter().flat_map(|folder| NAMES.iter().map(|name| join_path(folder, name)));
    let parse = |path: String| {
        let (root, rest) = path.split_once('/').unwrap();
        let names = Names::parse(root, rest, kind_from_name(rest).unwrap());
        (path, names)
    };
    paths.map(parse).collect()
});

fn put_file(index: &mut CatalogueIndex, path: &str, record: &ItemRecord) {
    let (folder, name) = split_path(path);
    index.put(FilePlace { folder, name, names: &PARSED_NAMES[path] }, record);
}

/// Pseudo-random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn path(&mut self) -> String {
        join_path(FOLDERS[self.below(FOLDERS.len())], NAMES[self.below(NAMES.len())])
    }
}

#[derive(Clone, PartialEq)]
struct DiskFile {
    /// The content, of which there may be copies; files of the same content have the same length.
    content: u64,
    modified_ns: i64,
    nfo: Option<usize>,
}

/// A library as it is on disk.
#[derive(Default)]
struct Disk {
    files: BTreeMap<String, DiskFile>,
    /// Times of images and playlists by path.
    images: BTreeMap<String, i64>,
    playlists: BTreeMap<String, (i64, Vec<String>)>,
    chosen_titles: BTreeMap<u64, String>,
    /// Counts the edits, as the clock of the file system.
    now: i64,
}

impl Disk {
    /// Makes an edit; returns the folders that changed.
    fn edit(&mut self, random: &mut Random) -> BTreeSet<String> {
        self.now += 1;
        let existing = |disk: &Self, random: &mut Random| {
            let at = random.below(disk.files.len().max(1));
            disk.files.keys().nth(at).cloned()
        };
        let (path, other) = (existing(self, random), random.path());
        let mut changed = BTreeSet::from([split_path(&other).0.to_owned()]);
        match random.below(16) {
            0..5 => {
                let (content, nfo) = (random.below(60) as u64, random.below(NFO_ODDS));
                let nfo = Some(nfo).filter(|nfo| *nfo < NFO.len());
                self.files.insert(other, DiskFile { content, modified_ns: self.now, nfo });
            }
            5..8 => {
                // Renamed, also over another file; its time stays.
                if let Some(path) = path
                    && let Some(file) = self.files.remove(&path)
                {
                    self.files.insert(other, file);
                    changed.insert(split_path(&path).0.to_owned());
                }
            }
            8..11 => {
                if let Some(path) = path {
                    self.files.remove(&path);
                    changed.insert(split_path(&path).0.to_owned());
                }
            }
            11 => {
                if let Some(file) = path.as_ref().and_then(|path| self.files.get_mut(path)) {
                    (file.content, file.modified_ns) = (random.below(60) as u64, self.now);
                    changed.extend(path.map(|path| split_path(&path).0.to_owned()));
                }
            }
            12 => {
                if let Some(file) = path.as_ref().and_then(|path| self.files.get_mut(path)) {
                    file.nfo = Some(random.below(NFO_ODDS)).filter(|nfo| *nfo < NFO.len());
                    changed.extend(path.map(|path| split_path(&path).0.to_owned()));
                }
            }
            13 => {
                let image = join_path(split_path(&other).0, IMAGES[random.below(IMAGES.len())]);
                if self.images.remove(&image).is_none() {
                    self.images.insert(image, self.now);
                }
            }
            14 => {
                let list = join_path(split_path(&other).0, "List.m3u");
                let paths = (0..random.below(6)).map(|_| random.path()).collect();
                self.playlists.insert(list, (self.now, paths));
            }
            _ => {
                // A folder is renamed to one that may exist.
                let from = FOLDERS[random.below(FOLDERS.len())];
                let to = split_path(&other).0;
                let moved: Vec<String> = self.files.keys().filter(|path| split_path(path).0 == from).cloned().collect();
                for path in moved {
                    let file = self.files.remove(&path).unwrap();
                    self.files.insert(join_path(to, split_path(&path).1), file);
                }
                changed.insert(from.to_owned());
            }
        }
        changed
    }

    fn files_in<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a DiskFile)> {
        let files = self.files.iter().map(|(path, file)| (split_path(path), file));
        files.filter(move |((own, _), _)| *own == folder).map(|((_, name), file)| (name, file))
    }

    fn nfo_stamp(&self, folder: &str) -> u64 {
        let described = self.files_in(folder).filter_map(|(name, file)| Some(format!("{name}{}", file.nfo?)));
        let text: String = described.collect();
        if text.is_empty() { 0 } else { crate::domain::hash_to_u64(blake3::hash(text.as_bytes())).max(1) }
    }

    /// Reads a folder into an index, as the task of the catalogue does. Files are read in any order.
    fn scan(&self, folder: &str, index: &mut CatalogueIndex, random: &mut Random) {
        let stamp = self.nfo_stamp(folder);
        let mut files: Vec<(&str, &DiskFile)> = self.files_in(folder).collect();
        let turn = random.below(files.len().max(1));
        files.rotate_left(turn);
        for (name, file) in &files {
            let version = (file.content, file.modified_ns);
            let known = index.file(folder, name).filter(|item| (item.size_bytes, item.modified_ns) == version);
            if known.is_none_or(|item| item.nfo_stamp != stamp) {
                put_file(index, &join_path(folder, name), &file.to_record(stamp));
            }
        }
        let exists = |name: &str| files.iter().any(|(own, _)| *own == name);
        for name in index.names_in(folder) {
            if !exists(&name) {
                index.remove(folder, &name);
            }
        }
        let in_folder = |path: &&String| split_path(path).0 == folder;
        let images = self.images.iter().filter(|(path, _)| in_folder(path));
        let images = images.map(|(path, at)| (split_path(path).1.to_owned(), 1, *at)).collect();
        let lists: Vec<_> = self.playlists.iter().filter(|(path, _)| in_folder(path)).collect();
        index.playlists.retain(folder, |name| lists.iter().any(|(path, _)| split_path(path).1 == name));
        for (path, (at, paths)) in lists {
            if !index.playlists.is_known(folder, split_path(path).1, (1, *at)) {
                index.playlists.put(folder, split_path(path).1, (1, *at), paths.clone());
            }
        }
        index.finish_folder(folder, stamp, FolderImages::new(images), exists);
    }

    /// The index of a fresh scan.
    fn fresh_index(&self, random: &mut Random) -> CatalogueIndex {
        let mut index = CatalogueIndex::default();
        for (content, title) in &self.chosen_titles {
            let id = ItemId::parse(&record(*content, None).id).unwrap();
            index.chosen_titles.insert(id, title.as_str().into());
        }
        let turn = random.below(FOLDERS.len());
        for folder in FOLDERS.iter().cycle().skip(turn).take(FOLDERS.len()) {
            self.scan(folder, &mut index, random);
        }
        index
    }

    /// A user chooses the title of a content.
    fn choose_title(&mut self, index: &mut CatalogueIndex, random: &mut Random) {
        let content = random.below(60) as u64;
        let title = format!("Chosen {}", random.below(3));
        let id = ItemId::parse(&record(content, None).id).unwrap();
        index.chosen_titles.insert(id, title.as_str().into());
        self.chosen_titles.insert(content, title);
        for path in index.paths(id) {
            let stamp = self.nfo_stamp(split_path(&path).0);
            put_file(index, &path, &self.files[&path].to_record(stamp));
        }
    }
}

impl DiskFile {
    fn to_record(&self, nfo_stamp: u64) -> ItemRecord {
        let text = |text: &str| self.content.is_multiple_of(5).then(|| text.to_owned());
        let technical = self.content.is_multiple_of(3).then(|| Technical {
            duration_seconds: Some(self.content as f64),
            has_cover: Some(self.content.is_multiple_of(2)),
            tags: Tags { album: text("Tagged"), artist: text("Bjørn"), ..Tags::default() },
            ..Technical::default()
        });
        let nfo = self.nfo.map(|nfo| PARSED_NFO[nfo].clone());
        ItemRecord { modified_ns: self.modified_ns, nfo_stamp, technical, nfo, ..record(self.content, None) }
    }
}

/// Everything that an index answers, in an order of its own.
fn answers(index: &CatalogueIndex) -> BTreeSet<String> {
    let (mut all, view) = (BTreeSet::new(), index.all());
    let path_at = |slot: u32| index.at(slot).map(|item| item.path());
    for item in view.files() {
        let (path, stamp) = (item.path(), item.nfo_stamp);
        all.insert(format!("file {path} {} copy {} stamp {stamp} probed {}", item.id, item.is_copy, item.is_probed));
    }
    for (_, item) in view.items() {
        let mut paths = index.paths(item.id);
        paths.sort();
        all.insert(format!("item {:?} {} {paths:?}", view.to_listed(item), item.sort_key()));
    }
    for (id, items) in index.series.iter() {
        let mut paths: Vec<_> = items.slots.iter().map(|slot| path_at(*slot)).collect();
        paths.sort();
        let artwork = view.series_artwork_versions(*id, None);
        all.insert(format!("series {id} {} {:?} {artwork:?} {paths:?}", items.name(), items.year));
    }
    for query in QUERIES {
        all.extend(
            index.search_items(query).into_iter().map(|(slot, points)| format!("{query} {:?} {points}", path_at(slot))),
        );
        all.extend(index.series.find(query).into_iter().map(|found| format!("{query} {found:?}")));
        for pool in [&index.genres, &index.people] {
            all.extend(pool.search(query, 99).into_iter().map(|(at, uses)| format!("{query} {} {uses}", pool.get(at))));
        }
    }
    for (id, files) in view.audio_groups(ItemKind::Music) {
        let (album, files) = view.album(id, files).unwrap();
        all.insert(format!("{album:?} {:?}", files.iter().map(|item| item.path()).collect::<Vec<_>>()));
    }
    all.extend(view.books().into_iter().map(|book| format!("{book:?}")));
    for folder in FOLDERS {
        let mut places: Vec<_> = view.playlist_places(&join_path(folder, "List.m3u")).into_iter().collect();
        places.sort();
        all.insert(format!("playlist in {folder} {places:?}"));
        all.insert(format!("images in {folder} {:?}", index.images(folder).map(FolderImages::stamp)));
    }
    all.insert(format!("artwork {}", index.artwork_stamp()));
    all
}

#[test]
fn after_random_edits_the_index_equals_that_of_a_fresh_scan() {
    let (mut random, mut disk, mut index) = (Random(0x5eed), Disk::default(), CatalogueIndex::default());
    let mut largest = 0;
    for number in 1..=EDITS {
        for folder in disk.edit(&mut random) {
            disk.scan(&folder, &mut index, &mut random);
        }
        if random.below(50) == 0 {
            disk.choose_title(&mut index, &mut random);
        }
        if random.below(50) == 0 {
            index.compact();
        }
        largest = largest.max(disk.files.len());
        if number.is_multiple_of(CHECK_INTERVAL) {
            let (found, fresh) = (answers(&index), answers(&disk.fresh_index(&mut random)));
            let difference: Vec<_> = found.symmetric_difference(&fresh).collect();
            assert!(difference.is_empty(), "after {number} edits: {difference:#?}");
        }
    }
    assert!(largest > 40 && !disk.files.is_empty(), "the library was not always small: {largest}");
}
