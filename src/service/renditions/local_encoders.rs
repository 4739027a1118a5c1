//! The encoders of this server and its decoding hardware: which work, and which codecs sessions are encoded in.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::config::{Config, EncoderSetting, is_forbidden};
use crate::domain::codec::TargetCodec;
use crate::engine::encoder_speed::{EncodeSpeed, measure_speed};
use crate::engine::ffmpeg_decoders::{self, DecoderReport};
use crate::engine::ffmpeg_encoders::{self, EncoderReport};
use crate::engine::hardware_rest::remaining_rest;
use crate::engine::video_encoders::VideoEncoder;

/// How long nothing must have been encoded before encoders are measured, seconds.
const IDLE_SECONDS: u32 = 3;

/// Tests and reports the local encoders and the decoding hardware.
#[derive(Debug)]
pub struct LocalEncoders {
    ffmpeg: PathBuf,
    /// Names of hardware encoders and decoders, or `hardware` for all.
    forbidden: Vec<String>,
    settings: Vec<(TargetCodec, EncoderSetting)>,
    /// Of the codecs with the setting `auto`, once they are measured.
    speeds: Mutex<Vec<(TargetCodec, EncodeSpeed)>>,
    /// Notified when a client prefers a codec that was not measured yet.
    preferred: Notify,
}

/// Whether sessions are encoded in a codec that only some clients prefer.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionalCodec {
    pub codec: TargetCodec,
    pub setting: EncoderSetting,
    /// The encoder that works; None if none does.
    pub encoder: Option<&'static VideoEncoder>,
    /// None if it was not measured.
    pub speed: Option<EncodeSpeed>,
}

impl OptionalCodec {
    /// Whether video of this many pixels per second is encoded in it for clients that prefer it.
    pub fn is_used_for(&self, pixel_rate: f64) -> bool {
        self.encoder.is_some()
            && match self.setting {
                EncoderSetting::On => true,
                EncoderSetting::Off => false,
                EncoderSetting::Auto => self.speed.as_ref().is_some_and(|speed| speed.keeps_up(pixel_rate)),
            }
    }

    /// Whether it is used at all.
    pub fn is_used(&self) -> bool {
        self.is_used_for(0.0)
    }

    fn needs_measurement(&self) -> bool {
        self.setting == EncoderSetting::Auto && self.encoder.is_some() && self.speed.is_none()
    }

    /// Why it is used or not, for people.
    pub fn reason(&self) -> String {
        match (self.setting, self.encoder, &self.speed) {
            (EncoderSetting::On | EncoderSetting::Off, ..) => "configured".to_owned(),
            (EncoderSetting::Auto, None, _) => "no encoder works".to_owned(),
            (EncoderSetting::Auto, Some(_), None) => "not measured yet".to_owned(),
            (EncoderSetting::Auto, Some(encoder), Some(speed)) => {
                format!("{} encodes {}", encoder.name, speed.describe())
            }
        }
    }
}

impl LocalEncoders {
    pub fn new(config: &Config) -> Self {
        let settings = TargetCodec::PREFERABLE.map(|codec| (codec, config.encoder_setting(codec))).to_vec();
        let forbidden = config.forbidden_encoders.clone();
        Self { ffmpeg: config.ffmpeg.clone(), forbidden, settings, speeds: Mutex::default(), preferred: Notify::new() }
    }

    /// Tests the encoders before the first request.
    pub async fn test_encoders(&self) {
        let report = self.report().await;
        let working: Vec<&str> = report.working.iter().map(|encoder| encoder.name).collect();
        match (&report.version, report.can_transcode()) {
            (Some(version), true) => tracing::info!(ffmpeg = version, encoders = ?working, "encoders ready"),
            _ => {
                tracing::error!(ffmpeg = %self.ffmpeg.display(), rejected = ?report.rejected, "no usable encoder was found")
            }
        }
        let decoders = self.decoders().await;
        if !decoders.working.is_empty() {
            let names: Vec<&str> = decoders.working.iter().map(|working| working.decoder.name).collect();
            tracing::info!(decoders = ?names, "decoding hardware ready");
        }
    }

    /// Tests ffmpeg's encoders and decoders again.
    pub async fn retest(&self) {
        ffmpeg_encoders::retest_encoders(&self.ffmpeg).await;
        ffmpeg_decoders::retest_decoders(&self.ffmpeg).await;
    }

    /// Measures the encoders when a client has preferred one of their codecs and nothing was encoded for some seconds. Until
    /// then the clients get H.264. Never returns.
    pub async fn measure_after_preference(&self, is_idle: impl Fn() -> bool) {
        loop {
            self.preferred.notified().await;
            let mut idle_seconds = 0;
            while idle_seconds < IDLE_SECONDS {
                tokio::time::sleep(Duration::from_secs(1)).await;
                idle_seconds = if is_idle() { idle_seconds + 1 } else { 0 };
            }
            self.measure_speeds().await;
        }
    }

    /// Measures the encoders of codecs with the setting `auto` that were not measured yet, one after the other. Takes all of the
    /// processor for at most 2 s each.
    pub async fn measure_speeds(&self) {
        for codec in self.optional_codecs().await.into_iter().filter(OptionalCodec::needs_measurement) {
            let Some(encoder) = codec.encoder else { continue };
            let speed = measure_speed(&self.ffmpeg, encoder).await;
            tracing::info!(
                encoder = encoder.name,
                speed = speed.describe(),
                used = speed.keeps_up(0.0),
                "encoder measured"
            );
            let mut speeds = self.speeds.lock().unwrap_or_else(PoisonError::into_inner);
            if !speeds.iter().any(|(measured, _)| *measured == codec.codec) {
                speeds.push((codec.codec, speed));
            }
        }
    }

    /// Whether one works. The answer comes before all are tested.
    pub async fn can_transcode(&self) -> bool {
        ffmpeg_encoders::can_transcode(&self.ffmpeg).await
    }

    /// The encoders that work, best first; empty when ffmpeg is missing.
    pub async fn report(&self) -> Arc<EncoderReport> {
        ffmpeg_encoders::encoder_report(&self.ffmpeg).await
    }

    /// The hardware that decodes video.
    pub async fn decoders(&self) -> Arc<DecoderReport> {
        ffmpeg_decoders::decoder_report(&self.ffmpeg).await
    }

    /// The best encoder of a codec: one that passed its trial, is not forbidden and does not rest after a failure.
    pub async fn best(&self, codec: TargetCodec) -> Option<&'static VideoEncoder> {
        self.best_of(&*self.report().await, codec)
    }

    fn best_of(&self, report: &EncoderReport, codec: TargetCodec) -> Option<&'static VideoEncoder> {
        let mut working = report.working.iter().copied().filter(|encoder| encoder.codec == codec);
        working.find(|encoder| !encoder.is_hardware || self.reason_against(encoder.name).is_none())
    }

    /// Why the hardware encoder or decoder of this name, which works, is not used now, for people.
    pub fn reason_against(&self, name: &'static str) -> Option<String> {
        reason_against(&self.ffmpeg, &self.forbidden, name)
    }

    /// The codecs besides H.264.
    pub async fn optional_codecs(&self) -> Vec<OptionalCodec> {
        let report = self.report().await;
        let speeds = self.speeds.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let with_status = |&(codec, setting): &(TargetCodec, EncoderSetting)| OptionalCodec {
            codec,
            setting,
            encoder: self.best_of(&report, codec),
            speed: speeds.iter().find(|(measured, _)| *measured == codec).map(|(_, speed)| speed.clone()),
        };
        self.settings.iter().map(with_status).collect()
    }

    /// The encoder of the first of these codecs that is used for video of this many pixels per second, otherwise that of
    /// H.264. None if none works.
    pub async fn choose(&self, preferred: &[TargetCodec], pixel_rate: f64) -> Option<&'static VideoEncoder> {
        if !preferred.is_empty() {
            let codecs = self.optional_codecs().await;
            if codecs.iter().any(|codec| preferred.contains(&codec.codec) && codec.needs_measurement()) {
                self.preferred.notify_one();
            }
            let is_used =
                |codec: &TargetCodec| codecs.iter().find(|it| it.codec == *codec && it.is_used_for(pixel_rate));
            if let Some(encoder) = preferred.iter().find_map(is_used).and_then(|codec| codec.encoder) {
                return Some(encoder);
            }
        }
        self.best(TargetCodec::H264).await
    }
}

/// Why a hardware encoder or decoder is not used now although it works: it is forbidden, or rests after a failure.
pub(super) fn reason_against(ffmpeg: &Path, forbidden: &[String], name: &'static str) -> Option<String> {
    if is_forbidden(forbidden, name) {
        return Some("forbidden by forbidden_encoders".to_owned());
    }
    let rest = remaining_rest(ffmpeg, name)?;
    Some(format!("rests for {} s after a failure", rest.as_secs()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    async fn chosen(settings: [EncoderSetting; 2], speeds: &[(TargetCodec, EncodeSpeed)]) -> Option<&'static str> {
        let [hevc_encoder, av1_encoder] = settings;
        let encoders = LocalEncoders::new(&Config { hevc_encoder, av1_encoder, ..Config::default() });
        encoders.speeds.lock().unwrap().extend_from_slice(speeds);
        let full_hd = 1920.0 * 1080.0 * 25.0;
        encoders.choose(&[TargetCodec::Av1, TargetCodec::Hevc], full_hd).await.map(|encoder| encoder.name)
    }

    #[tokio::test]
    async fn a_preferred_codec_is_used_if_it_is_on_or_fast() {
        use EncoderSetting::{Auto, Off, On};
        let [fast, slow] = [2.0, 1.1].map(|speed| move |codec| (codec, EncodeSpeed::RealTime(speed)));
        assert_eq!(chosen([Off, Off], &[]).await, Some("libx264"));
        assert_eq!(chosen([On, On], &[]).await, Some("libsvtav1"));
        assert_eq!(chosen([On, Off], &[]).await, Some("libx265"));
        assert_eq!(chosen([Auto, Auto], &[slow(TargetCodec::Av1), slow(TargetCodec::Hevc)]).await, Some("libx264"));
        assert_eq!(chosen([Auto, Auto], &[slow(TargetCodec::Av1), fast(TargetCodec::Hevc)]).await, Some("libx265"));
        assert_eq!(chosen([Off, Auto], &[fast(TargetCodec::Hevc), fast(TargetCodec::Av1)]).await, Some("libsvtav1"));
        let encoders = LocalEncoders::new(&Config::default());
        assert_eq!(encoders.choose(&[], 1e6).await.map(|encoder| encoder.name), Some("libx264"));
    }

    #[tokio::test]
    async fn encoders_are_measured_when_a_client_has_preferred_one_and_nothing_is_encoded() {
        let encoders = LocalEncoders::new(&Config { hevc_encoder: EncoderSetting::Off, ..Config::default() });
        let reasons = async || encoders.optional_codecs().await.iter().map(OptionalCodec::reason).collect::<Vec<_>>();
        assert_eq!(reasons().await, ["configured", "not measured yet"]);
        let is_idle = AtomicBool::new(false);
        let measure = encoders.measure_after_preference(|| is_idle.load(Ordering::Relaxed));
        let idle_time = Duration::from_secs(u64::from(IDLE_SECONDS) + 1);
        let observe = async {
            encoders.choose(&[TargetCodec::Hevc], 1e6).await;
            is_idle.store(true, Ordering::Relaxed);
            tokio::time::sleep(idle_time).await;
            assert_eq!(reasons().await[1], "not measured yet", "HEVC is off");
            is_idle.store(false, Ordering::Relaxed);
            assert_eq!(encoders.choose(&[TargetCodec::Av1], 1e6).await.unwrap().codec, TargetCodec::H264);
            tokio::time::sleep(idle_time).await;
            assert_eq!(reasons().await[1], "not measured yet", "something is encoded");
            is_idle.store(true, Ordering::Relaxed);
            while reasons().await[1] == "not measured yet" {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::select! {
            () = measure => {}
            () = observe => {}
        }
        let reasons = reasons().await;
        assert!(reasons[1].starts_with("libsvtav1 encodes 1080p"), "{reasons:?}");
    }
}
