//! Ogg (RFC 3533): chained streams (section 4). ffmpeg seeks only in the first one, and takes the timestamp of the last
//! one as the duration.

use super::{little, read};
use crate::engine::source::Source;
use crate::engine::tables::ogg::{NO_GRANULE, PAGE, Page, page, pages};

const MOST_STREAMS: usize = 16;

/// End of the first stream of a chain in seconds; None for a file that is not chained, and for codecs other than Vorbis
/// and Opus.
pub(super) fn first_link_end(source: &Source) -> Option<f64> {
    let head = read(source, 0, 2 * PAGE)?;
    let (mut serials, mut clock, mut from) = (Vec::new(), None, 0);
    while serials.len() < MOST_STREAMS
        && let Some(page) = page(&head, from, 0).filter(|page| page.at == from as u64 && page.is_first())
    {
        serials.push(page.serial);
        clock = clock.or_else(|| Some((page.serial, clock_of(head.get(page.content..)?)?)));
        from += page.len;
    }
    let (serial, (rate, lead)) = clock?;
    let tail_at = source.len.saturating_sub(2 * PAGE as u64);
    let last = pages(&read(source, tail_at, 2 * PAGE)?, tail_at).last()?;
    let is_first = |page: &Page| serials.contains(&page.serial);
    if is_first(&last) {
        return None;
    }
    let (mut low, mut high) = (0, last.at);
    while high - low > 2 * PAGE as u64 {
        let middle = low + (high - low) / 2;
        let bytes = read(source, middle, 2 * PAGE)?;
        match page(&bytes, 0, middle) {
            Some(found) if is_first(&found) => low = middle,
            _ => high = middle,
        }
    }
    let bytes = read(source, low, 5 * PAGE)?;
    let ends =
        pages(&bytes, low).take_while(is_first).filter(|page| page.serial == serial && page.granule != NO_GRANULE);
    let samples = ends.last()?.granule.checked_sub(lead)?;
    Some(samples as f64 / rate as f64)
}

/// Sample rate, and samples to skip at the start, by a stream's first packet.
fn clock_of(packet: &[u8]) -> Option<(u64, u64)> {
    if packet.starts_with(b"OpusHead") {
        return Some((48_000, little::<2>(packet, 10)?));
    }
    let rate = little::<4>(packet, 12).filter(|_| packet.starts_with(b"\x01vorbis"))?;
    (rate > 0).then_some((rate, 0))
}
