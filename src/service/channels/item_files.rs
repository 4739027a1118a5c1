//! The files of a requested path.

use serde_json::json;

use super::items::MAX_FILES;
use crate::domain::library::{compare_natural, kind_from_name, not_media_error};
use crate::engine::folder::{EntryHint, EntryTarget, Folder};
use crate::error::{Error, Result};
use crate::service::Service;

/// Folders searched for the files of one path at most.
const MAX_FOLDERS: usize = 5000;

impl Service {
    /// The files of a requested path: itself, or the files of a folder in natural order.
    ///
    /// # Errors
    /// Those of opening the path, with `details.items`.
    pub(super) async fn list_files(&self, requested_path: &str, recursive: bool) -> Result<Vec<String>> {
        let with_item = |fault: Error| {
            let item = json!({"path": requested_path, "code": fault.code.as_str(), "reason": fault.message});
            fault.with_details(json!({"items": [item]}))
        };
        let roots = self.library.roots().clone();
        let located = roots.locate(requested_path).map_err(with_item)?;
        let path = located.path.clone();
        let search = self.library.run_with_deadline(located.root_index, move || match roots.resolve_target(&path) {
            Some(EntryTarget::Folder) => {
                let mut files = Vec::new();
                let mut folders = vec![path];
                let mut folder_count = 0;
                while let Some(folder) = folders.pop() {
                    collect_files(&roots.open_folder(&folder)?, &mut files, recursive.then_some(&mut folders))?;
                    folder_count += 1;
                    if files.len() > MAX_FILES || folder_count > MAX_FOLDERS {
                        break;
                    }
                }
                files.sort_by(|a, b| compare_natural(a, b));
                Ok(files)
            }
            // Opening it shows what it is and whether it may be opened.
            _ => {
                let source = roots.open_file(&path)?;
                if source.format.is_some() { Ok(vec![source.path]) } else { Err(not_media_error()) }
            }
        });
        search.await.map_err(with_item)
    }
}

fn collect_files(folder: &Folder<'_>, files: &mut Vec<String>, mut subfolders: Option<&mut Vec<String>>) -> Result<()> {
    let base = folder.located.path.trim_end_matches('/').to_owned();
    for (name, hint) in folder.list_entries()? {
        let is_media = kind_from_name(&name).is_some();
        if hint == EntryHint::File && !is_media || files.len() > MAX_FILES {
            continue;
        }
        // Links to folders are not followed, because they could form a loop.
        match (hint, folder.resolve_entry(&name)) {
            (_, Some(EntryTarget::File { .. })) if is_media => files.push(format!("{base}/{name}")),
            (EntryHint::Folder, Some(EntryTarget::Folder)) => {
                if let Some(subfolders) = &mut subfolders {
                    subfolders.push(format!("{base}/{name}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
