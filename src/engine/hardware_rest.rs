//! Hardware encoders and decoders that failed in a run: each rests, longer after each failure in a row, and is tried again.
//!
//! One list for the process, as the reports of trials are: a device fails for all servers of a process.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

/// Rest after a first failure; each further one doubles it.
const FIRST_REST: Duration = Duration::from_secs(60);
const MAX_REST: Duration = Duration::from_secs(3600);

/// Hardware whose rests are known: a few encoders and decoders of each ffmpeg of this process.
const MAX_RESTS: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

/// The rest of an encoder or a decoder.
#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Instant,
    length: Duration,
}

impl Rest {
    /// The rest that a failure at `now` begins.
    fn after(previous: Option<Self>, now: Instant) -> Self {
        // One that worked for as long as it may rest has recovered.
        let recent = previous.filter(|rest| now < rest.until + MAX_REST);
        let length = recent.map_or(FIRST_REST, |rest| (rest.length * 2).min(MAX_REST));
        Self { until: now + length, length }
    }
}

type Rests = LruCache<(PathBuf, &'static str), Rest>;

fn rests() -> MutexGuard<'static, Rests> {
    static RESTS: LazyLock<Mutex<Rests>> = LazyLock::new(|| Mutex::new(LruCache::sparse(MAX_RESTS)));
    RESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins the rest of an encoder or decoder of this ffmpeg. A failure during a rest is of a run that began before, and changes nothing.
pub fn begin_rest(ffmpeg: &Path, hardware: &'static str) {
    let key = (ffmpeg.to_owned(), hardware);
    let now = Instant::now();
    let mut rests = rests();
    let previous = rests.peek(&key).copied();
    if previous.is_some_and(|rest| now < rest.until) {
        return;
    }
    let rest = Rest::after(previous, now);
    tracing::warn!(hardware, seconds = rest.length.as_secs(), "a hardware encoder or decoder failed and rests");
    rests.put(key, rest);
}

/// Ends the rest of hardware that was not to blame: software failed at the same work.
pub fn end_rest(ffmpeg: &Path, hardware: &'static str) {
    rests().pop(&(ffmpeg.to_owned(), hardware));
}

/// How much longer an encoder or decoder rests; None if it does not.
pub fn remaining_rest(ffmpeg: &Path, hardware: &'static str) -> Option<Duration> {
    let rest = rests().peek(&(ffmpeg.to_owned(), hardware)).copied()?;
    rest.until.checked_duration_since(Instant::now()).filter(|remaining| !remaining.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rests_grow_until_the_encoder_has_recovered() {
        let ffmpeg = Path::new("/a/test/of/rests");
        let remaining = || remaining_rest(ffmpeg, "h264_vaapi").map(|rest| rest.as_secs());
        assert_eq!(remaining(), None);
        begin_rest(ffmpeg, "h264_vaapi");
        tokio::time::advance(Duration::from_secs(10)).await;
        begin_rest(ffmpeg, "h264_vaapi");
        assert_eq!(remaining(), Some(50), "a run that began before");
        assert_eq!(remaining_rest(ffmpeg, "h264_qsv"), None);
        tokio::time::advance(Duration::from_secs(51)).await;
        assert_eq!(remaining(), None);
        for seconds in [120, 240, 480, 960, 1920, 3600, 3600] {
            begin_rest(ffmpeg, "h264_vaapi");
            assert_eq!(remaining(), Some(seconds));
            tokio::time::advance(Duration::from_secs(seconds)).await;
        }
        tokio::time::advance(MAX_REST).await;
        begin_rest(ffmpeg, "h264_vaapi");
        assert_eq!(remaining(), Some(60));
        end_rest(ffmpeg, "h264_vaapi");
        assert_eq!(remaining(), None);
    }
}
