//! Parses HLS playlists of external servers (RFC 8216) leniently: unknown tags are ignored, unsupported features are
//! reported.

/// Longest playlist, bytes, and most segments in one.
pub const MAX_PLAYLIST_BYTES: u64 = 1 << 20;
const MAX_SEGMENTS: usize = 5000;

#[derive(Clone, Debug, PartialEq)]
pub enum HlsPlaylist {
    /// Multivariant (master) playlist: the renditions of one stream.
    Master(Vec<Variant>),
    Media(MediaPlaylist),
}

/// One rendition of a multivariant playlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    pub uri: String,
    pub bandwidth: u64,
    /// Height of the video, pixels; None if not given.
    pub height: Option<u32>,
    /// The audio is in a separate playlist.
    pub has_separate_audio: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MediaPlaylist {
    pub target_seconds: f64,
    /// Media sequence number of the first segment.
    pub media_sequence: u64,
    pub segments: Vec<HlsSegment>,
    pub has_endlist: bool,
    /// Why it cannot be played, as a sentence for the channel's status.
    pub unsupported_reason: Option<&'static str>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct HlsSegment {
    pub uri: String,
    pub seconds: f64,
    /// A discontinuity precedes this segment.
    pub is_discontinuity: bool,
    /// URI of its initialization section (EXT-X-MAP).
    pub init_uri: Option<String>,
    /// Offset and length of the segment, bytes, if it is part of a file.
    pub byte_range: Option<(u64, u64)>,
}

impl HlsPlaylist {
    /// Parses a playlist; None if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if !text.starts_with("#EXTM3U") {
            return None;
        }
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        match lines().any(|line| line.starts_with("#EXT-X-STREAM-INF")) {
            true => Some(Self::Master(parse_variants(lines()))),
            false => Some(Self::Media(parse_media(lines()))),
        }
    }
}

/// Chooses the rendition with the highest bandwidth up to `max_height`, or the lowest bandwidth if none fits. Renditions
/// with separate audio are never chosen.
pub fn choose_variant(variants: &[Variant], max_height: u32) -> Option<&Variant> {
    let fits = |variant: &&Variant| variant.height.is_none_or(|height| height <= max_height);
    let with_audio = || variants.iter().filter(|variant| !variant.has_separate_audio);
    let best = with_audio().filter(fits).max_by_key(|variant| variant.bandwidth);
    best.or_else(|| with_audio().min_by_key(|variant| variant.bandwidth))
}

fn parse_variants<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Variant> {
    let (mut found, mut stream_inf): (Vec<Variant>, Option<&str>) = (Vec::new(), None);
    let mut separate_audio_groups: Vec<&str> = Vec::new();
    let mut groups: Vec<Option<&str>> = Vec::new();
    for line in lines {
        if let Some(attributes) = line.strip_prefix("#EXT-X-MEDIA:") {
            if find_attribute(attributes, "TYPE") == Some("AUDIO") && find_attribute(attributes, "URI").is_some() {
                separate_audio_groups.extend(find_attribute(attributes, "GROUP-ID"));
            }
        } else if let Some(attributes) = line.strip_prefix("#EXT-X-STREAM-INF:") {
            stream_inf = Some(attributes);
        } else if !line.starts_with('#')
            && let Some(attributes) = stream_inf.take()
        {
            let bandwidth = find_attribute(attributes, "BANDWIDTH").and_then(|text| text.parse().ok()).unwrap_or(0);
            let height = find_attribute(attributes, "RESOLUTION").and_then(|text| text.split_once('x')?.1.parse().ok());
            groups.push(find_attribute(attributes, "AUDIO"));
            found.push(Variant { uri: line.to_owned(), bandwidth, height, has_separate_audio: false });
        }
    }
    for (variant, group) in found.iter_mut().zip(groups) {
        variant.has_separate_audio = group.is_some_and(|group| separate_audio_groups.contains(&group));
    }
    found
}

fn parse_media<'a>(lines: impl Iterator<Item = &'a str>) -> MediaPlaylist {
    let mut media = MediaPlaylist::default();
    let (mut next_segment, mut init_uri, mut previous_range_end) =
        (HlsSegment::default(), None::<String>, None::<(String, u64)>);
    for line in lines {
        if let Some(value) = line.strip_prefix("#EXTINF:") {
            next_segment.seconds = value.split(',').next().and_then(|text| text.trim().parse().ok()).unwrap_or(0.0);
        } else if let Some(value) = line.strip_prefix("#EXT-X-TARGETDURATION:") {
            media.target_seconds = value.trim().parse().unwrap_or(0.0);
        } else if let Some(value) = line.strip_prefix("#EXT-X-MEDIA-SEQUENCE:") {
            media.media_sequence = value.trim().parse().unwrap_or(0);
        } else if line == "#EXT-X-DISCONTINUITY" {
            next_segment.is_discontinuity = true;
        } else if line == "#EXT-X-ENDLIST" {
            media.has_endlist = true;
        } else if let Some(attributes) = line.strip_prefix("#EXT-X-MAP:") {
            init_uri = find_attribute(attributes, "URI").map(str::to_owned);
            if find_attribute(attributes, "BYTERANGE").is_some() {
                media.unsupported_reason = Some(
                    "the initialization section is part of a file (EXT-X-MAP with BYTERANGE), which is not supported",
                );
            }
        } else if let Some(attributes) = line.strip_prefix("#EXT-X-KEY:") {
            if find_attribute(attributes, "METHOD") != Some("NONE") {
                media.unsupported_reason = Some("the stream is encrypted (EXT-X-KEY), which is not supported");
            }
        } else if let Some(value) = line.strip_prefix("#EXT-X-BYTERANGE:") {
            let (count, first) = value.split_once('@').map_or((value, None), |(count, first)| (count, Some(first)));
            next_segment.byte_range = count.trim().parse().ok().map(|count| {
                let first = first.and_then(|first| first.trim().parse().ok());
                (first.unwrap_or(u64::MAX), count)
            });
        } else if !line.starts_with('#') {
            let mut segment = std::mem::take(&mut next_segment);
            segment.uri = line.to_owned();
            segment.init_uri.clone_from(&init_uri);
            if let Some((first, count)) = &mut segment.byte_range {
                if *first == u64::MAX {
                    let end = previous_range_end.as_ref().filter(|(uri, _)| *uri == segment.uri).map(|(_, end)| *end);
                    *first = end.unwrap_or(0);
                }
                previous_range_end = Some((segment.uri.clone(), first.saturating_add(*count)));
            }
            if !segment.seconds.is_finite() || segment.seconds < 0.0 {
                segment.seconds = 0.0;
            }
            if media.segments.len() < MAX_SEGMENTS {
                media.segments.push(segment);
            }
        }
    }
    if !media.target_seconds.is_finite() || !(0.5..=60.0).contains(&media.target_seconds) {
        let longest = media.segments.iter().map(|segment| segment.seconds).fold(0.0, f64::max);
        media.target_seconds = longest.clamp(1.0, 60.0);
    }
    media
}

/// Finds one attribute of a list, without its quotes. Commas within quotes do not separate attributes.
fn find_attribute<'a>(attributes: &'a str, name: &str) -> Option<&'a str> {
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
    fn media_playlists_are_parsed() {
        let text = "\u{feff}#EXTM3U\r\n#EXT-X-TARGETDURATION:4\r\n#EXT-X-MEDIA-SEQUENCE:7\r\n#EXT-X-MAP:URI=\"init.mp4\"\r\n\
                    #EXTINF:4.000,a title, with commas\r\na.m4s\r\n\r\n#EXT-X-DISCONTINUITY\r\n#EXT-X-BYTERANGE:10@5\r\n\
                    #EXTINF:3.5\r\nb.m4s\r\n#EXT-X-BYTERANGE:20\r\n#EXTINF:1,\r\nb.m4s\r\n#EXT-X-ENDLIST\r\n";
        let Some(HlsPlaylist::Media(media)) = HlsPlaylist::parse(text) else { panic!("expected a media playlist") };
        assert_eq!((media.target_seconds, media.media_sequence, media.has_endlist), (4.0, 7, true));
        assert_eq!(media.unsupported_reason, None);
        let seen: Vec<_> =
            media.segments.iter().map(|one| (&*one.uri, one.seconds, one.is_discontinuity, one.byte_range)).collect();
        assert_eq!(
            seen,
            [("a.m4s", 4.0, false, None), ("b.m4s", 3.5, true, Some((5, 10))), ("b.m4s", 1.0, false, Some((15, 20)))]
        );
        assert!(media.segments.iter().all(|one| one.init_uri.as_deref() == Some("init.mp4")));
        let text = "#EXTM3U\n#EXT-X-KEY:METHOD=AES-128,URI=\"k\"\n#EXTINF:1,\na.ts";
        let Some(HlsPlaylist::Media(encrypted)) = HlsPlaylist::parse(text) else { panic!("expected a media playlist") };
        assert!(encrypted.unsupported_reason.is_some_and(|why| why.contains("encrypted")));
        assert_eq!(HlsPlaylist::parse("<html>"), None);
    }

    #[test]
    fn the_best_rendition_with_audio_is_chosen() {
        let text = "#EXTM3U\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"a\",NAME=\"x, y\",URI=\"a.m3u8\"\n\
                    #EXT-X-STREAM-INF:BANDWIDTH=9000000,RESOLUTION=1920x1080,AUDIO=\"a\"\napart.m3u8\n\
                    #EXT-X-STREAM-INF:CODECS=\"avc1.4d,mp4a.40.2\",BANDWIDTH=5000000,RESOLUTION=1920x1080\nhigh.m3u8\n\
                    #EXT-X-STREAM-INF:BANDWIDTH=1000000,RESOLUTION=640x360\nlow.m3u8\n";
        let Some(HlsPlaylist::Master(all)) = HlsPlaylist::parse(text) else { panic!("expected a master playlist") };
        assert_eq!(all.len(), 3);
        let chosen = |height| choose_variant(&all, height).map(|variant| variant.uri.as_str());
        assert_eq!((chosen(1080), chosen(720), chosen(100)), (Some("high.m3u8"), Some("low.m3u8"), Some("low.m3u8")));
        assert_eq!(choose_variant(&all[..1], 1080), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_panic(text in "(#EXTM3U\n)?(#EXT(INF|-X-(MAP|KEY|BYTERANGE|STREAM-INF|MEDIA)):[A-Z=\",@0-9.-]{0,20}\n|[a-z.]{1,5}\n){0,20}") {
            let _ = HlsPlaylist::parse(&text);
        }
    }
}
