//! Hardware encoders: used after a trial, and replaced by software when they fail. There is no such hardware here, so a wrapper of
//! ffmpeg and a plugin of GStreamer offer x264 under the name of one, with faults.

use std::path::Path;
use std::time::{Duration, Instant};

use hearthcast::config::Config;
use serde_json::{Value, json};

use super::sessions::{play_to_end, session_path, start};
use crate::kit::faulty_element::{ElementFault, NO_FAULT, Role, add_element, worker_program};
use crate::kit::hardware_tools::{NO_DECODER, WORKS, make_tools};
use crate::kit::response::expect_success;
use crate::kit::wait::MAX_WAIT;
use crate::kit::{self, media};

/// Seconds of the film.
const SECONDS: f64 = 10.0;

/// A server with these tools and a film.
struct Bench {
    folder: tempfile::TempDir,
    /// Its ffmpeg, if no other server has it.
    _tools: Option<tempfile::TempDir>,
    server: kit::Server,
}

impl Bench {
    async fn new(trial: &str, run: &str, forbidden: &[&str]) -> Self {
        Self::with_decoder(trial, run, NO_DECODER, forbidden).await
    }

    async fn with_decoder(trial: &str, run: &str, decoding: &str, forbidden: &[&str]) -> Self {
        let tools = tempfile::tempdir().unwrap();
        let ffmpeg = make_tools(tools.path(), trial, run, decoding);
        let bench = Self::start(&ffmpeg, |_, config| {
            config.forbidden_encoders = forbidden.iter().map(|name| (*name).to_owned()).collect();
        });
        Self { _tools: Some(tools), ..bench.await }
    }

    /// With elements of GStreamer that have these faults, and hardware of ffmpeg that has none.
    async fn with_elements(elements: &[(Role, ElementFault)]) -> Self {
        let tools = tempfile::tempdir().unwrap();
        let has_decoder = elements.iter().any(|(role, _)| *role == Role::Decoder);
        let ffmpeg = make_tools(tools.path(), WORKS, WORKS, if has_decoder { WORKS } else { NO_DECODER });
        Self { _tools: Some(tools), ..Self::with_elements_beside(&ffmpeg, elements, &[]).await }
    }

    /// The same with this ffmpeg: what was tested for one server of this process is known to the next.
    async fn with_elements_beside(ffmpeg: &Path, elements: &[(Role, ElementFault)], forbidden: &[&str]) -> Self {
        Self::start(ffmpeg, |folder, config| {
            config.worker_program = worker_program(folder, elements);
            config.forbidden_encoders = forbidden.iter().map(|name| (*name).to_owned()).collect();
        })
        .await
    }

    async fn start(ffmpeg: &Path, configure: impl FnOnce(&Path, &mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let library = folder.path().join("library");
        std::fs::create_dir(&library).unwrap();
        let (video, audio) = (format!("testsrc2=s=320x180:r=25:d={SECONDS}"), format!("sine=d={SECONDS}:r=48000"));
        let lavfi = "-f lavfi -i";
        let encode = "-c:v mpeg2video -q:v 4 -g 25 -c:a ac3 -ac 2";
        media::run_ffmpeg(&library.join("film.mkv"), &[lavfi, &video, lavfi, &audio, encode]);
        let server = kit::start_server_with(&[&library], |config| {
            config.ffmpeg = ffmpeg.to_owned();
            configure(folder.path(), config);
        })
        .await;
        Self { server, folder, _tools: None }
    }

    /// Plays the film to its end; returns the diagnostics.
    async fn play(&self) -> Value {
        let film = self.folder.path().join("library/film.mkv");
        let session = start(&self.server, &json!({"mediaPath": film, "forceTranscode": true})).await;
        let url = format!("{}{}", self.server.base, session["signedPlaylistUrl"].as_str().unwrap());
        let (warnings, seconds) = play_to_end(url).await;
        assert_eq!(warnings, "");
        assert!((seconds - SECONDS).abs() < 0.1, "{seconds}");
        let status = self.server.get(&format!("{}/status", session_path(&session))).send().await.unwrap();
        let diagnostics = expect_success(status, 200).await["diagnostics"].take();
        let stop = format!("{}/stop", session_path(&session));
        self.server.post(&stop, &json!({})).send().await.unwrap();
        diagnostics
    }

    /// The view of the decoding hardware once the film's format was tested with GStreamer's element. The first play starts that.
    async fn trial_of_element(&self) -> Value {
        assert_eq!(self.decoders().await.len(), 1, "ffmpeg's decoder is tested");
        let played = self.play().await;
        assert_eq!((&played["pipeline"], &played["hardwareDecoder"]), (&json!("ffmpeg"), &json!("cuda")), "{played}");
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let view = self.decoders().await[0].clone();
            let is_tested = |list: &str| !view[list].as_array().unwrap().is_empty();
            if is_tested("gstreamerFormats") || is_tested("gstreamerRejectedFormats") {
                return view;
            }
            assert!(Instant::now() < deadline, "no trial ended: {view}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The views of the decoding hardware that works.
    async fn decoders(&self) -> Vec<Value> {
        let answer = expect_success(self.server.get("/api/stream/v2-workers").send().await.unwrap(), 200).await;
        answer["local"]["hardwareDecoders"].as_array().unwrap().clone()
    }

    /// The view of the hardware encoder among those that work; null if it is rejected.
    async fn hardware(&self) -> Value {
        let answer = expect_success(self.server.get("/api/stream/v2-workers").send().await.unwrap(), 200).await;
        let encoders = answer["local"]["encoders"].as_array().unwrap();
        encoders.iter().find(|encoder| encoder["name"] == "h264_nvenc").cloned().unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hardware_encoder_that_passes_its_trial_is_used_unless_it_is_forbidden() {
    let bench = Bench::new(WORKS, WORKS, &[]).await;
    let played = bench.play().await;
    assert_eq!((&played["encoder"], &played["fallback"]), (&json!("h264_nvenc"), &json!(false)), "{played}");
    let view = bench.hardware().await;
    assert_eq!((&view["kind"], &view["notUsed"]), (&json!("hardware"), &Value::Null), "{view}");

    for forbidden in ["h264_nvenc", "hardware"] {
        let bench = Bench::new(WORKS, WORKS, &[forbidden]).await;
        let played = bench.play().await;
        assert_ne!(played["encoder"], "h264_nvenc", "{played}");
        assert_eq!(bench.hardware().await["notUsed"], "forbidden by forbidden_encoders");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hardware_encoder_that_fails_costs_no_viewer_the_film_and_rests() {
    let faults = [
        "echo 'no capable devices found' >&2; exit 1",
        // After some segments.
        r#"ffmpeg "$@" | head -c 300000; echo 'the device is gone' >&2; exit 1"#,
        "head -c 2000000 /dev/zero",
    ];
    for fault in faults {
        let bench = Bench::new(WORKS, fault, &[]).await;
        let played = bench.play().await;
        assert_eq!((&played["encoder"], &played["fallback"]), (&json!("libx264"), &json!(true)), "{fault}: {played}");
        let view = bench.hardware().await;
        assert!(view["notUsed"].as_str().unwrap().starts_with("rests for "), "{fault}: {view}");
        let next = bench.play().await;
        assert_eq!(next["fallback"], false, "{fault}: {next}");
        assert_ne!(next["encoder"], "h264_nvenc", "{fault}: {next}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hardware_encoder_that_fails_its_trial_is_not_used() {
    for trial in ["exit 1", "head -c 100000 /dev/zero", r#"ffmpeg "$@" | head -c 20000"#] {
        let bench = Bench::new(trial, WORKS, &[]).await;
        assert_eq!(bench.hardware().await, Value::Null, "{trial}");
        let played = bench.play().await;
        assert_ne!(played["encoder"], "h264_nvenc", "{trial}: {played}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hardware_decodes_beside_its_encoder_and_is_given_up_step_by_step() {
    let bench = Bench::with_decoder(WORKS, WORKS, WORKS, &[]).await;
    let decoders = bench.decoders().await;
    assert_eq!(decoders.len(), 1, "{decoders:?}");
    assert_eq!(decoders[0]["name"], "cuda");
    assert!(decoders[0]["formats"].as_array().unwrap().contains(&json!("MPEG-2")), "{decoders:?}");
    let played = bench.play().await;
    assert_eq!(played["hardwareDecoder"], "cuda", "{played}");
    assert_eq!((&played["encoder"], &played["fallback"]), (&json!("h264_nvenc"), &json!(false)), "{played}");

    // The device is lost in the middle of the film, first for decoding, then for encoding.
    let decoding_ends = r#"[ "$is_run" ] || exec ffmpeg "$@"; ffmpeg "$@" | head -c 300000; exit 1"#;
    let bench = Bench::with_decoder(WORKS, "exit 1", decoding_ends, &[]).await;
    assert_eq!(bench.decoders().await.len(), 1);
    let played = bench.play().await;
    assert_eq!((&played["encoder"], &played["hardwareDecoder"]), (&json!("libx264"), &Value::Null), "{played}");
    for view in [bench.hardware().await, bench.decoders().await[0].clone()] {
        assert!(view["notUsed"].as_str().unwrap().starts_with("rests for "), "{view}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hardware_element_of_gstreamer_that_passes_its_trial_is_used() {
    let bench = Bench::with_elements(&[(Role::Encoder, NO_FAULT)]).await;
    let played = bench.play().await;
    assert_eq!((&played["encoder"], &played["fallback"]), (&json!("nvh264enc"), &json!(false)), "{played}");
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_of_a_card_that_comes_are_used_without_a_restart() {
    let bench = Bench::with_elements(&[]).await;
    assert_eq!(bench.play().await["encoder"], "h264_nvenc", "GStreamer has no element for it");
    let devices = bench.folder.path().join("dev");
    std::fs::create_dir_all(devices.join("dri")).unwrap();
    let card_comes = async {
        add_element(bench.folder.path(), Role::Encoder, NO_FAULT);
        std::fs::write(devices.join("dri/renderD128"), "").unwrap();
        let deadline = Instant::now() + MAX_WAIT;
        while bench.play().await["encoder"] != "nvh264enc" {
            assert!(Instant::now() < deadline, "GStreamer was not examined again");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::select! {
        biased;
        () = bench.server.service.follow_devices(&devices) => unreachable!("it never returns"),
        () = card_comes => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hardware_element_that_fails_in_a_run_costs_no_viewer_the_film_and_rests() {
    // After some segments.
    for letter in ['f', 'h', 'c', 'z'] {
        let fault = ElementFault { letter, in_trial: false, frame: 120 };
        let bench = Bench::with_elements(&[(Role::Encoder, fault)]).await;
        let played = bench.play().await;
        assert_eq!((&played["encoder"], &played["fallback"]), (&json!("libx264"), &json!(true)), "{letter}: {played}");
        let view = bench.hardware().await;
        assert!(view["notUsed"].as_str().unwrap().starts_with("rests for "), "{letter}: {view}");
        // Neither is the film to blame, which a replay would find out.
        assert_ne!(played["pipelineReason"], "the media worker ended", "{letter}: {played}");
        if letter == 'c' {
            let next = bench.play().await;
            assert_eq!((&next["encoder"], &next["fallback"]), (&json!("x264enc"), &json!(false)), "{next}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hardware_element_that_fails_its_trial_leaves_gstreamer_usable() {
    let tools = tempfile::tempdir().unwrap();
    let ffmpeg = make_tools(tools.path(), WORKS, WORKS, NO_DECODER);
    for (letter, forbidden, encoder) in [
        ('h', &[][..], "h264_nvenc"),
        ('g', &[], "h264_nvenc"),
        ('c', &[], "h264_nvenc"),
        ('c', &["hardware"], "x264enc"),
    ] {
        let elements = [(Role::Encoder, ElementFault { letter, in_trial: true, frame: 10 })];
        let played = Bench::with_elements_beside(&ffmpeg, &elements, forbidden).await.play().await;
        assert_eq!((&played["encoder"], &played["fallback"]), (&json!(encoder), &json!(false)), "{letter}: {played}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hardware_element_decodes_after_its_trial() {
    let tools = tempfile::tempdir().unwrap();
    let ffmpeg = make_tools(tools.path(), WORKS, WORKS, WORKS);
    let start = |fault| {
        let elements = [(Role::Encoder, NO_FAULT), (Role::Decoder, fault)];
        let ffmpeg = ffmpeg.clone();
        async move { Bench::with_elements_beside(&ffmpeg, &elements, &[]).await }
    };
    let bench = start(NO_FAULT).await;
    let formats = bench.trial_of_element().await;
    assert_eq!(formats["gstreamerFormats"], json!(["MPEG-2"]), "{formats}");
    let played = bench.play().await;
    assert_eq!((&played["encoder"], &played["hardwareDecoder"]), (&json!("nvh264enc"), &json!("cuda")), "{played}");
    assert_eq!((&played["pipeline"], &played["fallback"]), (&json!("gstreamer"), &json!(false)), "{played}");

    for letter in ['c', 'z'] {
        let bench = start(ElementFault { letter, in_trial: true, frame: 5 }).await;
        let formats = bench.trial_of_element().await;
        assert_eq!(formats["gstreamerRejectedFormats"][0]["name"], "MPEG-2", "{letter}: {formats}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hardware_element_that_fails_to_decode_costs_no_viewer_the_film_and_rests() {
    // After some segments.
    for letter in ['h', 'c'] {
        let fault = ElementFault { letter, in_trial: false, frame: 120 };
        let bench = Bench::with_elements(&[(Role::Encoder, NO_FAULT), (Role::Decoder, fault)]).await;
        bench.trial_of_element().await;
        let played = bench.play().await;
        let parts = (&played["encoder"], &played["hardwareDecoder"], &played["fallback"]);
        assert_eq!(parts, (&json!("nvh264enc"), &Value::Null, &json!(true)), "{letter}: {played}");
        assert_ne!(played["pipelineReason"], "the media worker ended", "{letter}: {played}");
        let view = bench.decoders().await[0].clone();
        assert!(view["notUsed"].as_str().unwrap().starts_with("rests for "), "{letter}: {view}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hardware_decoder_that_no_trial_has_tested_is_not_chosen_by_its_rank() {
    let crash = ElementFault { letter: 'c', in_trial: false, frame: 0 };
    let bench = Bench::start(Path::new("ffmpeg"), |folder, config| {
        config.worker_program = worker_program(folder, &[(Role::Decoder, crash)]);
    })
    .await;
    let played = bench.play().await;
    assert_eq!((&played["encoder"], &played["fallback"]), (&json!("x264enc"), &json!(false)), "{played}");
}
