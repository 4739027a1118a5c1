//! Transport streams with timestamp discontinuities, described on one continuous clock.

use std::sync::Arc;

use super::cut::UNKNOWN;
use super::{ProbeError, Tools, ffprobe, report};
use crate::domain::media::Media;
use crate::domain::sniff::Container;
use crate::domain::time::to_ticks;
use crate::engine::clock::{self, Feed};
use crate::engine::source::Source;

/// None for a file without clock jumps, and for other containers.
pub(super) async fn media(tools: &Tools, source: &Arc<Source>, head: &[u8]) -> Result<Option<Media>, ProbeError> {
    if source.sniffed.is_none_or(|sniffed| sniffed.container != Container::MpegTs) {
        return Ok(None);
    }
    let file = source.clone();
    let looking = tokio::task::spawn_blocking(move || clock::repaired(&file));
    // A file that cannot be repaired is read unchanged.
    let Ok(Ok(Some(repaired))) = looking.await else { return Ok(None) };
    let unavailable = |cause: std::io::Error| ProbeError::Unavailable(format!("a pipe: {cause}"));
    let feed = Feed::open(source, &repaired.pieces, 0.0).await.map_err(unavailable)?;
    let offset = feed.offset_seconds as f64;
    let report = ffprobe::of_feed(tools, feed).await?;
    let mut media = report::media(&report, ffprobe::decodable(tools).await?, head, source.len)?;
    media.warnings.retain(|warning| warning != UNKNOWN);
    repaired.starting_at(to_ticks(media.start_seconds + offset)).describe(&mut media, source.len);
    Ok(Some(media))
}
