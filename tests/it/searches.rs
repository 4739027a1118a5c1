//! The tables that lead a reader to the right file: searches in `src/README.md`, constants in `LIMITS.md`.

use std::fs;
use std::path::Path;

fn read(path: &str) -> Option<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok()
}

/// The rows of the tables whose heading has these cells, without backticks.
fn rows(text: &str, heading: &[&str]) -> Vec<Vec<String>> {
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

/// What is wrong with rows that end in a word and the file it must be in.
fn faults(rows: &[Vec<String>], width: usize) -> Vec<String> {
    let fault = |row: &Vec<String>| {
        let [.., word, file] = row.as_slice() else { return Some(format!("not a row: {row:?}")) };
        if row.len() != width {
            return Some(format!("not {width} cells: {row:?}"));
        }
        let Some(text) = read(file) else { return Some(format!("{file} does not exist, for {word:?}")) };
        let is_there = text.to_lowercase().contains(&word.to_lowercase());
        (!is_there).then(|| format!("{file} does not contain {word:?}"))
    };
    rows.iter().filter_map(fault).collect()
}

#[test]
fn each_search_of_the_front_page_leads_to_its_file() {
    let page = read("src/README.md").expect("the front page exists");
    let rows = rows(&page, &["question", "word to grep", "file"]);
    assert!(rows.len() >= 22, "{} searches are listed", rows.len());
    let faults = faults(&rows, 3);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn each_limit_names_a_constant_of_its_file() {
    let page = read("LIMITS.md").expect("the limits are listed");
    let rows = rows(&page, &["limit", "value", "setting or constant", "file"]);
    assert!(rows.len() >= 40, "{} limits are listed", rows.len());
    let faults = faults(&rows, 4);
    assert!(faults.is_empty(), "{faults:#?}");
}
