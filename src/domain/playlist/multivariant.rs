//! The multivariant playlist: variants, and the renditions of audio, subtitles and closed captions beside them
//! (draft-pantos-hls-rfc8216bis section 4.4.6).

use std::fmt::Write;

use super::attributes::{push_quoted, push_quoted_if, push_start_tag, with_grant};
use super::rendition_tags::{GroupMember, MediaType, apply_group_rules};
use super::{PlaylistTrack, SessionAsset, version};
use crate::domain::closed_captions::CaptionChannel;
use crate::domain::segment_format::SegmentFormat;
use crate::domain::time::FrameRate;

const SUBTITLE_GROUP: &str = "subs";
const CAPTION_GROUP: &str = "cc";

/// Characteristics of renditions (section 4.4.6.1).
const DESCRIBES_VIDEO: &str = "public.accessibility.describes-video";
const FOR_HEARING_IMPAIRED: &str =
    "public.accessibility.transcribes-spoken-dialog,public.accessibility.describes-music-and-sound";

/// The URI of a playlist.
type UriOf<'a> = &'a dyn Fn(SessionAsset) -> String;

/// The multivariant playlist (`index.m3u8`). Players that do not measure bandwidth first begin with the first variant.
///
/// It has a variant for each rung of video and each group of audio. Without video it has one for each group, whose playlist
/// is that of the default audio.
#[derive(Clone, Debug, PartialEq)]
pub struct MultivariantPlaylist<'a> {
    /// Format of the segments of video and audio.
    pub format: SegmentFormat,
    /// Every segment of every rendition can be decoded without another one (section 4.4.2.1).
    pub is_independent: bool,
    /// With a position above 0 the playlist has `EXT-X-START` too. Not every player accepts that: ffmpeg 5.1 mistakes such a
    /// multivariant playlist for a media playlist as well, lists its streams twice and loses the duration (measured).
    pub start_seconds: f64,
    /// The rungs of video, the best first. In MPEG-TS with their audio, muxed; the only audio track of an item without video
    /// is listed here as well, if there are no groups.
    pub variants: &'a [Variant],
    /// The tracks of audio, as a viewer chooses among them. Empty if audio is muxed.
    pub audio: &'a [AudioRendition],
    /// The same tracks in each codec: a player that cannot decode one takes another group.
    pub audio_groups: &'a [AudioGroup],
    pub subtitles: &'a [SubtitleRendition],
    /// Closed captions in the video of all variants: empty without any, None if that is not known.
    pub captions: Option<&'a [CaptionService]>,
    /// I-frames that are made apart from the variants, in a codec and a size of their own.
    pub made_iframes: Option<&'a Variant>,
}

/// A rung of video.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    pub track: PlaylistTrack,
    /// RFC 6381, comma separated; None if unknown, because a wrong value is worse.
    pub codecs: Option<String>,
    /// Dolby Vision over a base layer that `codecs` names, e.g. `dvh1.08.07/db1p`.
    pub supplemental_codecs: Option<String>,
    pub size: Option<(u32, u32)>,
    pub frame_rate: Option<FrameRate>,
    /// `SDR`, `PQ` or `HLG`; None means SDR.
    pub video_range: Option<&'static str>,
    /// Peak and average over the item, bit/s.
    pub bandwidth: u64,
    pub average_bandwidth: u64,
    /// Peak of its I-frame playlist, bit/s; None without such a playlist, and where audio is muxed, because `codecs` then
    /// names audio too.
    pub iframe_bandwidth: Option<u64>,
}

/// A track of audio.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AudioRendition {
    /// For people to read. Made unique in its group.
    pub name: String,
    /// BCP 47.
    pub language: Option<String>,
    /// Played unless the viewer or the player prefers another one. The first one counts, or the first track.
    pub is_default: bool,
    /// Audio description.
    pub describes_video: bool,
}

/// All tracks of audio in one codec.
///
/// Groups have the same members (section 4.4.6.1.1), and players refuse a variant if they lack one of its codecs. Therefore
/// a track that is copied in one group is encoded for another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AudioGroup {
    /// `GROUP-ID`, e.g. `aac`.
    pub id: String,
    /// One for each of [`MultivariantPlaylist::audio`], in their order.
    pub encodings: Vec<AudioEncoding>,
}

/// A track of audio in the codec of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AudioEncoding {
    pub track: PlaylistTrack,
    /// RFC 6381.
    pub codecs: String,
    /// Number of channels, and spatial audio if there is any: `6`, `16/JOC`.
    pub channels: String,
    /// Peak and average over the item, bit/s.
    pub bandwidth: u64,
    pub average_bandwidth: u64,
}

/// A WebVTT rendition; the n-th one is [`PlaylistTrack::Subtitles`] `(n)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubtitleRendition {
    /// For people to read. Made unique in its group.
    pub name: String,
    /// BCP 47.
    pub language: Option<String>,
    /// Shown without a choice of the viewer. The first one counts.
    pub is_default: bool,
    /// Only what must be read to follow the item, e.g. foreign dialogue.
    pub is_forced: bool,
    /// Subtitles for the deaf and hard of hearing (SDH).
    pub is_hearing_impaired: bool,
}

/// Closed captions in the video (CEA-608 and CEA-708).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptionService {
    /// Named by `INSTREAM-ID`.
    pub channel: CaptionChannel,
    /// For people to read. Made unique in its group.
    pub name: String,
    /// BCP 47.
    pub language: Option<String>,
}

impl CaptionService {
    /// A channel of the video, without a language: the messages of pictures state none.
    pub fn unnamed(channel: CaptionChannel) -> Self {
        let name = match channel {
            CaptionChannel::Cea608(number) => format!("Closed captions {number}"),
            CaptionChannel::Cea708(number) => format!("Caption service {number}"),
        };
        Self { channel, name, language: None }
    }
}

/// None for a number out of range, which a damaged descriptor may have.
fn instream_id(channel: CaptionChannel) -> Option<String> {
    match channel {
        CaptionChannel::Cea608(number @ 1..=4) => Some(format!("CC{number}")),
        CaptionChannel::Cea708(number @ 1..=63) => Some(format!("SERVICE{number}")),
        _ => None,
    }
}

impl<'a> MultivariantPlaylist<'a> {
    /// The playlist of a session, with `grant` in every URI.
    pub fn render(&self, grant: &str) -> String {
        self.render_with(&|asset| with_grant(&asset.name(), grant))
    }

    /// The playlist with these URIs.
    pub fn render_with(&self, uri: UriOf) -> String {
        let mut text = format!("#EXTM3U\n#EXT-X-VERSION:{}\n", self.version());
        if self.is_independent {
            text.push_str("#EXT-X-INDEPENDENT-SEGMENTS\n");
        }
        push_start_tag(&mut text, self.start_seconds);
        self.push_audio(&mut text, uri);
        self.push_subtitles(&mut text, uri);
        self.push_captions(&mut text);
        let groups: Vec<Option<&AudioGroup>> = match self.audio_groups {
            [] => vec![None],
            groups => groups.iter().map(Some).collect(),
        };
        for group in groups {
            match (self.variants, group) {
                ([], Some(group)) => self.push_audio_variant(&mut text, group, uri),
                (variants, _) => variants.iter().for_each(|variant| self.push_variant(&mut text, variant, group, uri)),
            }
        }
        let iframes = self.variants.iter().chain(self.made_iframes);
        iframes.for_each(|variant| push_iframe_variant(&mut text, variant, uri));
        text
    }

    /// Services of CEA-708 need version 7 (section 8).
    fn version(&self) -> u8 {
        let has_services = self.caption_services().any(|service| matches!(service.channel, CaptionChannel::Cea708(_)));
        if has_services { 7 } else { version(self.format) }
    }

    fn push_audio(&self, text: &mut String, uri: UriOf) {
        let member = |audio: &AudioRendition| {
            let member = GroupMember::new(MediaType::Audio, &audio.name, audio.language.as_deref());
            member.with_characteristics(audio.describes_video.then_some(DESCRIBES_VIDEO))
        };
        let mut members: Vec<GroupMember> = self.audio.iter().map(member).collect();
        apply_group_rules(&mut members, Some(self.default_audio()));
        for group in self.audio_groups {
            for (encoding, member) in group.encodings.iter().zip(&members) {
                member.push_tag(text, &group.id);
                push_quoted(text, "CHANNELS", &encoding.channels);
                // Without a URI, it is in the playlist of the variant itself.
                let is_in_variant = self.variants.is_empty() && member.is_default();
                let own_uri = (!is_in_variant).then(|| uri(SessionAsset::Playlist(encoding.track)));
                push_quoted_if(text, "URI", own_uri.as_deref());
                text.push('\n');
            }
        }
    }

    fn push_subtitles(&self, text: &mut String, uri: UriOf) {
        let member = |subtitle: &SubtitleRendition| {
            let member = GroupMember::new(MediaType::Subtitles, &subtitle.name, subtitle.language.as_deref());
            let characteristics = subtitle.is_hearing_impaired.then_some(FOR_HEARING_IMPAIRED);
            member.with_characteristics(characteristics).with_forced(subtitle.is_forced)
        };
        let mut members: Vec<GroupMember> = self.subtitles.iter().map(member).collect();
        apply_group_rules(&mut members, self.subtitles.iter().position(|subtitle| subtitle.is_default));
        for (n, member) in members.iter().enumerate() {
            member.push_tag(text, SUBTITLE_GROUP);
            push_quoted(text, "URI", &uri(SessionAsset::Playlist(PlaylistTrack::Subtitles(n))));
            text.push('\n');
        }
    }

    fn push_captions(&self, text: &mut String) {
        let member = |service: &CaptionService| {
            GroupMember::new(MediaType::ClosedCaptions, &service.name, service.language.as_deref())
        };
        let mut members: Vec<GroupMember> = self.caption_services().map(member).collect();
        apply_group_rules(&mut members, None);
        for (service, member) in self.caption_services().zip(&members) {
            member.push_tag(text, CAPTION_GROUP);
            push_quoted_if(text, "INSTREAM-ID", instream_id(service.channel).as_deref());
            text.push('\n');
        }
    }

    /// Services with a valid number.
    fn caption_services(&self) -> impl Iterator<Item = &'a CaptionService> {
        let services = self.captions.unwrap_or_default().iter();
        services.filter(|service| instream_id(service.channel).is_some())
    }

    fn default_audio(&self) -> usize {
        self.audio.iter().position(|audio| audio.is_default).unwrap_or_default()
    }

    fn push_variant(&self, text: &mut String, variant: &Variant, group: Option<&AudioGroup>, uri: UriOf) {
        let encodings = group.map_or(&[][..], |group| &group.encodings);
        let (audio_peak, audio_average) = highest_rates(encodings);
        let average = variant.average_bandwidth.saturating_add(audio_average);
        push_stream_inf(text, variant.bandwidth.saturating_add(audio_peak), average);
        let codecs = variant.codecs.as_ref().map(|video| join_codecs(Some(video), encodings));
        push_quoted_if(text, "CODECS", codecs.as_deref());
        push_video_attributes(text, variant);
        if let Some(rate) = variant.frame_rate {
            let _ = write!(text, ",FRAME-RATE={:.3}", rate.as_f64());
        }
        self.push_groups(text, group);
        let _ = writeln!(text, "\n{}", uri(SessionAsset::Playlist(variant.track)));
    }

    /// The variant of a group without video.
    fn push_audio_variant(&self, text: &mut String, group: &AudioGroup, uri: UriOf) {
        let Some(default) = group.encodings.get(self.default_audio()) else { return };
        let (peak, average) = highest_rates(&group.encodings);
        push_stream_inf(text, peak, average);
        push_quoted(text, "CODECS", &join_codecs(None, &group.encodings));
        self.push_groups(text, Some(group));
        let _ = writeln!(text, "\n{}", uri(SessionAsset::Playlist(default.track)));
    }

    fn push_groups(&self, text: &mut String, audio: Option<&AudioGroup>) {
        push_quoted_if(text, "AUDIO", audio.map(|group| group.id.as_str()));
        push_quoted_if(text, "SUBTITLES", (!self.subtitles.is_empty()).then_some(SUBTITLE_GROUP));
        match self.captions {
            None => {}
            Some(_) if self.caption_services().next().is_none() => text.push_str(",CLOSED-CAPTIONS=NONE"),
            Some(_) => push_quoted(text, "CLOSED-CAPTIONS", CAPTION_GROUP),
        }
    }
}

/// Peak and average of the track that needs most: any of them may be played beside the video.
fn highest_rates(encodings: &[AudioEncoding]) -> (u64, u64) {
    let highest = |rate: fn(&AudioEncoding) -> u64| encodings.iter().map(rate).max().unwrap_or_default();
    (highest(|audio| audio.bandwidth), highest(|audio| audio.average_bandwidth))
}

fn push_stream_inf(text: &mut String, peak: u64, average: u64) {
    let _ = write!(text, "#EXT-X-STREAM-INF:BANDWIDTH={},AVERAGE-BANDWIDTH={}", peak.max(1), average.max(1));
}

/// The attributes that `EXT-X-STREAM-INF` and `EXT-X-I-FRAME-STREAM-INF` share.
fn push_video_attributes(text: &mut String, variant: &Variant) {
    push_quoted_if(text, "SUPPLEMENTAL-CODECS", variant.supplemental_codecs.as_deref());
    if let Some((width, height)) = variant.size {
        let _ = write!(text, ",RESOLUTION={width}x{height}");
    }
    if let Some(range) = variant.video_range {
        let _ = write!(text, ",VIDEO-RANGE={range}");
    }
}

/// `EXT-X-I-FRAME-STREAM-INF` (section 4.4.6.3), which is independent of all other variants.
fn push_iframe_variant(text: &mut String, variant: &Variant, uri: UriOf) {
    let Some(bandwidth) = variant.iframe_bandwidth else { return };
    let _ = write!(text, "#EXT-X-I-FRAME-STREAM-INF:BANDWIDTH={}", bandwidth.max(1));
    push_quoted_if(text, "CODECS", variant.codecs.as_deref());
    push_video_attributes(text, variant);
    push_quoted(text, "URI", &uri(SessionAsset::IFramePlaylist(variant.track)));
    text.push('\n');
}

/// Every format that is present in a rendition of the variant (section 4.4.6.2), once.
fn join_codecs(video: Option<&String>, audio: &[AudioEncoding]) -> String {
    let mut codecs: Vec<&str> = Vec::new();
    for codec in video.into_iter().chain(audio.iter().map(|encoding| &encoding.codecs)) {
        if !codecs.contains(&codec.as_str()) {
            codecs.push(codec);
        }
    }
    codecs.join(",")
}
