//! Storage of a guide: pieces of bounded size, and a head record that lists the valid pieces.
//!
//! The pieces of a new generation are written first, then the head, then the former pieces are removed. So a guide is
//! replaced atomically: a failure or crash before the head is written leaves the former guide, also after a restart.
//!
//! Until 2026-11-22 each channel was one record, of any size, under `source/id`; such guides are still read.

use std::collections::BTreeMap;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::domain::listing::Listing;
use crate::domain::xmltv::parse::MAX_CHANNEL_ICON_BYTES;
use crate::error::{Code, Result};
use crate::store::{MAX_RECORD_BYTES, Store, Tree};

/// Bytes of text in one piece; the listing that exceeds it is its last.
const MAX_PIECE_TEXT_BYTES: usize = 256 << 10;

// JSON escapes one byte to at most six, and one listing has a few kilobytes of text.
const _: () = assert!(6 * (MAX_PIECE_TEXT_BYTES + (64 << 10)) < MAX_RECORD_BYTES);
const _: () = assert!(6 * MAX_CHANNEL_ICON_BYTES + (1 << 20) < MAX_RECORD_BYTES);

/// Bytes of JSON for a listing apart from its texts.
const LISTING_OVERHEAD_BYTES: usize = 160;

/// Records written or removed at once.
const CONCURRENT_WRITES: usize = 64;

/// The valid pieces.
#[derive(Serialize, Deserialize)]
pub struct GuideHead {
    generation: u32,
    pieces: u32,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    icons: ChannelIcons,
}

/// The guide of a source as it is stored.
#[derive(Debug, Default)]
pub struct StoredGuide {
    pub channels: GuidePiece,
    pub icons: ChannelIcons,
}

/// Addresses of icons on other servers, by the id of their channel.
pub type ChannelIcons = BTreeMap<String, String>;

/// Listings by the id of their channel; a channel may continue in the next piece.
pub type GuidePiece = Vec<(String, Vec<Listing>)>;

fn head_key(source: u32) -> String {
    format!("{source:010}")
}

fn generation_prefix(source: u32, generation: u32) -> String {
    format!("{source:010}:{generation:010}:")
}

fn piece_key(source: u32, generation: u32, piece: u32) -> String {
    format!("{}{piece:06}", generation_prefix(source, generation))
}

/// Reads the stored guide of a source; None if it has no guide.
pub fn read_guide(store: &Store, tree: Tree, source: u32) -> Result<Option<StoredGuide>> {
    let Some(GuideHead { generation, pieces, icons }) = store.get(tree, &head_key(source))? else {
        let old = read_old_format(store, tree, source)?;
        return Ok(old.map(|channels| StoredGuide { channels, icons: ChannelIcons::new() }));
    };
    let mut channels = GuidePiece::new();
    for number in 0..pieces {
        match store.get::<GuidePiece>(tree, &piece_key(source, generation, number))? {
            Some(piece) => channels.extend(piece),
            None => tracing::error!(source.id = source, piece = number, "a piece of a guide is missing"),
        }
    }
    Ok(Some(StoredGuide { channels, icons }))
}

/// Reads the format of older versions.
fn read_old_format(store: &Store, tree: Tree, source: u32) -> Result<Option<GuidePiece>> {
    let prefix = format!("{source:010}/");
    let mut all = GuidePiece::new();
    for key in store.keys(tree, &prefix)? {
        if let Some(listings) = store.get(tree, &key)? {
            all.push((key[prefix.len()..].to_owned(), listings));
        }
    }
    Ok((!all.is_empty()).then_some(all))
}

/// Whether this tree has the guide in the present format.
pub fn is_stored(store: &Store, tree: Tree, source: u32) -> Result<bool> {
    Ok(store.get::<GuideHead>(tree, &head_key(source))?.is_some())
}

/// Replaces the guide of a source.
///
/// # Errors
/// `STORAGE_FULL`; then the former guide stays, also after a restart.
pub async fn write_guide<'a>(
    store: &Store,
    tree: Tree,
    source: u32,
    guide: impl Iterator<Item = (&'a str, &'a [Listing])>,
    icons: ChannelIcons,
) -> Result<()> {
    let former: Option<GuideHead> = store.get(tree, &head_key(source))?;
    let generation = former.map_or(0, |head| head.generation.wrapping_add(1));
    let pieces: Vec<_> = split_guide(guide).collect();
    let head = GuideHead { generation, pieces: pieces.len() as u32, icons };
    let writes = pieces.into_iter().zip(0..).map(|(piece, number)| async move {
        let key = piece_key(source, generation, number);
        store.put(tree, &key, &piece).await
    });
    let writes: Vec<_> = writes.collect();
    let written = stream::iter(writes).buffer_unordered(CONCURRENT_WRITES).try_for_each(|()| async { Ok(()) }).await;
    let outcome = match written {
        Ok(()) => store.put(tree, &head_key(source), &head).await,
        Err(error) => Err(error),
    };
    let own_prefix = generation_prefix(source, generation);
    match &outcome {
        // Removes other generations and the records of older versions.
        Ok(()) => {
            remove_records(store, tree, source, |key| key != head_key(source) && !key.starts_with(&own_prefix)).await
        }
        // Pieces without a head are not read. If the outcome is unknown, the head may have been written.
        Err(error) if error.code == Code::StorageFull => {
            remove_records(store, tree, source, |key| key.starts_with(&own_prefix)).await;
        }
        Err(_) => {}
    }
    outcome
}

/// Removes the stored guide of a source.
///
/// # Errors
/// `STORAGE_FULL`.
pub async fn delete_guide(store: &Store, tree: Tree, source: u32) -> Result<()> {
    // The head first: without it the pieces are not read.
    store.delete(tree, &head_key(source)).await?;
    delete(store, tree, source, |_| true).await
}

/// Removes outdated records. A failure leaves some, which the next write for the source removes.
async fn remove_records(store: &Store, tree: Tree, source: u32, is_outdated: impl Fn(&str) -> bool) {
    if let Err(fault) = delete(store, tree, source, is_outdated).await {
        tracing::warn!(source.id = source, %fault, "outdated pieces of a guide could not be removed");
    }
}

/// Deletes the records of a source whose key satisfies the predicate.
async fn delete(store: &Store, tree: Tree, source: u32, which: impl Fn(&str) -> bool) -> Result<()> {
    let keys: Vec<String> = store.keys(tree, &head_key(source))?.into_iter().filter(|key| which(key)).collect();
    let removals: Vec<_> = keys.iter().map(|key| async move { store.delete(tree, key).await }).collect();
    stream::iter(removals).buffer_unordered(CONCURRENT_WRITES).try_for_each(|_| async { Ok(()) }).await
}

fn split_guide<'a>(
    mut channels: impl Iterator<Item = (&'a str, &'a [Listing])>,
) -> impl Iterator<Item = Vec<(&'a str, &'a [Listing])>> {
    // Listings of the last channel that did not fit into the last piece.
    let mut remaining = None;
    std::iter::from_fn(move || {
        let (mut piece, mut size) = (Vec::new(), 0);
        while size < MAX_PIECE_TEXT_BYTES {
            let Some((id, listings)) = remaining.take().or_else(|| channels.next()) else { break };
            size += id.len();
            let mut taken_count = 0;
            while taken_count < listings.len() && size < MAX_PIECE_TEXT_BYTES {
                size += text_bytes(&listings[taken_count]);
                taken_count += 1;
            }
            piece.push((id, &listings[..taken_count]));
            remaining = (taken_count < listings.len()).then(|| (id, &listings[taken_count..]));
        }
        (!piece.is_empty()).then_some(piece)
    })
}

fn text_bytes(listing: &Listing) -> usize {
    let Listing { title, subtitle, description, categories, rating, icon_url, .. } = listing;
    let optional = [subtitle, rating, icon_url].into_iter().flatten().map(String::len);
    let texts = categories.iter().map(String::len).chain(optional).sum::<usize>();
    LISTING_OVERHEAD_BYTES + title.len() + description.len() + texts
}
