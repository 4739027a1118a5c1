//! Inserts copied audio frames into a segment that was muxed with video only.

use std::collections::VecDeque;

use super::packet::{PACKET_LEN, Packet};
use super::psi::{PmtEntry, TrackKind, build_pmt, parse_pmt};
use super::ts_writer::{AccessUnit, TsWriter};
use super::{AUDIO_PID, PMT_PID, VIDEO_PID, pes, unwrap_timestamp};
use crate::domain::time::Ticks;

/// One audio frame, complete with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AudioFrame {
    pub start: Ticks,
    pub bytes: Vec<u8>,
}

/// The packets of `video`, with the frames in between: each before the first video frame that is decoded after it begins.
/// Starts count from `base_timestamp`. The program map gets an audio stream of this stream type. The result is not in
/// canonical form.
pub fn insert_audio(video: &[u8], stream_type: u8, base_timestamp: Ticks, mut frames: VecDeque<AudioFrame>) -> Vec<u8> {
    let (mut out, mut counters) = (Vec::with_capacity(video.len() + video.len() / 8), [0; 2]);
    let mut write_frames = |due: Vec<AudioFrame>, out: &mut Vec<u8>| {
        let mut writer = TsWriter::new(TrackKind::Video);
        for frame in &due {
            let (track, pts, parts) = (TrackKind::Audio, base_timestamp + frame.start, &[frame.bytes.as_slice()]);
            writer.push_unit(&AccessUnit { track, pts, dts: None, random_access: true, parts });
        }
        out.extend(writer.into_numbered_packets(&mut counters));
    };
    let mut latest_time = frames.front().map_or(Ticks::ZERO, |frame| frame.start);
    for bytes in video.as_chunks::<PACKET_LEN>().0 {
        let Some(packet) = Packet::new(bytes) else { continue };
        let starts_unit = packet.starts_unit();
        if packet.pid() == PMT_PID
            && let Some(mut entries) = parse_pmt(packet.payload()).filter(|_| starts_unit)
        {
            entries.push(PmtEntry { pid: AUDIO_PID, stream_type, descriptors: Vec::new() });
            out.extend_from_slice(&build_pmt(&entries));
            continue;
        }
        let header = Some(packet).filter(|packet| packet.pid() == VIDEO_PID && starts_unit);
        if let Some(dts) = header.and_then(|packet| pes::parse(packet.payload())?.dts) {
            latest_time = unwrap_timestamp(dts - base_timestamp, latest_time);
            let due_count = frames.partition_point(|frame| frame.start <= latest_time);
            write_frames(frames.drain(..due_count).collect(), &mut out);
        }
        out.extend_from_slice(bytes);
    }
    write_frames(frames.into(), &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: Ticks = Ticks(324_000_000);

    /// Ten frames of video with their tables, decoded 0.1 s before they are shown; the first one is shown at `start`.
    fn video_segment(start: i64) -> Vec<u8> {
        let mut writer = TsWriter::new(TrackKind::Video);
        let bytes = [7; 400];
        for frame in 0..10 {
            let pts = BASE + Ticks(start + frame * 3600);
            let (dts, parts) = (Some(pts - Ticks(9000)), &[&bytes[..]]);
            writer.push_unit(&AccessUnit { track: TrackKind::Video, pts, dts, random_access: frame == 0, parts });
        }
        writer.into_segment(&[PmtEntry { pid: VIDEO_PID, stream_type: 0x1b, descriptors: Vec::new() }])
    }

    /// PID and time of each PES packet after `BASE`.
    fn unit_times(bytes: &[u8]) -> Vec<(u16, i64)> {
        let packets = bytes.as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new);
        let units = packets.filter(|packet| packet.starts_unit() && TrackKind::from_pid(packet.pid()).is_some());
        units.map(|packet| (packet.pid(), (pes::parse(packet.payload()).unwrap().dts.unwrap() - BASE).0)).collect()
    }

    #[test]
    fn frames_come_before_the_video_decoded_after_them() {
        let frames = (-1..20).map(|number| AudioFrame { start: Ticks(number * 1920), bytes: vec![1; 200] });
        let joined = insert_audio(&video_segment(0), 0x0f, BASE, frames.collect());
        let times = unit_times(&joined);
        assert_eq!(times.iter().filter(|(pid, _)| *pid == AUDIO_PID).count(), 21);
        let video_end = times.iter().rposition(|(pid, _)| *pid == VIDEO_PID).unwrap();
        assert!(times[..=video_end].is_sorted_by_key(|(_, time)| *time), "{times:?}");
        let pmt = joined.as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new).find(|it| it.pid() == PMT_PID);
        let streams: Vec<_> = parse_pmt(pmt.unwrap().payload()).unwrap().iter().map(|it| it.stream_type).collect();
        assert_eq!(streams, [0x1b, 0x0f]);
    }

    proptest! {
        #[test]
        fn any_video_is_read_without_panic_and_every_frame_is_kept(
            bytes in proptest::collection::vec(any::<u8>(), 0..2000), starts in proptest::collection::vec(any::<i32>(), 0..9),
        ) {
            let mut bytes = bytes;
            for packet in bytes.chunks_mut(PACKET_LEN) {
                packet[0] = 0x47;
            }
            let mut starts = starts;
            starts.sort_unstable();
            let frame = |start: &i32| AudioFrame { start: Ticks(i64::from(*start)), bytes: vec![1; 20] };
            let out = insert_audio(&bytes, 0x0f, BASE, starts.iter().map(frame).collect());
            prop_assert!(out.len() >= starts.len() * PACKET_LEN);
        }
    }
}
