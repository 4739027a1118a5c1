use super::*;
use crate::domain::bytes::ByteCursor;
use crate::domain::cmaf::Color;
use crate::domain::cmaf::boxes::tests::{children, find};
use crate::domain::cmaf::init_reader::InitDescription;
use crate::domain::mpegts::psi::PmtEntry;
use crate::domain::mpegts::ts_writer::{AccessUnit, TsWriter};
use proptest::prelude::*;

const BASE: Ticks = Ticks::from_ms(3_600_000);

/// Baseline, 64x48, by ffmpeg 5.1 and libx264.
const SPS: &str = "6742c00ada11ec3da808080a000003000200000300601e244d40";
const PPS: &str = "68ce0fc8";

/// Main 10, 64x48, by ffmpeg 5.1 and libx265.
const HEVC_SETS: [&str; 3] = [
    "40010c01ffff02200000030090000003000003001e959409",
    "42010102200000030090000003000003001ea02083136595952930bc05a8488048200000030020000003030122",
    "4401c073c089",
];

fn hex(text: &str) -> Vec<u8> {
    data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap()
}

fn annex_b(units: &[&[u8]]) -> Vec<u8> {
    units.iter().flat_map(|unit| [&[0, 0, 0, 1], *unit].concat()).collect()
}

/// A segment in canonical form with one track; each unit with its presentation time after [`BASE`].
fn segment(track: TrackKind, stream_type: u8, units: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut writer = TsWriter::new(track);
    for (n, (time, bytes)) in units.iter().enumerate() {
        let dts = (track == TrackKind::Video).then_some(BASE + Ticks(n as i64));
        let (pts, parts) = (BASE + Ticks(*time), &[bytes.as_slice()]);
        writer.push_unit(&AccessUnit { track, pts, dts, random_access: n == 0, parts });
    }
    writer.into_segment(&[PmtEntry { pid: track.pid(), stream_type, descriptors: Vec::new() }])
}

fn end_at(time: i64) -> SegmentPosition {
    SegmentPosition { sequence_number: 1, end: BASE + Ticks(time) }
}

/// A keyframe with parameter sets, then two frames in the order of a B frame, 25 frames per second.
fn h264_segment(start: i64, sps: &[u8]) -> Vec<u8> {
    let pps = hex(PPS);
    let keyframe = annex_b(&[&[9, 0xf0], sps, &pps, &[6, 1, 0x80], &[0x65, 0x88, 0x80]]);
    let frame = |slice: &[u8]| annex_b(&[&[9, 0xf0], slice]);
    let times = [start, start + 7200, start + 3600];
    let units = [keyframe, frame(&[0x41, 1, 2, 3]), frame(&[1, 9])];
    segment(TrackKind::Video, 0x1b, &times.into_iter().zip(units).collect::<Vec<_>>())
}

fn with_lengths(units: &[&[u8]]) -> Vec<u8> {
    units.iter().flat_map(|unit| [&(unit.len() as u32).to_be_bytes(), *unit].concat()).collect()
}

/// The decode time and the content of `mdat`.
fn parse_segment(segment: &CmafSegment) -> (u64, &[u8]) {
    let decode_time = u64::from_be_bytes(*segment.bytes[segment.decode_time_at..].first_chunk().unwrap());
    (decode_time, find(&segment.bytes, &[b"mdat"]))
}

/// Duration, size, flags and composition offset of each sample in a `trun` of video.
fn video_samples(segment: &CmafSegment) -> Vec<[u32; 4]> {
    let mut trun = ByteCursor(find(&segment.bytes, &[b"moof", b"traf", b"trun"]));
    trun.take(12).unwrap();
    std::iter::from_fn(|| {
        trun.u32().ok().map(|duration| [duration, trun.u32().unwrap(), trun.u32().unwrap(), trun.u32().unwrap()])
    })
    .collect()
}

#[test]
fn a_byte_stream_becomes_samples_and_a_configuration() {
    let converted = convert_segment(&h264_segment(0, &hex(SPS)), end_at(10_800), None).unwrap();
    let (decode_time, payload) = parse_segment(&converted);
    assert_eq!(decode_time, BASE.0 as u64);
    let keyframe = with_lengths(&[&hex(SPS), &hex(PPS), &[6, 1, 0x80], &[0x65, 0x88, 0x80]]);
    assert_eq!(payload, [&keyframe[..], &[0, 0, 0, 4, 0x41, 1, 2, 3], &[0, 0, 0, 2, 1, 9]].concat());
    // Presented at 0, 7200 and 3600; decoded at 0, 1800 and 3600.
    let samples = video_samples(&converted);
    assert_eq!(
        samples,
        [[1800, keyframe.len() as u32, 0x0200_0000, 0], [1800, 8, 0x0101_0000, 5400], [7200, 6, 0x0101_0000, 0]]
    );
    let head_len = converted.bytes.len() - payload.len();
    assert_eq!(converted.keyframe_len, Some((head_len + keyframe.len()) as u64));

    let TrackConfig::Video { codec: VideoCodec::H264, parameter_sets, .. } = &converted.config else { panic!() };
    assert_eq!(*parameter_sets, [hex(SPS), hex(PPS)]);
    let format = converted.config.video_format().unwrap();
    assert_eq!((format.width, format.height, format.pixel_aspect), (64, 48, Some((3, 2))));
    let entry = converted.config.sample_entry(&format).unwrap();
    assert_eq!((&entry.codecs[..], converted.config.timescale()), ("avc3.42C00A", 90_000));
    let init = converted.config.init_segment(None, None).unwrap();
    assert_eq!(
        InitDescription::read(&init),
        Ok(InitDescription { entry, video_format: Some(format), timescale: 90_000 })
    );
    let kinds: Vec<_> = children(&init).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, [*b"ftyp", *b"moov"]);
}

/// By ffmpeg 5.1 and libaom, 64x48, as in the tests of `entry::av1`.
const AV1_SEQUENCE_HEADER: &str = "0a0a00000002aff79b5f2808";

#[test]
fn temporal_units_become_samples_without_delimiters() {
    let header = hex(AV1_SEQUENCE_HEADER);
    let unit = |obus: &[&[u8]]| [&[0x12, 0][..], &obus.concat()].concat();
    let (key, inter, repeated) = (hex("320210aa"), hex("320230bb"), hex("1a01e8"));
    let units = |start: i64, header: &[u8]| {
        let bytes = [unit(&[header, &key]), unit(&[&inter, &inter]), unit(&[&repeated])];
        segment(TrackKind::Video, 0x06, &(0..3).map(|n| start + n * 3600).zip(bytes).collect::<Vec<_>>())
    };
    let first = convert_segment(&units(0, &header), end_at(10_800), None).unwrap();
    let (decode_time, payload) = parse_segment(&first);
    assert_eq!(decode_time, BASE.0 as u64);
    assert_eq!(payload, [&header[..], &key, &inter, &inter, &repeated].concat());
    let sizes_and_flags = [(header.len() as u32 + 4, 0x0200_0000), (8, 0x0101_0000), (3, 0x0101_0000)];
    assert_eq!(video_samples(&first), sizes_and_flags.map(|(size, flags)| [3600, size, flags, 0]));
    let format = first.config.video_format().unwrap();
    assert_eq!((format.width, format.height, first.config.timescale()), (64, 48, 90_000));
    let description = InitDescription::read(&first.config.init_segment(None, None).unwrap()).unwrap();
    assert_eq!((description.kind(), &*description.entry.codecs), (TrackKind::Video, "av01.0.00M.10"));

    let later = convert_segment(&units(10_800, &header), end_at(21_600), Some(&first.config)).unwrap();
    assert_eq!(later.config, first.config);
    let other = hex(&AV1_SEQUENCE_HEADER.replacen("0a0a0000", "0a0a0001", 1));
    let changed = convert_segment(&units(10_800, &other), end_at(21_600), Some(&first.config));
    assert_eq!(changed.unwrap_err(), ConversionError::ConfigChanged);
    let truncated = segment(TrackKind::Video, 0x06, &[(0, unit(&[&header, &key])[..16].to_vec())]);
    assert!(matches!(convert_segment(&truncated, end_at(3600), None), Err(ConversionError::Entry(_))));
    let without_frame = segment(TrackKind::Video, 0x06, &[(0, unit(&[&header]))]);
    assert!(matches!(convert_segment(&without_frame, end_at(3600), None), Err(ConversionError::Damaged(_))));
}

#[test]
fn later_segments_of_h264_bring_their_parameter_sets() {
    let first = convert_segment(&h264_segment(0, &hex(SPS)), end_at(10_800), None).unwrap();
    let later = h264_segment(10_800, &hex(SPS));
    let converted = convert_segment(&later, end_at(21_600), Some(&first.config)).unwrap();
    assert_eq!(converted.config, first.config);
    assert_eq!(parse_segment(&converted).0, (BASE.0 + 10_800) as u64);
    let other_level = hex(&SPS.replacen("6742c00a", "6742c00b", 1));
    let changed = h264_segment(10_800, &other_level);
    let changed = convert_segment(&changed, end_at(21_600), Some(&first.config)).unwrap();
    assert!(parse_segment(&changed).1.windows(other_level.len()).any(|bytes| bytes == other_level));
    assert!(changed.config != first.config);
    // A segment without any begins with those of the rendition.
    let bare = segment(TrackKind::Video, 0x1b, &[(0, annex_b(&[&[9, 0xf0], &[0x65, 1]])), (3600, annex_b(&[&[1, 9]]))]);
    let bare = convert_segment(&bare, end_at(7200), Some(&first.config)).unwrap();
    assert_eq!(parse_segment(&bare).1, with_lengths(&[&hex(SPS), &hex(PPS), &[0x65, 1], &[1, 9]]));
    assert_eq!(bare.config, first.config);
    let samples = video_samples(&bare);
    assert_eq!(samples.iter().map(|sample| sample[1]).collect::<Vec<_>>(), [4 + 26 + 4 + 4 + 6, 6]);
}

#[test]
fn later_segments_of_hevc_must_agree_with_the_init_segment() {
    let keyframe = |sets: &[Vec<u8>]| {
        let units: Vec<&[u8]> = sets.iter().map(Vec::as_slice).chain([&[0x26u8, 1, 0xaf][..]]).collect();
        annex_b(&units)
    };
    let sets = HEVC_SETS.map(hex);
    let first = segment(TrackKind::Video, 0x24, &[(0, keyframe(&sets))]);
    let first = convert_segment(&first, end_at(3600), None).unwrap();
    let later = segment(TrackKind::Video, 0x24, &[(3600, keyframe(&[]))]);
    assert!(convert_segment(&later, end_at(7200), Some(&first.config)).is_ok());
    let other = [sets[0].clone(), sets[1].clone(), vec![0x44, 1, 0xc1]];
    let changed = segment(TrackKind::Video, 0x24, &[(3600, keyframe(&other))]);
    assert_eq!(convert_segment(&changed, end_at(7200), Some(&first.config)), Err(ConversionError::ConfigChanged));
    // A change within a segment.
    let changed = segment(TrackKind::Video, 0x24, &[(0, keyframe(&sets)), (3600, keyframe(&other))]);
    assert_eq!(convert_segment(&changed, end_at(7200), None), Err(ConversionError::ConfigChanged));
}

#[test]
fn hevc_keeps_its_messages_and_loses_its_parameter_sets() {
    let sets = HEVC_SETS.map(hex);
    let [vps, sps, pps] = [&sets[0][..], &sets[1], &sets[2]];
    let delimiter: &[u8] = &[0x46, 1, 0x50];
    let idr = annex_b(&[delimiter, vps, sps, pps, &[0x4e, 1, 5], &[0x26, 1, 0xaf]]);
    let leading = annex_b(&[delimiter, &[0x10, 1, 7]]);
    let bytes = segment(TrackKind::Video, 0x24, &[(3600, idr), (0, leading)]);
    let converted = convert_segment(&bytes, end_at(7200), None).unwrap();
    assert_eq!(
        parse_segment(&converted).1,
        [0, 0, 0, 3, 0x4e, 1, 5, 0, 0, 0, 3, 0x26, 1, 0xaf, 0, 0, 0, 3, 0x10, 1, 7]
    );
    let format = converted.config.video_format().unwrap();
    let color = Color { primaries: 9, transfer: 16, matrix: 9, is_full_range: false };
    assert_eq!((format.width, format.height, format.color), (64, 48, Some(color)));
    assert_eq!(converted.config.sample_entry(&format).unwrap().codecs, "hvc1.2.4.L30.90");
}

#[test]
fn leading_pictures_of_the_next_segment_shorten_the_last_frame() {
    let sets = HEVC_SETS.map(hex);
    let cra = annex_b(&[&sets[0], &sets[1], &sets[2], &[0x4e, 1, 144, 4, 3, 0xe8, 1, 0x90, 0x80], &[0x2a, 1, 0xaf]]);
    let frame = |kind: u8| annex_b(&[&[kind << 1, 1, 7]]);
    // 25 frames per second: a CRA picture at 2, its leading pictures at 1 and 0, then 4 and 3.
    let group = |start: i64| {
        let times = [2, 0, 1, 4, 3].map(|n| start + n * 3600);
        let units = [cra.clone(), frame(8), frame(8), frame(1), frame(0)];
        segment(TrackKind::Video, 0x24, &times.into_iter().zip(units).collect::<Vec<_>>())
    };
    // The next segment begins on the grid with its CRA picture at 7, and its leading pictures are 5 and 6.
    let first = convert_segment(&group(0), end_at(7 * 3600), None).unwrap();
    let duration =
        |segment: &CmafSegment| video_samples(segment).iter().map(|sample| u64::from(sample[0])).sum::<u64>();
    // One unit for each leading picture that waits for the CRA picture.
    assert_eq!((parse_segment(&first).0, duration(&first)), (BASE.0 as u64 - 1, 5 * 3600 + 1));
    let second = convert_segment(&group(5 * 3600), end_at(10 * 3600), Some(&first.config)).unwrap();
    assert!(parse_segment(&second).0.abs_diff(parse_segment(&first).0 + duration(&first)) <= 2);
    assert_eq!(duration(&second), 5 * 3600 + 1, "nothing is missing before the end");
    assert_eq!(first.config.video_format().unwrap().content_light, Some((1000, 400)));
    // Frames of a variable rate are not taken for leading pictures.
    let paused = convert_segment(&group(0), end_at(90_000), None).unwrap();
    assert_eq!(duration(&paused), 90_000 + 1);
}

#[test]
fn audio_is_counted_in_samples() {
    // LC, 48 kHz, stereo, four bytes of payload; two frames in the second packet.
    let frame = |fill: u8| [&[0xff, 0xf1, 0x4c, 0x80, 0x01, 0x7f, 0xfc][..], &[fill; 4]].concat();
    let units = [(0, frame(1)), (1920, [frame(2), frame(3)].concat())];
    let bytes = segment(TrackKind::Audio, 0x0f, &units);
    let converted = convert_segment(&bytes, end_at(6000), None).unwrap();
    let (decode_time, payload) = parse_segment(&converted);
    assert_eq!((decode_time, converted.config.timescale()), (3600 * 48_000, 48_000));
    assert_eq!(payload, [[1; 4], [2; 4], [3; 4]].concat());
    // A common duration of 1024 samples, whatever the segment's end.
    let tfhd = find(&converted.bytes, &[b"moof", b"traf", b"tfhd"]);
    assert_eq!(tfhd[8..12], 1024u32.to_be_bytes());
    assert_eq!(converted.keyframe_len, None);
    let entry = converted.config.sample_entry(&VideoFormat::default()).unwrap();
    assert_eq!(entry.codecs, "mp4a.40.2");

    let nothing =
        convert_segment(&segment(TrackKind::Audio, 0x0f, &[]), end_at(90_000), Some(&converted.config)).unwrap();
    let decode_time = u64::from_be_bytes(*nothing.bytes[nothing.decode_time_at..].first_chunk().unwrap());
    assert_eq!(decode_time, 3601 * 48_000, "a segment without samples is at its end");
    assert_eq!(convert_segment(&[], end_at(0), None), Err(ConversionError::NoPackets));
}

/// 192 kbit/s and 384 kbit/s in stereo, by ffmpeg 5.1.
const AC3_FRAMES: [(&str, usize); 2] =
    [("0b77fe95144043e106f46370c0c0c218", 768), ("0b77fe951c4043e106f46370c0c0c218", 1536)];

#[test]
fn frames_with_headers_may_change_all_but_their_rate() {
    let [quiet, loud] = AC3_FRAMES.map(|(head, size)| {
        let mut frame = hex(head);
        frame.resize(size, 0);
        frame
    });
    let first = segment(TrackKind::Audio, 0x81, &[(0, [&quiet[..], &quiet].concat()), (5760, loud.clone())]);
    let first = convert_segment(&first, end_at(9000), None).unwrap();
    assert_eq!(parse_segment(&first).1, [&quiet[..], &quiet, &loud].concat());
    // 32 ms a frame: two in the first packet.
    let tfhd = find(&first.bytes, &[b"moof", b"traf", b"tfhd"]);
    assert_eq!((first.config.timescale(), &tfhd[8..12]), (48_000, &1536u32.to_be_bytes()[..]));
    let later = segment(TrackKind::Audio, 0x81, &[(9000, loud)]);
    let later = convert_segment(&later, end_at(18_000), Some(&first.config)).unwrap();
    assert_eq!(later.config, first.config, "the published description");

    let mut mp3 = vec![0xff, 0xfb, 0x94, 0x44];
    mp3.resize(384, 1);
    let mp3 = segment(TrackKind::Audio, 0x03, &[(0, mp3.repeat(3))]);
    let converted = convert_segment(&mp3, end_at(9000), None).unwrap();
    let entry = converted.config.sample_entry(&VideoFormat::default()).unwrap();
    assert_eq!((&entry.codecs[..], parse_segment(&converted).1.len()), ("mp4a.6B", 3 * 384));
    assert_eq!(convert_segment(&mp3, end_at(9000), Some(&first.config)), Err(ConversionError::ConfigChanged));
}

#[test]
fn other_segments_are_refused() {
    let unit = (0, annex_b(&[&[0x65, 1]]));
    let convert = |bytes: &[u8]| convert_segment(bytes, end_at(3600), None).map(|converted| converted.config);
    assert_eq!(
        convert(&segment(TrackKind::Video, 0x02, std::slice::from_ref(&unit))),
        Err(ConversionError::StreamType(2))
    );
    let mut both = segment(TrackKind::Video, 0x1b, std::slice::from_ref(&unit));
    both.extend(segment(TrackKind::Audio, 0x0f, std::slice::from_ref(&unit)));
    assert_eq!(convert(&both), Err(ConversionError::SeveralTracks));
    let empty = segment(TrackKind::Video, 0x1b, &[(0, annex_b(&[&[9, 0xf0]]))]);
    assert!(matches!(convert(&empty), Err(ConversionError::Damaged(_))));
    let sets: Vec<Vec<u8>> = (1..40).map(|n| vec![0x68, n]).collect();
    let many = annex_b(&sets.iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert!(matches!(convert(&segment(TrackKind::Video, 0x1b, &[(0, many)])), Err(ConversionError::Damaged(_))));
    let without_sets = convert(&segment(TrackKind::Video, 0x1b, &[unit])).unwrap();
    assert!(without_sets.video_format().is_err() && without_sets.sample_entry(&VideoFormat::default()).is_err());
}

#[test]
fn times_continue_where_timestamps_wrap() {
    let end = Ticks::WRAP + Ticks(5000);
    let mut writer = TsWriter::new(TrackKind::Video);
    let frame = annex_b(&[&hex(SPS), &hex(PPS), &[0x65, 1]]);
    for pts in [Ticks::WRAP - Ticks(2200), Ticks::WRAP + Ticks(1400)] {
        let (track, parts) = (TrackKind::Video, &[frame.as_slice()]);
        writer.push_unit(&AccessUnit { track, pts, dts: None, random_access: true, parts });
    }
    let bytes =
        writer.into_segment(&[PmtEntry { pid: TrackKind::Video.pid(), stream_type: 0x1b, descriptors: vec![] }]);
    let converted = convert_segment(&bytes, SegmentPosition { sequence_number: 1, end }, None).unwrap();
    assert_eq!(parse_segment(&converted).0, (Ticks::WRAP.0 - 2200) as u64);
    assert_eq!(video_samples(&converted).iter().map(|sample| sample[0]).sum::<u32>(), 7200);
}

proptest! {
    #[test]
    fn any_segment_is_read_without_panic(
        units in proptest::collection::vec((any::<i64>(), proptest::collection::vec(0u8..8, 0..40)), 0..6),
        stream_type in
            prop_oneof![Just(0x1bu8), Just(0x24), Just(6), Just(0x0f), Just(0x03), Just(0x81), Just(0x87)],
        end in any::<i64>(),
        damage in proptest::collection::vec((0usize..6000, any::<u8>()), 0..20),
    ) {
        let track = if matches!(stream_type, 0x1b | 0x24 | 6) { TrackKind::Video } else { TrackKind::Audio };
        let mut bytes = segment(track, stream_type, &units);
        let _ = convert_segment(&bytes, SegmentPosition { sequence_number: 0, end: Ticks(end) }, None);
        let len = bytes.len();
        damage.into_iter().for_each(|(at, byte)| bytes[at % len] = byte);
        let _ = convert_segment(&bytes, end_at(0), None);
    }
}
