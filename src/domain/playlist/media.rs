//! Media playlists and I-frame playlists.

use std::fmt::Write;
use std::ops::Range;

use super::attributes::{push_start_tag, with_grant};
use super::{InitId, PlaylistTrack};
use crate::domain::grid::Grid;
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::Ticks;

/// A media playlist: every segment of the item from `from` to its end, whether made yet or not.
#[derive(Clone, Copy, Debug)]
pub struct MediaPlaylist<'a> {
    pub track: PlaylistTrack,
    /// The init segment of fMP4 segments. None for MPEG-TS and WebVTT.
    pub init: Option<InitId>,
    pub grid: &'a Grid,
    /// Where the list begins, in time of the item. The first segment is listed with the length that remains after it: video
    /// segments begin there, but subtitle segments are longer, and players align the timelines of all renditions by the
    /// listed lengths.
    pub from: Ticks,
    /// Where playback starts (`EXT-X-START`), seconds of the item.
    pub start_seconds: f64,
    /// Every segment can be decoded without another one: false where a segment begins with an open GOP
    /// (draft-pantos-hls-rfc8216bis section 4.4.2.1).
    pub is_independent: bool,
}

/// A frame of an I-frame playlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IFrame {
    /// The segment, which begins with this frame.
    pub segment: usize,
    /// Bytes of the segment: what precedes the frame, e.g. `moof`, and the frame. None if they are not known before the segment is
    /// laid out; then the frame has a file of its own.
    pub bytes: Option<Range<u64>>,
}

impl IFrame {
    /// How long each of these frames is shown, which are in order: until the next one, the last until the end of the item.
    pub fn durations(iframes: &[Self], grid: &Grid) -> Vec<Ticks> {
        let starts = iframes.iter().map(|iframe| grid.segment_start(iframe.segment));
        let ends = starts.clone().skip(1).chain([grid.end()]);
        starts.zip(ends).map(|(start, end)| (end - start).max(Ticks::ZERO)).collect()
    }
}

impl MediaPlaylist<'_> {
    /// The playlist, with `grant` in every URI.
    pub fn render(&self, grant: &str) -> String {
        let Self { track, grid, from, .. } = *self;
        let first = grid.segment_at(from);
        let mut text = String::with_capacity(200 + (grid.len() - first) * (40 + grant.len()));
        self.push_head(&mut text, grid.target_duration());
        let _ = writeln!(text, "#EXT-X-MEDIA-SEQUENCE:{first}\n#EXT-X-PLAYLIST-TYPE:VOD");
        if self.is_independent {
            text.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
        }
        push_start_tag(&mut text, self.start_seconds - from.as_seconds());
        self.push_map(&mut text, grant);
        let (prefix, extension) = (track.prefix(), self.segment_format().extension());
        for index in first..grid.len() {
            let before = (from - grid.segment_start(index)).max(Ticks::ZERO);
            push_duration(&mut text, grid.segment_length(index) - before);
            let _ = writeln!(text, "{prefix}-{index:05}.{extension}?st={grant}");
        }
        text.push_str("#EXT-X-ENDLIST\n");
        text
    }

    /// The I-frame playlist of those of these frames, which are in order, whose segments the media playlist lists
    /// (draft-pantos-hls-rfc8216bis section 4.4.3.6). `start_seconds` does not matter.
    pub fn render_iframes(&self, iframes: &[IFrame], grant: &str) -> String {
        let first = self.grid.segment_at(self.from);
        let iframes = &iframes[iframes.partition_point(|iframe| iframe.segment < first)..];
        let durations = IFrame::durations(iframes, self.grid);
        let longest = durations.iter().map(|duration| duration.as_seconds().round() as u64).max();
        let mut text = String::new();
        self.push_head(&mut text, longest.unwrap_or_default().max(1));
        text.push_str("#EXT-X-PLAYLIST-TYPE:VOD\n#EXT-X-I-FRAMES-ONLY\n");
        self.push_map(&mut text, grant);
        for (IFrame { segment, bytes }, duration) in iframes.iter().zip(durations) {
            push_duration(&mut text, duration);
            let name = match bytes {
                Some(bytes) => {
                    let length = bytes.end.saturating_sub(bytes.start);
                    let _ = writeln!(text, "#EXT-X-BYTERANGE:{length}@{}", bytes.start);
                    self.track.segment_name(self.segment_format(), *segment)
                }
                None => self.track.iframe_name(*segment),
            };
            let _ = writeln!(text, "{}", with_grant(&name, grant));
        }
        text.push_str("#EXT-X-ENDLIST\n");
        text
    }

    fn segment_format(&self) -> SegmentFormat {
        match (self.track, self.init) {
            (PlaylistTrack::Subtitles(_), _) => SegmentFormat::WebVtt,
            (_, Some(_)) => SegmentFormat::Fmp4,
            (_, None) => SegmentFormat::MpegTs,
        }
    }

    fn push_head(&self, text: &mut String, target_duration: u64) {
        let version = super::version(self.segment_format());
        let _ = writeln!(text, "#EXTM3U\n#EXT-X-VERSION:{version}\n#EXT-X-TARGETDURATION:{target_duration}");
    }

    /// `EXT-X-MAP` (section 4.4.4.5), which applies to all segments that follow.
    fn push_map(&self, text: &mut String, grant: &str) {
        if let Some(init) = self.init.filter(|_| self.segment_format() == SegmentFormat::Fmp4) {
            let _ = writeln!(text, "#EXT-X-MAP:URI=\"{}\"", with_grant(&self.track.init_name(init), grant));
        }
    }
}

/// `EXTINF`, microseconds rounded to the nearest. Integers, because a film has thousands of lines.
fn push_duration(text: &mut String, duration: Ticks) {
    // Nine ticks are 100 µs.
    let micros = (duration.0 * 100 + 4) / 9;
    let _ = writeln!(text, "#EXTINF:{}.{:06},", micros / 1_000_000, micros % 1_000_000);
}
