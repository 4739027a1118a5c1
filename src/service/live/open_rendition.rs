//! The renditions of a programme's open file: the main one, and those of its other tracks.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::domain::audio_layout::AudioLayout;
use crate::domain::channel::OutputSettings;
use crate::domain::live_window::LiveAudio;
use crate::domain::media::TrackLanguage;
use crate::engine::segment_cache::StoredSegment;
use crate::engine::source::SourceFile;
use crate::engine::{Backend, RenditionSpec, RunError};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::media::subtitles::SubtitleLocation;
use crate::service::renditions::encode_slots::AdmissionRequest;
use crate::service::renditions::planner::channel_tracks;
use crate::service::renditions::runs::{self, Lease};

/// Most tracks of one kind that are remembered. A channel offers text in three languages, and audio in each also in two layouts.
const MAX_TRACKS: usize = 8;

/// A track is released when it was not requested for this long: a channel's longest segment and the time to load it.
const RELEASE_AFTER: Duration = Duration::from_secs(15);

/// A rendition of the open file.
pub(super) struct OpenRendition {
    pub spec: Arc<RenditionSpec>,
    pub backend: Arc<dyn Backend>,
    /// In the segment cache.
    pub rendition_name: Arc<str>,
    pub lease: Option<Arc<Lease>>,
}

impl OpenRendition {
    /// Whether a segment is stored; the last one counts for those past the end of a file that became shorter.
    pub(super) fn is_stored(&self, service: &Service, index: usize) -> bool {
        service.renditions.runs().has_segment(&self.rendition_name, index.min(self.spec.grid.len() - 1))
    }

    /// Takes the lease of audio alone, which needs no encode slot, unless there is one.
    pub(super) fn take_lease(&mut self, service: &Service) -> Result<Arc<Lease>> {
        if let Some(lease) = &self.lease {
            return Ok(lease.clone());
        }
        let runs = service.renditions.runs();
        let lease = Arc::new(runs.lease(self.backend.clone(), self.spec.clone(), AdmissionRequest::Channel)?);
        self.lease = Some(lease.clone());
        Ok(lease)
    }

    /// How to get a segment. While there is a lease, stored segments are requested through it as well: this is how a run
    /// learns how far its readers are.
    pub(super) async fn supply(
        &mut self,
        service: &Service,
        index: usize,
        take_lease: impl FnOnce(&mut Self) -> Result<Arc<Lease>>,
    ) -> Result<SegmentSupply> {
        let stored = match self.lease {
            None => service.renditions.runs().stored_segment(&self.rendition_name, index).await,
            Some(_) => None,
        };
        Ok(match stored {
            Some(stored) => SegmentSupply::Stored(stored),
            None => SegmentSupply::Leased(take_lease(self)?),
        })
    }
}

/// How to get a segment.
pub(super) enum SegmentSupply {
    Stored(StoredSegment),
    Leased(Arc<Lease>),
}

impl SegmentSupply {
    pub(super) fn lease(&self) -> Option<&Arc<Lease>> {
        match self {
            Self::Stored(_) => None,
            Self::Leased(lease) => Some(lease),
        }
    }

    /// The segment's bytes and its ETag, or why it cannot be made.
    ///
    /// # Errors
    /// `SEGMENT_TIMEOUT`.
    pub(super) async fn fetch(
        self,
        service: &Service,
        source: &Arc<SourceFile>,
        index: usize,
    ) -> Result<std::result::Result<(Bytes, Arc<str>), RunError>> {
        let fetch = async {
            let StoredSegment { content, etag } = match self {
                Self::Stored(stored) => stored,
                Self::Leased(lease) => lease.segment(index).await?,
            };
            Ok::<_, RunError>((content.read_all(source).await?, etag))
        };
        let wait = service.config.limits.segment_wait;
        tokio::time::timeout(wait, fetch).await.map_err(|_| {
            Error::new(Code::SegmentTimeout, format!("segment not ready within {} s", wait.as_secs()))
                .with_retry_after(2)
        })
    }
}

/// The tracks of the open file that were requested beside its main rendition.
#[derive(Default)]
pub(super) struct OpenTracks {
    audio: Vec<OpenAudio>,
    text: Vec<(TrackLanguage, Option<SubtitleLocation>)>,
}

struct OpenAudio {
    track: LiveAudio,
    /// None if the item's default audio, or silence in 5.1, takes its place.
    rendition: Option<OpenRendition>,
    requested_at: Instant,
}

impl OpenTracks {
    /// A track of audio on the grid of the main rendition; None if the default audio, or silence in 5.1, takes its place. The
    /// default audio beside copied video is a rendition too.
    ///
    /// # Errors
    /// `TRANSCODER_UNAVAILABLE`.
    pub(super) async fn audio(
        &mut self,
        service: &Service,
        (main, default_audio): (&RenditionSpec, Option<&RenditionSpec>),
        output: &OutputSettings,
        track: &LiveAudio,
    ) -> Result<Option<&mut OpenRendition>> {
        let position = match self.audio.iter().position(|audio| audio.track == *track) {
            Some(position) => position,
            None => {
                let rendition = open_audio(service, (main, default_audio), output, track).await?;
                if self.audio.len() >= MAX_TRACKS {
                    self.audio.remove(0);
                }
                let (track, requested_at) = (track.clone(), Instant::now());
                self.audio.push(OpenAudio { track, rendition, requested_at });
                self.audio.len() - 1
            }
        };
        let audio = &mut self.audio[position];
        audio.requested_at = Instant::now();
        Ok(audio.rendition.as_mut())
    }

    /// The default audio, or silence in 5.1, takes the place of a track until the file is opened again.
    pub(super) fn remove_audio(&mut self, track: &LiveAudio) {
        if let Some(audio) = self.audio.iter_mut().find(|audio| audio.track == *track) {
            audio.rendition = None;
        }
    }

    /// The tracks of audio that viewers play.
    pub(super) fn played_audio(&self) -> impl Iterator<Item = &LiveAudio> {
        self.audio.iter().filter(|audio| audio.requested_at.elapsed() < RELEASE_AFTER).map(|audio| &audio.track)
    }

    /// Whether a segment of a track is stored or never will be, because the track has no rendition of its own.
    pub(super) fn has_audio(&self, service: &Service, track: &LiveAudio, index: usize) -> bool {
        let known = self.audio.iter().find(|audio| audio.track == *track);
        known.is_some_and(|audio| audio.rendition.as_ref().is_none_or(|own| own.is_stored(service, index)))
    }

    /// Where the text of a language is; None without any.
    pub(super) async fn text(
        &mut self,
        service: &Service,
        main: &RenditionSpec,
        language: &TrackLanguage,
    ) -> Option<SubtitleLocation> {
        if let Some((_, location)) = self.text.iter().find(|(known, _)| known == language) {
            return location.clone();
        }
        let location = channel_tracks::text_subtitle(service, main, language).await;
        if self.text.len() >= MAX_TRACKS {
            self.text.remove(0);
        }
        self.text.push((language.clone(), location.clone()));
        location
    }

    /// Drops the leases of tracks that were left, or whose last segment is made.
    pub(super) fn release_unused(&mut self, service: &Service, last_segment: usize) {
        for OpenAudio { rendition, requested_at, .. } in &mut self.audio {
            if let Some(rendition) = rendition
                && rendition.lease.is_some()
                && (requested_at.elapsed() >= RELEASE_AFTER || rendition.is_stored(service, last_segment))
            {
                rendition.lease = None;
            }
        }
    }
}

async fn open_audio(
    service: &Service,
    (main, default_audio): (&RenditionSpec, Option<&RenditionSpec>),
    output: &OutputSettings,
    track: &LiveAudio,
) -> Result<Option<OpenRendition>> {
    let own = channel_tracks::audio_rendition(service, default_audio.unwrap_or(main), track, output).await;
    let default_audio = default_audio.filter(|_| track.layout == AudioLayout::Stereo);
    let Some(spec) = own.or_else(|| default_audio.cloned()) else { return Ok(None) };
    let spec = Arc::new(spec);
    let backend = service.renditions.backends.choose(&spec).await?.backend;
    let rendition_name = runs::rendition_key(&*backend, &spec);
    Ok(Some(OpenRendition { spec, backend, rendition_name, lease: None }))
}
