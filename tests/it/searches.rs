//! Pages for readers of the source: the files they name, the searches and the worked example of `src/README.md`, the
//! constants of `LIMITS.md`.

use std::fs;
use std::path::Path;

use hearthcast::domain::grid::Grid;
use hearthcast::domain::time::{FrameRate, Ticks};
use hearthcast::engine::TIMELINE_BASE;

fn read_file(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

/// The rows of the tables whose heading has these cells, without backticks.
fn table_rows(text: &str, heading: &[&str]) -> Vec<Vec<String>> {
    let cells = |line: &str| {
        let line = line.strip_prefix('|')?.strip_suffix('|')?;
        Some(line.split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect::<Vec<_>>())
    };
    let mut rows = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if cells(line).is_some_and(|row| row == heading) {
            rows.extend(lines.by_ref().skip(1).map_while(cells));
        }
    }
    rows
}

/// Describes faulty rows. The last cells of a row are a word and the file that must contain it.
fn row_faults(rows: &[Vec<String>], width: usize) -> Vec<String> {
    let fault = |row: &Vec<String>| {
        let [.., word, file] = row.as_slice() else { return Some(format!("not a row: {row:?}")) };
        if row.len() != width {
            return Some(format!("not {width} cells: {row:?}"));
        }
        let Some(text) = read_file(file) else { return Some(format!("{file} does not exist, for {word:?}")) };
        let is_there = text.to_lowercase().contains(&word.to_lowercase());
        (!is_there).then(|| format!("{file} does not contain {word:?}"))
    };
    rows.iter().filter_map(fault).collect()
}

/// The paths of files in a page: words with a slash and an extension. What begins with a slash is an address.
fn paths_of_files(page: &str) -> Vec<&str> {
    let is_path_char = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let is_file = |word: &&str| {
        let name = word.rsplit_once('/').map_or("", |(_, name)| name);
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        !word.starts_with('/') && !extension.is_empty() && extension.chars().all(|c| c.is_ascii_alphabetic())
    };
    page.split(|c: char| !is_path_char(c)).map(|word| word.trim_end_matches('.')).filter(is_file).collect()
}

#[test]
fn each_file_that_a_page_for_contributors_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (page, folder) in [("CONTRIBUTING.md", ""), ("src/README.md", "src")] {
        let text = read_file(page).expect("the page exists");
        let paths = paths_of_files(&text);
        assert!(paths.len() > 40, "{page} names {} files", paths.len());
        // A path is relative to the repository, or a link, which is relative to its page.
        let exists = |path: &str| root.join(path).is_file() || root.join(folder).join(path).is_file();
        let missing: Vec<&str> = paths.into_iter().filter(|path| !exists(path)).collect();
        assert!(missing.is_empty(), "{page} names files that do not exist: {missing:#?}");
    }
}

#[test]
fn paths_are_found_in_prose_links_and_tables() {
    let page = "See `src/a.rs`, [b](../b/README.md). GET /api/x.json, HTTP/1.1, 30000/1001, https://c.org/d.html;\n\
        | question | src/e/mod.rs | `<cache>/450.ts` src/e/ tests/f.";
    assert_eq!(paths_of_files(page), ["src/a.rs", "../b/README.md", "src/e/mod.rs"]);
}

#[test]
fn each_search_of_the_front_page_leads_to_its_file() {
    let page = read_file("src/README.md").expect("the front page exists");
    let rows = table_rows(&page, &["question", "word to grep", "file"]);
    assert!(rows.len() >= 22, "{} searches are listed", rows.len());
    let faults = row_faults(&rows, 3);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn each_fault_names_its_test() {
    let page = read_file("tests/it/faults/README.md").expect("the faults are listed");
    let rows = table_rows(&page, &["fault", "behaviour", "test", "file"]);
    assert!(rows.len() >= 12, "{} faults are listed", rows.len());
    let tests = rows.into_iter().map(|mut row| {
        let last = row.len() - 2;
        row[last] = format!("fn {}(", row[last]);
        row
    });
    let faults = row_faults(&tests.collect::<Vec<_>>(), 4);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn each_limit_names_a_constant_of_its_file() {
    let page = read_file("LIMITS.md").expect("the limits are listed");
    let rows = table_rows(&page, &["limit", "value", "setting or constant", "file"]);
    assert!(rows.len() >= 40, "{} limits are listed", rows.len());
    let faults = row_faults(&rows, 4);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_numbers_of_the_front_page_are_those_of_the_grid() {
    let page = read_file("src/README.md").expect("the front page exists");
    let rate = FrameRate::new(24_000, 1001).expect("a rate");
    let grid = Grid::from_frame_rate(rate, 4.0, 90.0 * 60.0);
    let Grid::Frames(frames) = &grid else { panic!("encoded video has a grid of frames") };
    let start = grid.segment_start(450);
    let on_air = Ticks::from_ms(1_795_378_500_000) + start;
    let numbers = [
        (u64::from(frames.frames_per_segment), "= 96 |"),
        (grid.segment_length(450).0 as u64, "= 360,360 ticks"),
        (grid.target_duration(), "`EXT-X-TARGETDURATION:4`"),
        (frames.first_frame(1), "0 to 3 have 48 frames"),
        (frames.total_frames, "129,471 frames make"),
        (grid.len() as u64, "make 1,351 segments"),
        (frames.total_frames - frames.first_frame(grid.len() - 1), "the last has 63 frames"),
        (frames.first_frame(450), "frames 43,008 to"),
        (start.0 as u64, "ticks 161,441,280 to"),
        (grid.segment_start(451).0 as u64, "to 161,801,640 ("),
        ((start + TIMELINE_BASE).0 as u64, "= 485,441,280 at"),
        (on_air.wrapped().0 as u64, "= 7,556,765,760 of"),
        (grid.segment_at(Ticks::from_ms(1_795_000)) as u64, "1,795 s in segment 450"),
    ];
    for (number, text) in numbers {
        assert!(page.contains(text), "the front page does not contain {text:?}");
        let numbers_in_text: Vec<u64> =
            text.replace(',', "").split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        assert!(numbers_in_text.contains(&number), "the page has {text:?}, the grid {number}");
    }
}
