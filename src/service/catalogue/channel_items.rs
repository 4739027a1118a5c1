//! The catalogue as channels need it: rules, titles, and where a content is.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::Catalogue;
use super::item::{IndexedItem, ItemId};
use super::query::{ItemFilter, Matcher};
use super::scan::split_path;
use super::series::{Progress, number_order};
use super::view::IndexView;
use crate::domain::catalogue::{ItemKind, WatchedFilter};
use crate::domain::channel_rule::{ItemRule, RuleCondition};
use crate::domain::library::compare_natural;
use crate::domain::schedule::ItemNames;
use crate::engine::folder::EntryTarget;
use crate::service::Service;
use crate::service::channels::{LibraryFile, LibraryItems};

/// A condition that an item must fulfil.
struct Condition {
    filter: ItemFilter,
    progress: Progress,
}

impl Condition {
    fn new(service: &Service, condition: &RuleCondition) -> Self {
        let (mut filter, mut progress) = (ItemFilter::default(), HashMap::new());
        match condition {
            RuleCondition::Folder(path) => filter.folder = Some(path.to_string()),
            RuleCondition::Genre(genre) => filter.genre = Some(genre.to_string()),
            RuleCondition::Series(id) => filter.series = Some(*id),
            RuleCondition::Years(first, last) => filter.years = Some((*first, *last)),
            RuleCondition::Person(person) => filter.person = Some(person.to_string()),
            RuleCondition::ItemKind(kind) => filter.kinds = vec![*kind],
            RuleCondition::Newest | RuleCondition::Playlist(_) => {}
            RuleCondition::Unwatched(user_id) => {
                filter.watched = Some(WatchedFilter::Unwatched);
                progress = service.progress_of_items(user_id);
            }
        }
        Self { filter, progress }
    }
}

impl LibraryItems for Catalogue {
    fn select(&self, service: &Service, rule: &ItemRule) -> Vec<LibraryFile> {
        let conditions: Vec<Condition> = rule.conditions.iter().map(|one| Condition::new(service, one)).collect();
        let index = self.read_index();
        let index = index.all();
        let matchers: Vec<_> = conditions.iter().map(|one| Matcher::new(index, &one.filter, &one.progress)).collect();
        let playlists = playlists_of(index, rule);
        let is_selected = |item: &IndexedItem| {
            (rule.includes_extras() || item.kind != ItemKind::Extra)
                && playlists.iter().all(|places| places.contains_key(&item.id))
                && matchers.iter().all(|matcher| matcher.matches(item))
        };
        let mut items: Vec<&IndexedItem> =
            index.items().map(|(_, item)| item).filter(|item| is_selected(item)).collect();
        sort(&mut items, rule);
        if let Some(places) = playlists.first().filter(|_| !rule.is_newest_first()) {
            items.sort_by_key(|item| places.get(&item.id));
        }
        items.truncate(rule.max_items as usize);
        items.into_iter().map(|item| LibraryFile { path: item.path(), content: item.id }).collect()
    }

    fn names_of(&self, path: &str, content: ItemId) -> Option<ItemNames> {
        let (folder, name) = split_path(path);
        let index = self.read_index();
        let item = index.file(folder, name).filter(|item| item.id == content)?;
        Some(ItemNames {
            kind: item.kind,
            title: item.title().to_owned(),
            series: item.series().map(|(_, title)| title.to_string()),
            season: item.season(),
            episode: item.episode(),
            year: item.year,
            released_on: item.released_on,
        })
    }

    fn paths_of(&self, content: ItemId) -> Vec<String> {
        self.read_index().paths(content)
    }

    fn version_of(&self, content: ItemId) -> Option<EntryTarget> {
        let listed = self.read_index().by_id(content).map(IndexedItem::version);
        listed.or_else(|| self.lock_pending().gone.get(&content).copied())
    }

    fn has_files_below(&self, folder: &str) -> bool {
        self.read_index().has_files_below(folder)
    }

    fn unread_folders(&self, near: &str, limit: usize) -> Vec<String> {
        let pending = self.lock_pending();
        let likeness = |folder: &str| folder.bytes().zip(near.bytes()).take_while(|(one, other)| one == other).count();
        let mut folders: Vec<_> =
            pending.folders.iter().chain(&pending.reading).map(|folder| (Reverse(likeness(folder)), folder)).collect();
        if limit < folders.len() {
            folders.select_nth_unstable(limit);
            folders.truncate(limit);
        }
        folders.sort_unstable();
        folders.into_iter().map(|(_, folder)| folder.to_string()).collect()
    }

    fn is_current(&self, root_count: usize) -> bool {
        Self::is_current(self, root_count)
    }
}

/// The places of items in the playlists that a rule names.
fn playlists_of(index: IndexView<'_>, rule: &ItemRule) -> Vec<HashMap<ItemId, usize>> {
    let places = |condition: &RuleCondition| match condition {
        RuleCondition::Playlist(path) => Some(index.playlist_places(path)),
        _ => None,
    };
    rule.conditions.iter().filter_map(places).collect()
}

/// Sorts items as a rule lists them: the newest first, a folder by its paths, a series by its numbers, others by title.
fn sort(items: &mut [&IndexedItem], rule: &ItemRule) {
    let has = |is_such: fn(&RuleCondition) -> bool| rule.conditions.iter().any(is_such);
    let by_title = |a: &&IndexedItem, b: &&IndexedItem| a.sort_key().cmp(b.sort_key()).then_with(|| a.id.cmp(&b.id));
    if rule.is_newest_first() {
        items.sort_by(|a, b| b.added_ms.cmp(&a.added_ms).then_with(|| by_title(a, b)));
    } else if has(|condition| matches!(condition, RuleCondition::Folder(_))) {
        items.sort_by(|a, b| {
            compare_natural(&a.folder, &b.folder)
                .then_with(|| compare_natural(a.name(), b.name()))
                .then(a.id.cmp(&b.id))
        });
    } else if has(|condition| matches!(condition, RuleCondition::Series(_))) {
        let key = |item: &IndexedItem| (number_order(item.season(), item.episode()), item.released_on);
        items.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| by_title(a, b)));
    } else {
        items.sort_by(by_title);
    }
}
