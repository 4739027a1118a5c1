//! Transport streams with timestamp discontinuities, described on one continuous clock.

use std::sync::Arc;

use super::truncation::UNKNOWN_DURATION;
use super::{ProbeError, ProbeTools, ffprobe, read_blocking, report};
use crate::domain::media::Media;
use crate::domain::sniff::Container;
use crate::domain::time::Ticks;
use crate::engine::clock::{self, RepairedFeed};
use crate::engine::source::SourceFile;

/// None for a file without clock jumps, and for other containers.
pub(super) async fn describe(
    tools: &ProbeTools,
    source: &Arc<SourceFile>,
    head: &[u8],
) -> Result<Option<Media>, ProbeError> {
    if source.format.is_none_or(|sniffed| sniffed.container != Container::MpegTs) {
        return Ok(None);
    }
    // A file that cannot be repaired is read unchanged.
    let Some(Ok(Some(clock_repair))) = read_blocking(source, clock::find_clock_repair).await else { return Ok(None) };
    let unavailable = |cause: std::io::Error| ProbeError::Unavailable(format!("a pipe: {cause}"));
    let feed = RepairedFeed::open(source, &clock_repair.pieces, 0.0).await.map_err(unavailable)?;
    let offset = feed.offset_seconds as f64;
    let report = ffprobe::run_on_feed(tools, feed).await?;
    let mut media = report::to_media(&report, ffprobe::decodable_codecs(tools).await?, head, source.len)?;
    media.warnings.retain(|warning| warning != UNKNOWN_DURATION);
    clock_repair.with_start(Ticks::from_seconds(media.start_seconds + offset)).apply_to(&mut media, source.len);
    Ok(Some(media))
}
