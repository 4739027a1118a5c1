//! The audio renditions of a session: made when they are requested, one at a time.

use super::*;
use crate::domain::plan::{AudioPlan, Rendition};
use crate::domain::playlist::AudioRendition;
use crate::engine::RenditionSpec;
use crate::service::renditions::planner::{AudioTrack, SessionAudio};

/// Encoded audio of a stream of the file.
fn encoded_track(plan: &SessionPlan, stream: u32, codecs: &str) -> AudioTrack {
    let mut spec = RenditionSpec::clone(plan.spec());
    let audio = AudioPlan::Encode { stream, channels: 2, kbps: 160, gain_tenths_db: None };
    spec.rendition = Arc::new(Rendition { video: None, audio: Some(audio), ..Rendition::default() });
    AudioTrack {
        spec: Arc::new(spec),
        stream,
        description: AudioRendition::default(),
        codecs: codecs.into(),
        channels: "2".into(),
        bandwidth: 160_000,
        average_bandwidth: 160_000,
    }
}

/// A plan with two languages in encoded audio beside its video.
fn plan_with_audio(bench: &Bench) -> SessionPlan {
    let mut plan = bench.plan(0.0);
    let tracks = [1, 2].map(|stream| encoded_track(&plan, stream, "mp4a.40.2"));
    plan.audio = SessionAudio::new(tracks.to_vec(), Vec::new());
    plan
}

/// A plan with copied audio beside its video, and the same track in AAC.
fn plan_with_two_groups(bench: &Bench) -> SessionPlan {
    let mut plan = bench.plan(0.0);
    let aac = encoded_track(&plan, 1, "mp4a.40.2");
    let mut copied = encoded_track(&plan, 1, "ac-3");
    let spec = Arc::make_mut(&mut copied.spec);
    Arc::make_mut(&mut spec.rendition).audio = Some(AudioPlan::Copy { stream: 1 });
    plan.audio = SessionAudio::new(vec![copied], vec![(0, aac)]);
    plan
}

#[tokio::test(start_paused = true)]
async fn audio_is_made_when_it_is_requested_and_released_after_a_change_of_the_language() {
    let bench = default_bench(|_| ());
    let session = bench.sessions.start(&viewer("a"), plan_with_audio(&bench)).await.unwrap();
    assert!(session.wait_ready(Duration::from_secs(5)).await.unwrap());
    assert_eq!(bench.fake.run_starts(), [0, 0], "the video, and the audio that plays first");
    session.segment(RenditionId::Audio(0), 0).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    session.status();
    assert_eq!(session.leases.leased_audio(), [true, false], "the current language keeps its lease");
    session.segment(RenditionId::Audio(0), 4).await.unwrap();
    session.segment(RenditionId::Audio(1), 5).await.unwrap();
    assert_eq!(session.leases.leased_audio(), [true, true]);
    assert_eq!(session.status().rung, 0, "the video is not affected");
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(session.leases.leased_audio(), [false, true]);
    assert_eq!(session.segment(RenditionId::Audio(2), 0).await.unwrap_err().code, Code::AssetNotFound);
    assert!(bench.sessions.stop(&viewer("a"), &session.id).await.unwrap());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bench.fake.live_runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_group_in_aac_is_made_when_it_is_requested() {
    let bench = default_bench(|_| ());
    let session = bench.sessions.start(&viewer("a"), plan_with_two_groups(&bench)).await.unwrap();
    assert!(session.wait_ready(Duration::from_secs(5)).await.unwrap());
    let text = String::from_utf8(session.multivariant(false, "g").to_vec()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("v0") || line.contains("URI=")).collect();
    let is_right = matches!(lines[..], [aac, own, "v0.m3u8?st=g", "v0.m3u8?st=g"]
        if aac.contains("\"aac\"") && aac.contains("\"a1.m3u8?st=g\"")
        && own.contains("\"audio\"") && own.contains("\"a0.m3u8?st=g\""));
    assert!(is_right, "{text}");
    session.segment(RenditionId::Audio(0), 0).await.unwrap();
    session.segment(RenditionId::Rung(0), 1).await.unwrap();
    assert_eq!(session.leases.leased_audio(), [true, false], "a list alone starts no encode");
    assert_eq!(bench.fake.run_starts().len(), 2);
    session.segment(RenditionId::Audio(1), 2).await.unwrap();
    assert_eq!((session.leases.leased_audio(), session.status().leased_rungs), (vec![true, true], vec![true]));
    assert_eq!(bench.fake.run_starts().len(), 3, "the video continues");
    tokio::time::sleep(Duration::from_secs(11)).await;
    session.status();
    assert_eq!(session.leases.leased_audio(), [false, true], "the group that the player left is released");
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_one_language_leaves_the_session_alone() {
    let bench = default_bench(|_| ());
    let session = bench.sessions.start(&viewer("a"), plan_with_audio(&bench)).await.unwrap();
    assert!(session.wait_ready(Duration::from_secs(5)).await.unwrap());
    bench.fake.fail_at(90, RunError::Decode("garbage".into()));
    bench.fake.fail_at(90, RunError::Decode("garbage".into()));
    assert_eq!(session.segment(RenditionId::Audio(1), 90).await.unwrap_err().code, Code::DecodeFailed);
    session.segment(RenditionId::Rung(0), 1).await.unwrap();
    assert!(session.status().failure.is_none());
}
