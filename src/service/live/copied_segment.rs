//! A segment of video that is copied for clients that decode it: laid out from the file, and sent from it.
//!
//! Nothing is made ahead or stored, and no run is needed: laying a segment out takes a millisecond.

use std::sync::Arc;

use bytes::Bytes;

use super::aired_segment::ScheduledSegment;
use super::find_or_add_programme;
use crate::domain::channel::Channel;
use crate::domain::live_cmaf::find_copy;
use crate::domain::playlist::InitId;
use crate::engine::RunError;
use crate::engine::content::SegmentContent;
use crate::engine::packager::AiredPosition;
use crate::engine::segment_cache::StoredSegment;
use crate::engine::source::SourceFile;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::renditions::planner::channel_copy;

/// A segment of copied video, and the file from which it is sent.
pub struct CopiedSegment {
    pub source: Arc<SourceFile>,
    pub stored: StoredSegment,
    /// As that of an [`AiredSegment`](super::AiredSegment).
    pub is_outdated: bool,
}

/// Lays out a segment of copied video on the channel's timeline. The caller has checked the right to show the channel.
///
/// # Errors
/// `ASSET_NOT_FOUND` if the item cannot be copied now: no slate has its codec. Players that open the channel anew get it
/// encoded. `SERVER_BUSY` when too many programmes are open; those of opening a file on storage that hangs.
pub(super) async fn lay_out(
    service: &Arc<Service>,
    channel: &Channel,
    segment: &ScheduledSegment,
) -> Result<CopiedSegment> {
    let active = find_or_add_programme(service, &segment.key)?;
    let unavailable = || Error::new(Code::AssetNotFound, "this item cannot be copied now").with_retry_after(5);
    let open = active.open_copy(service, channel, segment).await?.ok_or_else(unavailable)?;
    let span = segment.timeline_span(channel);
    let position = AiredPosition {
        channel_origin: span.channel_origin - span.item_offset,
        item_end: span.ends_item.then_some(span.item_end + span.item_offset),
        sequence_number: (segment.media_sequence() as u32).wrapping_add(1),
    };
    let (spec, index) = (open.spec.clone(), segment.item_index);
    let lay_out = move || {
        let package = spec.package.as_ref().ok_or_else(|| RunError::Internal("the item has no package".into()))?;
        let laid_out = package.lay_out_aired(&spec.source, &spec.grid, index, &position)?;
        if spec.source.has_same_content() { Ok(laid_out) } else { Err(RunError::SourceChanged) }
    };
    match tokio::task::spawn_blocking(lay_out).await.map_err(Error::internal)? {
        Ok(lazy) => {
            let etag = format!("\"{}-{}-{index}\"", open.rendition_name, segment.programme.start_ms.0);
            let stored = StoredSegment { content: SegmentContent::Lazy(Arc::new(lazy)), etag: etag.into() };
            let is_outdated = active.is_outdated(&channel.output).await;
            Ok(CopiedSegment { source: open.spec.source.clone(), stored, is_outdated })
        }
        Err(error) => {
            let path = &open.spec.source.path;
            tracing::warn!(channel.id = channel.id, media.path = path, %error, "a copied item cannot be aired");
            active.mark_broken().await;
            Err(unavailable())
        }
    }
}

/// The init segment of copied video with this id; None if no item of the channel has it.
///
/// # Errors
/// Those of opening and probing the item's file; `ASSET_NOT_FOUND` if it has no such video any more.
pub async fn copied_init(service: &Service, channel: &Channel, id: InitId) -> Result<Option<Bytes>> {
    let Some((item, copy)) = find_copy(&channel.definition, id) else { return Ok(None) };
    let path = service.find_item_file(item).await;
    channel_copy::init_segment(service, copy, &path).await.map(Some)
}
