//! Chained Ogg (RFC 3533 section 4), e.g. recorded internet radio: one logical stream per title, each with a clock of its
//! own. The links are read as one stream on one clock, because ffmpeg seeks only in the first one, and takes the timestamp
//! of the last one as the duration.
//!
//! Vorbis decoders accept new headers inside a stream, so those of every link are kept. Opus packets need none.

use std::io::{Error, Result};
use std::sync::Arc;

use super::READ_BYTES;
use crate::domain::mpegts::clock_jumps::ClockSection;
use crate::domain::time::Ticks;
use crate::engine::container::bytes::read_up_to;
use crate::engine::container::ogg::{CONTINUED, FIRST, LAST, MAX_PAGE_BYTES, NO_GRANULE, Page, page, pages, rewrite};
use crate::engine::source::SourceFile;

/// Maximum number of links. Each costs a search for its end.
const MAX_LINKS: usize = 256;
/// Maximum size of a link's headers, bytes: the comment header may hold a cover image.
const MAX_HEADER_BYTES: u64 = 16 << 20;
/// Maximum number of pages of a link's headers. Full pages need a quarter of it.
const MAX_HEADER_PAGES: usize = 1024;
/// Maximum number of streams per link.
const MAX_STREAMS: usize = 16;
/// Largest number of samples in a packet: 120 ms of Opus. Vorbis has at most 4096.
const MAX_PACKET_SAMPLES: i64 = 5760;
/// A range of this size contains a whole page, bytes.
const WINDOW_BYTES: usize = 2 * MAX_PAGE_BYTES;
/// Serial number of the written stream.
const SERIAL: u32 = 1;

/// How much of a chained file is played.
#[derive(Clone, Debug, PartialEq)]
pub enum PlayedLinks {
    All(Links),
    /// Only the first link; its end in seconds.
    First(f64),
}

/// A chained file on one clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Links {
    /// The links. The first one begins with source time 0.
    pub pieces: Vec<ClockSection>,
    /// End of the last link in source time.
    pub end: Ticks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codec {
    Vorbis,
    Opus,
}

/// The identification header of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Format {
    codec: Codec,
    channels: u8,
    /// Granules per second.
    rate: u32,
}

/// The headers of a link.
#[derive(Clone, Copy, Debug)]
struct Headers {
    format: Format,
    serial: u32,
    /// Granules before the first sample that is played (the Opus pre-skip).
    pre_skip: u16,
    /// Offset of the first audio page.
    end: u64,
    /// Granule position before the first audio page. Not 0 if a live stream was joined in the middle of a title.
    base: i64,
}

/// How much of a chained file can be played: all links only if each has a single stream (`is_single`). None for a file
/// with one link, and for codecs other than Vorbis and Opus. Blocks on file I/O.
pub fn chained(source: &SourceFile, is_single: bool) -> Option<PlayedLinks> {
    let head = read_up_to(source, 0, WINDOW_BYTES).ok()?;
    let first: Vec<Page> = pages(&head, 0).take_while(Page::is_first).take(MAX_STREAMS).collect();
    let serials: Vec<u32> = first.iter().map(|page| page.serial).collect();
    let begin = first.iter().find_map(|page| Some((page.serial, format(head.get(page.content..)?)?)));
    let (serial, (format, pre_skip)) = begin?;
    let tail_at = source.len.saturating_sub(WINDOW_BYTES as u64);
    let last = pages(&read_up_to(source, tail_at, WINDOW_BYTES).ok()?, tail_at).last()?;
    if serials.contains(&last.serial) {
        return None;
    }
    if let Some(links) = is_single.then(|| links(source)).flatten() {
        return Some(PlayedLinks::All(links));
    }
    let from = first.last()?.at;
    let end = link_end(source, from, &serials)?;
    let samples = last_granule(source, from, end, serial)? - i64::from(pre_skip);
    (samples > 0).then(|| PlayedLinks::First(samples as f64 / f64::from(format.rate)))
}

/// The links of a chained file. None for a file with one link, for links with several streams, and for links that differ in
/// codec, channels or sample rate.
fn links(source: &SourceFile) -> Option<Links> {
    let (mut pieces, mut at, mut start, mut format) = (Vec::new(), 0, 0, None);
    while at < source.len {
        let headers = headers(source, at)?;
        if pieces.len() == MAX_LINKS || *format.get_or_insert(headers.format) != headers.format {
            return None;
        }
        let rate = i64::from(headers.format.rate);
        if pieces.is_empty() {
            start = -i64::from(headers.pre_skip);
        }
        pieces.push(ClockSection { start_byte: at, shift: Ticks::from_units(start, rate) });
        let end = link_end(source, headers.end, &[headers.serial])?;
        start += (last_granule(source, headers.end, end, headers.serial)? - headers.base).max(0);
        at = end;
    }
    let end = Ticks::from_units(start, format?.rate);
    (pieces.len() > 1 && end > Ticks::ZERO).then_some(Links { pieces, end })
}

/// The headers of the link that begins at this offset.
fn headers(source: &SourceFile, begin: u64) -> Option<Headers> {
    let (mut at, mut found, mut packets) = (begin, None::<(Format, u32, u16)>, 0);
    // Bytes of the file, and their offset.
    let (mut bytes, mut from) = (Vec::new(), begin);
    for _ in 0..MAX_HEADER_PAGES {
        if at >= source.len || at - begin >= MAX_HEADER_BYTES {
            return None;
        }
        let whole = |bytes: &[u8], from: u64| {
            let skipped = (at - from) as usize;
            page(bytes, skipped, from).filter(|page| page.at == at && skipped + page.len <= bytes.len())
        };
        let page = match whole(&bytes, from) {
            Some(page) => page,
            None => {
                (bytes, from) = (read_up_to(source, at, WINDOW_BYTES).ok()?, at);
                whole(&bytes, from)?
            }
        };
        match found {
            None if page.is_first() => {
                let (format, pre_skip) = format(bytes.get(page.content..(at - from) as usize + page.len)?)?;
                found = Some((format, page.serial, pre_skip));
            }
            Some((_, serial, _)) if !page.is_first() && page.serial == serial => {}
            // Several multiplexed streams.
            _ => return None,
        }
        packets += page.packets;
        at += page.len as u64;
        let (format, serial, pre_skip) = found?;
        let count = match format.codec {
            Codec::Vorbis => 3,
            Codec::Opus => 2,
        };
        if packets >= count {
            let base = base(&read_up_to(source, at, 2 * WINDOW_BYTES).ok()?, serial, i64::from(format.rate));
            return Some(Headers { format, serial, pre_skip, end: at, base });
        }
    }
    None
}

/// Granule position before the first of these audio pages, estimated by the size of the second one. 0 unless the first
/// page ends much later than a page at the beginning of a stream can. A page of silence lasts longer than the next one,
/// because its packets are small, but no longer than its packets can.
fn base(bytes: &[u8], serial: u32, rate: i64) -> i64 {
    let mut ends = pages(bytes, 0)
        .take_while(|page| page.serial == serial)
        .filter(|page| page.granule != NO_GRANULE)
        .filter_map(|page| Some((i64::try_from(page.granule).ok()?, page.packets)));
    let (Some((first, packets)), Some((second, _))) = (ends.next(), ends.next()) else { return 0 };
    let size = second.saturating_sub(first);
    let most = size.saturating_mul(2).saturating_add(rate).max(packets as i64 * MAX_PACKET_SAMPLES);
    if size >= 0 && first > most { first - size } else { 0 }
}

fn format(packet: &[u8]) -> Option<(Format, u16)> {
    if packet.starts_with(b"OpusHead") {
        let pre_skip = u16::from_le_bytes(*packet.get(10..)?.first_chunk()?);
        return Some((Format { codec: Codec::Opus, channels: packet[9], rate: 48_000 }, pre_skip));
    }
    if !packet.starts_with(b"\x01vorbis") {
        return None;
    }
    let rate = u32::from_le_bytes(*packet.get(12..)?.first_chunk()?);
    let format = Format { codec: Codec::Vorbis, channels: packet[11], rate };
    (1..=192_000).contains(&rate).then_some((format, 0))
}

/// Offset at which the link with these serial numbers ends and the next one begins; the file's length after the last link.
/// Found by bisection, because links follow one another.
fn link_end(source: &SourceFile, from: u64, serials: &[u32]) -> Option<u64> {
    let (mut low, mut high) = (from, source.len);
    while high - low > WINDOW_BYTES as u64 {
        let middle = low + (high - low) / 2;
        let bytes = read_up_to(source, middle, WINDOW_BYTES).ok()?;
        match page(&bytes, 0, middle) {
            Some(found) if serials.contains(&found.serial) && found.at < high => low = found.at,
            _ => high = middle,
        }
    }
    let bytes = read_up_to(source, low, 2 * WINDOW_BYTES).ok()?;
    let next = pages(&bytes, low).find(|page| !serials.contains(&page.serial));
    Some(next.map_or(source.len, |page| page.at))
}

/// The last granule position in this byte range.
fn last_granule(source: &SourceFile, from: u64, to: u64, serial: u32) -> Option<i64> {
    let at = from.max(to.saturating_sub(2 * WINDOW_BYTES as u64));
    let bytes = read_up_to(source, at, to.saturating_sub(at) as usize).ok()?;
    let ends = pages(&bytes, at).filter(|page| page.serial == serial && page.granule != NO_GRANULE);
    i64::try_from(ends.last()?.granule).ok().filter(|granule| *granule < 1 << 40)
}

/// Reads a chained file as one stream.
#[derive(Debug)]
pub(super) struct Chain {
    source: Arc<SourceFile>,
    pieces: Arc<[ClockSection]>,
    rate: i64,
    codec: Codec,
    /// Added to all times.
    shift: Ticks,
    /// Index of the current link.
    link: usize,
    /// Offset of its first audio page, and the granule position before that page.
    audio: u64,
    base: i64,
    /// Offset of the next page to read.
    at: u64,
    /// Where reading continues after the headers of the first link that is read.
    resume: Option<u64>,
    sequence: u32,
    has_audio: bool,
}

impl Chain {
    /// Starts at the page before source time `from`, seconds; the headers come first. Blocks on file I/O.
    ///
    /// # Errors
    /// Those of reading the file, or that it is not the same chain any more.
    pub(super) fn open(file: &Arc<SourceFile>, pieces: &Arc<[ClockSection]>, from: f64, shift: Ticks) -> Result<Self> {
        let none = || Error::other("not a chain of Ogg streams");
        let from = Ticks::from_seconds(from.max(0.0));
        let link = pieces.partition_point(|piece| piece.shift <= from).saturating_sub(1);
        let begin = pieces.get(link).ok_or_else(none)?.start_byte;
        let headers = headers(file, begin).ok_or_else(none)?;
        let mut chain = Self {
            source: file.clone(),
            pieces: pieces.clone(),
            rate: i64::from(headers.format.rate),
            codec: headers.format.codec,
            shift,
            link,
            audio: headers.end,
            base: headers.base,
            at: begin,
            resume: None,
            sequence: 0,
            has_audio: false,
        };
        chain.resume = Some(chain.last_page_before(from)?);
        Ok(chain)
    }

    /// End of the current link.
    fn end(&self) -> u64 {
        self.pieces.get(self.link + 1).map_or(self.source.len, |next| next.start_byte).max(self.audio)
    }

    /// Source time of the current link's granule position 0, granules.
    fn start(&self) -> i64 {
        self.pieces[self.link].shift.to_units(self.rate) - self.base
    }

    /// Offset of the link's last page that ends at or before this source time; of its first audio page if there is
    /// none.
    fn last_page_before(&self, from: Ticks) -> Result<u64> {
        let granule = from.to_units(self.rate) - self.start();
        let is_before = |page: &Page| i64::try_from(page.granule).is_ok_and(|end| end <= granule);
        let (mut low, mut high) = (self.audio, self.end());
        while high - low > WINDOW_BYTES as u64 {
            let middle = low + (high - low) / 2;
            let bytes = read_up_to(&self.source, middle, (2 * WINDOW_BYTES).min((high - middle) as usize))?;
            match pages(&bytes, middle).find(|page| page.granule != NO_GRANULE) {
                Some(found) if is_before(&found) => low = found.at,
                _ => high = middle,
            }
        }
        let bytes = read_up_to(&self.source, low, (self.end() - low).min(4 * WINDOW_BYTES as u64) as usize)?;
        Ok(pages(&bytes, low).filter(is_before).last().map_or(low, |page| page.at))
    }

    /// The next pages, rewritten; empty at the end. Blocks on file I/O.
    pub(super) fn read(&mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        while out.is_empty() && self.link < self.pieces.len() {
            let base = self.at;
            let most = self.end().saturating_sub(base).min((READ_BYTES + MAX_PAGE_BYTES) as u64) as usize;
            let mut bytes = read_up_to(&self.source, base, most)?;
            let is_whole = |page: &Page| (page.at - base) as usize + page.len <= bytes.len();
            let found: Vec<Page> = pages(&bytes, base).take_while(is_whole).collect();
            for page in &found {
                if self.resume.is_some() && page.at >= self.audio {
                    self.at = page.at;
                    break;
                }
                self.at = page.at + page.len as u64;
                let from = (page.at - base) as usize;
                self.put(page, &mut bytes[from..from + page.len], &mut out);
            }
            match self.resume.filter(|_| self.at >= self.audio) {
                Some(at) => (self.at, self.resume) = (at, None),
                None if found.is_empty() => self.next_link(),
                None => {}
            }
        }
        Ok(out)
    }

    fn next_link(&mut self) {
        (self.link, self.resume) = (self.link + 1, None);
        let Some(piece) = self.pieces.get(self.link) else { return };
        let headers = headers(&self.source, piece.start_byte);
        (self.audio, self.base) = headers.map_or((piece.start_byte, 0), |headers| (headers.end, headers.base));
        self.at = match self.codec {
            Codec::Vorbis => piece.start_byte,
            Codec::Opus => self.audio,
        };
    }

    fn put(&mut self, page: &Page, bytes: &mut [u8], out: &mut Vec<u8>) {
        let is_audio = page.at >= self.audio;
        let start = self.start() + self.shift.to_units(self.rate);
        let granule = match page.granule {
            NO_GRANULE => NO_GRANULE,
            granule if is_audio => (granule as i64).saturating_add(start).max(0) as u64,
            // Headers inside the stream have the time at which they come.
            _ if self.has_audio => start.saturating_add(self.base).max(0) as u64,
            _ => 0,
        };
        // ffmpeg computes the times of the first audio page back from its end, except in a page with the LAST flag.
        let kept = if is_audio && self.has_audio { CONTINUED | LAST } else { CONTINUED };
        let first = if self.sequence == 0 { FIRST } else { 0 };
        self.has_audio |= is_audio;
        rewrite(bytes, page.flags & kept | first, granule, SERIAL, self.sequence);
        self.sequence = self.sequence.wrapping_add(1);
        out.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests;
