//! Migration from older layouts, one step per layout.
//!
//! A step writes the new files beside the old ones and puts them in place at its end. If it is interrupted, the next start
//! repeats it.

use std::fs;
use std::path::Path;

use super::draft::Draft;
use super::index::Index;
use super::tree::Tree;
use super::{open_error, quarantine};
use crate::error::Result;

/// Migrates from layout 1 (until November 2026): sled alone, each record being 16 bytes of checksum over tree, key and
/// value, followed by JSON. Returns false when the state does not have that layout.
pub fn from_layout_1(dir: &Path, index_folder: &Path) -> Result<bool> {
    // Without a journal the index is the only copy, so a failure to open it must not lead to an empty state.
    let index = Index::open(index_folder).map_err(|fault| {
        let remedy = "import a backup with --replace, or move the folder away to start with an empty state";
        open_error(index_folder, format!("the journal is missing, and the index cannot be opened: {fault} ({remedy})"))
    })?;
    let layout = index.tree(Tree::Meta).get("format").ok().flatten();
    if layout.and_then(|stored| decode_v1(Tree::Meta, "format", &stored).map(<[u8]>::to_vec)).as_deref() != Some(b"1") {
        return Ok(false);
    }
    let to_error = |cause: std::io::Error| open_error(dir, cause);
    let mut draft = Draft::begin(dir).map_err(to_error)?;
    let (mut number, mut damaged) = (0, Vec::new());
    for tree in Tree::journaled_trees() {
        for entry in index.tree(tree).iter() {
            let (key, stored) = entry.map_err(|cause| open_error(index_folder, cause))?;
            let key = String::from_utf8_lossy(&key);
            match decode_v1(tree, &key, &stored) {
                Some(json) => {
                    number += 1;
                    draft.add_record(tree, &key, number, Some(json)).map_err(to_error)?;
                }
                None => damaged.push(format!("{}/{key}", tree.name())),
            }
        }
    }
    drop(index);
    draft.complete_and_replace(dir).map_err(to_error)?;
    if damaged.is_empty() {
        fs::remove_dir_all(index_folder).map_err(to_error)?;
    } else {
        let quarantined = quarantine::move_away(dir, "db").map_err(to_error)?;
        let records = damaged.join(" ");
        tracing::error!(records, kept = %quarantined.display(), "damaged records of the old layout were not migrated");
    }
    tracing::info!(records = number, "the state was migrated to layout 2");
    Ok(true)
}

/// Marks the index, so that a program that only knows layout 1 refuses it.
pub fn write_layout_marker(index: &Index) {
    let layout = super::journal::LAYOUT.to_string();
    let mut stored = v1_checksum(Tree::Meta, "format", layout.as_bytes()).to_vec();
    stored.extend_from_slice(layout.as_bytes());
    // Errors do not matter: such a program could not read the records anyway.
    let _ = index.tree(Tree::Meta).insert("format", stored);
}

/// Verifies a record of layout 1 and returns its JSON.
fn decode_v1<'a>(tree: Tree, key: &str, stored: &'a [u8]) -> Option<&'a [u8]> {
    let (sum, json) = stored.split_at_checked(16)?;
    (*sum == v1_checksum(tree, key, json)).then_some(json)
}

fn v1_checksum(tree: Tree, key: &str, json: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for part in [tree.name().as_bytes(), key.as_bytes(), json] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().as_bytes()[..16].try_into().expect("a BLAKE3 hash has 32 bytes")
}

#[cfg(test)]
pub fn encode_v1(tree: Tree, key: &str, json: &[u8]) -> Vec<u8> {
    [&v1_checksum(tree, key, json)[..], json].concat()
}
