use proptest::prelude::*;

use super::*;
use crate::domain::mpegts::WRAP;

const BASE: i64 = 3600 * 90_000;

fn still() -> Still {
    let unit = |n: u8| [&[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x65 - n, n][..], &[n; 20]].concat();
    Still { pictures: (0..3).map(unit).collect() }
}

/// A segment with video frames at these times in decoding order, and audio frames at these times.
fn segment(pictures: &[i64], sounds: &[i64]) -> Vec<u8> {
    let bytes = |n: usize| [&[0, 0, 0, 1, 9, 0xf0][..], &[n as u8; 20]].concat();
    let bytes: Vec<Vec<u8>> = (0..pictures.len()).map(bytes).collect();
    let mut writer = Writer::new(Track::Video);
    for (n, pts) in pictures.iter().enumerate() {
        let unit = Unit {
            track: Track::Video,
            pts: BASE + pts,
            dts: Some(BASE + pts - 1),
            random_access: n == 0,
            parts: &[&bytes[n][..]],
        };
        writer.put(&unit);
    }
    for pts in sounds {
        put_sound(&mut writer, BASE + pts, &SILENCE);
    }
    writer.finish(&[])
}

/// What a player receives: (PTS, DTS) of video frames and PTS of audio frames.
fn seen(bytes: &[u8], near: i64) -> (Vec<(i64, i64)>, Vec<i64>) {
    let (mut pictures, mut sounds) = (Vec::new(), Vec::new());
    for packet in bytes.as_chunks::<LEN>().0.iter().filter_map(Packet::new).filter(|packet| packet.starts_unit()) {
        let Some(track) = Track::of_pid(packet.pid()) else { continue };
        let header = pes::parse(packet.payload()).unwrap();
        let at = |time: Option<i64>| unwrap(time.unwrap(), near);
        match track {
            Track::Video => pictures.push((at(header.pts), at(header.dts))),
            Track::Audio => sounds.push(at(header.pts)),
        }
    }
    (pictures, sounds)
}

/// Checks a stream as a receiver does (ISO/IEC 13818-1 sections 2.4.3.3 and 2.7.2): counters continue; PCRs advance, are
/// at most 100 ms apart, and precede the first PES packet.
fn check_received(stream: &[u8]) -> Result<(), TestCaseError> {
    let (mut counters, mut clock) = (std::collections::HashMap::new(), None);
    for bytes in stream.as_chunks::<LEN>().0 {
        let packet = Packet::new(bytes).unwrap();
        let step = u8::from(packet.payload_at().is_some());
        if let Some(before) = counters.insert(packet.pid(), packet.counter()) {
            prop_assert_eq!((before + step) % 16, packet.counter(), "of PID {}", packet.pid());
        }
        if bytes[3] & 0x20 != 0 && bytes[4] >= 7 && bytes[5] & 0x10 != 0 {
            let base = i64::from(u32::from_be_bytes([bytes[6], bytes[7], bytes[8], bytes[9]]));
            let at = base << 1 | i64::from(bytes[10] >> 7);
            let step = clock.map_or(1, |clock| unwrap(at - clock, 0));
            prop_assert!((1..=PCR_MOST).contains(&step), "PCR steps by {}", step);
            clock = Some(at);
        }
        let begins = packet.starts_unit() && Track::of_pid(packet.pid()).is_some();
        prop_assert!(!begins || clock.is_some(), "a PES packet of PID {} before the first PCR", packet.pid());
    }
    prop_assert!(clock.is_some());
    Ok(())
}

proptest! {
    /// Any sequence of items with and without audio, with and without video, and slates, of any length.
    #[test]
    fn a_receiver_finds_no_break_between_segments(
        start in 0i64..4 * WRAP,
        segments in prop::collection::vec((1800i64..500_000, 0u8..5, 1200i64..40_000, 0i64..4000, any::<bool>()), 1..12),
    ) {
        let (mut stream, mut at, mut sounded) = (Vec::new(), start, None);
        for (length, kind, step, late, closes) in segments {
            let (has_pictures, has_sound) = (kind & 1 == 0, kind & 2 == 0);
            // A segment within a programme may begin with audio and have a late first video frame.
            let (from, late) = if late < 2000 { (0, 0) } else { (90_000, late - 2000) };
            let steps = |first: i64, step: i64| -> Vec<i64> {
                (0..).map(|n| from + first + n * step).take_while(|at| *at < from + length).collect()
            };
            // Video may end early, as in a damaged file.
            let mut pictures = if has_pictures { steps(late, step) } else { Vec::new() };
            pictures.truncate(if kind == 4 { 2 } else { usize::MAX });
            let sounds = if has_sound { steps(0, AAC_FRAME) } else { Vec::new() };
            let bytes = if pictures.is_empty() && sounds.is_empty() { Vec::new() } else { segment(&pictures, &sounds) };
            let (to, origin) = (from + length, at - from);
            let span = Span { from, to, opens: true, closes, base: BASE, lead: 0, origin, sounded };
            let aired = aired(&bytes, span, &still());
            check_received(&aired)?;
            stream.extend(aired);
            sounded = Some(span.sounds_until());
            at += length;
        }
        check_received(&stream)?;
    }

    /// For any input, audio covers the span without a gap, and no frame is decoded after its presentation time.
    #[test]
    fn a_picture_and_a_sound_at_every_instant(
        from in prop_oneof![Just(0i64), 0i64..1_000_000_000], length in 90i64..600_000, origin in 0i64..4 * WRAP,
        steps in prop::collection::vec(1i64..20_000, 0..60), shuffled in any::<u64>(),
        sounds in prop::collection::vec(0i64..40_000, 0..120), early in 0i64..6000, closes in any::<bool>(),
    ) {
        let opens = from == 0;
        let span = Span { from, to: from + length, opens, closes, base: BASE, lead: 0, origin, sounded: None };
        let mut pictures = vec![from];
        for step in &steps {
            pictures.push(pictures.last().unwrap() + step);
        }
        // The first frame stays first; a few later ones swap places, as reordering does.
        for at in (2..pictures.len()).step_by(3) {
            if shuffled >> (at % 60) & 1 == 1 {
                pictures.swap(at - 1, at);
            }
        }
        let mut at = from - early;
        let sounds: Vec<i64> = sounds.iter().map(|step| { at += step.max(&AAC_FRAME); at }).collect();
        let bytes = aired(&segment(&pictures, &sounds), span, &still());
        let (shown, heard) = seen(&bytes, origin + from);
        prop_assert_eq!(shown.len(), pictures.len());
        let lead = shown[0].0 - shown[0].1;
        prop_assert!(lead >= LEAD, "{}", lead);
        prop_assert!(shown.windows(2).all(|pair| pair[0].1 < pair[1].1), "{:?}", shown);
        prop_assert!(shown.iter().all(|(pts, dts)| dts <= pts));
        let (start, end) = (origin + span.from, origin + span.to);
        // All frames may be off by half a frame, and those of a file with another alignment by half a frame more.
        let mut last = start - AAC_FRAME;
        for pts in heard.iter().copied().chain([end]) {
            prop_assert!(pts - last <= 3 * AAC_FRAME, "{last} {pts} in {start}..{end}");
            last = pts;
        }
        prop_assert!(heard.windows(2).all(|pair| pair[1] - pair[0] < 2 * AAC_FRAME), "{:?}", heard);
        prop_assert!(heard.iter().all(|pts| (start - AAC_FRAME..end + AAC_FRAME).contains(pts)), "{:?}", heard);
    }

    #[test]
    fn garbage_is_put_on_air_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let span = Span { from: 0, to: 90_000, opens: true, closes: true, base: BASE, lead: 0, origin: 7, sounded: None };
        prop_assert_eq!(aired(&bytes, span, &Still::default()).len() % LEN, 0);
    }
}

/// The shortest segment: there is nothing but this frame to be split, so that its counter ends where the next one begins.
#[test]
fn a_segment_of_one_silent_frame_leaves_no_gap_in_the_counters() {
    let one = |n: i64| {
        let origin = n * AAC_FRAME;
        let span =
            Span { from: 0, to: AAC_FRAME, opens: true, closes: true, base: BASE, lead: 0, origin, sounded: None };
        aired(&[], span, &still())
    };
    assert_eq!(seen(&one(0), 0).1.len(), 1);
    check_received(&[one(0), one(1), one(2)].concat()).unwrap();
}

#[test]
fn where_items_meet_the_steps_are_those_within_them() {
    // Item lengths that are not a multiple of a frame, files with a late first video frame, with and without audio.
    let (mut origin, mut shown, mut heard) = (90_000 * 1_767_225_600, Vec::new(), Vec::new());
    for (n, lead) in [0, 2070, 0, 7200, 1890, 0].into_iter().enumerate() {
        let length = 25 * 3600 + 3600 * n as i64;
        for (from, to) in [(0, 45_000), (45_000, length)] {
            let pictures = (0..).map(|k| lead + k * 3600).take_while(|at| *at < lead + to);
            let pictures: Vec<i64> = pictures.filter(|at| *at >= lead + from).collect();
            let sounds: Vec<i64> = (0..).map(|k| k * AAC_FRAME).take_while(|at| *at < lead + to).collect();
            let sounds: Vec<i64> =
                sounds.into_iter().filter(|at| n != 2 && (from == 0 || *at >= lead + from)).collect();
            let pictures = if pictures.is_empty() { vec![lead + from] } else { pictures };
            let span =
                Span { from, to, opens: from == 0, closes: to == length, base: BASE, lead, origin, sounded: None };
            let (pictures, sounds) = seen(&aired(&segment(&pictures, &sounds), span, &still()), origin + from);
            shown.extend(pictures);
            heard.extend(sounds);
        }
        origin += length;
    }
    assert!(shown.windows(2).all(|pair| pair[1].0 - pair[0].0 == STILL_STEP), "{shown:?}");
    assert!(heard.windows(2).all(|pair| pair[1] - pair[0] == AAC_FRAME), "{heard:?}");
}

#[test]
fn a_still_stands_over_the_whole_span_and_goes_on_from_segment_to_segment() {
    let mut shown = Vec::new();
    let mut heard = Vec::new();
    for (from, to) in [(0, 180_000), (180_000, 200_000)] {
        let span = Span {
            from,
            to,
            opens: from == 0,
            closes: false,
            base: BASE,
            lead: 0,
            origin: WRAP - 90_000,
            sounded: None,
        };
        let (pictures, sounds) = seen(&aired(&[], span, &still()), WRAP);
        shown.extend(pictures);
        heard.extend(sounds);
    }
    assert_eq!(shown.len(), 50 + 6);
    assert!(shown.windows(2).all(|pair| pair[1].0 - pair[0].0 == STILL_STEP && pair[1].1 - pair[0].1 == STILL_STEP));
    assert!(heard.windows(2).all(|pair| pair[1] - pair[0] == AAC_FRAME));
}

#[test]
fn a_stream_is_taken_apart_at_its_delimiters() {
    let stream = [&[0u8, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x67, 1][..], &[0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 0x41, 2]].concat();
    let still = Still::of(&stream);
    assert_eq!(still.pictures, [stream[..11].to_vec(), stream[11..].to_vec()]);
    assert_eq!(Still::of(&[]), Still::default());
}

proptest! {
    /// An external stream that drops and returns: its audio has any offset to its video, and a slate fills the gap. The
    /// interval between audio frames is constant throughout.
    #[test]
    fn where_a_stream_goes_and_comes_back_the_sound_goes_on(
        start in 0i64..4 * WRAP, streams in prop::collection::vec((0i64..90_000, 0..AAC_FRAME, 1i64..4), 1..6),
    ) {
        let (mut at, mut sounded, mut heard) = (start, None, Vec::new());
        for (first, beat, pieces) in streams {
            let slate = [(0, 180_000, 0, true)];
            let own = (0..pieces).map(|n| (first + n * 183_600, first + (n + 1) * 183_600, beat, false));
            for (from, to, beat, closes) in own.chain(slate) {
                let bytes = if closes {
                    Vec::new()
                } else {
                    let sounds: Vec<i64> = (0..).map(|n| beat + n * AAC_FRAME).skip_while(|pts| *pts < from).take_while(|pts| *pts < to).collect();
                    segment(&[from], &sounds)
                };
                let (from, to) = (from - beat, to - beat);
                let (opens, base, origin) = (from == 0, BASE + beat, at - from);
                let span = Span { from, to, opens, closes, base, lead: 0, origin, sounded };
                heard.extend(seen(&aired(&bytes, span, &still()), at).1);
                sounded = Some(span.sounds_until());
                at += to - from;
            }
        }
        prop_assert!(heard.windows(2).all(|pair| pair[1] - pair[0] == AAC_FRAME), "{:?}", heard);
        prop_assert!((heard[0] - start).abs() <= 2 * AAC_FRAME && at - heard.last().unwrap() <= 2 * AAC_FRAME);
    }
}
