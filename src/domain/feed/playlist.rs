//! Parses HLS playlists of external servers (RFC 8216) leniently: unknown tags are ignored, unsupported features are
//! reported.

/// Longest playlist, bytes, and most segments in one.
pub const MOST_BYTES: u64 = 1 << 20;
const MOST_SEGMENTS: usize = 5000;

/// A parsed playlist.
#[derive(Clone, Debug, PartialEq)]
pub enum Playlist {
    /// Multivariant (master) playlist: the renditions of one stream.
    Master(Vec<Variant>),
    Media(Media),
}

/// One rendition of a multivariant playlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    pub uri: String,
    pub bandwidth: u64,
    /// Height of the video, pixels; None if not given.
    pub height: Option<u32>,
    /// The audio is in a separate playlist.
    pub apart: bool,
}

/// A media playlist.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Media {
    /// Target duration, seconds.
    pub target: f64,
    /// Media sequence number of the first segment.
    pub sequence: u64,
    pub segments: Vec<Segment>,
    pub ended: bool,
    /// Why it cannot be played, as a sentence for the channel's status.
    pub unfit: Option<&'static str>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Segment {
    pub uri: String,
    pub seconds: f64,
    /// A discontinuity precedes this segment.
    pub breaks: bool,
    /// URI of its initialization section (EXT-X-MAP).
    pub map: Option<String>,
    /// Offset and length of the segment, bytes, if it is part of a file.
    pub range: Option<(u64, u64)>,
}

impl Playlist {
    /// Parses a playlist; None if the text is not one.
    pub fn read(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if !text.starts_with("#EXTM3U") {
            return None;
        }
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        match lines().any(|line| line.starts_with("#EXT-X-STREAM-INF")) {
            true => Some(Self::Master(variants(lines()))),
            false => Some(Self::Media(media(lines()))),
        }
    }
}

/// Chooses the rendition with the highest bandwidth up to `max_height`, or the lowest bandwidth if none fits. Renditions
/// with separate audio are never chosen.
pub fn choose(variants: &[Variant], max_height: u32) -> Option<&Variant> {
    let fits = |variant: &&Variant| variant.height.is_none_or(|height| height <= max_height);
    let whole = || variants.iter().filter(|variant| !variant.apart);
    let best = whole().filter(fits).max_by_key(|variant| variant.bandwidth);
    best.or_else(|| whole().min_by_key(|variant| variant.bandwidth))
}

fn variants<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Variant> {
    let (mut found, mut told): (Vec<Variant>, Option<&str>) = (Vec::new(), None);
    let mut apart: Vec<&str> = Vec::new();
    let mut groups: Vec<Option<&str>> = Vec::new();
    for line in lines {
        if let Some(attributes) = line.strip_prefix("#EXT-X-MEDIA:") {
            if attribute(attributes, "TYPE") == Some("AUDIO") && attribute(attributes, "URI").is_some() {
                apart.extend(attribute(attributes, "GROUP-ID"));
            }
        } else if let Some(attributes) = line.strip_prefix("#EXT-X-STREAM-INF:") {
            told = Some(attributes);
        } else if !line.starts_with('#')
            && let Some(attributes) = told.take()
        {
            let bandwidth = attribute(attributes, "BANDWIDTH").and_then(|text| text.parse().ok()).unwrap_or(0);
            let height = attribute(attributes, "RESOLUTION").and_then(|text| text.split_once('x')?.1.parse().ok());
            groups.push(attribute(attributes, "AUDIO"));
            found.push(Variant { uri: line.to_owned(), bandwidth, height, apart: false });
        }
    }
    for (variant, group) in found.iter_mut().zip(groups) {
        variant.apart = group.is_some_and(|group| apart.contains(&group));
    }
    found
}

fn media<'a>(lines: impl Iterator<Item = &'a str>) -> Media {
    let mut media = Media::default();
    let (mut next, mut map, mut behind) = (Segment::default(), None::<String>, None::<(String, u64)>);
    for line in lines {
        if let Some(value) = line.strip_prefix("#EXTINF:") {
            next.seconds = value.split(',').next().and_then(|text| text.trim().parse().ok()).unwrap_or(0.0);
        } else if let Some(value) = line.strip_prefix("#EXT-X-TARGETDURATION:") {
            media.target = value.trim().parse().unwrap_or(0.0);
        } else if let Some(value) = line.strip_prefix("#EXT-X-MEDIA-SEQUENCE:") {
            media.sequence = value.trim().parse().unwrap_or(0);
        } else if line == "#EXT-X-DISCONTINUITY" {
            next.breaks = true;
        } else if line == "#EXT-X-ENDLIST" {
            media.ended = true;
        } else if let Some(attributes) = line.strip_prefix("#EXT-X-MAP:") {
            map = attribute(attributes, "URI").map(str::to_owned);
            if attribute(attributes, "BYTERANGE").is_some() {
                media.unfit = Some(
                    "the initialization section is part of a file (EXT-X-MAP with BYTERANGE), which is not supported",
                );
            }
        } else if let Some(attributes) = line.strip_prefix("#EXT-X-KEY:") {
            if attribute(attributes, "METHOD") != Some("NONE") {
                media.unfit = Some("the stream is encrypted (EXT-X-KEY), which is not supported");
            }
        } else if let Some(value) = line.strip_prefix("#EXT-X-BYTERANGE:") {
            let (count, first) = value.split_once('@').map_or((value, None), |(count, first)| (count, Some(first)));
            next.range = count.trim().parse().ok().map(|count| {
                let first = first.and_then(|first| first.trim().parse().ok());
                (first.unwrap_or(u64::MAX), count)
            });
        } else if !line.starts_with('#') {
            let mut segment = std::mem::take(&mut next);
            segment.uri = line.to_owned();
            segment.map.clone_from(&map);
            if let Some((first, count)) = &mut segment.range {
                if *first == u64::MAX {
                    let end = behind.as_ref().filter(|(uri, _)| *uri == segment.uri).map(|(_, end)| *end);
                    *first = end.unwrap_or(0);
                }
                behind = Some((segment.uri.clone(), first.saturating_add(*count)));
            }
            if !segment.seconds.is_finite() || segment.seconds < 0.0 {
                segment.seconds = 0.0;
            }
            if media.segments.len() < MOST_SEGMENTS {
                media.segments.push(segment);
            }
        }
    }
    if !media.target.is_finite() || !(0.5..=60.0).contains(&media.target) {
        let longest = media.segments.iter().map(|segment| segment.seconds).fold(0.0, f64::max);
        media.target = longest.clamp(1.0, 60.0);
    }
    media
}

/// Finds one attribute of a list, without its quotes. Commas within quotes do not separate attributes.
fn attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = attributes;
    loop {
        let (key, after) = rest.split_once('=')?;
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => {
                let (value, next) = quoted.split_once('"')?;
                (value, next.trim_start_matches([',', ' ']))
            }
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.trim() == name {
            return Some(value.trim());
        }
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lists_of_segments_are_read() {
        let text = "\u{feff}#EXTM3U\r\n#EXT-X-TARGETDURATION:4\r\n#EXT-X-MEDIA-SEQUENCE:7\r\n#EXT-X-MAP:URI=\"init.mp4\"\r\n\
                    #EXTINF:4.000,a title, with commas\r\na.m4s\r\n\r\n#EXT-X-DISCONTINUITY\r\n#EXT-X-BYTERANGE:10@5\r\n\
                    #EXTINF:3.5\r\nb.m4s\r\n#EXT-X-BYTERANGE:20\r\n#EXTINF:1,\r\nb.m4s\r\n#EXT-X-ENDLIST\r\n";
        let Some(Playlist::Media(media)) = Playlist::read(text) else { panic!("expected a media playlist") };
        assert_eq!((media.target, media.sequence, media.ended, media.unfit), (4.0, 7, true, None));
        let seen: Vec<_> = media.segments.iter().map(|one| (&*one.uri, one.seconds, one.breaks, one.range)).collect();
        assert_eq!(
            seen,
            [("a.m4s", 4.0, false, None), ("b.m4s", 3.5, true, Some((5, 10))), ("b.m4s", 1.0, false, Some((15, 20)))]
        );
        assert!(media.segments.iter().all(|one| one.map.as_deref() == Some("init.mp4")));
        let locked = "#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n#EXTINF:1,\na.ts";
        let Some(Playlist::Media(locked)) = Playlist::read(locked) else { panic!("expected a media playlist") };
        assert!(locked.unfit.is_some_and(|why| why.contains("encrypted")));
        assert_eq!(Playlist::read("<html>"), None);
    }

    #[test]
    fn the_best_rendition_with_its_sound_is_taken() {
        let text = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"x, y\",URI=\"a.m3u8\"\n\
                    #EXT-X-STREAM-INF:BANDWIDTH=9000000,RESOLUTION=1920x1080,AUDIO=\"a\"\napart.m3u8\n\
                    #EXT-X-STREAM-INF:CODECS=\"avc1.4d,mp4a.40.2\",BANDWIDTH=5000000,RESOLUTION=1920x1080\nhigh.m3u8\n\
                    #EXT-X-STREAM-INF:BANDWIDTH=1000000,RESOLUTION=640x360\nlow.m3u8\n";
        let Some(Playlist::Master(all)) = Playlist::read(text) else { panic!("expected a master playlist") };
        assert_eq!(all.len(), 3);
        let chosen = |height| choose(&all, height).map(|variant| variant.uri.as_str());
        assert_eq!((chosen(1080), chosen(720), chosen(100)), (Some("high.m3u8"), Some("low.m3u8"), Some("low.m3u8")));
        assert_eq!(choose(&all[..1], 1080), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(#EXTM3U\n)?(#EXT(INF|-X-(MAP|KEY|BYTERANGE|STREAM-INF|MEDIA)):[A-Z=\",@0-9.-]{0,20}\n|[a-z.]{1,5}\n){0,20}") {
            let _ = Playlist::read(&text);
        }
    }
}
