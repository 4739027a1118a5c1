//! The items of a channel, found and measured.

use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};

use crate::domain::channel::{RequestedItem, OutputSettings};
use crate::domain::library::{kind_from_name, compare_natural};
use crate::domain::schedule::ScheduleItem;
use crate::engine::folder::{Folder, EntryHint, EntryTarget};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::planner::air::{self, Measured};
use crate::service::progress::stem;

/// Files of one channel at most, and folders searched for them.
const MAX_FILES: usize = 5000;
const MAX_FOLDERS: usize = 5000;

/// Files probed concurrently.
const LOOKS: usize = 4;

/// Shortest item, ms.
const SHORTEST_MS: i64 = 500;

/// Items listed in an error at most.
const NAMED: usize = 100;

impl Service {
    /// All requested items in their order, each with its length but without an id. Breaks are kept only if the items may be
    /// `broken`.
    ///
    /// # Errors
    /// Those of opening a requested path; `UNPLAYABLE_MEDIA` with `details.items` when some have no length, or, with
    /// `skip_invalid`, when all have none; `PROBE_TIMED_OUT`, the same way, when some could not be probed in time;
    /// `VALIDATION_ERROR` for none or too many.
    pub(super) async fn channel_items(
        &self,
        asks: &[RequestedItem],
        output: &OutputSettings,
        skip_invalid: bool,
        broken: bool,
    ) -> Result<Vec<ScheduleItem>> {
        let mut found: Vec<(String, &RequestedItem)> = Vec::new();
        for ask in asks {
            for path in self.files_of(ask).await? {
                found.push((path, ask));
            }
            if found.len() > MAX_FILES {
                return Err(Error::field("items", format!("contain more than {MAX_FILES} files")));
            }
        }
        let looks: Vec<_> = found.into_iter().map(|(path, ask)| self.measured(path, ask, output).boxed()).collect();
        let looked: Vec<_> = stream::iter(looks).buffered(LOOKS).collect().await;
        let (mut items, mut faulty) = (Vec::new(), Vec::new());
        for outcome in looked {
            match outcome {
                Ok(item) if broken => items.push(item),
                Ok(item) => items.push(ScheduleItem { breaks: Box::default(), ..item }),
                Err(fault) => faulty.push(fault),
            }
        }
        if items.is_empty() && faulty.is_empty() {
            return Err(Error::field("items", "contain no media files"));
        }
        if !faulty.is_empty() && (!skip_invalid || items.is_empty()) {
            let message = format!("{} of {} items cannot be aired", faulty.len(), faulty.len() + items.len());
            faulty.truncate(NAMED);
            // A file whose probe timed out may be playable later.
            let late = faulty.iter().any(|fault| fault["code"] == Code::ProbeTimedOut.as_str());
            let refusal = match late {
                true => Error::new(Code::ProbeTimedOut, format!("{message} yet")).with_retry_after(10),
                false => Error::new(Code::UnplayableMedia, message),
            };
            return Err(refusal.with_details(json!({"items": faulty})));
        }
        Ok(items)
    }

    async fn measured(&self, path: String, ask: &RequestedItem, output: &OutputSettings) -> Result<ScheduleItem, Value> {
        let faulty = |code: &str, reason: &str| json!({"path": path.as_str(), "code": code, "reason": reason});
        let measuring = async {
            let source = self.library.open(&path).await?;
            self.media.probe_patiently(&source).await?;
            air::measure(self, &path, output).await
        };
        let Measured { duration_ms, cut, look, breaks } =
            measuring.await.map_err(|fault| faulty(fault.code.as_str(), &fault.message))?;
        if duration_ms < SHORTEST_MS {
            return Err(faulty(Code::UnplayableMedia.as_str(), "its duration is unknown or less than 0.5 s"));
        }
        let title = ask.title.as_deref().unwrap_or_else(|| stem(&path)).to_owned();
        Ok(ScheduleItem { id: 0, title, duration_ms, weight: ask.weight, path, segmentation, video_format, breaks })
    }

    /// The files of a requested item: itself, or the files of a folder in natural order.
    async fn files_of(&self, ask: &RequestedItem) -> Result<Vec<String>> {
        let named = |fault: Error| {
            let item = json!({"path": ask.path, "code": fault.code.as_str(), "reason": fault.message});
            fault.with_details(json!({"items": [item]}))
        };
        let located = self.roots.locate(&ask.path).map_err(named)?;
        let (roots, path, recursive) = (self.roots.clone(), located.path.clone(), ask.recursive);
        let looking = self.library.within_deadline(located.root_index, move || match roots.resolve_target(&path) {
            Some(EntryTarget::Folder) => {
                let mut found = Vec::new();
                let mut folders = vec![path];
                let mut seen = 0;
                while let Some(next) = folders.pop() {
                    within(&roots.open_folder(&next)?, &mut found, recursive.then_some(&mut folders))?;
                    seen += 1;
                    if found.len() > MAX_FILES || seen > MAX_FOLDERS {
                        break;
                    }
                }
                found.sort_by(|a, b| compare_natural(a, b));
                Ok(found)
            }
            // Opening it shows what it is and whether it may be opened.
            _ => roots.open_media(&path).map(|source| vec![source.path]),
        });
        looking.await.map_err(named)
    }
}

fn within(folder: &Folder<'_>, found: &mut Vec<String>, mut below: Option<&mut Vec<String>>) -> Result<()> {
    let base = folder.located.path.trim_end_matches('/').to_owned();
    for (name, hint) in folder.list_entries()? {
        let media = kind_from_name(&name).is_some();
        if hint == EntryHint::File && !media || found.len() > MAX_FILES {
            continue;
        }
        // Links to folders are not followed, because they could form a loop.
        match (hint, folder.resolve_entry(&name)) {
            (_, Some(EntryTarget::File { .. })) if media => found.push(format!("{base}/{name}")),
            (EntryHint::Folder, Some(EntryTarget::Folder)) => {
                if let Some(below) = &mut below {
                    below.push(format!("{base}/{name}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
