use proptest::prelude::*;

use super::*;

const BASE: i64 = 3600 * Ticks::PER_SECOND;
const WRAP: i64 = Ticks::WRAP.0;
const FRAME: i64 = AAC_FRAME.0;

/// A whole item of one audio frame.
const SPAN: TimelineSpan = TimelineSpan {
    item_start: Ticks::ZERO,
    item_end: AAC_FRAME,
    starts_item: true,
    ends_item: true,
    base_timestamp: Ticks(BASE),
    item_offset: Ticks::ZERO,
    channel_origin: Ticks::ZERO,
    previous_audio_end: None,
    audio_layout: AudioLayout::Stereo,
};

fn still() -> StillImage {
    let unit = |n: u8| [&[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65 - n, n][..], &[n; 20]].concat();
    StillImage { frames: (0..3).map(unit).collect() }
}

/// A segment with video frames at these times in decoding order, and audio frames at these times.
fn segment(video_times: &[i64], audio_times: &[i64]) -> Vec<u8> {
    let bytes = |n: usize| [&[0, 0, 0, 1, 9, 0xf0][..], &[n as u8; 20]].concat();
    let bytes: Vec<Vec<u8>> = (0..video_times.len()).map(bytes).collect();
    let mut writer = TsWriter::new(TrackKind::Video);
    for (n, pts) in video_times.iter().enumerate() {
        let (pts, dts, random_access) = (Ticks(BASE + pts), Some(Ticks(BASE + pts - 1)), n == 0);
        let parts = &[&bytes[n][..]];
        writer.push_unit(&AccessUnit { track: TrackKind::Video, pts, dts, random_access, parts });
    }
    for pts in audio_times {
        push_audio_frame(&mut writer, Ticks(BASE + pts), AudioLayout::Stereo.silent_frame());
    }
    writer.into_segment(&[])
}

/// The times a player receives: (PTS, DTS) of video frames and PTS of audio frames.
fn received_times(bytes: &[u8], near: i64) -> (Vec<(i64, i64)>, Vec<i64>) {
    let (mut video_times, mut audio_times) = (Vec::new(), Vec::new());
    let packets = bytes.as_chunks::<PACKET_LEN>().0.iter().filter_map(Packet::new);
    for packet in packets.filter(|packet| packet.starts_unit()) {
        let Some(track) = TrackKind::from_pid(packet.pid()) else { continue };
        let header = pes::parse(packet.payload()).unwrap();
        let at = |time: Option<Ticks>| unwrap_timestamp(time.unwrap(), Ticks(near)).0;
        match track {
            TrackKind::Video => video_times.push((at(header.pts), at(header.dts))),
            TrackKind::Audio => audio_times.push(at(header.pts)),
        }
    }
    (video_times, audio_times)
}

/// Checks a stream as a receiver does (ISO/IEC 13818-1 sections 2.4.3.3 and 2.7.2): counters continue; PCRs advance, are
/// at most 100 ms apart, and precede the first PES packet.
fn check_counters_and_pcr(stream: &[u8]) -> Result<(), TestCaseError> {
    let (mut counters, mut clock) = (std::collections::HashMap::new(), None);
    for bytes in stream.as_chunks::<PACKET_LEN>().0 {
        let packet = Packet::new(bytes).unwrap();
        let step = u8::from(packet.payload_offset().is_some());
        if let Some(before) = counters.insert(packet.pid(), packet.continuity_counter()) {
            prop_assert_eq!((before + step) % 16, packet.continuity_counter(), "of PID {}", packet.pid());
        }
        if bytes[3] & 0x20 != 0 && bytes[4] >= 7 && bytes[5] & 0x10 != 0 {
            let base = i64::from(u32::from_be_bytes([bytes[6], bytes[7], bytes[8], bytes[9]]));
            let at = base << 1 | i64::from(bytes[10] >> 7);
            let step = clock.map_or(1, |clock| unwrap_timestamp(Ticks(at - clock), Ticks::ZERO).0);
            prop_assert!((1..=MAX_PCR_INTERVAL.0).contains(&step), "PCR steps by {}", step);
            clock = Some(at);
        }
        let begins = packet.starts_unit() && TrackKind::from_pid(packet.pid()).is_some();
        prop_assert!(!begins || clock.is_some(), "a PES packet of PID {} before the first PCR", packet.pid());
    }
    prop_assert!(clock.is_some());
    Ok(())
}

proptest! {
    /// Any sequence of items with and without audio, with and without video, and slates, of any length.
    #[test]
    fn counters_and_pcr_continue_across_segments(
        start in 0i64..4 * WRAP,
        segments in prop::collection::vec((1800i64..500_000, 0u8..5, 1200i64..40_000, 0i64..4000, any::<bool>()), 1..12),
    ) {
        let (mut stream, mut at, mut audio_end) = (Vec::new(), start, None);
        for (length, kind, step, late, ends_item) in segments {
            let (has_video, has_audio) = (kind & 1 == 0, kind & 2 == 0);
            // A segment within a programme may begin with audio and have a late first video frame.
            let (from, late) = if late < 2000 { (0, 0) } else { (90_000, late - 2000) };
            let steps = |first: i64, step: i64| -> Vec<i64> {
                (0..).map(|n| from + first + n * step).take_while(|at| *at < from + length).collect()
            };
            // Video may end early, as in a damaged file.
            let mut video_times = if has_video { steps(late, step) } else { Vec::new() };
            video_times.truncate(if kind == 4 { 2 } else { usize::MAX });
            let audio_times = if has_audio { steps(0, FRAME) } else { Vec::new() };
            let bytes = if video_times.is_empty() && audio_times.is_empty() { Vec::new() } else { segment(&video_times, &audio_times) };
            let (to, origin) = (from + length, at - from);
            let span = TimelineSpan { item_start: Ticks(from), item_end: Ticks(to), ends_item, channel_origin: Ticks(origin), previous_audio_end: audio_end, ..SPAN };
            let retimed = place_on_timeline(&bytes, span, &still());
            check_counters_and_pcr(&retimed)?;
            stream.extend(retimed);
            audio_end = Some(span.audio_end());
            at += length;
        }
        check_counters_and_pcr(&stream)?;
    }

    /// For any input, audio covers the span without a gap, and no frame is decoded after its presentation time.
    #[test]
    fn audio_has_no_gap_and_frames_decode_in_time(
        from in prop_oneof![Just(0i64), 0i64..1_000_000_000], length in 90i64..600_000, origin in 0i64..4 * WRAP,
        steps in prop::collection::vec(1i64..20_000, 0..60), shuffled in any::<u64>(),
        audio_steps in prop::collection::vec(0i64..40_000, 0..120), early in 0i64..6000, ends_item in any::<bool>(),
    ) {
        let span = TimelineSpan { item_start: Ticks(from), item_end: Ticks(from + length), starts_item: from == 0, ends_item, channel_origin: Ticks(origin), ..SPAN };
        let mut video_times = vec![from];
        for step in &steps {
            video_times.push(video_times.last().unwrap() + step);
        }
        // The first frame stays first; a few later ones swap places, as reordering does.
        for at in (2..video_times.len()).step_by(3) {
            if shuffled >> (at % 60) & 1 == 1 {
                video_times.swap(at - 1, at);
            }
        }
        let mut at = from - early;
        let audio_times: Vec<i64> = audio_steps.iter().map(|step| { at += step.max(&FRAME); at }).collect();
        let bytes = place_on_timeline(&segment(&video_times, &audio_times), span, &still());
        let (received_video, received_audio) = received_times(&bytes, origin + from);
        prop_assert_eq!(received_video.len(), video_times.len());
        let lead = received_video[0].0 - received_video[0].1;
        prop_assert!(lead >= DECODE_LEAD.0, "{}", lead);
        prop_assert!(received_video.windows(2).all(|pair| pair[0].1 < pair[1].1), "{:?}", received_video);
        prop_assert!(received_video.iter().all(|(pts, dts)| dts <= pts));
        let (start, end) = (origin + from, origin + from + length);
        // All frames may be off by half a frame, and those of a file with another alignment by half a frame more.
        let mut last = start - FRAME;
        for pts in received_audio.iter().copied().chain([end]) {
            prop_assert!(pts - last <= 3 * FRAME, "{last} {pts} in {start}..{end}");
            last = pts;
        }
        prop_assert!(received_audio.windows(2).all(|pair| pair[1] - pair[0] < 2 * FRAME), "{:?}", received_audio);
        prop_assert!(received_audio.iter().all(|pts| (start - FRAME..end + FRAME).contains(pts)), "{:?}", received_audio);
    }

    /// An external stream that drops and returns: its audio has any offset to its video, and a slate fills the gap. The
    /// interval between audio frames is constant throughout.
    #[test]
    fn audio_continues_when_a_stream_drops_and_returns(
        start in 0i64..4 * WRAP, streams in prop::collection::vec((0i64..90_000, 0..FRAME, 1i64..4), 1..6),
    ) {
        let (mut at, mut audio_end, mut audio_times) = (start, None, Vec::new());
        for (first, beat, pieces) in streams {
            let slate = [(0, 180_000, 0, true)];
            let own = (0..pieces).map(|n| (first + n * 183_600, first + (n + 1) * 183_600, beat, false));
            for (from, to, beat, is_slate) in own.chain(slate) {
                let bytes = if is_slate {
                    Vec::new()
                } else {
                    let audio: Vec<i64> = (0..).map(|n| beat + n * FRAME).skip_while(|pts| *pts < from).take_while(|pts| *pts < to).collect();
                    segment(&[from], &audio)
                };
                let (from, to) = (from - beat, to - beat);
                let span = TimelineSpan { item_start: Ticks(from), item_end: Ticks(to), starts_item: from == 0, ends_item: is_slate, base_timestamp: Ticks(BASE + beat), channel_origin: Ticks(at - from), previous_audio_end: audio_end, ..SPAN };
                audio_times.extend(received_times(&place_on_timeline(&bytes, span, &still()), at).1);
                audio_end = Some(span.audio_end());
                at += to - from;
            }
        }
        prop_assert!(audio_times.windows(2).all(|pair| pair[1] - pair[0] == FRAME), "{:?}", audio_times);
        prop_assert!((audio_times[0] - start).abs() <= 2 * FRAME && at - audio_times.last().unwrap() <= 2 * FRAME);
    }

    #[test]
    fn garbage_is_retimed_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let span = TimelineSpan { item_end: Ticks::from_ms(1000), channel_origin: Ticks(7), ..SPAN };
        prop_assert_eq!(place_on_timeline(&bytes, span, &StillImage::default()).len() % PACKET_LEN, 0);
    }
}

/// The shortest segment: there is nothing but this frame to be split, so that its counter ends where the next one begins.
#[test]
fn a_segment_of_one_silent_frame_leaves_no_gap_in_the_counters() {
    let one = |n: i64| {
        let span = TimelineSpan { channel_origin: AAC_FRAME * n, ..SPAN };
        place_on_timeline(&[], span, &still())
    };
    assert_eq!(received_times(&one(0), 0).1.len(), 1);
    check_counters_and_pcr(&[one(0), one(1), one(2)].concat()).unwrap();
}

#[test]
fn frame_intervals_are_constant_across_items() {
    // Item lengths that are not a multiple of a frame, files with a late first video frame, with and without audio.
    let (mut origin, mut video_times, mut audio_times) = (Ticks::from_ms(1_767_225_600_000).0, Vec::new(), Vec::new());
    for (n, lead) in [0, 2070, 0, 7200, 1890, 0].into_iter().enumerate() {
        let length = 25 * 3600 + 3600 * n as i64;
        for (from, to) in [(0, 45_000), (45_000, length)] {
            let video = (0..).map(|k| lead + k * 3600).take_while(|at| *at < lead + to);
            let video: Vec<i64> = video.filter(|at| *at >= lead + from).collect();
            let audio: Vec<i64> = (0..).map(|k| k * FRAME).take_while(|at| *at < lead + to).collect();
            let audio: Vec<i64> = audio.into_iter().filter(|at| n != 2 && (from == 0 || *at >= lead + from)).collect();
            let video = if video.is_empty() { vec![lead + from] } else { video };
            let span = TimelineSpan {
                item_start: Ticks(from),
                item_end: Ticks(to),
                starts_item: from == 0,
                ends_item: to == length,
                item_offset: Ticks(lead),
                channel_origin: Ticks(origin),
                ..SPAN
            };
            let placed = place_on_timeline(&segment(&video, &audio), span, &still());
            let (video, audio) = received_times(&placed, origin + from);
            video_times.extend(video);
            audio_times.extend(audio);
        }
        origin += length;
    }
    assert!(video_times.windows(2).all(|pair| pair[1].0 - pair[0].0 == STILL_STEP.0), "{video_times:?}");
    assert!(audio_times.windows(2).all(|pair| pair[1] - pair[0] == FRAME), "{audio_times:?}");
}

#[test]
fn a_still_covers_the_span_and_continues_across_segments() {
    let (mut video_times, mut audio_times) = (Vec::new(), Vec::new());
    for (from, to) in [(0, 180_000), (180_000, 200_000)] {
        let span = TimelineSpan {
            item_start: Ticks(from),
            item_end: Ticks(to),
            starts_item: from == 0,
            ends_item: false,
            channel_origin: Ticks::WRAP - Ticks::from_ms(1000),
            ..SPAN
        };
        let (video, audio) = received_times(&place_on_timeline(&[], span, &still()), WRAP);
        video_times.extend(video);
        audio_times.extend(audio);
    }
    assert_eq!(video_times.len(), 50 + 6);
    assert!(video_times.windows(2).all(|pair| pair[1].0 - pair[0].0 == STILL_STEP.0));
    assert!(video_times.windows(2).all(|pair| pair[1].1 - pair[0].1 == STILL_STEP.0));
    assert!(audio_times.windows(2).all(|pair| pair[1] - pair[0] == FRAME));
}

#[test]
fn a_stream_is_split_at_its_delimiters() {
    let stream = [&[0u8, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x67, 1][..], &[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x41, 2]].concat();
    let still = StillImage::from_annex_b(&stream);
    assert_eq!(still.frames, [stream[..11].to_vec(), stream[11..].to_vec()]);
    assert_eq!(StillImage::from_annex_b(&[]), StillImage::default());
}
