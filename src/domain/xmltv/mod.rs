//! The guide (EPG) as XMLTV, written straight into bytes, piece by piece.
//!
//! The constant part of an item (title to episode number) is formatted once per guide and then copied, so a programme
//! costs two timestamps and a copy.

use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::domain::channel::Channel;
use crate::domain::channel_clock::channel_ms_at;
use crate::domain::guide::{Airing, ProgrammeEntries, TitleParts};
use crate::domain::lineup::{ChannelNaming, absolute_address, logo_address};
use crate::domain::listing::Listing;
use crate::domain::schedule::ScheduleItem;
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
    /// Items that were shown before; None if all of them were.
    shown_items: Option<HashSet<u64>>,
    /// Item of the previous part and whether it was marked new: the parts of a broken programme share the mark.
    last_part: Option<(u64, bool)>,
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
            shown_items: channel.definition.items_aired_before(channel_time(from_ms), channel_time(to_ms)),
            last_part: None,
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
            write_constant_part(&mut self.cached_text, item, &self.channel_id, &self.channel);
            (start, self.cached_text.len())
        });
        self.write_times(out, start_ms.0, end_ms.0);
        out.extend_from_slice(&self.cached_text[start..end]);
        let previous_mark = self
            .last_part
            .filter(|(of, _)| programme.continues_programme && programme.part_index.is_some() && *of == item.id);
        let is_new = match previous_mark {
            Some((_, fresh)) => fresh,
            None => self.shown_items.as_mut().is_some_and(|shown| shown.insert(item.id)),
        };
        if programme.part_index.is_some() {
            self.last_part = Some((item.id, is_new));
        }
        let closing: &[u8] = match is_new {
            false => b"<previously-shown/></programme>\n",
            true if TitleParts::of_item(item).episode.is_some() => b"<new/></programme>\n",
            true => b"<premiere/></programme>\n",
        };
        out.extend_from_slice(closing);
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
        write_texts(out, &self.channel_id, title, subtitle.as_deref(), description, *year);
        for category in &listing.categories {
            write_element(out, "category", category);
        }
        if let Some(episode) = listing.episode {
            write_episode_number(out, listing.season, episode);
        }
        if listing.is_repeat {
            out.extend_from_slice(b"<previously-shown/>");
        }
        if let Some(rating) = &listing.rating {
            out.extend_from_slice(b"<rating>");
            write_element(out, "value", rating);
            out.extend_from_slice(b"</rating>");
        }
        out.extend_from_slice(b"</programme>\n");
    }
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
fn write_constant_part(out: &mut Vec<u8>, item: &ScheduleItem, id: &str, channel: &Channel) {
    let name = TitleParts::of_item(item);
    let described = item.description.as_deref();
    let own_text = described.map(|described| &*described.description).filter(|text| !text.is_empty());
    let description = own_text.unwrap_or(&channel.settings.description);
    let description = if description.trim().is_empty() { "" } else { description };
    write_texts(out, id, name.title, name.subtitle, description, name.year);
    let categories = described.map_or(&[][..], |described| &described.categories);
    for category in categories {
        write_element(out, "category", category);
    }
    if categories.is_empty() && !channel.settings.category.trim().is_empty() {
        write_element(out, "category", &channel.settings.category);
    }
    let _ = write!(out, "<length units=\"seconds\">{}</length>", (item.duration_ms + 500) / 1000);
    if let (Some(season), Some(episode)) = (name.season, name.episode) {
        write_episode_number(out, Some(season), episode);
    }
}

/// Writes the channel and the first texts of a programme.
fn write_texts(out: &mut Vec<u8>, id: &str, title: &str, subtitle: Option<&str>, description: &str, year: Option<u32>) {
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
    if let Some(year) = year {
        write_element(out, "date", &year.to_string());
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
