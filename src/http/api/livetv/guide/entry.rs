//! The JSON form of a guide entry.

use jiff::Timestamp;
use jiff::civil::Date;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::artwork::GuideArtwork;
use super::to_seconds;
use crate::domain::catalogue::ItemId;
use crate::domain::channel::Channel;
use crate::domain::guide::Airing;
use crate::domain::lineup::icon_address;
use crate::domain::listing::Listing;
use crate::domain::live_window::CATCHUP_MS;
use crate::domain::nfo::Person;
use crate::domain::schedule::ScheduleItem;
use crate::domain::schedule::segmentation::VideoFormat;
use crate::domain::time::{WallMs, format_ms_bytes};
use crate::http::api::library::artwork::ArtworkUrls;
use crate::http::api::livetv::view_query::UnixSecondsText;
use crate::http::urls::{LogoUrl, ResourceUrls};
use crate::service::Service;

/// Every channel airs stereo.
const AIRED_AUDIO_CHANNELS: u8 = 2;

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
    /// The series of an episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    series_title: Option<&'a str>,
    /// First release of a film, or the day on which an episode was first aired. Absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = Date)]
    original_date: Option<Date>,
    /// Genres of the programme itself; `categories` falls back to that of the channel.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    genres: &'a [String],
    #[serde(skip_serializing_if = "<[Person]>::is_empty")]
    #[schema(value_type = Vec<Credit>)]
    credits: &'a [Person],
    /// Whether the channel airs it for the first time; only in the guide.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_new: Option<bool>,
    /// Size of the video as aired. Absent on external channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    video: Option<AiredVideo>,
    /// Channels of the audio as aired. Absent on external channels.
    #[serde(skip_serializing_if = "Option::is_none")]
    audio_channels: Option<u8>,
    /// The item in the library; only for files whose content is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    item_id: Option<ItemId>,
    /// Images of the programme, as those of an item of the library; a `thumbnail` of an imported guide. Absent if it has none. Events have
    /// none of the library.
    #[serde(skip_serializing_if = "Option::is_none")]
    artwork: Option<ArtworkUrls>,
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
            icon_url: addresses.logo_url(channel.logo_url(), channel.id),
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
            rating: match entry.listing {
                Some(listing) => listing.rating.as_deref(),
                None => described.and_then(|described| described.rating.as_deref()),
            },
            series_title: name.episode.map(|_| name.title),
            original_date: described.and_then(|described| described.released_on),
            genres: match entry.listing {
                Some(listing) => &listing.categories,
                None => described.map_or(&[], |described| &described.categories),
            },
            credits: described.map_or(&[], |described| &described.people),
            is_new: None,
            video: entry.item.and_then(AiredVideo::of_item),
            audio_channels: entry.item.map(|_| AIRED_AUDIO_CHANNELS),
            item_id: entry.item.and_then(|item| item.content),
            artwork: entry.listing.and_then(|listing| listing_artwork(listing, channel.id, addresses)),
            duration_seconds: to_seconds(end_ms - start_ms),
            media_path: entry.path,
            is_filler: channel.is_filler(&programme),
            is_live: (start_ms..end_ms).contains(&now_ms),
            catchup_url: has_catchup.then_some(CatchupUrl(addresses, channel.id, start_ms, end_ms)),
        }
    }

    /// Adds whether the channel airs it for the first time.
    #[must_use]
    pub fn with_novelty(self, is_new: bool) -> Self {
        Self { is_new: Some(is_new), ..self }
    }

    /// Adds addresses of its images.
    #[must_use]
    pub fn with_artwork(self, artwork: &mut GuideArtwork, service: &Service) -> Self {
        let of_item = self.item_id.and_then(|id| artwork.urls_of(service, id));
        Self { artwork: of_item.or(self.artwork), ..self }
    }

    pub fn is_live(&self) -> bool {
        self.is_live
    }
}

/// The image of a programme in an imported guide, as this server shows it.
fn listing_artwork(listing: &Listing, channel: u32, addresses: ResourceUrls<'_>) -> Option<ArtworkUrls> {
    let icon = icon_address(channel, listing.start_ms, listing.icon_url.as_deref()?);
    Some(ArtworkUrls::of_thumbnail(addresses.external_path(icon)))
}

/// Size of a programme's video as aired.
#[derive(Clone, Copy, Serialize, ToSchema)]
pub struct AiredVideo {
    width: u32,
    height: u32,
}

/// A person who took part in a programme.
#[derive(Serialize, ToSchema)]
#[allow(dead_code, reason = "OpenAPI only: people are written as they are stored")]
pub struct Credit {
    name: String,
    /// The character of an actor.
    role: Option<String>,
    /// `director`, `writer` or `actor`.
    kind: String,
}

impl AiredVideo {
    fn of_item(item: &ScheduleItem) -> Option<Self> {
        let VideoFormat { width, height, .. } = item.video_format;
        (height > 0).then_some(Self { width, height })
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
