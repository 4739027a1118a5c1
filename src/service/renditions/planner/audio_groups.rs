//! The audio renditions of a session, in groups: the tracks as they were decided, and the same tracks in AAC.

use super::audio_tracks::AudioTrack;
use crate::domain::playlist::{AudioEncoding, AudioGroup, AudioRendition, PlaylistTrack};

/// `GROUP-ID` of the tracks as they were decided.
const OWN_GROUP: &str = "audio";

/// `GROUP-ID` of the tracks in AAC.
const AAC_GROUP: &str = "aac";

/// The audio renditions beside the video of a session.
#[derive(Clone, Debug, Default)]
pub struct SessionAudio {
    /// Each track as it was decided, the default one first, then the renditions in AAC.
    renditions: Vec<AudioTrack>,
    track_count: usize,
    /// The rendition of each track in AAC, as a position in `renditions`. A track that is AAC anyway is its own.
    aac_group: Vec<usize>,
}

impl SessionAudio {
    /// `aac` are renditions in AAC of some of the tracks, each with the position of its track.
    pub fn new(tracks: Vec<AudioTrack>, aac: Vec<(usize, AudioTrack)>) -> Self {
        let track_count = tracks.len();
        let (mut renditions, mut aac_group) = (tracks, (0..track_count).collect::<Vec<_>>());
        for (track, rendition) in aac {
            aac_group[track] = renditions.len();
            renditions.push(rendition);
        }
        Self { renditions, track_count, aac_group }
    }

    /// All renditions; the n-th one is [`PlaylistTrack::Audio`] `(n)`.
    pub fn renditions(&self) -> &[AudioTrack] {
        &self.renditions
    }

    /// Each track once, as it was decided, the default one first.
    pub fn tracks(&self) -> &[AudioTrack] {
        &self.renditions[..self.track_count]
    }

    /// The rendition in AAC that is offered beside a stream that is copied in another codec.
    pub fn aac_of(&self, stream: u32) -> Option<&AudioTrack> {
        self.renditions[self.track_count..].iter().find(|rendition| rendition.stream == stream)
    }

    /// The tracks, as a viewer chooses among them.
    pub fn descriptions(&self) -> Vec<AudioRendition> {
        self.tracks().iter().map(|track| track.description.clone()).collect()
    }

    /// The groups of the multivariant playlist; none without audio beside the video. The group in AAC comes first, because some
    /// players take the first variant and no other group than its own.
    pub fn groups(&self) -> Vec<AudioGroup> {
        let own_group: Vec<usize> = (0..self.track_count).collect();
        let group = |id: &str, members: &[usize]| AudioGroup {
            id: id.to_owned(),
            encodings: members.iter().map(|number| self.encoding(*number)).collect(),
        };
        match (self.track_count, self.aac_group == own_group) {
            (0, _) => Vec::new(),
            (_, true) => vec![group(OWN_GROUP, &own_group)],
            (_, false) => vec![group(AAC_GROUP, &self.aac_group), group(OWN_GROUP, &own_group)],
        }
    }

    fn encoding(&self, number: usize) -> AudioEncoding {
        let rendition = &self.renditions[number];
        AudioEncoding {
            track: PlaylistTrack::Audio(number),
            codecs: rendition.codecs.clone(),
            channels: rendition.channels.clone(),
            bandwidth: rendition.bandwidth,
            average_bandwidth: rendition.average_bandwidth,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::service::renditions::sample_spec::sample_spec;

    fn track(stream: u32, codecs: &str, channels: &str) -> AudioTrack {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("film.mp4"), "film").unwrap();
        AudioTrack {
            spec: Arc::new(sample_spec(folder.path(), 180)),
            stream,
            description: AudioRendition { name: stream.to_string(), ..AudioRendition::default() },
            codecs: codecs.to_owned(),
            channels: channels.to_owned(),
            bandwidth: 1,
            average_bandwidth: 1,
        }
    }

    /// Of each group its id, and of each member the number, the codec and the channels.
    fn summary(audio: &SessionAudio) -> Vec<String> {
        let member = |encoding: AudioEncoding| {
            let name = encoding.track.playlist_name();
            format!(" {}:{}:{}", name.trim_end_matches(".m3u8"), encoding.codecs, encoding.channels)
        };
        let groups = audio.groups().into_iter();
        groups.map(|group| group.id + &group.encodings.into_iter().map(member).collect::<String>()).collect()
    }

    #[test]
    fn each_track_has_the_same_place_in_each_group() {
        let tracks = || vec![track(1, "ac-3", "6"), track(2, "mp4a.40.2", "2"), track(3, "ec-3", "16/JOC")];
        let own = "audio a0:ac-3:6 a1:mp4a.40.2:2 a2:ec-3:16/JOC";
        let aac = vec![(0, track(1, "mp4a.40.2", "2")), (2, track(3, "mp4a.40.2", "6"))];
        let audio = SessionAudio::new(tracks(), aac);
        assert_eq!(summary(&audio), ["aac a3:mp4a.40.2:2 a1:mp4a.40.2:2 a4:mp4a.40.2:6", own]);
        assert_eq!((audio.tracks().len(), audio.renditions().len(), audio.descriptions().len()), (3, 5, 3));
        assert_eq!(audio.aac_of(3).unwrap().channels, "6");
        assert!(audio.aac_of(2).is_none(), "it is AAC itself");
        assert_eq!(summary(&SessionAudio::new(tracks(), Vec::new())), [own]);
        assert!(SessionAudio::default().groups().is_empty());
    }
}
