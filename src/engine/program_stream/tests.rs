use proptest::prelude::*;

use super::*;
use crate::domain::media::{Audio, Container, Stream, StreamKind, Video};
use crate::engine::source::open_in_test;

/// Bytes of a packet's payload, as in a pack of a DVD.
const PAYLOAD_BYTES: usize = 2000;

const FRAME: Ticks = Ticks(3600);

/// When the first picture is shown.
const START: Ticks = Ticks::from_ms(5_000_000);

fn open_bytes(bytes: &[u8]) -> Arc<SourceFile> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("film.mpg");
    std::fs::write(&path, bytes).unwrap();
    Arc::new(open_in_test(&path))
}

fn timestamp(prefix: u8, time: Ticks) -> [u8; 5] {
    let time = time.wrapped().0;
    let bits = |shift: i64| (time >> shift) as u8;
    [prefix << 4 | bits(29) & 0xe | 1, bits(22), bits(14) | 1, bits(7), bits(0) << 1 | 1]
}

fn pack(stream_id: u8, times: Option<(Ticks, Ticks)>, payload: &[u8]) -> Vec<u8> {
    let mut fields = Vec::new();
    if let Some((pts, dts)) = times {
        fields = [timestamp(3, pts), timestamp(1, dts)].concat();
    }
    let flags = if times.is_some() { 0xc0 } else { 0 };
    let length = (3 + fields.len() + payload.len()) as u16;
    let header = [0, 0, 1, 0xba, 0x44, 0, 4, 0, 4, 1, 0, 0, 3, 0xf8];
    let packet = [&[0, 0, 1, stream_id], &length.to_be_bytes()[..], &[0x80, flags, fields.len() as u8]].concat();
    [&header[..], &packet, &fields, payload].concat()
}

/// Picture `number` in the order of decoding: a keyframe each second, P-pictures otherwise. Each is shown one frame after it is
/// decoded, and has its number in its slice.
fn picture(number: i64) -> Vec<u8> {
    let sequence: &[u8] = &[0, 0, 1, 0xb3, 0x14, 0, 0xf0, 0x13, 0xff, 0xff, 0xe0, 0x18];
    let (headers, coding_type) = if number % 25 == 0 { (sequence, 1) } else { (&[][..], 2) };
    let body = vec![0x80 | (number % 100) as u8; 700];
    [headers, &[0, 0, 1, 0, 0, coding_type << 3, 0xff, 0xf8, 0, 0, 1, 1], &body].concat()
}

/// A film with pictures of 700 bytes in packets of 2,000, so that packets begin inside pictures, and an AC-3 packet with each.
fn make_film(seconds: i64, start: Ticks) -> Vec<u8> {
    let pictures: Vec<Vec<u8>> = (0..seconds * 25).map(picture).collect();
    let video = pictures.concat();
    let starts = pictures.iter().scan(0, |at, picture| Some(std::mem::replace(at, *at + picture.len())));
    let starts: Vec<usize> = starts.collect();
    let (mut film, mut audio_time) = (Vec::new(), start + FRAME);
    for (number, payload) in video.chunks(PAYLOAD_BYTES).enumerate() {
        let range = number * PAYLOAD_BYTES..number * PAYLOAD_BYTES + payload.len();
        let first = starts.iter().position(|at| range.contains(at)).map(|first| start + FRAME * first as i64);
        film.extend(pack(0xe0, first.map(|dts| (dts + FRAME, dts)), payload));
        audio_time = first.map_or(audio_time, |dts| dts + FRAME);
        film.extend(pack(0xbd, Some((audio_time, audio_time)), &[0x80, 1, 0, 1, 0x0b, 0x77]));
    }
    film
}

fn media(seconds: f64) -> Media {
    let video = Stream::new(1, "mpeg2video", StreamKind::Video(Video::new(64, 36)));
    let audio = Stream::new(2, "ac3", StreamKind::Audio(Audio::new(2, 48_000)));
    let start_seconds = (START + FRAME).as_seconds();
    let media = Media::new(Container::MpegPs, vec![Stream::default(), video, audio]);
    Media { start_seconds, duration_seconds: Some(seconds), ..media }
}

fn read_payloads(source: &Arc<SourceFile>, media: &Media, index: u32, start: Ticks) -> Result<Vec<PesPayload>> {
    let mut stream = ProgramStream::open(source, media, index, start)?;
    let mut payloads = Vec::new();
    while let Some(payload) = stream.next_payload()? {
        payloads.push(payload);
    }
    Ok(payloads)
}

#[test]
fn video_is_read_from_the_last_keyframe_on() {
    let source = open_bytes(&make_film(20, START));
    for (start_ms, keyframe) in [(-100, 0), (0, 0), (500, 0), (1000, 1), (999, 0), (7990, 7), (8000, 8), (19_999, 19)] {
        let payloads = read_payloads(&source, &media(20.0), 1, Ticks::from_ms(start_ms)).unwrap();
        let expected: Vec<PesPayload> = (keyframe * 25..500)
            .map(|number| PesPayload {
                pts: Some(FRAME * number),
                dts: Some(FRAME * (number - 1)),
                bytes: picture(number),
            })
            .collect();
        assert_eq!(payloads.len(), expected.len(), "from {start_ms} ms");
        for (payload, expected) in payloads.iter().zip(&expected) {
            assert_eq!((payload.pts, payload.dts), (expected.pts, expected.dts), "from {start_ms} ms");
            assert!(payload.bytes == expected.bytes, "from {start_ms} ms");
        }
    }
}

#[test]
fn audio_is_read_from_a_second_before_the_start() {
    let source = open_bytes(&make_film(20, START));
    let payloads = read_payloads(&source, &media(20.0), 2, Ticks::from_ms(9000)).unwrap();
    let first = payloads[0].pts.unwrap();
    assert!((Ticks::from_ms(7800)..=Ticks::from_ms(8000)).contains(&first), "{first:?}");
    assert!(payloads.iter().all(|payload| payload.bytes == [0x0b, 0x77]));
}

#[test]
fn timestamps_may_wrap() {
    let start = Ticks::WRAP - Ticks::from_ms(5000);
    let source = open_bytes(&make_film(20, start));
    let media = Media { start_seconds: (start + FRAME).as_seconds(), ..media(20.0) };
    let payloads = read_payloads(&source, &media, 1, Ticks::from_ms(8500)).unwrap();
    assert_eq!((payloads.len(), payloads[0].pts), (300, Some(Ticks::from_ms(8000))));
}

#[test]
fn a_file_whose_clock_jumps_is_refused() {
    let (first, second) = (make_film(10, START), make_film(10, START - Ticks::from_ms(4_000_000)));
    for (parts, seconds) in [([&first, &first], 10.0), ([&first, &second], 10.0), ([&second, &first], 10.0)] {
        let source = open_bytes(&[&parts[0][..], parts[1]].concat());
        let error = read_payloads(&source, &media(seconds), 1, Ticks::ZERO).unwrap_err();
        assert!(error.to_string().contains("jumps"), "{error}");
    }
}

#[test]
fn other_streams_than_the_probe_found_are_refused() {
    let source = open_bytes(&make_film(2, START));
    let mut media = media(2.0);
    media.streams.push(Stream::new(3, "mp2", StreamKind::Audio(Audio::new(2, 48_000))));
    assert!(read_payloads(&source, &media, 1, Ticks::ZERO).is_ok());
    assert!(read_payloads(&source, &media, 2, Ticks::ZERO).is_err());
    assert!(read_payloads(&open_bytes(&[0; 100_000]), &media, 1, Ticks::ZERO).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_damaged_film_is_read_to_its_end(
        faults in proptest::collection::vec((0usize..60_000, any::<u8>()), 1..60), start_ms in -1000i64..5000,
        removed in (0usize..60_000, 0usize..5000),
    ) {
        let mut film = make_film(3, START);
        for (at, byte) in faults {
            let at = at % film.len();
            film[at] = byte;
        }
        let at = removed.0 % film.len();
        film.drain(at..(at + removed.1).min(film.len()));
        let source = open_bytes(&film);
        for index in [1, 2] {
            if let Ok(payloads) = read_payloads(&source, &media(3.0), index, Ticks::from_ms(start_ms)) {
                let count = payloads.iter().map(|payload| payload.bytes.len()).sum::<usize>();
                prop_assert!(count <= film.len());
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let _ = read_payloads(&open_bytes(&[&[0, 0, 1, 0xba][..], &bytes].concat()), &media(8.0), 1, Ticks::ZERO);
    }
}
