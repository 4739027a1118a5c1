//! The items of a channel, found and measured.

use std::collections::{HashMap, HashSet};

use futures_util::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};

use super::library_items::LibraryFile;
use crate::domain::catalogue::ItemId;
use crate::domain::channel::{Channel, ItemSource, OutputSettings, RequestedItem};
use crate::domain::channel_rule::{ItemRule, RuleCondition};
use crate::domain::library::file_stem;
use crate::domain::schedule::{ItemDescription, ScheduleItem, ScheduleItems};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::renditions::planner::channel_item::{self, MeasuredItem};

/// Files of one channel at most.
pub(super) const MAX_FILES: usize = 5000;

/// Files probed concurrently.
const MAX_CONCURRENT_PROBES: usize = 4;

/// Shortest item, ms.
const MIN_DURATION_MS: i64 = 500;

/// Items listed in an error at most.
const MAX_REPORTED_ITEMS: usize = 100;

/// How the items of a channel are found.
pub(super) struct ItemSearch<'a> {
    output: &'a OutputSettings,
    /// Leaves out items that cannot be aired, if at least one can.
    skip_invalid: bool,
    /// Items of earlier revisions, whose ids are kept, the newest list first.
    pub earlier: Vec<ScheduleItems>,
    /// Whether items that were measured before are taken as they are.
    reuses_items: bool,
    /// The contents of the items of the last revision, by path.
    contents: HashMap<String, Option<ItemId>>,
}

/// A file to measure.
struct RequestedFile<'a> {
    path: String,
    /// If the library knows it.
    content: Option<ItemId>,
    requested: &'a RequestedItem,
}

impl<'a> ItemSearch<'a> {
    /// For a change by an administrator: every item is measured.
    pub(super) fn for_change(old: Option<&Channel>, output: &'a OutputSettings, skip_invalid: bool) -> Self {
        let earlier = old.map(|old| old.definition.item_lists()).unwrap_or_default();
        let last = earlier.first().into_iter().flat_map(|list| list.iter());
        let contents = last.map(|item| (item.path.clone(), item.content)).collect();
        Self { output, skip_invalid, earlier, reuses_items: false, contents }
    }

    /// For a change of the library: only new items are measured, and those that cannot be aired are left out.
    pub(super) fn for_library_change(channel: &'a Channel) -> Self {
        Self { skip_invalid: true, reuses_items: true, ..Self::for_change(Some(channel), &channel.output, true) }
    }

    /// The measured items that are taken as they are.
    fn reusable_items(&self) -> HashMap<ItemId, &ScheduleItem> {
        let last = self.earlier.first().filter(|_| self.reuses_items).into_iter().flat_map(|list| list.iter());
        last.filter_map(|item| Some((item.content?, &**item))).collect()
    }

    fn content_at(&self, path: &str) -> Option<ItemId> {
        self.contents.get(path).copied().flatten()
    }
}

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
        search: &ItemSearch<'_>,
        may_have_breaks: bool,
    ) -> Result<Vec<ScheduleItem>> {
        let (mut files, mut selected) = (Vec::new(), HashSet::new());
        for requested in requested_items {
            let mut found = self.find_files(requested, search).await?;
            if requested.rule().is_some() {
                // What two rules select is one item.
                found.retain(|(_, content)| content.is_none_or(|content| selected.insert(content)));
            }
            files.extend(found.into_iter().map(|(path, content)| RequestedFile { path, content, requested }));
            if files.len() > MAX_FILES {
                return Err(Error::invalid_field("items", format!("contain more than {MAX_FILES} files")));
            }
        }
        let known = search.reusable_items();
        let measure = async |file: RequestedFile<'_>| match file.content.and_then(|content| known.get(&content)) {
            Some(item) => Ok(reused_item(item, file)),
            None => self.measure_item(file, search.output).await,
        };
        let probes: Vec<_> = files.into_iter().map(|file| measure(file).boxed()).collect();
        let outcomes: Vec<_> = stream::iter(probes).buffered(MAX_CONCURRENT_PROBES).collect().await;
        let (mut items, mut faults) = (Vec::new(), Vec::new());
        for outcome in outcomes {
            match outcome {
                // Breaks are at the segment bounds of encoded video.
                Ok(item) if may_have_breaks && !item.breaks.is_empty() => {
                    items.push(ScheduleItem { copy: None, ..item })
                }
                Ok(item) => items.push(ScheduleItem { breaks: Box::default(), ..item }),
                Err(fault) => faults.push(fault),
            }
        }
        if items.is_empty() && faults.is_empty() {
            return Err(Error::invalid_field("items", "contain no media files"));
        }
        if !faults.is_empty() && (!search.skip_invalid || items.is_empty()) {
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

    /// The files of a requested item, with the contents that the library knows.
    async fn find_files(
        &self,
        requested: &RequestedItem,
        search: &ItemSearch<'_>,
    ) -> Result<Vec<(String, Option<ItemId>)>> {
        let path = match &requested.source {
            ItemSource::Rule(rule) => return self.select_files(rule),
            ItemSource::Path(path) => path,
        };
        match self.list_files(path, requested.recursive).await {
            Ok(paths) => {
                let with_content = |path: String| {
                    let content = search.content_at(&path);
                    (path, content)
                };
                Ok(paths.into_iter().map(with_content).collect())
            }
            Err(fault) if fault.code == Code::NotFound => {
                let Some(content) = search.content_at(path) else { return Err(fault) };
                match self.find_content(path, content).await {
                    Some(path) => Ok(vec![(path, Some(content))]),
                    // It stays an item until it returns or an administrator removes it.
                    None if search.reuses_items => Ok(vec![(path.to_string(), Some(content))]),
                    None => Err(fault),
                }
            }
            Err(fault) => Err(fault),
        }
    }

    /// The files that a rule selects now.
    fn select_files(&self, rule: &ItemRule) -> Result<Vec<(String, Option<ItemId>)>> {
        for condition in &rule.conditions {
            match condition {
                RuleCondition::Folder(path) | RuleCondition::Playlist(path) => drop(self.library.roots().locate(path)?),
                RuleCondition::Unwatched(user_id) if !self.accounts.is_user(user_id) => {
                    return Err(Error::invalid_field("items", format!("name the user {user_id}, who does not exist")));
                }
                _ => {}
            }
        }
        let files = self.channels.library_items.as_ref().map(|items| items.select(self, rule)).unwrap_or_default();
        Ok(files.into_iter().map(|LibraryFile { path, content }| (path, Some(content))).collect())
    }

    async fn measure_item(&self, file: RequestedFile<'_>, output: &OutputSettings) -> Result<ScheduleItem, Value> {
        let RequestedFile { path, requested, .. } = file;
        let item_fault = |code: &str, reason: &str| json!({"path": path.as_str(), "code": code, "reason": reason});
        let measurement = async {
            let source = self.library.open(&path).await?;
            self.media.probe_patiently(&source).await?;
            let measured = channel_item::measure(self, &path, output).await?;
            let content = self.media.fingerprint(&source).await.ok().and_then(|id| ItemId::parse(&id));
            Ok((measured, content, self.library.describe_patiently(&source).await))
        };
        let (MeasuredItem { duration_ms, segmentation, video_format, breaks, languages, copy }, content, nfo) =
            measurement.await.map_err(|fault: Error| item_fault(fault.code.as_str(), &fault.message))?;
        if duration_ms < MIN_DURATION_MS {
            return Err(item_fault(Code::UnplayableMedia.as_str(), "its duration is unknown or less than 0.5 s"));
        }
        let title = item_title(requested, &path);
        // A title in the request is the name; the NFO file adds the rest.
        let described = nfo.map(|nfo| ItemDescription::from_nfo(nfo, requested.title.is_none())).unwrap_or_default();
        let library = self.channels.library_items.as_ref().filter(|_| requested.title.is_none());
        let names = library.zip(content).and_then(|(items, content)| items.names_of(&path, content));
        let described = names.iter().fold(described, ItemDescription::with_names);
        let description = (described != ItemDescription::default()).then(|| Box::new(described));
        let weight = requested.weight;
        Ok(ScheduleItem {
            id: 0,
            path,
            content,
            title,
            duration_ms,
            weight,
            segmentation,
            video_format,
            breaks,
            description,
            languages: languages.map(Box::new),
            copy: copy.map(Box::new),
        })
    }
}

fn item_title(requested: &RequestedItem, path: &str) -> String {
    requested.title.as_deref().unwrap_or_else(|| file_stem(path)).to_owned()
}

/// An item that was measured before, at the path where its file is now.
fn reused_item(item: &ScheduleItem, file: RequestedFile<'_>) -> ScheduleItem {
    let title = item_title(file.requested, &file.path);
    ScheduleItem { path: file.path, title, weight: file.requested.weight, ..item.clone() }
}
