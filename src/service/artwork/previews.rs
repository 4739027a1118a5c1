//! Seek previews of films: sheets of small images, each made when it is requested.

use std::sync::Arc;

use bytes::Bytes;

use super::job_error;
use crate::domain::media::Media;
use crate::domain::seek_previews::PreviewLayout;
use crate::domain::visibility::VisiblePaths;
use crate::engine::artwork::preview_sheet;
use crate::engine::packager::is_cmaf_source;
use crate::engine::source::SourceFile;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::catalogue::ItemId;

/// Version of layout and images: part of their addresses and of the keys in the cache.
pub const PREVIEWS_VERSION: u32 = 4;

/// A film that has previews.
struct PreviewedFilm {
    source: Arc<SourceFile>,
    media: Arc<Media>,
    /// Index of the video stream.
    stream: u32,
    layout: PreviewLayout,
}

impl Service {
    /// How the previews of a film are laid out.
    ///
    /// # Errors
    /// `NOT_FOUND` for an item that does not exist, without video or without a duration; those of opening and probing.
    pub async fn preview_layout(&self, paths: &VisiblePaths, id: ItemId) -> Result<PreviewLayout> {
        Ok(self.open_previewed(paths, id).await?.layout)
    }

    /// A sheet of previews as a JPEG.
    ///
    /// # Errors
    /// Those of [`Self::preview_layout`]; `NOT_FOUND` for a sheet that does not exist or cannot be decoded; `SERVER_BUSY`.
    pub async fn preview_sheet(&self, paths: &VisiblePaths, id: ItemId, sheet: usize) -> Result<Bytes> {
        // A sheet that another user's request made is kept.
        self.catalogue.seen_path_of(paths, id).ok_or_else(no_previews)?;
        let busy =
            || Error::new(Code::ServerBusy, "too many images are being made").with_retry_after(super::RETRY_SECONDS);
        let _request = self.artworks.requests.try_acquire().map_err(|_| busy())?;
        let key = format!("previews {PREVIEWS_VERSION} {id} {sheet}");
        let made = self.artworks.get_or_make(&key, self.make_sheet(id, sheet)).await?;
        made.ok_or_else(no_previews)
    }

    async fn make_sheet(&self, id: ItemId, sheet: usize) -> Result<Option<Bytes>> {
        // Held from the first byte that is read, so that memory is bounded too.
        let _job = self.artworks.jobs.acquire().await.map_err(Error::internal)?;
        let PreviewedFilm { source, media, stream, layout } = self.open_previewed(VisiblePaths::ALL, id).await?;
        if sheet >= layout.sheets() {
            return Err(no_previews());
        }
        let video = media.video_streams().find(|(found, _)| found.index == stream).map(|(_, video)| video);
        let video = video.ok_or_else(no_previews)?;
        let (ffmpeg, part) = (&self.artworks.ffmpeg, (layout, sheet));
        let package = self.packages.open_cmaf(&source, &media, stream).await.ok();
        let made = match package {
            Some(package) => preview_sheet::from_keyframes(ffmpeg, &source, package, video, part).await,
            None => preview_sheet::from_file(ffmpeg, &source, &media, (stream, video), part).await,
        };
        made.map(|made| made.map(Bytes::from)).map_err(job_error)
    }

    async fn open_previewed(&self, paths: &VisiblePaths, id: ItemId) -> Result<PreviewedFilm> {
        let path = self.catalogue.seen_path_of(paths, id).ok_or_else(no_previews)?;
        let (source, media) = self.open_media(&path).await?.ok_or_else(no_previews)?;
        let (stream, video) = media.video_streams().find(|(stream, _)| stream.is_decodable).ok_or_else(no_previews)?;
        let is_indexed = is_cmaf_source(media.container, &stream.codec);
        let duration = media.duration_seconds;
        let layout = duration.and_then(|duration| PreviewLayout::new(duration, video.display_size(), is_indexed));
        let (stream, layout) = (stream.index, layout.ok_or_else(no_previews)?);
        Ok(PreviewedFilm { source, media, stream, layout })
    }
}

fn no_previews() -> Error {
    Error::new(Code::NotFound, "there are no such previews")
}
