//! The guide (EPG) as XMLTV, written straight into bytes, piece by piece.
//!
//! The constant part of an item (title to episode number) is formatted once per guide and then copied, so a programme
//! costs two timestamps and a copy.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::domain::catalogue::ItemId;
use crate::domain::channel::Channel;
use crate::domain::channel_clock::channel_ms_at;
use crate::domain::guide::{Airing, ProgrammeEntries, TitleParts};
use crate::domain::lineup::{ChannelNaming, absolute_address, icon_address, logo_address};
use crate::domain::listing::Listing;
use crate::domain::nfo::{Person, PersonKind};
use crate::domain::schedule::segmentation::VideoFormat;
use crate::domain::schedule::{ItemDescription, NoveltyMarks, ScheduleItem};
use crate::domain::time::WallMs;

pub mod encoding;
pub mod parse;
mod time_parsing;

use encoding::escape;
pub use encoding::write_time;

#[derive(Clone, Debug, Default)]
pub struct XmltvOptions {
    /// Base URL of this server, without a trailing slash.
    pub base_url: String,
    pub naming: ChannelNaming,
    /// Writes times in the channel's time zone instead of UTC.
    pub local_times: bool,
    /// Adds the channel number as `lcn`. The DTD does not define it, but Kodi and TVHeadend read it.
    pub include_lcn: bool,
    pub icons: ItemIcons,
}

/// Finds the image of an item: its address, absolute or below the base URL. Without it programmes have no icon.
#[derive(Clone, Default)]
pub struct ItemIcons(Option<Arc<FindIcon>>);

type FindIcon = dyn Fn(ItemId) -> Option<String> + Send + Sync;

impl ItemIcons {
    pub fn new(find: impl Fn(ItemId) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(find)))
    }

    fn address_of(&self, item: &ScheduleItem) -> Option<String> {
        self.0.as_ref()?(item.content?)
    }
}

impl fmt::Debug for ItemIcons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ItemIcons").field(&self.0.is_some()).finish()
    }
}

/// Writes everything before the channels.
pub fn write_header(out: &mut Vec<u8>) {
    out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE tv SYSTEM \"xmltv.dtd\">\n");
    let version = env!("CARGO_PKG_VERSION");
    let tv = format!("<tv source-info-name=\"Hearthcast\" generator-info-name=\"Hearthcast {version}\">\n");
    out.extend_from_slice(tv.as_bytes());
}

pub const FOOTER: &[u8] = b"</tv>\n";

pub fn write_channel(out: &mut Vec<u8>, channel: &Channel, options: &XmltvOptions) {
    let settings = &channel.settings;
    out.extend_from_slice(b"<channel id=\"");
    escape(out, &options.naming.id_of(channel));
    out.extend_from_slice(b"\">");
    write_element(out, "display-name", &settings.name);
    write_element(out, "display-name", &format!("{} {}", settings.number, settings.name));
    write_element(out, "display-name", &settings.number.to_string());
    if options.include_lcn {
        write_element(out, "lcn", &settings.number.to_string());
    }
    out.extend_from_slice(b"<icon src=\"");
    escape(out, &absolute_address(&options.base_url, logo_address(channel)));
    out.extend_from_slice(b"\"/></channel>\n");
}

/// Writes the programmes of one channel, one after the other.
pub struct ProgrammeWriter {
    channel: Arc<Channel>,
    entries: ProgrammeEntries,
    zone: Option<TimeZone>,
    channel_id: String,
    base_url: String,
    icons: ItemIcons,
    novelty: NoveltyMarks,
    /// Cache of formatted items of one revision: their ranges in `text`.
    cached_revision: usize,
    cached_ranges: Vec<Option<(usize, usize)>>,
    cached_text: Vec<u8>,
}

impl ProgrammeWriter {
    /// Programmes between two instants, as scheduled at `now_ms`.
    pub fn new(channel: Arc<Channel>, from_ms: WallMs, to_ms: WallMs, now_ms: WallMs, options: &XmltvOptions) -> Self {
        let clock = channel.clock.as_ref().map(|clock| clock.projected(now_ms));
        let channel_time = |wall_ms| channel_ms_at(clock.as_ref(), wall_ms);
        Self {
            entries: ProgrammeEntries::new(&channel, from_ms, to_ms, now_ms),
            zone: if options.local_times { TimeZone::get(&channel.settings.timezone).ok() } else { None },
            channel_id: options.naming.id_of(&channel).into_owned(),
            base_url: options.base_url.clone(),
            icons: options.icons.clone(),
            novelty: NoveltyMarks::new(&channel.definition, channel_time(from_ms), channel_time(to_ms)),
            cached_revision: usize::MAX,
            cached_ranges: Vec::new(),
            cached_text: Vec::new(),
            channel,
        }
    }

    /// Writes the next programme; false at the end.
    pub fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        let definition = &self.channel.definition;
        let Some(Airing { programme, start_ms, end_ms }) = self.entries.next_entry(definition) else { return false };
        if let Some(listing) = self.channel.listing(&programme) {
            self.write_listing(out, listing);
            return true;
        }
        if programme.revision_index != self.cached_revision {
            self.cached_revision = programme.revision_index;
            self.cached_text.clear();
            self.cached_ranges.clear();
            self.cached_ranges.resize(definition.revisions[programme.revision_index].items.len(), None);
        }
        let item = definition.item_of(&programme);
        let (start, end) = *self.cached_ranges[programme.item_index].get_or_insert_with(|| {
            let start = self.cached_text.len();
            let icon = self.icons.address_of(item).map(|address| absolute_address(&self.base_url, address.into()));
            write_constant_part(&mut self.cached_text, item, &self.channel_id, &self.channel, icon.as_deref());
            (start, self.cached_text.len())
        });
        self.write_times(out, start_ms.0, end_ms.0);
        out.extend_from_slice(&self.cached_text[start..end]);
        let mark: &[u8] = match self.novelty.is_new(definition, &programme) {
            false => b"<previously-shown/>",
            true if TitleParts::of_item(item).episode.is_some() => b"<new/>",
            true => b"<premiere/>",
        };
        out.extend_from_slice(mark);
        if let Some(rating) = item.description.as_ref().and_then(|described| described.rating.as_deref()) {
            write_rating(out, rating);
        }
        out.extend_from_slice(b"</programme>\n");
        true
    }

    /// Writes the start of a programme, up to its channel.
    fn write_times(&self, out: &mut Vec<u8>, start_ms: i64, end_ms: i64) {
        out.extend_from_slice(b"<programme start=\"");
        write_time(out, start_ms, self.zone.as_ref());
        out.extend_from_slice(b"\" stop=\"");
        write_time(out, end_ms, self.zone.as_ref());
    }

    /// Writes a programme taken from an imported guide.
    fn write_listing(&self, out: &mut Vec<u8>, listing: &Listing) {
        self.write_times(out, listing.start_ms, listing.end_ms);
        let Listing { title, subtitle, description, year, .. } = listing;
        write_texts(out, &self.channel_id, title, subtitle.as_deref(), description);
        if let Some(year) = year {
            write_element(out, "date", &year.to_string());
        }
        for category in &listing.categories {
            write_element(out, "category", category);
        }
        if let Some(icon_url) = &listing.icon_url {
            let address = icon_address(self.channel.id, listing.start_ms, icon_url);
            write_icon(out, &absolute_address(&self.base_url, address.into()));
        }
        if let Some(episode) = listing.episode {
            write_episode_number(out, listing.season, episode);
        }
        if listing.is_repeat {
            out.extend_from_slice(b"<previously-shown/>");
        }
        if let Some(rating) = &listing.rating {
            write_rating(out, rating);
        }
        out.extend_from_slice(b"</programme>\n");
    }
}

fn write_icon(out: &mut Vec<u8>, address: &str) {
    out.extend_from_slice(b"<icon src=\"");
    escape(out, address);
    out.extend_from_slice(b"\"/>");
}

/// Writes an episode number in both numbering systems: `onscreen`, and `xmltv_ns`, which counts from zero.
fn write_episode_number(out: &mut Vec<u8>, season: Option<u32>, episode: u32) {
    let onscreen = season.map_or(String::new(), |season| format!("S{season:02}"));
    let _ = write!(out, "<episode-num system=\"onscreen\">{onscreen}E{episode:02}</episode-num>");
    if season != Some(0) && episode >= 1 {
        let season = season.map_or(String::new(), |season| (season - 1).to_string());
        let _ = write!(out, "<episode-num system=\"xmltv_ns\">{season}.{}.</episode-num>", episode - 1);
    }
}

/// Writes the constant part of an item, in the order of the DTD.
fn write_constant_part(out: &mut Vec<u8>, item: &ScheduleItem, id: &str, channel: &Channel, icon: Option<&str>) {
    let name = TitleParts::of_item(item);
    let described = item.description.as_deref();
    let own_text = described.map(|described| &*described.description).filter(|text| !text.is_empty());
    let description = own_text.unwrap_or(&channel.settings.description);
    let description = if description.trim().is_empty() { "" } else { description };
    write_texts(out, id, name.title, name.subtitle, description);
    write_credits(out, described.map_or(&[], |described| &described.people));
    write_date(out, described, name.year);
    let categories = described.map_or(&[][..], |described| &described.categories);
    for category in categories {
        write_element(out, "category", category);
    }
    if categories.is_empty() && !channel.settings.category.trim().is_empty() {
        write_element(out, "category", &channel.settings.category);
    }
    let _ = write!(out, "<length units=\"seconds\">{}</length>", (item.duration_ms + 500) / 1000);
    if let Some(icon) = icon {
        write_icon(out, icon);
    }
    if let (Some(season), Some(episode)) = (name.season, name.episode) {
        write_episode_number(out, Some(season), episode);
    }
    write_formats(out, &item.video_format);
}

/// Writes directors, actors and writers, in the order of the DTD.
fn write_credits(out: &mut Vec<u8>, people: &[Person]) {
    if people.is_empty() {
        return;
    }
    out.extend_from_slice(b"<credits>");
    for kind in [PersonKind::Director, PersonKind::Actor, PersonKind::Writer] {
        for person in people.iter().filter(|person| person.kind == kind) {
            match &person.role {
                Some(role) if kind == PersonKind::Actor => {
                    out.extend_from_slice(b"<actor role=\"");
                    escape(out, role);
                    out.extend_from_slice(b"\">");
                    escape(out, &person.name);
                    out.extend_from_slice(b"</actor>");
                }
                _ => write_element(out, kind.as_str(), &person.name),
            }
        }
    }
    out.extend_from_slice(b"</credits>");
}

/// Writes the original date, or the year alone.
fn write_date(out: &mut Vec<u8>, described: Option<&ItemDescription>, year: Option<u32>) {
    let date = described.and_then(|described| described.released_on);
    let text = date.map(|date| date.strftime("%Y%m%d").to_string()).or_else(|| Some(year?.to_string()));
    if let Some(text) = text {
        write_element(out, "date", &text);
    }
}

/// Least height of high definition, lines.
const HD_HEIGHT: u32 = 720;

/// Writes video and audio as aired: a channel has one size of its pixels, and stereo.
fn write_formats(out: &mut Vec<u8>, format: &VideoFormat) {
    if format.height > 0 {
        let quality = if format.height >= HD_HEIGHT { "HDTV" } else { "SDTV" };
        let _ = write!(out, "<video><aspect>{}</aspect>", format.aspect_ratio());
        let _ = write!(out, "<quality>{quality}</quality></video>");
    }
    out.extend_from_slice(b"<audio><stereo>stereo</stereo></audio>");
}

fn write_rating(out: &mut Vec<u8>, rating: &str) {
    out.extend_from_slice(b"<rating>");
    write_element(out, "value", rating);
    out.extend_from_slice(b"</rating>");
}

/// Writes the channel and the first texts of a programme.
fn write_texts(out: &mut Vec<u8>, id: &str, title: &str, subtitle: Option<&str>, description: &str) {
    out.extend_from_slice(b"\" channel=\"");
    escape(out, id);
    out.extend_from_slice(b"\">");
    write_element(out, "title", title);
    if let Some(subtitle) = subtitle {
        write_element(out, "sub-title", subtitle);
    }
    if !description.is_empty() {
        write_element(out, "desc", description);
    }
}

fn write_element(out: &mut Vec<u8>, name: &str, text: &str) {
    out.push(b'<');
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
    escape(out, text);
    out.extend_from_slice(b"</");
    out.extend_from_slice(name.as_bytes());
    out.push(b'>');
}

#[cfg(test)]
mod tests;
