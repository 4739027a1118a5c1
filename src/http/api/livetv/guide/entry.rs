//! The JSON form of a guide entry.

use jiff::Timestamp;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::to_seconds;
use crate::domain::channel::Channel;
use crate::domain::guide::Airing;
use crate::domain::live_window::CATCHUP_MS;
use crate::domain::time::{WallMs, format_ms_bytes};
use crate::http::api::livetv::view_query::UnixSecondsText;
use crate::http::urls::{LogoUrl, ResourceUrls};

/// One programme of the guide.
#[derive(Clone, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GuideEntry<'a> {
    /// The same in every response.
    #[schema(value_type = String)]
    id: EntryId,
    channel_id: u32,
    title: &'a str,
    description: &'a str,
    #[schema(value_type = String, format = DateTime)]
    start: InstantText,
    #[schema(value_type = String, format = DateTime)]
    end: InstantText,
    #[schema(value_type = String)]
    icon_url: LogoUrl<'a>,
    subtitle: Option<&'a str>,
    season: Option<u32>,
    episode: Option<u32>,
    year: Option<u32>,
    #[schema(value_type = Vec<String>)]
    categories: Categories<'a>,
    rating: Option<&'a str>,
    duration_seconds: f64,
    media_path: &'a str,
    is_filler: bool,
    /// Whether the programme is on air now.
    is_live: bool,
    /// Playlist of the programme from its start; null if it is in the future or older than the catch-up window.
    #[schema(value_type = Option<String>)]
    catchup_url: Option<CatchupUrl<'a>>,
}

impl<'a> GuideEntry<'a> {
    pub fn new(channel: &'a Channel, airing: &Airing, now: Timestamp, addresses: ResourceUrls<'a>) -> Self {
        let Airing { programme, start_ms, end_ms } = *airing;
        let entry = channel.entry_of(programme);
        let (name, settings, now_ms) = (&entry.name, &channel.settings, WallMs::from(now));
        let described = entry.item.and_then(|item| item.description.as_deref());
        let has_catchup = entry.item.is_some() && (now_ms - CATCHUP_MS..=now_ms).contains(&start_ms);
        Self {
            id: EntryId(channel.id, programme.ordinal),
            channel_id: channel.id,
            title: name.title,
            description: match (entry.listing, described) {
                (Some(listing), _) => &listing.description,
                (None, Some(described)) if !described.description.is_empty() => &described.description,
                _ => &settings.description,
            },
            start: InstantText(start_ms),
            end: InstantText(end_ms),
            icon_url: addresses.logo_url(settings.logo_url.as_deref(), channel.id),
            subtitle: name.subtitle,
            season: name.season,
            episode: name.episode,
            year: name.year,
            categories: {
                let listed = entry.listing.map(|listing| &listing.categories);
                let own = listed.or(described.map(|described| &described.categories));
                own.filter(|own| !own.is_empty())
                    .map_or(Categories::Channel(&settings.category), |own| Categories::Own(own))
            },
            rating: entry.listing.and_then(|listing| listing.rating.as_deref()),
            duration_seconds: to_seconds(end_ms - start_ms),
            media_path: entry.path,
            is_filler: channel.is_filler(&programme),
            is_live: (start_ms..end_ms).contains(&now_ms),
            catchup_url: has_catchup.then_some(CatchupUrl(addresses, channel.id, start_ms, end_ms)),
        }
    }

    pub fn is_live(&self) -> bool {
        self.is_live
    }
}

/// Channel id and ordinal of the programme.
#[derive(Clone, Copy)]
struct EntryId(u32, u64);

/// An instant, serialized as ISO 8601.
#[derive(Clone, Copy)]
struct InstantText(WallMs);

/// Categories of the programme, or of the channel (empty if it has none).
#[derive(Clone, Copy)]
enum Categories<'a> {
    Own(&'a [String]),
    Channel(&'a str),
}

/// Catch-up URL: channel id, start and end of the programme.
#[derive(Clone, Copy)]
struct CatchupUrl<'a>(ResourceUrls<'a>, u32, WallMs, WallMs);

impl Serialize for Categories<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Own(all) => all.serialize(to),
            Self::Channel("") => <[&str]>::serialize(&[], to),
            Self::Channel(one) => [one].serialize(to),
        }
    }
}

impl Serialize for EntryId {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{}-{}", self.0, self.1))
    }
}

impl Serialize for InstantText {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_str(std::str::from_utf8(&format_ms_bytes(self.0.0)).unwrap_or_default())
    }
}

impl Serialize for LogoUrl<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Serialize for CatchupUrl<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        let Self(addresses, channel, start_ms, end_ms) = *self;
        let (start, end) = (UnixSecondsText(start_ms), UnixSecondsText(end_ms));
        to.collect_str(&format_args!("{}?at={start}&end={end}", addresses.live_playlist(channel)))
    }
}
