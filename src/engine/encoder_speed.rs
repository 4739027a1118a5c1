//! How fast an encoder is on this machine: it encodes two seconds of generated video in 1080p with the arguments of a run.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use lru::LruCache;
use tokio::sync::OnceCell;

use super::ffmpeg_encoders::{TIMEOUT_PREFIX, run_ffmpeg};
use super::video_encoders::VideoEncoder;

/// Frames of a measurement, 1920x1080 at 25 per second.
const FRAMES: u32 = 50;

/// Duration of these frames, seconds.
const MEDIA_SECONDS: f64 = 2.0;

/// Pixels per second of that video.
const TRIAL_PIXEL_RATE: f64 = 1920.0 * 1080.0 * 25.0;

/// Maximum bit rate, kbit/s: that of the 1080p rung.
const MAX_KBPS: u32 = 5000;

/// Time limit of a measurement. An encoder that takes longer is slower than real time, and how much slower does not matter.
const DEADLINE: Duration = Duration::from_secs(2);

/// How many times faster than real time an encoder must be to be used without a setting: films are harder to encode than
/// generated video, the source has to be decoded, and other viewers need the processor too.
const MARGIN: f64 = 1.5;

/// Measurements kept: a few encoders of each ffmpeg binary this process was configured to use.
const MAX_MEASUREMENTS: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// The measured speed of an encoder.
#[derive(Clone, Debug, PartialEq)]
pub enum EncodeSpeed {
    /// Seconds of 1080p at 25 frames per second that it encodes in a second, at least 1.
    RealTime(f64),
    /// Less than one.
    Slower,
    /// The message of ffmpeg.
    Failed(String),
}

impl EncodeSpeed {
    /// Whether the encoder keeps up with video of this many pixels per second, with a margin. Small video does not help an
    /// encoder that is too slow for 1080p.
    pub fn keeps_up(&self, pixel_rate: f64) -> bool {
        matches!(self, Self::RealTime(speed) if *speed >= MARGIN * (pixel_rate / TRIAL_PIXEL_RATE).max(1.0))
    }

    /// The speed, for people.
    pub fn describe(&self) -> String {
        match self {
            Self::RealTime(speed) => format!("1080p in {speed:.1} times real time"),
            Self::Slower => "1080p slower than real time".to_owned(),
            Self::Failed(reason) => format!("1080p failed: {reason}"),
        }
    }
}

type SpeedCache = Mutex<LruCache<(PathBuf, &'static str), Arc<OnceCell<EncodeSpeed>>>>;

/// Measures an encoder once per process; takes at most 2 s, and all of the processor. It should have passed its trial.
pub async fn measure_speed(ffmpeg: &Path, encoder: &'static VideoEncoder) -> EncodeSpeed {
    static SPEED_CACHE: LazyLock<SpeedCache> = LazyLock::new(|| Mutex::new(LruCache::sparse(MAX_MEASUREMENTS)));
    let key = (ffmpeg.to_owned(), encoder.name);
    let cell = SPEED_CACHE.lock().expect("no panic while held").get_or_insert(key, Arc::default).clone();
    cell.get_or_init(|| encode_test_film(ffmpeg, encoder)).await.clone()
}

async fn encode_test_film(ffmpeg: &Path, encoder: &VideoEncoder) -> EncodeSpeed {
    let Some(settings) = &encoder.ffmpeg else { return EncodeSpeed::Failed("ffmpeg does not use it".to_owned()) };
    let [frames, rate, buffer] = [FRAMES.to_string(), format!("{MAX_KBPS}k"), format!("{}k", MAX_KBPS * 2)];
    let run_args = settings.run_args(FRAMES, MAX_KBPS);
    let device = encoder.device_args();
    let mut args: Vec<&str> = device.iter().flatten().map(String::as_str).collect();
    args.extend(["-f", "lavfi", "-i", "testsrc2=s=1920x1080:r=25", "-frames:v", &frames, "-vf", settings.filter]);
    args.extend(["-c:v", encoder.name]);
    args.extend(run_args.split_whitespace());
    args.extend(["-maxrate", &rate, "-bufsize", &buffer, "-f", "null", "-"]);
    let start = Instant::now();
    match run_ffmpeg(ffmpeg, &args, DEADLINE).await {
        Ok(_) => EncodeSpeed::RealTime((MEDIA_SECONDS / start.elapsed().as_secs_f64()).max(1.0)),
        Err(reason) if reason.starts_with(TIMEOUT_PREFIX) => EncodeSpeed::Slower,
        Err(reason) => EncodeSpeed::Failed(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::video_encoders::VIDEO_ENCODERS;

    #[tokio::test]
    async fn a_measurement_ends_in_time_and_is_kept() {
        let encoder = VIDEO_ENCODERS.iter().find(|encoder| encoder.name == "libx264").unwrap();
        let start = Instant::now();
        let speed = measure_speed(Path::new("ffmpeg"), encoder).await;
        assert!(start.elapsed() < DEADLINE * 2, "{:?}", start.elapsed());
        assert!(!matches!(speed, EncodeSpeed::Failed(_)), "{speed:?}");
        assert_eq!(measure_speed(Path::new("ffmpeg"), encoder).await, speed);
        let missing = measure_speed(Path::new("/nonexistent/ffmpeg"), encoder).await;
        assert!(matches!(&missing, EncodeSpeed::Failed(text) if text.contains("does not start")), "{missing:?}");
    }

    #[test]
    fn an_encoder_keeps_up_with_a_margin_that_larger_video_uses_up() {
        let uhd = 4.0 * TRIAL_PIXEL_RATE;
        assert!(EncodeSpeed::RealTime(1.5).keeps_up(TRIAL_PIXEL_RATE));
        assert!(EncodeSpeed::RealTime(6.0).keeps_up(uhd));
        for (speed, pixel_rate) in [(1.4, TRIAL_PIXEL_RATE), (1.4, 1e6), (5.9, uhd)] {
            assert!(!EncodeSpeed::RealTime(speed).keeps_up(pixel_rate), "{speed}");
        }
        assert!(!EncodeSpeed::Slower.keeps_up(1e6) && !EncodeSpeed::Failed(String::new()).keeps_up(1e6));
    }
}
