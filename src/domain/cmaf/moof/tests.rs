use super::super::boxes::tests::{children, dump, find};
use super::super::times::squeeze_decode_times;
use super::super::times::tests::{samples, segment_times};
use super::*;
use crate::domain::bytes::ByteCursor;
use proptest::prelude::*;

const BASE: i64 = 3600 * 24_000;

fn video(samples: &[Sample], end: i64) -> Fragment<'_> {
    Fragment { kind: TrackKind::Video, sequence_number: 3, samples, end, base: BASE }
}

fn audio(samples: &[Sample], end: i64) -> Fragment<'_> {
    Fragment { kind: TrackKind::Audio, ..video(samples, end) }
}

/// A fragment read back: its decode time, and size, duration, offset and flags of each sample.
#[derive(Debug, PartialEq)]
struct ParsedFragment {
    decode_time: u64,
    samples: Vec<(u32, u32, i32, u32)>,
}

/// Reads a fragment as a player does, and checks that the data offset leads to the first byte after the head.
fn parse(head: &FragmentHead) -> ParsedFragment {
    let (moof, mdat) = head.bytes.split_at(head.bytes.len() - if head.payload_len > 0 { 8 } else { 0 });
    assert_eq!(children(moof).iter().map(|(kind, _)| kind).collect::<Vec<_>>(), [b"moof"]);
    if head.payload_len > 0 {
        let mut mdat = ByteCursor(mdat);
        assert_eq!((mdat.u32(), mdat.take(4)), (Ok(head.payload_len + 8), Ok(&b"mdat"[..])));
    }
    let traf = find(moof, &[b"moof", b"traf"]);
    let mut tfhd = ByteCursor(find(traf, &[b"tfhd"]));
    let (flags, id) = (tfhd.u32().unwrap(), tfhd.u32().unwrap());
    assert_eq!((flags & !0x28, id), (0x2_0000, TRACK_ID));
    let default_duration = if flags & 0x08 != 0 { tfhd.u32().unwrap() } else { 0 };
    let default_flags = if flags & 0x20 != 0 { tfhd.u32().unwrap() } else { 0 };
    let mut tfdt = ByteCursor(find(traf, &[b"tfdt"]));
    assert_eq!(tfdt.u32(), Ok(1 << 24));
    let decode_time = tfdt.u64().unwrap();
    assert_eq!(head.bytes[head.decode_time_at..][..8], decode_time.to_be_bytes());
    let mut samples = Vec::new();
    if let Some((_, trun)) = children(traf).into_iter().find(|(kind, _)| kind == b"trun") {
        let mut trun = ByteCursor(trun);
        let flags = trun.u32().unwrap();
        let count = trun.u32().unwrap();
        assert_eq!((flags >> 24, flags & 1, trun.u32()), (1, 1, Ok(head.bytes.len() as u32)));
        for _ in 0..count {
            let duration = if flags & 0x100 != 0 { trun.u32().unwrap() } else { default_duration };
            let size = if flags & 0x200 != 0 { trun.u32().unwrap() } else { panic!("no size") };
            let sample_flags = if flags & 0x400 != 0 { trun.u32().unwrap() } else { default_flags };
            let offset = if flags & 0x800 != 0 { trun.u32().unwrap() as i32 } else { 0 };
            samples.push((size, duration, offset, sample_flags));
        }
        assert!(trun.0.is_empty());
    }
    ParsedFragment { decode_time, samples }
}

#[test]
fn video_states_everything_for_each_sample() {
    let mut frames = samples(&[0, 3003, 1001, 2002]);
    frames[0].is_keyframe = true;
    frames[1].size = 0x1234;
    squeeze_decode_times(&mut frames, 4004);
    let head = lay_out(&video(&frames, 4004)).unwrap();
    insta::assert_snapshot!(dump(&head.bytes[..head.bytes.len() - 8], 0), @"
    moof 152
      mfhd 16 00000000 00000003
      traf 128
        tfhd 16 00020000 00000001
        tfdt 20 01000000 00000000 05265c00
        trun 84 01000f01 00000004 000000a0 000001f4 00000001 02000000 00000000 000001f5
             00001234 01010000 000009c7 000003e9 00000001 01010000 00000000 000007d2
             00000001 01010000 00000000
    ");
    assert_eq!(head.content_length(), head.bytes.len() as u64 + 0x1237);
    let samples = vec![
        (1, 500, 0, 0x0200_0000),
        (0x1234, 501, 2503, 0x0101_0000),
        (1, 1001, 0, 0x0101_0000),
        (1, 2002, 0, 0x0101_0000),
    ];
    assert_eq!(parse(&head), ParsedFragment { decode_time: BASE as u64, samples });
}

#[test]
fn audio_states_only_sizes_unless_durations_differ() {
    let mut frames = samples(&[1024, 2048, 3072]);
    frames.iter_mut().for_each(|frame| frame.dts = frame.pts);
    let even = lay_out(&audio(&frames, 4096)).unwrap();
    insta::assert_snapshot!(dump(&even.bytes[..even.bytes.len() - 8], 0), @"
    moof 108
      mfhd 16 00000000 00000003
      traf 84
        tfhd 24 00020028 00000001 00000400 02000000
        tfdt 20 01000000 00000000 05266000
        trun 32 01000201 00000003 00000074 00000001 00000001 00000001
    ");
    assert!(parse(&even).samples.iter().all(|sample| *sample == (1, 1024, 0, 0x0200_0000)));
    let uneven = lay_out(&audio(&frames, 4100)).unwrap();
    insta::assert_snapshot!(dump(&uneven.bytes[..uneven.bytes.len() - 8], 0), @"
    moof 116
      mfhd 16 00000000 00000003
      traf 92
        tfhd 20 00020020 00000001 02000000
        tfdt 20 01000000 00000000 05266000
        trun 44 01000301 00000003 0000007c 00000400 00000001 00000400 00000001 00000404
             00000001
    ");
    assert_eq!(parse(&uneven).samples[1..], [(1, 1024, 0, 0x0200_0000), (1, 1028, 0, 0x0200_0000)]);
}

#[test]
fn a_fragment_may_have_no_samples() {
    for fragment in [video(&[], 7), audio(&[], 7)] {
        let head = lay_out(&fragment).unwrap();
        assert_eq!(parse(&head), ParsedFragment { decode_time: BASE as u64 + 7, samples: Vec::new() });
        assert_eq!((head.payload_len, head.content_length()), (0, head.bytes.len() as u64));
        assert!(!head.bytes.ends_with(b"mdat"));
    }
}

#[test]
fn what_fits_no_field_is_refused() {
    let of = |size, dts, pts, end, base| {
        let samples = [Sample { size, dts, pts, is_keyframe: true }; 2];
        lay_out(&Fragment { end, base, ..video(&samples, 0) }).map(|head| head.payload_len)
    };
    assert_eq!(of(u32::MAX / 2 - 4, 0, 0, 9, 0), Ok(u32::MAX - 9));
    assert_eq!(of(u32::MAX / 2 - 3, 0, 0, 9, 0), Err(LayoutError::TooLarge));
    assert_eq!(of(u32::MAX, 0, 0, 9, 0), Err(LayoutError::TooLarge));
    assert_eq!(of(1, -1, 0, 9, 0), Err(LayoutError::DecodeTime(-1)));
    assert_eq!(of(1, i64::MAX, i64::MAX, i64::MAX, i64::MAX), Ok(2));
    assert_eq!(of(1, 5, 5, 4, 0), Err(LayoutError::Duration(-1)));
    assert_eq!(of(1, 0, 0, 1 << 32, 0), Err(LayoutError::Duration(1 << 32)));
    assert_eq!(of(1, 0, 1 << 31, 9, 0), Err(LayoutError::CompositionOffset(1 << 31)));
    assert_eq!(of(1, 0, i64::MIN, 9, 0), Err(LayoutError::CompositionOffset(i64::MIN.into())));
    assert_eq!(of(1, 0, -(1 << 31), 9, 0), Ok(2));
}

#[test]
fn a_segment_moves_in_time() {
    let frames = samples(&[7]);
    let mut head = lay_out(&video(&frames, 1007)).unwrap();
    let at = head.decode_time_at;
    let expected = lay_out(&Fragment { base: BASE + 90, ..video(&frames, 1007) }).unwrap();
    assert_eq!(shift_decode_time(&mut head.bytes, at, 90), Ok(()));
    assert_eq!(head, expected);
    let time = i128::from(BASE) + 90;
    assert_eq!(
        shift_decode_time(&mut head.bytes, at, i64::MIN),
        Err(LayoutError::DecodeTime(time + i128::from(i64::MIN)))
    );
    for at in [0, 7, 8, at - 1, at + 1, head.bytes.len() - 8, head.bytes.len(), usize::MAX] {
        assert_eq!(shift_decode_time(&mut head.bytes, at, 1), Err(LayoutError::NoDecodeTime(at)));
    }
    assert_eq!(head, expected);
}

proptest! {
    #[test]
    fn durations_add_up_and_presentation_times_are_kept(times in segment_times(), after in -2000i64..5000) {
        let end = times.iter().max().unwrap() + after;
        let mut samples = samples(&times);
        squeeze_decode_times(&mut samples, end);
        let parsed = parse(&lay_out(&video(&samples, end)).unwrap());
        let mut decode_time = parsed.decode_time as i64 - BASE;
        prop_assert_eq!(decode_time, samples[0].dts);
        prop_assert_eq!(parsed.samples.len(), times.len());
        for (&(_, duration, offset, _), pts) in parsed.samples.iter().zip(times) {
            prop_assert!(duration > 0 && offset >= 0);
            prop_assert_eq!(decode_time + i64::from(offset), pts);
            decode_time += i64::from(duration);
        }
        prop_assert_eq!(decode_time, end);
    }

    #[test]
    fn any_samples_are_laid_out_or_refused(
        fields in any::<Vec<(u32, i64, i64, bool)>>(), is_video in any::<bool>(), end in any::<i64>(), base in any::<i64>()
    ) {
        let sample = |(size, dts, pts, is_keyframe)| Sample { size, dts, pts, is_keyframe };
        let samples: Vec<Sample> = fields.into_iter().map(sample).collect();
        let kind = if is_video { TrackKind::Video } else { TrackKind::Audio };
        if let Ok(head) = lay_out(&Fragment { kind, sequence_number: 0, samples: &samples, end, base }) {
            prop_assert_eq!(parse(&head).samples.len(), samples.len());
        }
    }
}

#[test]
fn the_size_of_a_head_is_known_before_it_is_laid_out() {
    for kind in [TrackKind::Video, TrackKind::Audio] {
        for count in [0, 1, 2, 97] {
            for has_common_duration in [true, false] {
                let time = |n: i64| if has_common_duration { n * 1024 } else { n * n };
                let sample = |n| Sample { size: 3, dts: time(n), pts: time(n), is_keyframe: true };
                let samples: Vec<Sample> = (0..count).map(sample).collect();
                let end = time(count);
                let fragment = Fragment { kind, sequence_number: 1, samples: &samples, end, base: 0 };
                // A single sample has a common duration.
                let has_common_duration = has_common_duration || count == 1;
                let expected = lay_out(&fragment).unwrap().bytes.len() as u64;
                assert_eq!(head_len(kind, count as u64, has_common_duration), expected, "{kind:?} {count}");
            }
        }
    }
}
