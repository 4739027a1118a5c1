//! The packets of a VobSub track in an mp4 file.

use std::sync::Arc;

use super::{BitmapDecoder, MAX_BACKWARD_PACKETS, MAX_PACKET_BYTES, SearchLimit, SubtitlePacket};
use crate::domain::bitmap_subtitles::VobSubDecoder;
use crate::engine::RunError;
use crate::engine::container::ContainerError;
use crate::engine::container::bytes::ReadAt;
use crate::engine::container::mp4::{Mp4File, Mp4Track, Sample, SampleDescription};
use crate::engine::source::SourceFile;

#[derive(Debug)]
pub(super) struct Mp4SubtitleTrack {
    source: Arc<SourceFile>,
    track: Mp4Track,
    /// Number of the sample read next.
    next_sample: u32,
}

impl Mp4SubtitleTrack {
    pub(super) fn open(source: Arc<SourceFile>, stream: u32) -> Result<(Self, BitmapDecoder), RunError> {
        let to_run_error = |cause: ContainerError| RunError::Decode(format!("bitmap subtitles: {}", cause.reason()));
        let track = Mp4File::read(&*source).and_then(|film| film.read_track(stream)).map_err(to_run_error)?;
        let SampleDescription::VobSub(palette) = &track.description else {
            return Err(RunError::Decode("bitmap subtitles of an unsupported format; mp4 has VobSub".into()));
        };
        let decoder = VobSubDecoder::from_yuv_palette(track.display_size, palette);
        let decoder = decoder.map_err(|cause| RunError::Decode(format!("VobSub: {}", cause.0)))?;
        Ok((Self { source, track, next_sample: 0 }, BitmapDecoder::VobSub(decoder)))
    }

    /// The packet before `at_ms` that is on screen then; reading continues from there.
    pub(super) fn packets_before(&mut self, at_ms: i64, limit: &SearchLimit) -> Result<Vec<SubtitlePacket>, RunError> {
        self.next_sample = self.track.samples.find_by_dts(|dts| self.to_ms(dts) > at_ms);
        // Samples without bytes are gaps.
        let from = self.next_sample.saturating_sub(MAX_BACKWARD_PACKETS as u32);
        let earlier = self.track.samples.iter_from(from).take((self.next_sample - from) as usize);
        let last = earlier.filter(|sample| sample.size > 0).last();
        self.read_packets(last, limit)
    }

    /// The following packets, up to a time of the item.
    pub(super) fn packets_until(&mut self, to_ms: i64, limit: &SearchLimit) -> Result<Vec<SubtitlePacket>, RunError> {
        let end = self.track.samples.find_by_dts(|dts| self.to_ms(dts) >= to_ms).max(self.next_sample);
        let samples = self.track.samples.iter_from(self.next_sample).take((end - self.next_sample) as usize);
        let packets = self.read_packets(samples.filter(|sample| sample.size > 0), limit)?;
        self.next_sample = end;
        Ok(packets)
    }

    fn to_ms(&self, dts: i64) -> i64 {
        self.track.timing.presentation_ticks(dts).as_ms_floor()
    }

    fn read_packets(
        &self,
        samples: impl IntoIterator<Item = Sample>,
        limit: &SearchLimit,
    ) -> Result<Vec<SubtitlePacket>, RunError> {
        let mut packets = Vec::new();
        for sample in samples.into_iter().filter(|sample| u64::from(sample.size) <= MAX_PACKET_BYTES) {
            limit.check()?;
            let read = self.source.read_exact(sample.offset, sample.size as usize);
            let bytes = read.map_err(|_| RunError::SourceRead("its bitmap subtitles cannot be read".into()))?;
            packets.push(SubtitlePacket { time_ms: self.to_ms(sample.presentation_time()), bytes });
        }
        Ok(packets)
    }
}
