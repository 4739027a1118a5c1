use std::fs;
use std::path::Path;

use super::*;
use crate::domain::library::Root;

struct House {
    folder: tempfile::TempDir,
    library: Library,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let roots = Roots::open(vec![Root { id: "r".into(), path: folder.path().into() }]).unwrap();
        let library = Library::new(Arc::new(roots), BackgroundTasks::default()).with_workers(Isolation::None);
        Self { folder, library }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::create_dir_all(Path::new(&self.path(name)).parent().unwrap()).unwrap();
        fs::write(self.path(name), content).unwrap();
    }

    async fn describe(&self, name: &str) -> Option<Nfo> {
        let media = self.library.roots.open_file(self.path(name).to_str().unwrap()).unwrap();
        self.library.describe(&media).await
    }

    /// The title of the description; empty without one.
    async fn title(&self, name: &str) -> String {
        self.describe(name).await.and_then(|nfo| nfo.title).unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.library.nfo_files.as_ref().unwrap().lock()
    }
}

fn film(title: &str) -> String {
    format!("<movie><title>{title}</title></movie>")
}

#[tokio::test]
async fn a_film_is_described_by_its_own_file_or_that_of_its_folder() {
    let house = House::new();
    house.write("a/Film (1999).mkv", "x");
    assert_eq!(house.title("a/Film (1999).mkv").await, "");
    house.write("a/movie.nfo", film("Of the folder"));
    assert_eq!(house.title("a/Film (1999).mkv").await, "Of the folder");
    house.write("a/Film (1999).nfo", film("Its own"));
    assert_eq!(house.title("a/Film (1999).mkv").await, "Its own");
    // The text of a release group.
    house.write("a/Film (1999).nfo", "+++ GROUP presents +++");
    assert_eq!(house.title("a/Film (1999).mkv").await, "Of the folder");
    house.write("a/Other.mp4", "x");
    assert_eq!(house.title("a/Other.mp4").await, "", "a folder of several films has no file of its own");
    house.write("a/Film (1999).nfo", film("Its own"));
    assert_eq!(house.title("a/Film (1999).mkv").await, "Its own");
}

#[tokio::test]
async fn an_episode_gets_its_show_from_two_folders() {
    let house = House::new();
    let episode = "<episodedetails><title>E</title><season>1</season><episode>2</episode></episodedetails>";
    house.write("Show/Season 1/e.mkv", "x");
    house.write("Show/Season 1/e.nfo", episode);
    let described = house.describe("Show/Season 1/e.mkv").await.unwrap();
    assert_eq!((described.show_title, described.genres.len()), (None, 0));
    house.write("Show/tvshow.nfo", "<tvshow><title>Show</title><genre>Crime</genre></tvshow>");
    let described = house.describe("Show/Season 1/e.mkv").await.unwrap();
    assert_eq!(described.show_title.as_deref(), Some("Show"));
    assert_eq!((described.genres, described.season, described.episode), (vec!["Crime".to_owned()], Some(1), Some(2)));
    house.write("Show/Season 1/tvshow.nfo", "<tvshow><title>Nearer</title></tvshow>");
    assert_eq!(house.describe("Show/Season 1/e.mkv").await.unwrap().show_title.as_deref(), Some("Nearer"));
    house.write("Show/Season 1/tvshow.nfo", "<tvshow>");
    assert_eq!(house.title("Show/Season 1/e.mkv").await, "E", "a broken file of the show");
}

#[tokio::test]
async fn each_version_is_parsed_once_and_broken_ones_are_not_used() {
    let house = House::new();
    house.write("a.mkv", "x");
    for content in ["<movie>".into(), "\0".repeat(2 << 20), film("A & B") + &" ".repeat(MAX_BYTES), String::new()] {
        house.write("a.nfo", content);
        assert_eq!(house.title("a.mkv").await, "");
    }
    assert_eq!(house.state().records.len(), 4);
    house.write("a.nfo", film("A"));
    for _ in 0..3 {
        assert_eq!(house.title("a.mkv").await, "A");
    }
    let state = house.state();
    assert_eq!((state.records.len(), state.in_flight.len()), (5, 0));
    let weights = state.records.iter().map(|(version, records)| weight_bytes(version, records));
    assert_eq!(weights.sum::<usize>(), state.cached_bytes);
}

#[test]
fn the_cache_is_bounded_by_memory() {
    let house = House::new();
    let plot = format!("<movie><plot>{}</plot></movie>", "x".repeat(4000));
    let records: Records = Some(Nfo::parse(plot.as_bytes()).unwrap().into());
    let version = |n: u64| FileVersion {
        path: "/a.nfo".into(),
        len: n,
        modified: SystemTime::UNIX_EPOCH,
        changed_at: (0, 0),
        file_id: (0, 0),
    };
    let mut state = house.state();
    for n in 0..1000 {
        state.put(version(n), records.clone());
        state.put(version(n), None);
        state.put(version(n), records.clone());
    }
    assert!((15..33).contains(&state.records.len()), "{}", state.records.len());
    assert!((MAX_CACHE_BYTES / 2..=MAX_CACHE_BYTES).contains(&state.cached_bytes));
    assert!(state.records.contains(&version(999)) && !state.records.contains(&version(0)));
}
