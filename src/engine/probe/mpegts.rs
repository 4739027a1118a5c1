//! Reads a plain MPEG transport stream (ISO/IEC 13818-1): a single program in packets of 188 bytes.
//!
//! The beginning gives streams, first timestamps and frame rate, and what a decoder would see. The end gives the duration,
//! computed as ffprobe does. Three windows in between check that timestamps are continuous. The size of every window is
//! limited.

use super::decoder_info::DecoderInfo;
use super::outline::{ContainerOutline, OutlineTrack, OutlineTrackKind, Result, refuse_if};
use crate::domain::media::{Container, Media};
use crate::domain::mpegts::packet::PACKET_LEN;
use crate::domain::time::Ticks;
use crate::engine::source::SourceFile;

mod audio;
mod frame_rate;
mod h264;
mod packet_window;
mod program_map;

use packet_window::PacketWindow;
use program_map::read_program_map;

/// Packets of the first and the last window. If a window is too small, it is doubled, up to 4 times.
const HEAD_PACKETS: u64 = 5 * 1024;
const TAIL_PACKETS: u64 = 1024;
const MAX_ATTEMPTS: u32 = 5;
/// Packets of a window in between.
const MIDDLE_PACKETS: u64 = 512;

/// Frames needed to measure the frame rate, and the minimum for a short film.
const RATE_FRAMES: usize = 24;
const MIN_RATE_FRAMES: usize = 8;

/// A file may begin this close to the wrap of the 33-bit clock; ffmpeg then uses negative timestamps.
const NEAR_WRAP: Ticks = Ticks::from_ms(60_000);

/// Minimum plausible bit rate over the measured duration (as for ffprobe reports).
const MIN_PLAUSIBLE_BPS: f64 = 2_000.0;

/// Reads the file's outline, and what a decoder would see in its streams.
pub(super) fn read_outline(source: &SourceFile) -> Result<(ContainerOutline, Vec<DecoderInfo>)> {
    let packets = source.len / PACKET_LEN as u64;
    let (mut tracks, first_window) = read_beginning(source, packets)?;
    let (mut decoder_infos, mut played) = (Vec::new(), Vec::new());
    for track in tracks.iter_mut().filter(|track| track.kind.is_played()) {
        let (stream, info) = PlayedStream::from_beginning(&first_window, track)?;
        played.push(stream);
        decoder_infos.push(info);
    }
    refuse_if(!tracks.iter().any(|track| track.kind == OutlineTrackKind::Video), "no video")?;
    let start = played.iter().map(|stream| stream.first_pts).min().ok_or("no streams")?;
    refuse_if(start >= Ticks::WRAP - NEAR_WRAP, "the clock wraps")?;
    let end = find_end(source, packets, &played)?;
    for quarter in 1..4 {
        let first_packet = packets * quarter / 4;
        let window = PacketWindow::read(source, first_packet, MIDDLE_PACKETS.min(packets - first_packet))?;
        let mut timestamps = played.iter().flat_map(|stream| window.timestamps(stream.pid)).flatten();
        refuse_if(timestamps.any(|(pts, _)| pts < start || pts > end), "timestamps jump")?;
    }
    let duration_seconds = (end - start).as_seconds();
    let is_plausible = duration_seconds < 60.0 || source.len as f64 * 8.0 / duration_seconds >= MIN_PLAUSIBLE_BPS;
    refuse_if(end <= start || !is_plausible, "no plausible duration")?;
    let media = Media { start_seconds: start.as_seconds(), ..Media::new(Container::MpegTs, Vec::new()) };
    Ok((ContainerOutline { media, duration_seconds, tracks }, decoder_infos))
}

/// The streams of the program map, and a window at the beginning with enough of each of them.
fn read_beginning(source: &SourceFile, packets: u64) -> Result<(Vec<OutlineTrack>, PacketWindow)> {
    for attempt in 0..MAX_ATTEMPTS {
        let count = (HEAD_PACKETS << attempt).min(packets);
        let window = PacketWindow::read(source, 0, count)?;
        let tracks = match read_program_map(&window) {
            Err(program_map::NO_MAP) if count < packets => continue,
            map => map?,
        };
        let min_frames = if count == packets || attempt + 1 == MAX_ATTEMPTS { MIN_RATE_FRAMES } else { RATE_FRAMES };
        if has_enough(&tracks, &window, min_frames) {
            return Ok((tracks, window));
        }
        if count == packets {
            break;
        }
    }
    Err("too few packets at the beginning")
}

/// Whether a window has `min_frames` frames of video, and one complete packet of audio.
fn has_enough(tracks: &[OutlineTrack], window: &PacketWindow, min_frames: usize) -> bool {
    tracks.iter().filter(|track| track.kind.is_played()).all(|track| {
        let min_packets = if track.kind == OutlineTrackKind::Video { min_frames } else { 2 };
        window.timestamps(track.container_id as u16).take(min_packets).count() == min_packets
    })
}

/// The later end of the last video frame and the last audio.
fn find_end(source: &SourceFile, packets: u64, played: &[PlayedStream]) -> Result<Ticks> {
    for attempt in 0..MAX_ATTEMPTS {
        let packet_count = (TAIL_PACKETS << attempt).min(packets);
        let window = PacketWindow::read(source, packets - packet_count, packet_count)?;
        let ends = played.iter().map(|stream| stream.end_in(&window)).collect::<Result<Vec<_>, _>>()?;
        let ends: Option<Vec<Ticks>> = ends.into_iter().collect();
        if let Some(end) = ends.and_then(|ends| ends.into_iter().max()) {
            return Ok(end);
        }
        if packet_count == packets {
            break;
        }
    }
    Err("a stream ends early")
}

/// A video or audio stream, which the duration is computed from.
struct PlayedStream {
    pid: u16,
    codec: &'static str,
    first_pts: Ticks,
    /// None for audio.
    frame_duration: Option<Ticks>,
}

impl PlayedStream {
    /// Reads the beginning of a stream, and completes its track.
    fn from_beginning(first_window: &PacketWindow, track: &mut OutlineTrack) -> Result<(Self, DecoderInfo)> {
        let pid = track.container_id as u16;
        let timestamps: Option<Vec<(Ticks, Ticks)>> = first_window.timestamps(pid).collect();
        let timestamps = timestamps.ok_or("packets without timestamps")?;
        let (first, _) = *timestamps.first().ok_or("an empty stream")?;
        let (mut info, frame_duration);
        if track.kind == OutlineTrackKind::Video {
            refuse_if(timestamps.iter().any(|(pts, _)| *pts < first), "frames before the first")?;
            let nal = h264::find_sps(first_window.payloads(pid))?;
            let (sps_info, stated_rate) = h264::parse_sps(&nal)?;
            let (rate, len) = frame_rate::estimate_frame_rate(timestamps.iter().map(|(_, dts)| *dts), stated_rate)?;
            track.config = [&[0, 0, 1], &nal[..]].concat();
            track.frame_rate = Some(rate);
            (info, frame_duration) = (sps_info, Some(len));
        } else {
            let payload = first_window.payloads(pid).next().unwrap_or_default();
            info = audio::parse_decoder_info(track.codec, &payload).ok_or("unusual audio")?;
            track.codec = info.codec.unwrap_or(track.codec);
            frame_duration = None;
        }
        info.container_id = track.container_id;
        Ok((Self { pid, codec: track.codec, first_pts: first, frame_duration }, info))
    }

    /// Where the stream ends by this window; None if the window has none of its packets.
    fn end_in(&self, window: &PacketWindow) -> Result<Option<Ticks>> {
        let timestamps: Option<Vec<(Ticks, Ticks)>> = window.timestamps(self.pid).collect();
        let timestamps = timestamps.ok_or("packets without timestamps")?;
        let Some((last, _)) = timestamps.iter().max() else { return Ok(None) };
        if let Some(frame_duration) = self.frame_duration {
            return Ok(Some(*last + frame_duration));
        }
        let payload = window.payloads(self.pid).last().unwrap_or_default();
        let seconds = audio::duration_seconds(self.codec, &payload).ok_or("an unusual last audio packet")?;
        Ok(Some(*last + Ticks::from_seconds(seconds)))
    }
}
