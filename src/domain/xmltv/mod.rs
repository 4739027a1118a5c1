//! The guide (EPG) as XMLTV, written straight into bytes, piece by piece.
//!
//! The constant part of an item (title to episode number) is formatted once per guide and then copied, so a programme
//! costs two timestamps and a copy.

use std::collections::HashSet;
use std::io::Write;
use std::sync::Arc;

use jiff::tz::TimeZone;

use crate::domain::channel::Channel;
use crate::domain::guide::{Entries, Name};
use crate::domain::lineup::{Naming, absolute, logo};
use crate::domain::listing::Listing;
use crate::domain::schedule::Item;

pub mod read;
pub mod text;
mod when;

use text::escape;
pub use text::stamp;

/// Options of a written guide.
#[derive(Clone, Debug)]
pub struct Style {
    /// Base URL of this server, without a trailing slash.
    pub base: String,
    pub naming: Naming,
    /// Writes times in the channel's time zone instead of UTC.
    pub local: bool,
    /// Adds the channel number as `lcn`. The DTD does not define it, but Kodi and TVHeadend read it.
    pub lcn: bool,
}

/// Writes everything before the channels.
pub fn head(out: &mut Vec<u8>) {
    out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE tv SYSTEM \"xmltv.dtd\">\n");
    let version = env!("CARGO_PKG_VERSION");
    let tv = format!("<tv source-info-name=\"Hearthcast\" generator-info-name=\"Hearthcast {version}\">\n");
    out.extend_from_slice(tv.as_bytes());
}

/// Closing tag of the guide.
pub const TAIL: &[u8] = b"</tv>\n";

/// Writes the `<channel>` element.
pub fn channel(out: &mut Vec<u8>, channel: &Channel, style: &Style) {
    let face = &channel.face;
    out.extend_from_slice(b"<channel id=\"");
    escape(out, &style.naming.of(channel));
    out.extend_from_slice(b"\">");
    element(out, "display-name", &face.name);
    element(out, "display-name", &format!("{} {}", face.number, face.name));
    element(out, "display-name", &face.number.to_string());
    if style.lcn {
        element(out, "lcn", &face.number.to_string());
    }
    out.extend_from_slice(b"<icon src=\"");
    escape(out, &absolute(&style.base, logo(channel)));
    out.extend_from_slice(b"\"/></channel>\n");
}

/// Writes the programmes of one channel, one after the other.
pub struct Programmes {
    channel: Arc<Channel>,
    entries: Entries,
    zone: Option<TimeZone>,
    id: String,
    /// Items that were shown before; None if all of them were.
    shown: Option<HashSet<u64>>,
    /// Item of the previous part and whether it was marked new: the parts of a broken programme share the mark.
    fresh: Option<(u64, bool)>,
    /// Cache of formatted items of one revision: their ranges in `text`.
    revision: usize,
    written: Vec<Option<(usize, usize)>>,
    text: Vec<u8>,
}

impl Programmes {
    /// Programmes between two instants, as scheduled at `now_ms`.
    pub fn new(channel: Arc<Channel>, from_ms: i64, to_ms: i64, now_ms: i64, style: &Style) -> Self {
        let pace = channel.pace.as_ref().map(|pace| pace.ahead(now_ms));
        let time = |instant_ms: i64| pace.as_ref().map_or(instant_ms, |pace| pace.at(instant_ms));
        Self {
            entries: Entries::new(&channel, from_ms, to_ms, now_ms),
            zone: if style.local { TimeZone::get(&channel.face.timezone).ok() } else { None },
            id: style.naming.of(&channel).into_owned(),
            shown: channel.definition.shown_before(time(from_ms), time(to_ms)),
            fresh: None,
            revision: usize::MAX,
            written: Vec::new(),
            text: Vec::new(),
            channel,
        }
    }

    /// Writes the next programme; false at the end.
    pub fn write(&mut self, out: &mut Vec<u8>) -> bool {
        let definition = &self.channel.definition;
        let Some(programme) = self.entries.next(definition) else { return false };
        if let Some(listing) = self.channel.listing(&programme) {
            self.write_listing(out, listing);
            return true;
        }
        if programme.revision != self.revision {
            self.revision = programme.revision;
            self.text.clear();
            self.written.clear();
            self.written.resize(definition.revisions[programme.revision].items.len(), None);
        }
        let item = definition.item(&programme);
        let (from, to) = *self.written[programme.item].get_or_insert_with(|| {
            let from = self.text.len();
            describe(&mut self.text, item, &self.id, &self.channel);
            (from, self.text.len())
        });
        out.extend_from_slice(b"<programme start=\"");
        stamp(out, programme.start_ms, self.zone.as_ref());
        out.extend_from_slice(b"\" stop=\"");
        stamp(out, programme.end_ms, self.zone.as_ref());
        out.extend_from_slice(&self.text[from..to]);
        let said = self.fresh.filter(|(of, _)| programme.within && programme.part.is_some() && *of == item.id);
        let fresh = match said {
            Some((_, fresh)) => fresh,
            None => self.shown.as_mut().is_some_and(|shown| shown.insert(item.id)),
        };
        if programme.part.is_some() {
            self.fresh = Some((item.id, fresh));
        }
        let end: &[u8] = match fresh {
            false => b"<previously-shown/></programme>\n",
            true if Name::read(&item.title, &item.path).episode.is_some() => b"<new/></programme>\n",
            true => b"<premiere/></programme>\n",
        };
        out.extend_from_slice(end);
        true
    }

    /// Writes a programme taken from an imported guide.
    fn write_listing(&self, out: &mut Vec<u8>, listing: &Listing) {
        out.extend_from_slice(b"<programme start=\"");
        stamp(out, listing.start_ms, self.zone.as_ref());
        out.extend_from_slice(b"\" stop=\"");
        stamp(out, listing.end_ms, self.zone.as_ref());
        out.extend_from_slice(b"\" channel=\"");
        escape(out, &self.id);
        out.extend_from_slice(b"\">");
        element(out, "title", &listing.title);
        if let Some(subtitle) = &listing.subtitle {
            element(out, "sub-title", subtitle);
        }
        if !listing.description.is_empty() {
            element(out, "desc", &listing.description);
        }
        if let Some(year) = listing.year {
            element(out, "date", &year.to_string());
        }
        for category in &listing.categories {
            element(out, "category", category);
        }
        if let Some(episode) = listing.episode {
            number(out, listing.season, episode);
        }
        if listing.repeat {
            out.extend_from_slice(b"<previously-shown/>");
        }
        if let Some(rating) = &listing.rating {
            out.extend_from_slice(b"<rating>");
            element(out, "value", rating);
            out.extend_from_slice(b"</rating>");
        }
        out.extend_from_slice(b"</programme>\n");
    }
}

/// Writes an episode number in both numbering systems: `onscreen`, and `xmltv_ns`, which counts from zero.
fn number(out: &mut Vec<u8>, season: Option<u32>, episode: u32) {
    let onscreen = season.map_or(String::new(), |season| format!("S{season:02}"));
    let _ = write!(out, "<episode-num system=\"onscreen\">{onscreen}E{episode:02}</episode-num>");
    if season != Some(0) && episode >= 1 {
        let season = season.map_or(String::new(), |season| (season - 1).to_string());
        let _ = write!(out, "<episode-num system=\"xmltv_ns\">{season}.{}.</episode-num>", episode - 1);
    }
}

/// Writes the constant part of an item, in the order of the DTD.
fn describe(out: &mut Vec<u8>, item: &Item, id: &str, channel: &Channel) {
    let name = Name::read(&item.title, &item.path);
    out.extend_from_slice(b"\" channel=\"");
    escape(out, id);
    out.extend_from_slice(b"\">");
    element(out, "title", name.title);
    if let Some(subtitle) = name.subtitle {
        element(out, "sub-title", subtitle);
    }
    if !channel.face.description.trim().is_empty() {
        element(out, "desc", &channel.face.description);
    }
    if let Some(year) = name.year {
        element(out, "date", &year.to_string());
    }
    if !channel.face.category.trim().is_empty() {
        element(out, "category", &channel.face.category);
    }
    let _ = write!(out, "<length units=\"seconds\">{}</length>", (item.duration_ms + 500) / 1000);
    if let (Some(season), Some(episode)) = (name.season, name.episode) {
        number(out, Some(season), episode);
    }
}

fn element(out: &mut Vec<u8>, name: &str, text: &str) {
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
