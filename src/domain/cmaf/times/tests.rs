use super::*;
use proptest::prelude::*;

/// Samples of these presentation times in decoding order.
pub fn samples(times: &[i64]) -> Vec<Sample> {
    times.iter().map(|&pts| Sample { size: 1, dts: 0, pts, is_keyframe: false }).collect()
}

/// The decode times of these presentation times.
fn squeeze(times: &[i64], end: i64) -> Vec<i64> {
    let mut samples = samples(times);
    squeeze_decode_times(&mut samples, end);
    assert!(samples.iter().map(|sample| sample.pts).eq(times.iter().copied()));
    samples.iter().map(|sample| sample.dts).collect()
}

#[test]
fn frames_without_reordering_are_decoded_when_they_are_presented() {
    assert_eq!(squeeze(&[0, 1000, 2000, 3500], 4000), [0, 1000, 2000, 3500]);
    assert_eq!(squeeze(&[], 7), [0i64; 0]);
}

#[test]
fn frames_that_wait_for_one_time_are_spread_over_the_interval() {
    // IPBB.
    assert_eq!(squeeze(&[0, 3000, 1000, 2000, 6000, 4000, 5000], 7000), [0, 500, 1000, 2000, 3000, 4000, 5000]);
    // A pyramid of eight.
    let pyramid = [0, 8000, 4000, 2000, 1000, 3000, 6000, 5000, 7000];
    assert_eq!(squeeze(&pyramid, 9000), [0, 250, 500, 750, 1000, 3000, 4000, 5000, 7000]);
}

#[test]
fn leading_pictures_begin_a_unit_earlier_each() {
    let open = [3000, 1000, 2000, 6000, 4000, 5000];
    assert_eq!(squeeze(&open, 7000), [999, 1000, 2000, 3000, 4000, 5000]);
    assert_eq!(first_decode_time(open), Some(999));
    assert_eq!(first_decode_time([]), None);
}

#[test]
fn frames_with_one_time_are_decoded_one_after_another() {
    assert_eq!(squeeze(&[5, 5, 5, 5], 6), [2, 3, 4, 5]);
    assert_eq!(squeeze(&[0, 1000, 1000, 1000], 2000), [0, 333, 666, 1000]);
}

#[test]
fn the_last_frames_make_room_for_the_end() {
    assert_eq!(squeeze(&[0, 1000, 5000, 2000, 4000], 3000), [0, 1000, 1500, 2000, 2500]);
    assert_eq!(squeeze(&[0, 1000], 0), [-2, -1]);
}

#[test]
fn a_timescale_is_the_sources_or_a_multiple_of_it() {
    for (source, timescale) in [
        (0, 90_000),
        (1, 10_000),
        (24, 10_008),
        (600, 10_200),
        (12_800, 12_800),
        (90_000, 90_000),
        (10_000_000, 90_000),
    ] {
        assert_eq!(video_timescale(source), timescale, "{source}");
    }
}

/// Presentation times of a segment in decoding order: a variable or constant rate, reordered as pyramids of B frames or at
/// random, with duplicates, negative times and leading pictures.
pub fn segment_times() -> impl Strategy<Value = Vec<i64>> {
    let step = prop_oneof![Just(1001i64), 1i64..4000, Just(0i64)];
    let steps = prop_oneof![
        (1usize..70).prop_map(|count| vec![1001; count]),
        proptest::collection::vec(step, 1..70),
        proptest::collection::vec(0i64..3, 1..70),
    ];
    (steps, -100_000i64..100_000, 0usize..5, 0usize..9, any::<u64>()).prop_map(|(steps, start, kind, group, seed)| {
        let times: Vec<i64> =
            steps.iter().scan(start, |time, step| Some(std::mem::replace(time, *time + step))).collect();
        let mut order = Vec::new();
        match kind {
            // Closed or open: the keyframe is the first frame, or follows leading pictures.
            0..=2 => {
                let mut rest = 0..times.len();
                if kind > 0 {
                    order.extend(rest.next());
                }
                while !rest.is_empty() {
                    let end = rest.end.min(rest.start + group + 1);
                    push_pyramid(rest.start, end, &mut order);
                    rest.start = end;
                }
            }
            3 => order.extend(0..times.len()),
            _ => {
                order.extend(0..times.len());
                order.sort_by_key(|&n| (n as u64).wrapping_mul(seed | 1).rotate_left(23));
            }
        }
        order.into_iter().map(|n| times[n]).collect()
    })
}

/// The last frame of a group, then the middle one of each half.
fn push_pyramid(start: usize, end: usize, order: &mut Vec<usize>) {
    if start < end {
        order.push(end - 1);
        let middle = start + (end - 1 - start) / 2;
        push_pyramid(start, middle, order);
        push_pyramid(middle, end - 1, order);
    }
}

proptest! {
    #[test]
    fn decode_times_rise_to_the_end_and_none_is_late(times in segment_times(), after in -5000i64..5000) {
        let end = times.iter().max().unwrap() + after;
        let decode_times = squeeze(&times, end);
        prop_assert!(decode_times.is_sorted_by(|a, b| a < b));
        prop_assert!(*decode_times.last().unwrap() < end);
        prop_assert!(decode_times.iter().zip(&times).all(|(dts, pts)| dts <= pts));
    }

    #[test]
    fn segments_meet_at_the_first_decode_time(times in segment_times(), after in 1i64..5000) {
        let end = times.iter().max().unwrap() + after;
        let first = first_decode_time(times.iter().copied()).unwrap();
        prop_assert_eq!(squeeze(&times, end)[0], first);
        let earliest = *times.iter().min().unwrap();
        prop_assert!((earliest - times.len() as i64..=earliest).contains(&first));
        if times[0] == earliest && times.iter().skip(1).zip(1..).all(|(time, n)| time - n >= earliest) {
            prop_assert_eq!(first, earliest);
        }
    }

    #[test]
    fn a_frame_is_decoded_as_late_as_the_frames_after_it_allow(times in segment_times()) {
        // Far apart, no frame has to make room.
        let times: Vec<i64> = times.iter().map(|time| time * 100).collect();
        let end = times.iter().max().unwrap() + 100;
        let decode_times = squeeze(&times, end);
        let earliest_from = |n: usize| times[n..].iter().copied().min().unwrap();
        for (n, decode_time) in decode_times.into_iter().enumerate().skip(1) {
            let is_last_with_time = n + 1 == times.len() || earliest_from(n + 1) > earliest_from(n);
            if is_last_with_time {
                prop_assert_eq!(decode_time, earliest_from(n));
            }
        }
    }

    #[test]
    fn no_time_overflows(times in any::<Vec<i64>>(), end in any::<i64>()) {
        squeeze(&times, end);
        first_decode_time(times);
    }
}
