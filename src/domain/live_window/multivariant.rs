//! The multivariant playlist of a channel in fMP4, as a function of its lineup.

use super::{LiveAsset, LiveTrack};
use crate::domain::channel::Channel;
use crate::domain::live_cmaf::{AUDIO_CODECS, video_codecs};
use crate::domain::media::TrackLanguage;
use crate::domain::playback::RUNGS;
use crate::domain::playlist::{
    AudioEncoding, AudioGroup, AudioRendition, MultivariantPlaylist, PlaylistTrack, SessionAsset, SubtitleRendition,
    Variant,
};
use crate::domain::schedule::LineupLanguages;
use crate::domain::segment_format::SegmentFormat;

/// Peak and average bit rate of a channel's audio, bit/s.
const AUDIO_PEAK: u64 = 192_000;
const AUDIO_AVERAGE: u64 = 160_000;

impl LineupLanguages {
    /// The languages that a channel offers in fMP4.
    pub fn of_channel(channel: &Channel) -> Self {
        let items = channel.definition.revisions.last().map_or(&[][..], |last| last.programme_items());
        let output = &channel.output;
        Self::of_items(items.iter().map(|item| &**item), &output.audio_languages, &output.subtitle_languages)
    }
}

/// The multivariant playlist: one variant, and a group each of audio and of text in the languages of the lineup. `query` is
/// appended to every address: the viewer's grant and view.
pub fn render_multivariant(channel: &Channel, query: &str) -> String {
    let LineupLanguages { audio, text } = LineupLanguages::of_channel(channel);
    let renditions: Vec<AudioRendition> = (0..).zip(&audio).map(|(n, language)| describe_audio(n, language)).collect();
    let encodings = (0..audio.len()).map(|n| AudioEncoding {
        track: PlaylistTrack::Audio(n),
        codecs: AUDIO_CODECS.to_owned(),
        channels: "2".to_owned(),
        bandwidth: AUDIO_PEAK,
        average_bandwidth: AUDIO_AVERAGE,
    });
    let group = AudioGroup { id: "audio".to_owned(), encodings: encodings.collect() };
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
        is_independent: true,
        start_seconds: 0.0,
        variants: &[video_variant(channel)],
        audio: &renditions,
        audio_groups: &[group],
        subtitles: &subtitles,
        captions: None,
    };
    playlist.render_with(&|asset| {
        let track = match asset {
            SessionAsset::Playlist(PlaylistTrack::Audio(n)) => LiveTrack::Audio(audio[n].clone()),
            SessionAsset::Playlist(PlaylistTrack::Subtitles(n)) => LiveTrack::Text(text[n].clone()),
            _ => LiveTrack::Video,
        };
        LiveAsset::Playlist(track).name() + query
    })
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

/// The largest size and the highest level of the lineup. The bit rate is an estimate by the size, because copied video has any.
fn video_variant(channel: &Channel) -> Variant {
    let items = || channel.definition.revisions.iter().flat_map(|revision| revision.items.iter().map(|item| &**item));
    let size = items().map(|item| item.video_format.coded_size()).max_by_key(|(width, height)| width * height);
    let height = size.map_or(0, |(_, height)| height);
    let kbps = RUNGS.iter().rev().find(|(_, rung, _)| height <= *rung).map_or(RUNGS[0].2, |(.., kbps)| *kbps);
    let bandwidth = u64::from(channel.output.max_kbps.unwrap_or(kbps)) * 1000;
    Variant {
        track: PlaylistTrack::Video(0),
        codecs: Some(video_codecs(items())),
        supplemental_codecs: None,
        size,
        frame_rate: None,
        video_range: None,
        bandwidth,
        average_bandwidth: bandwidth,
        iframe_bandwidth: None,
    }
}
