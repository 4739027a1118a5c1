//! CMAF from a backend that makes MPEG-TS: every finished segment of one track is converted.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::{mpsc, watch};

use super::{Backend, Job, RenditionSpec, Result, Run, RunError, Segment, SegmentContent, TIMELINE_BASE};
use crate::domain::cmaf::from_ts::{ConversionError, SegmentPosition, TrackConfig, convert_segment};
use crate::domain::media::DolbyVision;
use crate::domain::plan::{AudioPlan, EncodeVideo, Rendition, VideoPlan};
use crate::domain::segment_format::SegmentFormat;

/// Part of every segment's key. A change of the converted bytes must raise it.
const VERSION: &str = "3";

/// A backend that makes CMAF of one rendition from the MPEG-TS of another backend.
///
/// Every segment is an init segment (`ftyp`, `moov`) and a media segment (`moof`, `mdat`), one after the other:
/// [`split_init`](crate::domain::cmaf::init_reader::split_init) separates them. Any init segment of the rendition suits any of its
/// media segments.
pub struct CmafConverter {
    backend: Arc<dyn Backend>,
    version: String,
    config: SharedConfig,
}

/// The description of the rendition's track, from its first segment.
type SharedConfig = Arc<Mutex<Option<TrackConfig>>>;

impl CmafConverter {
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let version = format!("{} as CMAF {VERSION}", backend.version());
        Self { backend, version, config: SharedConfig::default() }
    }
}

impl Backend for CmafConverter {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn has_instant_start(&self) -> bool {
        self.backend.has_instant_start()
    }

    fn video_encoder(&self, plan: &EncodeVideo) -> Option<&'static str> {
        self.backend.video_encoder(plan)
    }

    fn audio_encoder(&self) -> &'static str {
        self.backend.audio_encoder()
    }

    fn active_backend_name(&self) -> &'static str {
        self.backend.active_backend_name()
    }

    fn handle_failure(&self, error: &RunError) -> bool {
        self.backend.handle_failure(error)
    }

    fn hardware_decoder(&self) -> Option<&'static str> {
        self.backend.hardware_decoder()
    }

    fn remote_encoder(&self) -> Option<&'static str> {
        self.backend.remote_encoder()
    }

    fn fallback_cause(&self) -> Option<RunError> {
        self.backend.fallback_cause()
    }

    fn start(&self, job: Job, last_allowed: usize) -> Result<Run> {
        let Job { spec, first, trace } = job;
        let rendition = Rendition::clone(&spec.rendition);
        if rendition.video.is_some() == rendition.audio.is_some() {
            return Err(RunError::Internal("a CMAF segment contains one track, video or audio".into()));
        }
        let rendition = Arc::new(Rendition { format: SegmentFormat::MpegTs, ..rendition });
        let transport_spec = Arc::new(RenditionSpec { rendition, ..RenditionSpec::clone(&spec) });
        let source_run = self.backend.start(Job::new(transport_spec, first).traced(trace), last_allowed)?;
        let (run, segments, gate) = Run::channel(last_allowed);
        tokio::spawn(convert_run(source_run, spec, self.config.clone(), segments, gate));
        Ok(run)
    }
}

/// Converts segment after segment until the run or its receiver ends. After the end of a copied track of audio that is shorter than
/// the video whose grid it follows, segments are empty.
async fn convert_run(
    mut source_run: Run,
    spec: Arc<RenditionSpec>,
    config: SharedConfig,
    segments: mpsc::Sender<Result<Segment>>,
    mut gate: watch::Receiver<usize>,
) {
    let mut next_index = None;
    loop {
        let outcome = tokio::select! {
            () = segments.closed() => return,
            changed = gate.changed() => {
                if changed.is_err() {
                    return;
                }
                source_run.allow_through(*gate.borrow_and_update());
                continue;
            }
            outcome = source_run.next() => outcome,
        };
        let result = match outcome {
            Some(Ok(segment)) => {
                next_index = Some(segment.index + 1);
                convert(segment, &spec, &config).await
            }
            Some(Err(error)) => Err(error),
            None => break,
        };
        let failed = result.is_err();
        if segments.send(result).await.is_err() || failed {
            return;
        }
    }
    let (Some(next_index), Some(AudioPlan::Copy { .. })) = (next_index, &spec.rendition.audio) else { return };
    for index in next_index..spec.grid.len() {
        tokio::select! {
            () = segments.closed() => return,
            allowed = gate.wait_for(|allowed| *allowed >= index) => if allowed.is_err() { return },
        }
        let result = convert(Segment { index, content: Vec::new().into() }, &spec, &config).await;
        let failed = result.is_err();
        if segments.send(result).await.is_err() || failed {
            return;
        }
    }
}

/// Converts a segment on a blocking thread.
async fn convert(segment: Segment, spec: &Arc<RenditionSpec>, config: &SharedConfig) -> Result<Segment> {
    let Segment { index, content } = segment;
    let bytes = content.read_all(&spec.source).await?;
    let (spec, config) = (spec.clone(), config.clone());
    let task = tokio::task::spawn_blocking(move || convert_bytes(&bytes, index, &spec, &config));
    let converted = task.await.map_err(|cause| RunError::Internal(cause.to_string()))?;
    let content = converted
        .map_err(|cause| RunError::Encoder(format!("segment {index} cannot be converted to CMAF: {cause}")))?;
    Ok(Segment { index, content: SegmentContent::InMemory(content) })
}

/// The init segment and the media segment.
fn convert_bytes(
    bytes: &[u8],
    index: usize,
    spec: &RenditionSpec,
    config: &SharedConfig,
) -> Result<Bytes, ConversionError> {
    let position = SegmentPosition {
        sequence_number: u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1),
        end: spec.grid.segment_start(index + 1) + TIMELINE_BASE,
    };
    let lock = || config.lock().unwrap_or_else(PoisonError::into_inner);
    let first_config = lock().clone();
    let converted = convert_segment(bytes, position, first_config.as_ref())?;
    if first_config.is_none() {
        lock().get_or_insert_with(|| converted.config.clone());
    }
    let mut whole = converted.config.init_segment(language(spec), dolby_vision(spec))?;
    whole.extend_from_slice(&converted.bytes);
    Ok(whole.into())
}

/// The configuration of Dolby Vision of copied video.
fn dolby_vision(spec: &RenditionSpec) -> Option<&DolbyVision> {
    let Some(VideoPlan::Copy { stream }) = spec.rendition.video else { return None };
    let (_, video) = spec.media.video_streams().find(|(found, _)| found.index == stream)?;
    video.dolby_vision.as_ref()
}

/// The language that the file states for the stream.
fn language(spec: &RenditionSpec) -> Option<&str> {
    let stream = match (&spec.rendition.video, &spec.rendition.audio) {
        (Some(VideoPlan::Copy { stream }), _) => *stream,
        (Some(VideoPlan::Encode(plan)), _) => plan.stream,
        (None, Some(AudioPlan::Copy { stream } | AudioPlan::Encode { stream, .. })) => *stream,
        (None, None) => return None,
    };
    spec.media.stream(stream)?.language.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::init_reader::{InitDescription, split_init};
    use crate::domain::grid::Grid;
    use crate::domain::mpegts::psi::{PmtEntry, TrackKind};
    use crate::domain::mpegts::ts_writer::{AccessUnit, TsWriter};
    use crate::domain::time::Ticks;
    use crate::engine::source::open_in_test;

    /// A segment of stereo AAC at 48 kHz: a frame of four bytes at each of these times, in units of 1024 samples.
    fn audio_segment(frames: std::ops::Range<i64>) -> Vec<u8> {
        let track = TrackKind::Audio;
        let frame = [0xff, 0xf1, 0x4c, 0x80, 0x01, 0x7f, 0xfc, 1, 2, 3, 4];
        let mut writer = TsWriter::new(track);
        for n in frames {
            let (pts, parts) = (TIMELINE_BASE + Ticks(n * 1920), &[&frame[..]]);
            writer.push_unit(&AccessUnit { track, pts, dts: None, random_access: true, parts });
        }
        writer.into_segment(&[PmtEntry { pid: track.pid(), stream_type: 0x0f, descriptors: Vec::new() }])
    }

    /// Delivers these bytes as segments, when they are allowed.
    struct ScriptedBackend(Vec<Vec<u8>>);

    impl Backend for ScriptedBackend {
        fn name(&self) -> &'static str {
            "scripted"
        }

        fn version(&self) -> &str {
            "7"
        }

        fn start(&self, job: Job, last_allowed: usize) -> Result<Run> {
            assert!(job.spec.rendition.format.is_mpeg_ts());
            let (run, segments, mut gate) = Run::channel(last_allowed);
            let contents = self.0.clone();
            tokio::spawn(async move {
                for (index, bytes) in contents.into_iter().enumerate().skip(job.first) {
                    if gate.wait_for(|allowed| *allowed >= index).await.is_err() {
                        return;
                    }
                    let _ = segments.send(Ok(Segment { index, content: bytes.into() })).await;
                }
            });
            Ok(run)
        }
    }

    fn spec(has_video: bool) -> Arc<RenditionSpec> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film.mp4");
        std::fs::write(&path, "film").unwrap();
        let audio = Some(AudioPlan::Encode { stream: 1, channels: 2, kbps: 128, gain_tenths_db: None });
        let video = has_video.then_some(VideoPlan::Copy { stream: 0 });
        Arc::new(RenditionSpec {
            source: Arc::new(open_in_test(&path)),
            fingerprint: String::new(),
            media: Arc::default(),
            rendition: Arc::new(Rendition { video, audio, format: SegmentFormat::Fmp4 }),
            grid: Arc::new(Grid::from_step(1.0, 3.0)),
            sidecar: None,
            watermark: None,
            package: None,
        })
    }

    fn converter(segments: Vec<Vec<u8>>) -> CmafConverter {
        CmafConverter::new(Arc::new(ScriptedBackend(segments)))
    }

    #[tokio::test]
    async fn segments_contain_their_init_segment_and_wait_for_the_gate() {
        let converter = converter(vec![audio_segment(0..47), audio_segment(47..47), audio_segment(94..141)]);
        assert_eq!((converter.name(), converter.version()), ("scripted", "7 as CMAF 3"));
        let mut run = converter.start(Job::new(spec(false), 0), 1).unwrap();
        let mut inits = Vec::new();
        for index in 0..3 {
            if index == 2 {
                let waiting = tokio::time::timeout(std::time::Duration::from_millis(50), run.next()).await;
                assert!(waiting.is_err(), "the gate is closed");
                run.allow_through(2);
            }
            let segment = run.next().await.unwrap().unwrap();
            assert_eq!(segment.index, index);
            let SegmentContent::InMemory(bytes) = segment.content else { panic!() };
            let (init, media) = split_init(&bytes).unwrap();
            assert_eq!(&media[4..8], b"moof");
            assert_eq!(InitDescription::read(init).unwrap().entry.codecs, "mp4a.40.2");
            inits.push(init.to_vec());
        }
        assert!(inits.iter().all(|init| *init == inits[0]));
        assert!(run.next().await.is_none());
    }

    #[tokio::test]
    async fn copied_audio_that_ends_before_the_video_has_empty_segments() {
        let copied = RenditionSpec {
            rendition: Arc::new(Rendition {
                video: None,
                audio: Some(AudioPlan::Copy { stream: 1 }),
                format: SegmentFormat::Fmp4,
            }),
            ..RenditionSpec::clone(&spec(false))
        };
        let mut run = converter(vec![audio_segment(0..40)]).start(Job::new(Arc::new(copied), 0), 1).unwrap();
        let mut sizes = Vec::new();
        for index in 0..3 {
            run.allow_through(index);
            let segment = run.next().await.unwrap().unwrap();
            let SegmentContent::InMemory(bytes) = segment.content else { panic!() };
            let (_, media) = split_init(&bytes).unwrap();
            sizes.push((segment.index, media.windows(4).any(|kind| kind == b"mdat")));
        }
        assert_eq!(sizes, [(0, true), (1, false), (2, false)]);
        assert!(run.next().await.is_none());
        // An encoder continues with silence by itself, so an early end is that of the run.
        let mut run = converter(vec![audio_segment(0..40)]).start(Job::new(spec(false), 0), 2).unwrap();
        assert!(run.next().await.unwrap().is_ok() && run.next().await.is_none());
    }

    #[tokio::test]
    async fn a_segment_that_cannot_be_converted_is_a_failure_of_the_run() {
        let mut run = converter(vec![b"no transport stream".to_vec()]).start(Job::new(spec(false), 0), 0).unwrap();
        let error = run.next().await.unwrap().unwrap_err();
        assert!(matches!(&error, RunError::Encoder(text) if text.starts_with("segment 0 cannot")), "{error}");
        assert!(run.next().await.is_none());
        let error = converter(Vec::new()).start(Job::new(spec(true), 0), 0).unwrap_err();
        assert!(matches!(error, RunError::Internal(_)));
    }
}
