//! Loudness of library items: measured once, when an item is first aired at a target loudness (LUFS), and cached by content
//! and version.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use tokio::sync::Semaphore;

use super::versioned::Versioned;
use crate::domain::media::Media;
use crate::engine::loudness;
use crate::engine::source::SourceFile;
use crate::service::Service;
use crate::store::Tree;

/// Most results in memory; all of them are on the disk.
const MAX_CACHED: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// The largest and the smallest gain, tenths of a decibel.
const MAX_GAIN_TENTHS: f64 = 200.0;
const MIN_GAIN_TENTHS: f64 = -400.0;

/// Measured loudness.
pub struct LoudnessCache {
    measured_lufs: Mutex<LruCache<String, Option<f64>>>,
    /// One measurement at a time: each occupies a core for a second or two.
    measuring_slot: Semaphore,
}

impl Default for LoudnessCache {
    fn default() -> Self {
        Self { measured_lufs: Mutex::new(LruCache::sparse(MAX_CACHED)), measuring_slot: Semaphore::new(1) }
    }
}

impl Service {
    /// The gain that brings an audio stream to `target` (LUFS), tenths of a decibel; None if it is silent or cannot be
    /// measured.
    pub async fn gain_tenths(&self, source: &Arc<SourceFile>, media: &Media, stream: u32, target: i16) -> Option<i16> {
        let measured_lufs = self.measure_or_load(source, media, stream).await?;
        Some(((f64::from(target) - measured_lufs) * 10.0).round().clamp(MIN_GAIN_TENTHS, MAX_GAIN_TENTHS) as i16)
    }

    async fn measure_or_load(&self, source: &Arc<SourceFile>, media: &Media, stream: u32) -> Option<f64> {
        let version = source.version();
        let key = format!("{}/{stream}", source.fingerprint().ok()?);
        let cache_key = format!("{key}/{version}");
        if let Some(cached) = self.cached_loudness(&cache_key) {
            return cached;
        }
        let _measuring_slot = self.loudness.measuring_slot.acquire().await.ok()?;
        // Another task may have measured it meanwhile.
        if let Some(cached) = self.cached_loudness(&cache_key) {
            return cached;
        }
        let (store, read_key) = (self.store.clone(), key.clone());
        let read = tokio::task::spawn_blocking(move || store.get::<Versioned<Option<f64>>>(Tree::Loudness, &read_key));
        // An unreadable record is treated as missing: the stream is measured again.
        let stored = read.await.ok().and_then(Result::ok).flatten();
        let measured = match stored.as_ref().and_then(|record| record.for_version(&version)) {
            Some(known) => *known,
            None => {
                let measured = loudness::measure(&self.config.ffmpeg, source, media, stream).await;
                let measured = measured.inspect_err(|fault| {
                    tracing::warn!(media.path = source.path, %fault, "loudness could not be measured");
                });
                let measured = measured.ok()?;
                let record = Versioned::with_version(stored, measured, &version, |a, b| a == b);
                if let Err(fault) = self.store.put(Tree::Loudness, &key, &record).await {
                    tracing::warn!(%fault, "a loudness could not be stored");
                }
                measured
            }
        };
        self.loudness.measured_lufs.lock().unwrap_or_else(PoisonError::into_inner).put(cache_key, measured);
        measured
    }

    fn cached_loudness(&self, key: &str) -> Option<Option<f64>> {
        self.loudness.measured_lufs.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;
    use crate::domain::library::Root;

    /// A mono WAV file of 10 s with a tone of 1 kHz: quiet, and from second 2 to 4 of this amplitude.
    fn tone(path: &Path, amplitude: f64) {
        let (rate, samples) = (48_000_u32, 480_000_u32);
        let mut bytes = [&b"RIFF"[..], &(36 + 2 * samples).to_le_bytes(), b"WAVEfmt ", &16_u32.to_le_bytes()].concat();
        bytes.extend([1, 0, 1, 0]);
        bytes.extend([rate.to_le_bytes(), (2 * rate).to_le_bytes()].concat());
        bytes.extend([&[2, 0, 16, 0][..], b"data", &(2 * samples).to_le_bytes()].concat());
        for n in 0..samples {
            let amplitude = if (2 * rate..4 * rate).contains(&n) { amplitude } else { 0.02 };
            let phase = std::f64::consts::TAU * 1000.0 * f64::from(n) / f64::from(rate);
            bytes.extend(((phase.sin() * amplitude * 32_767.0) as i16).to_le_bytes());
        }
        std::fs::write(path, bytes).unwrap();
    }

    fn config(folder: &Path) -> Config {
        let mut config = Config::new(folder.join("state"), folder.join("cache"));
        config.roots = vec![Root { id: "r".into(), path: folder.to_owned() }];
        config.limits.probe_deadline = std::time::Duration::from_secs(60);
        config
    }

    #[tokio::test]
    async fn a_file_repaired_in_place_is_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tone.wav");
        let service = Service::open(config(folder.path())).unwrap();
        let gain = async || {
            let source = Arc::new(service.library.roots().open_file(path.to_str().unwrap()).unwrap());
            let media = service.media.probe(&source).await.unwrap().media;
            let gain = service.gain_tenths(&source, &media, 0, -23).await.expect("measured");
            (source.fingerprint().unwrap().to_owned(), gain)
        };
        tone(&path, 0.02);
        let quiet = gain().await;
        assert_eq!(gain().await, quiet);
        tone(&path, 0.8);
        let loud = gain().await;
        assert_eq!(loud.0, quiet.0, "no sampled byte changed");
        assert!(loud.1 < quiet.1 - 100, "tenths of a decibel: {} after {}", loud.1, quiet.1);
    }

    #[tokio::test]
    async fn a_chained_file_is_measured_in_all_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let link = |serial: &str, volume: f64| {
            let path = folder.path().join("link.bin");
            let tone = format!("sine=f=1000:r=48000:d=70,volume={volume}");
            let made = std::process::Command::new("ffmpeg")
                .args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", &tone, "-c:a", "libvorbis"])
                .args(["-serial_offset", serial, "-f", "ogg"])
                .arg(&path)
                .status();
            assert!(made.unwrap().success());
            std::fs::read(path).unwrap()
        };
        let path = folder.path().join("radio.ogg");
        std::fs::write(&path, [link("1", 0.02), link("2", 0.5)].concat()).unwrap();
        let service = Service::open(config(folder.path())).unwrap();
        let source = Arc::new(service.library.roots().open_file(path.to_str().unwrap()).unwrap());
        let media = service.media.probe(&source).await.unwrap().media;
        assert_eq!(media.clock_pieces.len(), 2);
        // The first link alone is -55 LUFS. Measured over both it hardly matters.
        let gain = service.gain_tenths(&source, &media, 0, -23).await.expect("measured");
        assert!(gain < 100, "tenths of a decibel: {gain}");
    }
}
