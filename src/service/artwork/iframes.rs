//! I-frames of video that is encoded for a session: a small picture of the source's nearest keyframe, without an encode of the
//! segment. They are kept like other images.

use bytes::Bytes;

use super::{RETRY_SECONDS, job_error};
use crate::domain::codec::TargetCodec;
use crate::engine::artwork::iframe::IFrameJob;
use crate::error::{Code, Error, Result};
use crate::service::Service;
use crate::service::renditions::planner::made_iframes::MadeIFrames;

/// Version of the frames, part of their keys in the cache.
const VERSION: u32 = 1;

impl Service {
    /// The frame of a segment as a CMAF fragment, and its init segment.
    ///
    /// # Errors
    /// `ASSET_NOT_FOUND` past the end, and where no keyframe can be decoded; `TRANSCODER_UNAVAILABLE`; `SERVER_BUSY`.
    pub async fn encode_iframe(&self, made: MadeIFrames<'_>, segment: usize) -> Result<(Bytes, Bytes)> {
        let no_iframe = || Error::new(Code::AssetNotFound, format!("there is no I-frame {segment}"));
        let spec = &made.rung.spec;
        if segment >= spec.grid.len() {
            return Err(no_iframe());
        }
        let busy = || Error::new(Code::ServerBusy, "too many images are being made").with_retry_after(RETRY_SECONDS);
        let _request = self.artworks.requests.try_acquire().map_err(|_| busy())?;
        let unavailable = || Error::new(Code::TranscoderUnavailable, "no video encoder works on this machine");
        let encoder = self.local_encoders.report().await.best_software(TargetCodec::H264).ok_or_else(unavailable)?;
        let job = IFrameJob {
            ffmpeg: &self.artworks.ffmpeg,
            encoder,
            source: &spec.source,
            media: &spec.media,
            stream: made.stream,
            size: made.size,
            grid: &spec.grid,
            segment,
        };
        let ((width, height), start) = (made.size, spec.grid.segment_start(segment).0);
        let key = format!("iframe {VERSION} {} {} {width}x{height} {start}", spec.fingerprint, made.stream);
        let encode = async {
            let _job = self.artworks.jobs.acquire().await.map_err(Error::internal)?;
            job.encode().await.map(|encoded| encoded.map(Bytes::from)).map_err(job_error)
        };
        let encoded = self.artworks.get_or_make(&key, encode).await?.ok_or_else(no_iframe)?;
        let (frame, init) = job.convert(&encoded).map_err(job_error)?;
        Ok((frame.bytes.into(), init.into()))
    }
}
