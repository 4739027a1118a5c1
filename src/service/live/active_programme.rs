//! One programme that is watched: its open file and the lease on its rendition.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::open_rendition::{OpenRendition, OpenTracks};
use super::{MAX_ADMISSION_WAIT, ScheduledSegment, find_or_add_programme, retry_when_busy};
use crate::domain::audio_layout::AudioLayout;
use crate::domain::channel::{Channel, OutputSettings};
use crate::domain::live_window::LiveAudio;
use crate::domain::media::TrackLanguage;
use crate::domain::schedule::Programme;
use crate::domain::schedule::segmentation::Segmentation;
use crate::domain::subtitles::Cue;
use crate::engine::{RenditionSpec, RunError};
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::renditions::encode_slots::AdmissionRequest;
use crate::service::renditions::planner::channel_copy::{self, CopiedItem};
use crate::service::renditions::planner::channel_item;
use crate::service::renditions::runs::{self, Lease};

/// Pause before an item that could not be shown is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(15);

/// One programme, shared by the viewers who read it together.
pub(super) struct ActiveProgramme {
    /// The viewer who does not watch live; empty for all live viewers together.
    reader: String,
    last_use: Mutex<Instant>,
    /// A segment is being made ahead.
    is_making_ahead: AtomicBool,
    /// The last segment that was reported to the run as the clock's position.
    last_reported: AtomicUsize,
    /// The programme's last segment that shows the item.
    last_segment: AtomicUsize,
    /// Locked while the file is opened: everyone who waits needs the same file.
    state: tokio::sync::Mutex<ProgrammeState>,
    /// The rendition's name in the segment cache, once the file is open.
    rendition_name: Mutex<Option<Arc<str>>>,
}

#[derive(Default)]
enum ProgrammeState {
    #[default]
    Unopened,
    Ready(OpenItem),
    /// The item cannot be shown; the next attempt is at this time.
    Broken {
        until: Instant,
    },
}

struct OpenItem {
    /// With its video and its default audio; of copied video, without audio.
    main: OpenRendition,
    /// The default audio beside copied video, as a rendition of its own.
    default_audio: Option<RenditionSpec>,
    tracks: OpenTracks,
    /// The channel's output settings when the file was opened.
    output: Arc<OutputSettings>,
}

/// The open file of copied video.
pub(super) struct OpenCopy {
    pub spec: Arc<RenditionSpec>,
    /// As in the segment cache, where no segment of it is stored.
    pub rendition_name: Arc<str>,
}

impl ProgrammeState {
    /// Whether the file was opened for other output settings. A programme on air keeps those it began with.
    fn is_outdated(&self, required: &OutputSettings) -> bool {
        matches!(self, Self::Ready(item) if *item.output != *required)
    }
}

impl ActiveProgramme {
    pub(super) fn new(reader: String) -> Self {
        Self {
            reader,
            last_use: Mutex::new(Instant::now()),
            is_making_ahead: AtomicBool::new(false),
            last_reported: AtomicUsize::new(usize::MAX),
            last_segment: AtomicUsize::new(usize::MAX),
            state: tokio::sync::Mutex::default(),
            rendition_name: Mutex::default(),
        }
    }

    pub(super) fn touch(&self) {
        *lock(&self.last_use) = Instant::now();
    }

    /// When one of its segments was last requested.
    pub(super) fn last_use(&self) -> Instant {
        *lock(&self.last_use)
    }

    pub(super) fn is_idle(&self, timeout: Duration) -> bool {
        self.last_use().elapsed() >= timeout
    }

    /// Marks that a segment is being made ahead; None when one already is.
    pub(super) fn start_making_ahead(self: &Arc<Self>) -> Option<MakingAhead> {
        (!self.is_making_ahead.swap(true, Ordering::Relaxed)).then(|| MakingAhead(self.clone()))
    }

    /// The rendition's name in the segment cache; None before the file is open.
    pub(super) fn rendition_name(&self) -> Option<Arc<str>> {
        lock(&self.rendition_name).clone()
    }

    /// Whether the last attempt to show it failed.
    pub(super) fn is_broken(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| matches!(*state, ProgrammeState::Broken { .. }))
    }

    /// Whether it may have a lease. While the file is being opened this is unknown, so true.
    pub(super) fn may_be_leased(&self) -> bool {
        self.state.try_lock().is_err() || self.is_leased()
    }

    /// Whether it has a lease.
    pub(super) fn is_leased(&self) -> bool {
        self.state
            .try_lock()
            .is_ok_and(|state| matches!(&*state, ProgrammeState::Ready(item) if item.main.lease.is_some()))
    }

    /// Whether it is made for these output settings. One that is not open yet will be.
    pub(super) fn matches_output(&self, output: &OutputSettings) -> bool {
        self.state.try_lock().map_or(true, |state| !state.is_outdated(output))
    }

    /// Whether it is made by other output settings than these, once its file is open.
    pub(super) async fn is_outdated(&self, required: &OutputSettings) -> bool {
        self.state.lock().await.is_outdated(required)
    }

    /// Reports a finished segment to the run as the clock's position; the run works ahead of it. Starts no run.
    pub(super) fn report_position(&self, index: usize) {
        let lease = match self.state.try_lock().as_deref() {
            Ok(ProgrammeState::Ready(OpenItem { main: OpenRendition { lease: Some(lease), .. }, .. })) => lease.clone(),
            _ => return,
        };
        if self.last_reported.swap(index, Ordering::Relaxed) != index {
            tokio::spawn(async move { lease.segment(index).await.map(drop) });
        }
    }

    /// A segment of the programme and its ETag, with a track of audio alone if one is given and the item has it; None when the
    /// item cannot be shown, or has no such track in 5.1.
    pub(super) async fn make_segment(
        &self,
        service: &Service,
        channel: &Channel,
        segment: &ScheduledSegment,
        audio: Option<&LiveAudio>,
    ) -> Result<Option<(Bytes, Arc<str>)>> {
        self.touch();
        self.last_segment.store(segment.last_item_index, Ordering::Relaxed);
        if let Some(audio) = audio {
            let made = self.make_audio(service, channel, segment, audio).await?;
            // The default audio is in stereo, and not beside copied video.
            if made.is_some() || audio.layout != AudioLayout::Stereo || segment.is_copied {
                return Ok(made);
            }
        }
        let runs = service.renditions.runs();
        let mut state = self.open(service, channel, &segment.programme).await?;
        let ProgrammeState::Ready(item) = &mut *state else { return Ok(None) };
        let source = item.main.spec.source.clone();
        let take_lease = |main: &mut OpenRendition| self.take_lease(main, service, channel.id);
        let supply = item.main.supply(service, segment.item_index, take_lease).await?;
        drop(state);
        let made_by = supply.lease().cloned();
        let made = supply.fetch(service, &source, segment.item_index).await;
        self.touch();
        match made? {
            Ok(made) => Ok(Some(made)),
            // The file is shorter than its header says; the segments before still play.
            Err(RunError::SourceEnded) => Ok(None),
            // Another viewer needed its share of the encode slots.
            Err(_) if made_by.is_some_and(|lease| lease.was_withdrawn()) => Err(runs.busy_error()),
            Err(error) => {
                let item = channel.definition.item_of(&segment.programme);
                tracing::warn!(channel.id = channel.id, media.path = item.path, %error, "a slate is aired instead");
                self.mark_broken().await;
                Ok(None)
            }
        }
    }

    /// A segment of audio alone. None if the item's default audio, or silence in 5.1, takes its place: the item has no such track
    /// beside its default one, or it cannot be made.
    async fn make_audio(
        &self,
        service: &Service,
        channel: &Channel,
        segment: &ScheduledSegment,
        track: &LiveAudio,
    ) -> Result<Option<(Bytes, Arc<str>)>> {
        let mut state = self.open(service, channel, &segment.programme).await?;
        let ProgrammeState::Ready(OpenItem { main, default_audio, tracks, output }) = &mut *state else {
            return Ok(None);
        };
        let source = main.spec.source.clone();
        let opened = tracks.audio(service, (&main.spec, default_audio.as_ref()), output, track).await?;
        let Some(audio) = opened else { return Ok(None) };
        let supply = audio.supply(service, segment.item_index, |audio| audio.take_lease(service)).await?;
        drop(state);
        match supply.fetch(service, &source, segment.item_index).await? {
            Ok(made) => Ok(Some(made)),
            Err(error) => {
                let (path, tag) = (&source.path, track.language.as_str());
                tracing::warn!(channel.id = channel.id, media.path = path, language = tag, %error, "an audio track is not aired");
                if let ProgrammeState::Ready(item) = &mut *self.state.lock().await {
                    item.tracks.remove_audio(track);
                }
                Ok(None)
            }
        }
    }

    /// The open file of a segment whose video is copied; None if the item cannot be shown.
    pub(super) async fn open_copy(
        &self,
        service: &Service,
        channel: &Channel,
        segment: &ScheduledSegment,
    ) -> Result<Option<OpenCopy>> {
        self.touch();
        self.last_segment.store(segment.last_item_index, Ordering::Relaxed);
        let state = self.open(service, channel, &segment.programme).await?;
        let ProgrammeState::Ready(OpenItem { main, .. }) = &*state else { return Ok(None) };
        Ok(Some(OpenCopy { spec: main.spec.clone(), rendition_name: main.rendition_name.clone() }))
    }

    /// The item cannot be shown for a while.
    pub(super) async fn mark_broken(&self) {
        *self.state.lock().await = ProgrammeState::Broken { until: Instant::now() + RETRY_DELAY };
    }

    /// The tracks of audio beside the default one that viewers play now. Empty while the file is being opened.
    pub(super) fn played_audio(&self) -> Vec<LiveAudio> {
        match self.state.try_lock().as_deref() {
            Ok(ProgrammeState::Ready(item)) => item.tracks.played_audio().cloned().collect(),
            _ => Vec::new(),
        }
    }

    /// Whether a segment of a track of audio is stored or never will be. False before the file is open.
    pub(super) fn has_audio(&self, service: &Service, track: &LiveAudio, index: usize) -> bool {
        match self.state.try_lock().as_deref() {
            Ok(ProgrammeState::Ready(item)) => item.tracks.has_audio(service, track, index),
            Ok(ProgrammeState::Broken { .. }) => true,
            _ => false,
        }
    }

    /// The cues of a text subtitle and the programme's file; None when the item cannot be shown or has none in this language.
    ///
    /// # Errors
    /// Those of [`Subtitles::read_cues`](crate::service::media::subtitles::Subtitles::read_cues).
    pub(super) async fn read_cues(
        &self,
        service: &Service,
        channel: &Channel,
        segment: &ScheduledSegment,
        language: &TrackLanguage,
    ) -> Result<Option<Arc<Vec<Cue>>>> {
        self.touch();
        let mut state = self.open(service, channel, &segment.programme).await?;
        let ProgrammeState::Ready(OpenItem { main, tracks, .. }) = &mut *state else { return Ok(None) };
        let Some(location) = tracks.text(service, &main.spec, language).await else { return Ok(None) };
        let spec = main.spec.clone();
        drop(state);
        service.subtitles.read_cues(&spec.source, &spec.media, &location).await.map(Some)
    }

    /// Locks the state, and opens the file unless it is open or opening just failed.
    async fn open(
        &self,
        service: &Service,
        channel: &Channel,
        programme: &Programme,
    ) -> Result<tokio::sync::MutexGuard<'_, ProgrammeState>> {
        let item = channel.definition.item_of(programme);
        let mut state = self.state.lock().await;
        let is_on_air = programme.start_ms <= channel.channel_ms_at(service.clock.now_ms());
        if !is_on_air && state.is_outdated(&channel.output) {
            *state = ProgrammeState::Unopened;
        }
        let is_settled = match &*state {
            ProgrammeState::Ready(_) => true,
            ProgrammeState::Broken { until } => *until > Instant::now(),
            ProgrammeState::Unopened => false,
        };
        if is_settled {
            return Ok(state);
        }
        let opened = async {
            let path = service.find_item_file(item).await;
            let (spec, default_audio) = match item.aired_copy() {
                None => (channel_item::prepare(service, item, &path, &channel.output).await?, None),
                Some(copy) => {
                    let CopiedItem { video, audio } =
                        channel_copy::prepare(service, copy, &path, &channel.output).await?;
                    (video, audio)
                }
            };
            let spec = Arc::new(spec);
            let backend = service.renditions.backends.choose(&spec).await?.backend;
            let rendition_name = runs::rendition_key(&*backend, &spec);
            *lock(&self.rendition_name) = Some(rendition_name.clone());
            let main = OpenRendition { spec, backend, rendition_name, lease: None };
            let tracks = OpenTracks::default();
            Ok::<_, Error>(OpenItem { main, default_audio, tracks, output: channel.output.clone() })
        };
        *state = match opened.await {
            Ok(item) => ProgrammeState::Ready(item),
            // A network share that hangs, or an encoder that is missing at the moment: the player may retry.
            Err(fault)
                if matches!(fault.code, Code::StorageTimeout | Code::ProbeTimedOut | Code::TranscoderUnavailable) =>
            {
                return Err(fault);
            }
            Err(fault) => {
                tracing::warn!(channel.id = channel.id, media.path = item.path, %fault, "a slate is aired instead");
                ProgrammeState::Broken { until: Instant::now() + RETRY_DELAY }
            }
        };
        Ok(state)
    }

    /// Takes the lease on behalf of the audience, unless there is one.
    fn take_lease(&self, main: &mut OpenRendition, service: &Service, channel: u32) -> Result<Arc<Lease>> {
        if let Some(lease) = &main.lease {
            return Ok(lease.clone());
        }
        let audience = (channel, self.reader.clone());
        let admission = service.live_channels.admission(&audience);
        let viewer = admission.as_ref().map_or(AdmissionRequest::Channel, AdmissionRequest::Admitted);
        let lease = Arc::new(service.renditions.runs().lease(main.backend.clone(), main.spec.clone(), viewer)?);
        if let Some(admission) = lease.admission() {
            service.live_channels.admissions().entry(audience).or_insert(admission);
        }
        main.lease = Some(lease.clone());
        Ok(lease)
    }

    /// Withdraws the lease; the next request takes a new one. False when there was none.
    pub(super) fn withdraw_lease(&self) -> bool {
        match self.state.try_lock().as_deref_mut() {
            Ok(ProgrammeState::Ready(item)) => item.main.lease.take().is_some_and(|lease| lease.withdraw()),
            _ => false,
        }
    }

    /// Drops the lease once the programme's last segment is made, because the next programme needs its encode slot; and the
    /// leases of tracks that were left.
    pub(super) fn release_when_complete(&self, service: &Service) {
        if let Ok(mut state) = self.state.try_lock()
            && let ProgrammeState::Ready(item) = &mut *state
        {
            let last_segment = self.last_segment.load(Ordering::Relaxed);
            if item.main.lease.is_some() && item.main.is_stored(service, last_segment) {
                item.main.lease = None;
            }
            item.tracks.release_unused(service, last_segment);
        }
    }
}

/// How much longer than for encode slots an admission waits for an item that is opened meanwhile.
const OPENING_MARGIN: Duration = Duration::from_millis(100);

/// Takes the share of the encode slots that a segment needs, before a playlist names the segment.
///
/// # Errors
/// `TRANSCODER_BUSY` within 2 s. Other errors of making the segment are reported when it is requested.
pub(super) async fn admit(service: &Arc<Service>, channel: &Channel, segment: &ScheduledSegment) -> Result<()> {
    let is_encoded = matches!(channel.definition.item_of(&segment.programme).segmentation, Segmentation::Frames(_));
    let audience = (segment.key.channel, segment.key.reader.clone());
    if !segment.shows_item || !is_encoded || service.live_channels.admission(&audience).is_some() {
        return Ok(());
    }
    let active = find_or_add_programme(service, &segment.key)?;
    let take_lease = || async {
        active.touch();
        let mut state = active.open(service, channel, &segment.programme).await?;
        let ProgrammeState::Ready(item) = &mut *state else { return Ok(()) };
        // A run makes segments in order, so all between the two were made as well.
        let main = &mut item.main;
        match main.is_stored(service, segment.item_index) && main.is_stored(service, segment.last_item_index) {
            true => Ok(()),
            false => active.take_lease(main, service, channel.id).map(drop),
        }
    };
    let admission = retry_when_busy(service, take_lease);
    match tokio::time::timeout(MAX_ADMISSION_WAIT + OPENING_MARGIN, admission).await {
        Ok(Err(busy)) if busy.code == Code::TranscoderBusy => Err(busy),
        _ => Ok(()),
    }
}

/// A programme that is making a segment ahead, until this is dropped.
pub(super) struct MakingAhead(Arc<ActiveProgramme>);

impl Drop for MakingAhead {
    fn drop(&mut self) {
        self.0.is_making_ahead.store(false, Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
