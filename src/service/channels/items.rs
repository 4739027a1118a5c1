//! The items of a channel, found and measured.

use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};

use crate::domain::channel::{OutputSettings, RequestedItem};
use crate::domain::library::{compare_natural, file_stem, kind_from_name, not_media_error};
use crate::domain::schedule::{ItemDescription, ScheduleItem};
use crate::engine::folder::{EntryHint, EntryTarget, Folder};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::renditions::planner::channel_item::{self, MeasuredItem};

/// Files of one channel at most, and folders searched for them.
const MAX_FILES: usize = 5000;
const MAX_FOLDERS: usize = 5000;

/// Files probed concurrently.
const MAX_CONCURRENT_PROBES: usize = 4;

/// Shortest item, ms.
const MIN_DURATION_MS: i64 = 500;

/// Items listed in an error at most.
const MAX_REPORTED_ITEMS: usize = 100;

impl Service {
    /// All requested items in their order, each with its length but without an id. Breaks are kept only if
    /// `may_have_breaks` is set.
    ///
    /// # Errors
    /// Those of opening a requested path; `UNPLAYABLE_MEDIA` with `details.items` when some have no length, or, with
    /// `skip_invalid`, when all have none; `PROBE_TIMED_OUT`, the same way, when some could not be probed in time;
    /// `VALIDATION_ERROR` for none or too many.
    pub(super) async fn channel_items(
        &self,
        requested_items: &[RequestedItem],
        output: &OutputSettings,
        skip_invalid: bool,
        may_have_breaks: bool,
    ) -> Result<Vec<ScheduleItem>> {
        let mut files: Vec<(String, &RequestedItem)> = Vec::new();
        for requested in requested_items {
            for path in self.list_files(requested).await? {
                files.push((path, requested));
            }
            if files.len() > MAX_FILES {
                return Err(Error::invalid_field("items", format!("contain more than {MAX_FILES} files")));
            }
        }
        let probes: Vec<_> =
            files.into_iter().map(|(path, requested)| self.measure_item(path, requested, output).boxed()).collect();
        let outcomes: Vec<_> = stream::iter(probes).buffered(MAX_CONCURRENT_PROBES).collect().await;
        let (mut items, mut faults) = (Vec::new(), Vec::new());
        for outcome in outcomes {
            match outcome {
                Ok(item) if may_have_breaks => items.push(item),
                Ok(item) => items.push(ScheduleItem { breaks: Box::default(), ..item }),
                Err(fault) => faults.push(fault),
            }
        }
        if items.is_empty() && faults.is_empty() {
            return Err(Error::invalid_field("items", "contain no media files"));
        }
        if !faults.is_empty() && (!skip_invalid || items.is_empty()) {
            let message = format!("{} of {} items cannot be aired", faults.len(), faults.len() + items.len());
            faults.truncate(MAX_REPORTED_ITEMS);
            // A file whose probe timed out may be playable later.
            let has_timeout = faults.iter().any(|fault| fault["code"] == Code::ProbeTimedOut.as_str());
            let error = match has_timeout {
                true => Error::new(Code::ProbeTimedOut, format!("{message} yet")).with_retry_after(10),
                false => Error::new(Code::UnplayableMedia, message),
            };
            return Err(error.with_details(json!({"items": faults})));
        }
        Ok(items)
    }

    async fn measure_item(
        &self,
        path: String,
        requested: &RequestedItem,
        output: &OutputSettings,
    ) -> Result<ScheduleItem, Value> {
        let item_fault = |code: &str, reason: &str| json!({"path": path.as_str(), "code": code, "reason": reason});
        let measurement = async {
            let source = self.library.open(&path).await?;
            self.media.probe_patiently(&source).await?;
            let measured = channel_item::measure(self, &path, output).await?;
            Ok((measured, self.library.describe_patiently(&source).await))
        };
        let (MeasuredItem { duration_ms, segmentation, video_format, breaks, languages }, nfo) =
            measurement.await.map_err(|fault: Error| item_fault(fault.code.as_str(), &fault.message))?;
        if duration_ms < MIN_DURATION_MS {
            return Err(item_fault(Code::UnplayableMedia.as_str(), "its duration is unknown or less than 0.5 s"));
        }
        let title = requested.title.as_deref().unwrap_or_else(|| file_stem(&path)).to_owned();
        // A title in the request is the name; the NFO file adds the rest.
        let description = nfo.map(|nfo| Box::new(ItemDescription::from_nfo(nfo, requested.title.is_none())));
        let weight = requested.weight;
        Ok(ScheduleItem {
            id: 0,
            path,
            title,
            duration_ms,
            weight,
            segmentation,
            video_format,
            breaks,
            description,
            languages: languages.map(Box::new),
        })
    }

    /// The files of a requested item: itself, or the files of a folder in natural order.
    async fn list_files(&self, requested: &RequestedItem) -> Result<Vec<String>> {
        let with_item = |fault: Error| {
            let item = json!({"path": requested.path, "code": fault.code.as_str(), "reason": fault.message});
            fault.with_details(json!({"items": [item]}))
        };
        let roots = self.library.roots().clone();
        let located = roots.locate(&requested.path).map_err(with_item)?;
        let (path, recursive) = (located.path.clone(), requested.recursive);
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
