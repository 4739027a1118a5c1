//! The playlists, init segments and subtitles that a session serves beside its segments.

use bytes::Bytes;

use super::lock;
use super::session::Session;
use crate::domain::cmaf::init_reader::{InitDescription, split_init};
use crate::domain::grid::Grid;
use crate::domain::playback::SubtitleDelivery;
use crate::domain::playlist::{
    self, CaptionService, IFrame, InitId, MediaPlaylist, MultivariantPlaylist, PlaylistTrack, SubtitleRendition,
};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::subtitles::write_webvtt_segment;
use crate::engine::TIMELINE_BASE;
use crate::engine::content::SegmentContent;
use crate::error::{Code, Error, Result};
use crate::service::media::subtitles::{SubtitleLocation, Subtitles};
use crate::service::renditions::planner::made_iframes::MadeIFrames;
use crate::service::renditions::planner::{RenditionId, SessionPlan, start_segment};

impl SessionPlan {
    /// The rendition of a playlist track; None for subtitles and unknown tracks.
    pub fn rendition_of_track(&self, track: PlaylistTrack) -> Option<RenditionId> {
        let id = match (track, self.spec().rendition.video.is_some()) {
            (PlaylistTrack::Video(rung), true) => RenditionId::Rung(rung),
            (PlaylistTrack::Audio(0), false) => RenditionId::Rung(0),
            (PlaylistTrack::Audio(track), true) => RenditionId::Audio(track),
            _ => return None,
        };
        self.spec_of(id).map(|_| id)
    }

    /// RFC 6381 codec string of the video: of its file, or from the first bytes of a segment.
    pub(super) fn read_video_codec(&self, head: &[u8]) -> Option<String> {
        let copied = self.top().copied_video.as_ref();
        if let Some(codecs) = copied.and_then(|copied| copied.codecs.clone()) {
            return Some(codecs);
        }
        match split_init(head) {
            Some((init, _)) => Some(InitDescription::read(init).ok()?.entry.codecs),
            None if copied.is_some() => None,
            None => playlist::avc_codec_string(head),
        }
    }

    /// The closed captions that were found in copied video. None are listed beside encoded rungs, because what is listed must be
    /// in all of them; players find those in the video by themselves.
    fn closed_captions(&self) -> Vec<CaptionService> {
        let [rung] = &self.rungs[..] else { return Vec::new() };
        let track = rung.spec.package.as_ref().and_then(|package| package.cmaf_track());
        let channels = track.map_or(&[][..], |track| track.closed_captions());
        channels.iter().map(|&channel| CaptionService::unnamed(channel)).collect()
    }

    /// Whether every segment of a rendition can be decoded without another one.
    pub(super) fn is_independent(&self, id: RenditionId) -> bool {
        match id {
            RenditionId::Rung(rung) => {
                self.rungs[rung].copied_video.as_ref().is_none_or(|copied| copied.is_independent)
            }
            RenditionId::Audio(_) => true,
        }
    }

    /// The multivariant playlist with the codec string that was read from the first segment.
    pub(super) fn multivariant(&self, video_codec: Option<&str>, with_start: bool, grant: &str) -> Bytes {
        let plan = self;
        let start_seconds = plan.request.start_seconds - plan.list_start_seconds();
        let variants = plan.variants(video_codec);
        let (audio, audio_groups) = (plan.audio.descriptions(), plan.audio.groups());
        let subtitles: Vec<SubtitleRendition> = plan.subtitles.iter().map(|track| track.description.clone()).collect();
        let captions = plan.closed_captions();
        let client = plan.request.capabilities.format(plan.format()).filter(|client| client.has_iframe_playlists);
        let made_iframes = client.and_then(|client| Some(plan.made_iframes()?.variant(client.knows_avc3)));
        let playlist = MultivariantPlaylist {
            format: plan.format(),
            is_independent: (0..plan.rungs.len()).all(|rung| plan.is_independent(RenditionId::Rung(rung))),
            start_seconds: if with_start { start_seconds } else { 0.0 },
            variants: &variants,
            audio: &audio,
            audio_groups: &audio_groups,
            subtitles: &subtitles,
            captions: (!captions.is_empty()).then_some(&captions),
            made_iframes: made_iframes.as_ref(),
        };
        playlist.render(grant).into()
    }
}

impl Session {
    /// The multivariant playlist with `grant` in every URI, and with `EXT-X-START` if the player accepts it there.
    pub fn multivariant(&self, with_start: bool, grant: &str) -> Bytes {
        self.plan.multivariant(self.video_codec().as_deref(), with_start, grant)
    }

    /// A media playlist with `grant` in every URI. That of an encoded rendition in fMP4 waits for a segment, which contains
    /// its init segment.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` for a track the session does not have; those of [`Session::segment`].
    pub async fn media_playlist(&self, track: PlaylistTrack, grant: &str) -> Result<Bytes> {
        let (start_seconds, from) = (self.plan.request.start_seconds, self.plan.list_start());
        let render = |grid: &Grid, init: Option<InitId>, is_independent: bool| {
            let playlist = MediaPlaylist { track, init, grid, from, start_seconds, is_independent };
            playlist.render(grant).into()
        };
        if let PlaylistTrack::Subtitles(number) = track {
            let grid = playlist::subtitle_grid(&self.plan.spec().grid);
            return self.plan.subtitles.get(number).map(|_| render(&grid, None, true)).ok_or_else(no_track);
        }
        let id = self.plan.rendition_of_track(track).ok_or_else(no_track)?;
        let spec = self.plan.spec_of(id).ok_or_else(no_track)?;
        let init = match spec.rendition.format {
            SegmentFormat::Fmp4 => Some(InitId::of(&self.init_segment(id).await?)),
            _ => None,
        };
        Ok(render(&spec.grid, init, self.plan.is_independent(id)))
    }

    /// The I-frame playlist of packaged video, with `grant` in every URI.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` for other tracks.
    pub fn iframe_playlist(&self, track: PlaylistTrack, grant: &str) -> Result<Bytes> {
        let spec = self.plan.rendition_of_track(track).and_then(|id| self.plan.spec_of(id)).ok_or_else(no_track)?;
        let no_iframes = || Error::new(Code::AssetNotFound, "the track has no I-frame playlist");
        let packaged = spec.package.as_ref().and_then(|package| package.cmaf_track()).ok_or_else(no_iframes)?;
        let iframes = packaged.keyframe_ranges(&spec.grid).ok_or_else(no_iframes)?;
        Ok(self.render_iframes((track, &spec.grid), packaged.init_segment(), &iframes, grant))
    }

    /// The I-frame playlist of frames that are made for the session, one for each segment. `init` is the init segment of one
    /// of them; of two requests at the same time the first counts, so that one is published.
    pub fn made_iframe_playlist(&self, made: MadeIFrames<'_>, init: Bytes, grant: &str) -> Bytes {
        if self.made_iframe_init.set(init.clone()).is_ok() {
            self.save();
        }
        let init = self.made_iframe_init.get().unwrap_or(&init);
        let grid = &made.rung.spec.grid;
        let iframes: Vec<IFrame> = (0..grid.len()).map(|segment| IFrame { segment, bytes: None }).collect();
        self.render_iframes((made.track, grid), init, &iframes, grant)
    }

    /// The init segment of the frames that are made for the session, once their playlist was requested.
    pub fn made_iframe_init(&self) -> Option<&Bytes> {
        self.made_iframe_init.get()
    }

    fn render_iframes(
        &self,
        (track, grid): (PlaylistTrack, &Grid),
        init: &Bytes,
        iframes: &[IFrame],
        grant: &str,
    ) -> Bytes {
        let playlist = MediaPlaylist {
            track,
            init: Some(InitId::of(init)),
            grid,
            from: self.plan.list_start(),
            start_seconds: self.plan.request.start_seconds,
            is_independent: true,
        };
        playlist.render_iframes(iframes, grant).into()
    }

    /// The first frame of a segment of packaged video.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` for other tracks and past the end; `SOURCE_READ_FAILED`.
    pub async fn iframe(&self, track: PlaylistTrack, segment: usize) -> Result<Bytes> {
        self.touch();
        let spec = self.plan.rendition_of_track(track).and_then(|id| self.plan.spec_of(id)).ok_or_else(no_track)?;
        let no_iframe = || Error::new(Code::AssetNotFound, format!("the track has no I-frame {segment}"));
        let package = spec.package.clone().filter(|package| package.cmaf_track().is_some()).ok_or_else(no_iframe)?;
        if segment >= spec.grid.len() {
            return Err(no_iframe());
        }
        let (source, grid) = (spec.source.clone(), spec.grid.clone());
        // Reads up to some MB, perhaps from a disk that is asleep.
        let read = tokio::task::spawn_blocking(move || {
            package.cmaf_track().map(|track| track.lay_out_iframe(&*source, &grid, segment))
        });
        let read = read.await.map_err(Error::internal)?.ok_or_else(no_iframe)?;
        let unreadable = |cause| Error::new(Code::SourceReadFailed, "the file could not be read").with_cause(cause);
        read.map(Bytes::from).map_err(unreadable)
    }

    /// The init segment of a rendition in fMP4.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` for a rendition in another format; those of [`Session::segment`].
    pub async fn init_segment(&self, id: RenditionId) -> Result<Bytes> {
        let spec = self.plan.spec_of(id).filter(|spec| spec.rendition.format == SegmentFormat::Fmp4);
        let spec = spec.ok_or_else(no_track)?;
        if let Some(track) = spec.package.as_ref().and_then(|package| package.cmaf_track()) {
            return Ok(track.init_segment().clone());
        }
        if let Some((_, init)) = lock(&self.encoded_inits).iter().find(|(known, _)| *known == id) {
            return Ok(init.clone());
        }
        let SegmentContent::InMemory(bytes) = self.stored_segment(id, start_segment(&self.plan)).await?.content else {
            return Err(Error::new(Code::Internal, "an encoded segment is kept in memory"));
        };
        let (init, _) =
            split_init(&bytes).ok_or_else(|| Error::new(Code::Internal, "a segment has no init segment"))?;
        let init = bytes.slice_ref(init);
        let mut known = lock(&self.encoded_inits);
        // Of two requests at the same time the first counts, so that one init segment is published.
        let published = known.iter().find(|(other, _)| *other == id).map(|(_, published)| published.clone());
        Ok(published.unwrap_or_else(|| {
            known.push((id, init.clone()));
            self.save();
            init
        }))
    }

    /// A segment of a WebVTT rendition.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` past the end or without such a rendition; those of [`Subtitles::read_cues`].
    pub async fn subtitle_segment(&self, subtitles: &Subtitles, track: usize, index: usize) -> Result<String> {
        self.touch();
        let spec = self.plan.spec();
        let grid = playlist::subtitle_grid(&spec.grid);
        let subtitle = match self.plan.subtitles.get(track).map(|text| &text.delivery) {
            Some(SubtitleDelivery::Text { stream }) if index < grid.len() => SubtitleLocation::Stream(*stream),
            Some(SubtitleDelivery::TextSidecar { path }) if index < grid.len() => SubtitleLocation::File(path.clone()),
            _ => return Err(Error::new(Code::AssetNotFound, format!("there is no subtitle segment {index}"))),
        };
        let cues = subtitles.read_cues(&spec.source, &spec.media, &subtitle).await?;
        let (start, end) = (grid.segment_start(index), grid.segment_start(index) + grid.segment_length(index));
        Ok(write_webvtt_segment(&cues, start.as_seconds(), end.as_seconds(), TIMELINE_BASE))
    }
}

fn no_track() -> Error {
    Error::new(Code::AssetNotFound, "the session has no such track")
}
