//! Listings: the programmes of a channel in an external guide.

use serde::{Deserialize, Serialize};

use super::time::WallMs;

/// Assumed length of a programme with neither an end nor a successor.
const DEFAULT_LENGTH_MS: i64 = 30 * 60_000;

/// Maximum length of a programme, ms; longer ones are cut.
const MAX_LENGTH_MS: i64 = 7 * 24 * 3_600_000;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// Unix ms.
    pub start_ms: i64,
    /// Equal to the start if the guide gives no end.
    pub end_ms: i64,
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtitle: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub season: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episode: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub year: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<String>,
    /// The address of its image on another server.
    #[serde(rename = "icon", default, skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
    /// The guide marks it as a repeat.
    #[serde(rename = "repeat", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_repeat: bool,
}

impl Listing {
    /// A key that is the same for every airing of the same content, as far as the guide allows: title and episode, otherwise
    /// title and subtitle, description or start.
    pub fn content_key(&self) -> String {
        let Self { title, subtitle, season, episode, description, .. } = self;
        let (title, subtitle) = (title.to_lowercase(), subtitle.as_deref().unwrap_or_default().to_lowercase());
        match (season, episode) {
            (season, Some(episode)) => format!("{title}/S{:02}E{episode:02}", season.unwrap_or(0)),
            (_, None) if !subtitle.is_empty() => format!("{title}/{subtitle}"),
            (_, None) if !description.is_empty() => {
                format!("{title}/{}", &blake3::hash(description.as_bytes()).to_hex()[..16])
            }
            _ => format!("{title}/{}", self.start_ms),
        }
    }
}

/// The programmes of one channel: sorted by start, without overlap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listings {
    pub all: Vec<Listing>,
    /// The address of the channel's icon on another server.
    pub icon_url: Option<Box<str>>,
    pub content_hash: u64,
}

impl Listings {
    /// The listings of a channel, moved by `shift_ms` to correct the guide's offset. Of several that start together the
    /// first stays. One without an end, or that overlaps the next, ends where the next one begins.
    pub fn from_unsorted(mut all: Vec<Listing>, shift_ms: i64) -> Self {
        for listing in &mut all {
            listing.start_ms += shift_ms;
            listing.end_ms += shift_ms;
        }
        all.sort_by_key(|listing| listing.start_ms);
        all.dedup_by_key(|listing| listing.start_ms);
        let mut next_ms = None;
        for listing in all.iter_mut().rev() {
            let has_end = listing.end_ms > listing.start_ms;
            let end_ms = if has_end { listing.end_ms } else { next_ms.unwrap_or(listing.start_ms + DEFAULT_LENGTH_MS) };
            let end_ms = end_ms.min(listing.start_ms + MAX_LENGTH_MS);
            listing.end_ms = next_ms.map_or(end_ms, |next_ms| end_ms.min(next_ms));
            next_ms = Some(listing.start_ms);
        }
        let mut hasher = blake3::Hasher::new();
        for listing in &all {
            hasher.update(&listing.start_ms.to_le_bytes()).update(&listing.end_ms.to_le_bytes());
            let (subtitle, rating) = (listing.subtitle.as_deref(), listing.rating.as_deref());
            let icon_url = listing.icon_url.as_deref();
            let texts = [Some(&*listing.title), Some(&*listing.description), subtitle, rating, icon_url];
            for text in texts.into_iter().chain(listing.categories.iter().map(|category| Some(&**category))) {
                let length = text.map_or(u64::MAX, |text| text.len() as u64);
                hasher.update(&length.to_le_bytes()).update(text.unwrap_or_default().as_bytes());
            }
            for number in [listing.season, listing.episode, listing.year, Some(u32::from(listing.is_repeat))] {
                hasher.update(&number.map_or(-1, i64::from).to_le_bytes());
            }
        }
        Self { all, icon_url: None, content_hash: super::hash_to_u64(hasher.finalize()) }
    }

    /// The listings of a channel with this icon.
    pub fn with_icon(self, icon_url: Option<&str>) -> Self {
        let Some(icon_url) = icon_url else { return self };
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.content_hash.to_le_bytes()).update(icon_url.as_bytes());
        Self { icon_url: Some(icon_url.into()), content_hash: super::hash_to_u64(hasher.finalize()), ..self }
    }

    /// Index of the first listing that ends after an instant.
    pub fn first_ending_after(&self, from_ms: WallMs) -> usize {
        self.all.partition_point(|listing| listing.end_ms <= from_ms.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings_do_not_overlap_and_all_have_an_end() {
        let at = |start_ms, end_ms| Listing { start_ms, end_ms, title: "T".into(), ..Listing::default() };
        let hour = 3_600_000;
        let hours = [(4, 4), (0, 3), (1, 2), (1, 9), (2, 2)];
        let listings_read = hours.map(|(start, end)| at(start * hour, end * hour)).to_vec();
        let ranges = |listings: &Listings| {
            listings.all.iter().map(|listing| (listing.start_ms / 60_000, listing.end_ms / 60_000)).collect::<Vec<_>>()
        };
        let listings = Listings::from_unsorted(listings_read.clone(), 0);
        assert_eq!(ranges(&listings), [(0, 60), (60, 120), (120, 240), (240, 270)]);
        assert_eq!([-1, hour, 9 * hour].map(|at| listings.first_ending_after(WallMs(at))), [0, 1, 4]);
        assert_eq!(ranges(&Listings::from_unsorted(listings_read.clone(), -hour))[0], (-60, 0));
        assert_eq!(Listings::from_unsorted(listings_read.clone(), 0).content_hash, listings.content_hash);
        assert_ne!(Listings::from_unsorted(listings_read, 1).content_hash, listings.content_hash);
        let with_icon = listings.clone().with_icon(Some("https://i.example/1.png"));
        assert!(with_icon.all == listings.all && with_icon.content_hash != listings.content_hash);
        let eternal = Listings::from_unsorted(vec![at(0, 1000 * 24 * hour)], 0);
        assert_eq!(eternal.all[0].end_ms, MAX_LENGTH_MS);
        assert_eq!(Listings::from_unsorted(Vec::new(), 0).first_ending_after(WallMs(0)), 0);
    }
}
