//! The multivariant playlist of a channel in fMP4, as a function of its lineup.

use super::{LiveAsset, LiveAudio, LiveTrack};
use crate::domain::audio_layout::AudioLayout;
use crate::domain::channel::Channel;
use crate::domain::live_cmaf::{AUDIO_CODECS, video_codecs};
use crate::domain::media::{Hdr, TrackLanguage};
use crate::domain::playback::RUNGS;
use crate::domain::playlist::{
    AudioEncoding, AudioGroup, AudioRendition, MultivariantPlaylist, PlaylistTrack, SessionAsset, SubtitleRendition,
    Variant,
};
use crate::domain::schedule::{LineupLanguages, ScheduleItem};
use crate::domain::segment_format::SegmentFormat;

/// Peak and average bit rate of a channel's audio, bit/s.
fn audio_bandwidth(layout: AudioLayout) -> (u64, u64) {
    match layout {
        AudioLayout::Stereo => (192_000, 160_000),
        AudioLayout::Surround => (460_000, 384_000),
    }
}

impl LineupLanguages {
    /// The languages that a channel offers in fMP4.
    pub fn of_channel(channel: &Channel) -> Self {
        let items = channel.definition.revisions.last().map_or(&[][..], |last| last.programme_items());
        let output = &channel.output;
        Self::of_items(items.iter().map(|item| &**item), &output.audio_languages, &output.subtitle_languages)
    }
}

/// The multivariant playlist: a variant with each layout of audio, a group of audio for each of them, and one of text, in the
/// languages of the lineup. `max_channels` is the most audio channels that the client plays; without it, the client chooses among
/// the layouts. `query` is appended to every address: the viewer's grant and view.
pub fn render_multivariant(channel: &Channel, max_channels: Option<u32>, query: &str) -> String {
    let languages = LineupLanguages::of_channel(channel);
    let layouts = languages.layouts(max_channels);
    let LineupLanguages { audio, text, .. } = languages;
    let renditions: Vec<AudioRendition> = (0..).zip(&audio).map(|(n, language)| describe_audio(n, language)).collect();
    let groups: Vec<AudioGroup> =
        (0..).zip(layouts).map(|(group, layout)| audio_group(*layout, group * audio.len(), audio.len())).collect();
    let subtitles: Vec<SubtitleRendition> = text
        .iter()
        .map(|language| SubtitleRendition {
            name: language.as_str().to_owned(),
            language: Some(language.as_str().to_owned()),
            ..SubtitleRendition::default()
        })
        .collect();
    let playlist = MultivariantPlaylist {
        format: SegmentFormat::Fmp4,
        // Copied video may have open groups of pictures.
        is_independent: channel.copies.is_empty(),
        start_seconds: 0.0,
        variants: &[video_variant(channel)],
        audio: &renditions,
        audio_groups: &groups,
        subtitles: &subtitles,
        captions: None,
        made_iframes: None,
    };
    playlist.render_with(&|asset| {
        let track = match asset {
            SessionAsset::Playlist(PlaylistTrack::Audio(n)) => LiveTrack::Audio(LiveAudio {
                layout: layouts[n / audio.len()],
                language: audio[n % audio.len()].clone(),
            }),
            SessionAsset::Playlist(PlaylistTrack::Subtitles(n)) => LiveTrack::Text(text[n].clone()),
            _ => LiveTrack::Video,
        };
        LiveAsset::Playlist(channel.copies, track).name() + query
    })
}

/// The group of a layout, with its tracks numbered from `first`.
fn audio_group(layout: AudioLayout, first: usize, count: usize) -> AudioGroup {
    let (bandwidth, average_bandwidth) = audio_bandwidth(layout);
    let encodings = (first..first + count).map(|n| AudioEncoding {
        track: PlaylistTrack::Audio(n),
        codecs: AUDIO_CODECS.to_owned(),
        channels: layout.channel_count().to_string(),
        bandwidth,
        average_bandwidth,
    });
    let id = match layout {
        AudioLayout::Stereo => "audio",
        AudioLayout::Surround => "surround",
    };
    AudioGroup { id: id.to_owned(), encodings: encodings.collect() }
}

fn describe_audio(number: usize, language: &TrackLanguage) -> AudioRendition {
    let tag = (!language.is_undetermined()).then(|| language.as_str().to_owned());
    // A rendition without a name gets a general one.
    AudioRendition {
        name: tag.clone().unwrap_or_default(),
        language: tag,
        is_default: number == 0,
        describes_video: false,
    }
}

/// The largest size and all codecs of the lineup. The bit rate of video that is not copied alone is an estimate by its size.
fn video_variant(channel: &Channel) -> Variant {
    let items = || channel.definition.revisions.iter().flat_map(|revision| revision.items.iter().map(|item| &**item));
    let size = items().map(|item| item.video_format.coded_size()).max_by_key(|(width, height)| width * height);
    let height = size.map_or(0, |(_, height)| height);
    let kbps = RUNGS.iter().rev().find(|(_, rung, _)| height <= *rung).map_or(RUNGS[0].2, |(.., kbps)| *kbps);
    let encoded_kbps = channel.output.max_kbps.unwrap_or(kbps);
    let copies = || items().filter_map(ScheduleItem::aired_copy);
    let bandwidth = u64::from(copies().map(|copy| copy.kbps).max().unwrap_or(0).max(encoded_kbps)) * 1000;
    // A variant has one range; that of a mixed lineup changes with its items.
    let mut ranges = items().map(|item| item.aired_copy().and_then(|copy| copy.hdr));
    let range = ranges.next().filter(|first| ranges.all(|other| other == *first)).flatten();
    Variant {
        track: PlaylistTrack::Video(0),
        codecs: Some(video_codecs(items())),
        supplemental_codecs: None,
        size,
        frame_rate: None,
        video_range: range.map(|range| match range {
            // Profile 5 has the transfer function of PQ.
            Hdr::Hdr10 | Hdr::DolbyVision => "PQ",
            Hdr::Hlg => "HLG",
        }),
        bandwidth,
        average_bandwidth: bandwidth,
        iframe_bandwidth: None,
    }
}
