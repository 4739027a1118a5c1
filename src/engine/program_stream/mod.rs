//! One stream of a program stream (.mpg, .vob): its payloads with their times in source time, starting where decoding may start.
//!
//! A packet may begin inside a frame. Video is therefore split into its coded pictures, each with its own times; audio is passed on
//! packet by packet, because every parser of audio finds the frame to which a packet's timestamp belongs.

mod pack_reader;

use std::io::{Error, Result};
use std::sync::Arc;

use super::clock::PesPayload;
use crate::domain::media::Media;
use crate::domain::mpegps::picture_splitter::{CodedPicture, Origin, PictureSplitter, Sequence};
use crate::domain::mpegps::picture_times::PictureTimes;
use crate::domain::mpegps::stream_id::{StreamId, select_stream};
use crate::domain::mpegts::clock_jumps::{ClockSection, source_time};
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::time::Ticks;
use crate::engine::source::SourceFile;
use pack_reader::{PackPacket, PackReader};

/// Size of the file's beginning in which the streams are found, as in ffprobe's default.
const HEAD_BYTES: u64 = 5_000_000;

/// Range that is read packet by packet at the end of a search, bytes.
const LINEAR_SEARCH_BYTES: u64 = 512 * 1024;

/// Maximum range that is searched for a timestamp, bytes.
const MAX_SAMPLE_BYTES: u64 = 2 << 20;

/// How far before the start a keyframe is searched, step by step.
const LOOK_BACK: [Ticks; 4] =
    [Ticks::from_ms(1000), Ticks::from_ms(4000), Ticks::from_ms(16_000), Ticks::from_ms(64_000)];

/// How far after the last timestamp of a search its picture may begin, bytes.
const MAX_PICTURE_BYTES: u64 = 8 << 20;

/// How far before the start audio is read.
const AUDIO_LEAD: Ticks = Ticks::from_ms(1000);

/// Number of samples of the clock over the whole file.
const CLOCK_SAMPLES: u64 = 16;

/// How far timestamps may go back in the order of the file: B-pictures whose packets state no decode times. The clock has jumped if
/// they go back further.
const MAX_BACKWARD: Ticks = Ticks::from_ms(500);

/// How far timestamps may exceed the duration that the probe found. Timestamps before the first one are read as far later ones.
const MAX_BEYOND_END: Ticks = Ticks::from_ms(60_000);

/// A stream being read. Its methods block on file I/O.
#[derive(Debug)]
pub struct ProgramStream {
    stream: StreamClock,
    reader: PackReader,
    video: Option<VideoReading>,
    /// Decode time of the last packet.
    last_dts: Option<Ticks>,
    has_ended: bool,
}

/// A stream and its timestamps.
#[derive(Clone, Debug)]
struct StreamClock {
    source: Arc<SourceFile>,
    id: StreamId,
    section: [ClockSection; 1],
    /// No timestamp may be later.
    end: Ticks,
    /// Of video: the first sequence header.
    sequence: Sequence,
}

/// Pictures being put together.
#[derive(Debug)]
struct VideoReading {
    splitter: PictureSplitter,
    times: PictureTimes,
    /// Pictures before this one are dropped.
    start: Option<StartPicture>,
}

/// The picture from which video is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct StartPicture {
    origin: Origin,
    /// Its own packet need not state its times.
    pts: Option<Ticks>,
    dts: Option<Ticks>,
}

/// PTS and DTS of a packet in source time.
type PacketTimes = (Ticks, Ticks);

/// The decode time of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    offset: u64,
    dts: Ticks,
}

impl ProgramStream {
    /// Opens stream `index` of the file and finds the last keyframe shown at or before `start`, or the audio before `start`.
    ///
    /// # Errors
    /// Those of reading the file, that it begins with other streams than the probe found, that its clock jumps, or that there is no
    /// keyframe.
    pub fn open(source: &Arc<SourceFile>, media: &Media, index: u32, start: Ticks) -> Result<Self> {
        let id = select_stream(&find_streams(source)?, media, index);
        let id = id.ok_or_else(|| Error::other("the program stream begins with other streams than the probe found"))?;
        let duration = media.duration_seconds.map_or(Ticks::MAX, Ticks::from_seconds);
        let section = [ClockSection { start_byte: 0, shift: -Ticks::from_seconds(media.start_seconds) }];
        let (source, end, sequence) = (source.clone(), duration + MAX_BEYOND_END, Sequence::default());
        let mut stream = StreamClock { source, id, section, end, sequence };
        stream.check_clock()?;
        let is_video = id.kind() == Some(TrackKind::Video);
        if is_video {
            stream.sequence = stream.first_sequence()?;
        }
        let (offset, keyframe) = match (start > Ticks::ZERO, is_video) {
            (false, _) => (0, None),
            (true, true) => stream.find_keyframe(start)?.map_or((0, None), |start| (start.origin.packet, Some(start))),
            (true, false) => (stream.find_offset(start - AUDIO_LEAD)?, None),
        };
        let reader = PackReader::at_packet(&stream.source, offset);
        let video = is_video.then(|| VideoReading::new(stream.sequence, keyframe));
        Ok(Self { stream, reader, video, last_dts: None, has_ended: false })
    }

    /// The next payload: a picture, or the audio of a packet. None at the end of the file.
    ///
    /// # Errors
    /// Those of reading the file, or that its clock jumps.
    pub fn next_payload(&mut self) -> Result<Option<PesPayload>> {
        loop {
            if let Some(picture) = self.video.as_mut().and_then(|video| video.times.next_picture()) {
                return Ok(Some(PesPayload { pts: picture.pts, dts: picture.dts, bytes: picture.bytes }));
            }
            if self.has_ended {
                return Ok(None);
            }
            let Some(packet) = self.reader.next_packet()? else {
                self.has_ended = true;
                if let Some(video) = &mut self.video {
                    video.finish();
                }
                continue;
            };
            let Some((bytes, times)) = self.stream.own_packet(&packet) else { continue };
            if let Some((_, dts)) = times {
                self.stream.check_order(self.last_dts, dts)?;
                self.last_dts = Some(dts);
            }
            match &mut self.video {
                Some(video) => video.push(bytes, times, packet.offset),
                None if bytes.is_empty() => {}
                None => {
                    let (pts, dts) = times.unzip();
                    return Ok(Some(PesPayload { pts, dts, bytes: bytes.to_vec() }));
                }
            }
        }
    }
}

impl VideoReading {
    fn new(sequence: Sequence, start: Option<StartPicture>) -> Self {
        Self { splitter: PictureSplitter::new(sequence), times: PictureTimes::default(), start }
    }

    fn push(&mut self, bytes: &[u8], times: Option<PacketTimes>, offset: u64) {
        self.splitter.push(bytes, times, offset);
        while let Some(picture) = self.splitter.next_picture() {
            self.push_picture(picture);
        }
    }

    fn finish(&mut self) {
        while let Some(picture) = self.splitter.finish() {
            self.push_picture(picture);
        }
        self.times.finish();
    }

    fn push_picture(&mut self, mut picture: CodedPicture) {
        match self.start {
            Some(start) if picture.origin < start.origin => return,
            Some(start) if picture.origin == start.origin => (picture.pts, picture.dts) = (start.pts, start.dts),
            _ => {}
        }
        self.start = None;
        self.times.push(picture);
    }
}

/// The streams with packets at the beginning of the file, in order.
fn find_streams(source: &Arc<SourceFile>) -> Result<Vec<StreamId>> {
    let (mut reader, mut ids) = (PackReader::new(source, 0), Vec::new());
    while let Some(packet) = reader.next_packet()? {
        if packet.offset > HEAD_BYTES {
            break;
        }
        if let Some(id) = StreamId::of_packet(&packet.header, packet.payload).filter(|id| !ids.contains(id)) {
            ids.push(id);
        }
    }
    Ok(ids)
}

impl StreamClock {
    /// The bytes and times of a packet; None if it belongs to another stream.
    fn own_packet<'a>(&self, packet: &PackPacket<'a>) -> Option<(&'a [u8], Option<PacketTimes>)> {
        let id = StreamId::of_packet(&packet.header, packet.payload).filter(|id| *id == self.id)?;
        let to_source_time = |time: Ticks| source_time(&self.section, packet.offset, time);
        let times = packet.header.pts.zip(packet.header.dts);
        let times = times.map(|(pts, dts)| (to_source_time(pts), to_source_time(dts)));
        Some((id.media_bytes(packet.payload), times))
    }

    /// The next packet with a timestamp.
    fn next_mark(&self, reader: &mut PackReader, end: u64) -> Result<Option<Mark>> {
        while let Some(packet) = reader.next_packet()? {
            if packet.offset >= end {
                break;
            }
            if let Some((_, Some((_, dts)))) = self.own_packet(&packet) {
                return Ok(Some(Mark { offset: packet.offset, dts }));
            }
        }
        Ok(None)
    }

    /// Refuses a file whose clock jumps, as far as some samples show.
    fn check_clock(&self) -> Result<()> {
        let mut last = None;
        for number in 0..CLOCK_SAMPLES {
            let at = self.source.len / CLOCK_SAMPLES * number;
            let mark = self.next_mark(&mut PackReader::new(&self.source, at), at + MAX_SAMPLE_BYTES)?;
            if let Some(Mark { dts, .. }) = mark {
                self.check_order(last, dts)?;
                last = Some(dts);
            }
        }
        if last.is_none() { Err(Error::other("the program stream has no timestamps")) } else { Ok(()) }
    }

    /// The first sequence header, as far as the beginning of the file has one.
    fn first_sequence(&self) -> Result<Sequence> {
        let (mut reader, mut splitter) = (PackReader::new(&self.source, 0), PictureSplitter::default());
        while let Some(packet) = reader.next_packet()? {
            if let Some((bytes, times)) = self.own_packet(&packet) {
                splitter.push(bytes, times, packet.offset);
            }
            let is_found = splitter.next_picture().is_some_and(|picture| picture.duration > Ticks::ZERO);
            if is_found || packet.offset > HEAD_BYTES {
                break;
            }
        }
        Ok(splitter.sequence())
    }

    fn check_order(&self, last: Option<Ticks>, dts: Ticks) -> Result<()> {
        match last.is_some_and(|last| dts < last - MAX_BACKWARD) || dts > self.end {
            true => Err(Error::other("the clock of the program stream jumps")),
            false => Ok(()),
        }
    }

    /// Offset of the last packet of the stream whose decode time is at or before `start`; that of the first packet if all are
    /// later.
    fn find_offset(&self, start: Ticks) -> Result<u64> {
        let (mut low, mut high) = (0, self.source.len);
        while high - low > LINEAR_SEARCH_BYTES {
            let middle = low + (high - low) / 2;
            let mut reader = PackReader::new(&self.source, middle);
            match self.next_mark(&mut reader, high.min(middle + MAX_SAMPLE_BYTES))? {
                Some(mark) if mark.dts <= start => low = mark.offset,
                _ => high = middle,
            }
        }
        let (mut reader, mut found) = (PackReader::new(&self.source, low), low);
        while let Some(mark) = self.next_mark(&mut reader, high)? {
            if mark.dts > start {
                break;
            }
            found = mark.offset;
        }
        Ok(found)
    }

    /// The last keyframe shown at or before `start`; None if reading must begin with the file.
    fn find_keyframe(&self, start: Ticks) -> Result<Option<StartPicture>> {
        let last = self.find_offset(start)?;
        for look_back in LOOK_BACK {
            let from = self.find_offset(start - look_back)?;
            let keyframe = self.last_keyframe(from, last, start)?;
            if keyframe.is_some() || from == 0 {
                return Ok(keyframe);
            }
        }
        Err(Error::other("the video has no keyframe for a minute before the start"))
    }

    /// The last keyframe shown at or before `start`, of the pictures from the packet at `from` on. `last` is the offset of the last
    /// packet that may state such a time.
    fn last_keyframe(&self, from: u64, last: u64, start: Ticks) -> Result<Option<StartPicture>> {
        let (mut reader, mut video, mut keyframe) =
            (PackReader::new(&self.source, from), VideoReading::new(self.sequence, None), None);
        let mut has_ended = false;
        while !has_ended {
            match reader.next_packet()? {
                Some(packet) if packet.offset <= last + MAX_PICTURE_BYTES => {
                    let Some((bytes, times)) = self.own_packet(&packet) else { continue };
                    video.push(bytes, times, packet.offset);
                }
                _ => {
                    video.finish();
                    has_ended = true;
                }
            }
            while let Some(picture) = video.times.next_picture() {
                let CodedPicture { origin, pts, dts, .. } = picture;
                if dts.is_some_and(|dts| dts > start) {
                    return Ok(keyframe);
                }
                if picture.is_keyframe && pts.is_some_and(|pts| pts <= start) {
                    keyframe = Some(StartPicture { origin, pts, dts });
                }
            }
        }
        Ok(keyframe)
    }
}

#[cfg(test)]
mod tests;
