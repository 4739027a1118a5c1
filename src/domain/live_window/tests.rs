use proptest::prelude::*;

use super::*;
use crate::domain::audio_layout::AudioLayout;
use crate::domain::channel::OutputSettings;
use crate::domain::grid::Grid;
use crate::domain::mpegts::psi::TrackKind;
use crate::domain::schedule::segmentation::{Segmentation, VideoFormat, item_duration_ms};
use crate::domain::schedule::tests::{MODES, plain_request, schedule_item};
use crate::domain::schedule::{ScheduleItem, ScheduleItems, ScheduleMode, assign_ids};
use crate::domain::time::FrameRate;
use crate::domain::video_class::VideoClasses;

pub(super) const START: ChannelMs = ChannelMs(1_767_225_600_000);

/// Items with every kind of segmentation.
pub(super) fn items(count: usize, salt: u64) -> ScheduleItems {
    let item = |n: usize| {
        let length = 3.0 + (salt.wrapping_mul(n as u64 + 7) % 600) as f64 / 7.0;
        let keyframes: Vec<Ticks> = (1..240).map(|k| Ticks(k * 45_000 + k % 3 * 10_000)).collect();
        let grid = match n % 3 {
            0 => Grid::from_frame_rate(FrameRate { num: 24_000, den: 1001 }, 2.0, length),
            1 => Grid::from_keyframes(&keyframes, 2.0, length),
            _ => Grid::from_step(2.0, length),
        };
        let video_format =
            VideoFormat { height: if salt.is_multiple_of(2) { 720 } else { 360 + n as u32 }, ..VideoFormat::default() };
        ScheduleItem {
            title: n.to_string(),
            weight: 1 + n as u32 % 4,
            video_format,
            ..schedule_item(&format!("/lib/{n}.mkv"), item_duration_ms(&grid), Segmentation::from_grid(&grid))
        }
    };
    assign_ids((0..count).map(item).collect())
}

fn channel(mode: ScheduleMode, seed: u64, count: usize) -> ScheduleDefinition {
    ScheduleDefinition::new(START, plain_request(seed, mode, items(count, seed)))
}

/// A playlist of a channel with this target duration.
fn playlist(definition: &ScheduleDefinition, view: PlaylistView, target_seconds: u64, now: ChannelMs) -> LivePlaylist {
    let mut channel = crate::domain::channel::tests::channel(1);
    channel.definition = definition.clone();
    channel.output = Arc::new(OutputSettings { target_seconds, ..OutputSettings::default() });
    let segments = listed_segments(definition, None, view, target_seconds, now).into();
    LivePlaylist { channel: Arc::new(channel), view, segments, channel_now_ms: now, is_paused: false }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// At any instant the guide names what the segment shows; segments tile time and are numbered without gaps.
    #[test]
    fn the_guide_matches_the_segments(
        mode in prop::sample::select(MODES.to_vec()), seed: u64, count in 1usize..12, edit in 0i64..5_000_000,
        instants in prop::collection::vec(0i64..315_576_000_000, 20),
    ) {
        let first = channel(mode, seed, count);
        let definition = first.with_revision(START + edit.max(1), plain_request(seed, mode, items(count + 2, seed)));
        for at in instants.into_iter().chain([edit]).map(|at| START + at) {
            let guide = definition.programme_at(at).unwrap();
            let mut on = segments_from(&definition, None, at);
            let segment = on.next().unwrap();
            prop_assert!(segment.start <= at.to_ticks() && at.to_ticks() < segment.end, "{segment:?} at {at:?}");
            prop_assert_eq!(segment.programme_start_ms, guide.start_ms);
            let asset = LiveAsset::Segment(VideoClasses::default(), LiveTrack::Muxed, segment.programme_start_ms, segment.index);
            prop_assert_eq!(LiveAsset::parse(&asset.name()), Some(asset));
            let mut before = segment;
            for segment in on.take(30) {
                prop_assert_eq!((segment.start, segment.media_sequence), (before.end, before.media_sequence + 1));
                prop_assert!(segment.discontinuities - before.discontinuities <= 1);
                before = segment;
            }
        }
    }

    /// A window grows at its end, shrinks at its beginning, and describes every segment it still lists the same way.
    #[test]
    fn a_window_only_slides(mode in prop::sample::select(MODES.to_vec()), seed: u64, at in 0i64..9_000_000, steps in prop::collection::vec(1i64..9_000, 1..12)) {
        let definition = channel(mode, seed, 5);
        let mut now = START + at;
        let mut before = listed_segments(&definition, None, PlaylistView::Live, 3, now);
        for step in steps {
            now = now + step;
            let after = listed_segments(&definition, None, PlaylistView::Live, 3, now);
            for segment in &after {
                prop_assert!(segment.end <= now.to_ticks());
                if let Some(listed_before) = before.iter().find(|known| known.media_sequence == segment.media_sequence) {
                    prop_assert_eq!(listed_before, segment);
                }
            }
            let firsts = before.first().zip(after.first());
            prop_assert!(firsts.is_none_or(|(before, after)| before.media_sequence <= after.media_sequence));
            before = after;
        }
        if now - START > 60_000 {
            prop_assert!(before.len() >= MIN_LIVE_SEGMENTS);
            let length = before.last().unwrap().end - before[0].start;
            prop_assert!(length >= Ticks::from_ms(11_000));
            let text = playlist(&definition, PlaylistView::Live, 3, now).render(&LiveTrack::Muxed, SegmentAddresses::Private("?st=g"));
            let parsed = m3u8_rs::parse_media_playlist_res(text.as_bytes()).unwrap();
            prop_assert_eq!(parsed.media_sequence, before[0].media_sequence);
            prop_assert_eq!(parsed.segments.len(), before.len());
            prop_assert!(parsed.segments.iter().all(|segment| segment.program_date_time.is_some()));
            prop_assert!(parsed.segments.iter().all(|segment| segment.duration.round() as u64 <= 3), "{}", text);
            let discontinuities = parsed.segments.iter().filter(|segment| segment.discontinuity).count() as u64;
            prop_assert_eq!(discontinuities, before.last().unwrap().discontinuities - before[0].discontinuities);
        }
    }
}

#[test]
fn a_list_reads_as_players_expect_it() {
    let all = items(4, 3).iter().filter(|item| item.title == "0" || item.title == "1").cloned().collect();
    let definition = ScheduleDefinition::new(START, plain_request(1, ScheduleMode::Sequential, all));
    let text = playlist(&definition, PlaylistView::Live, 2, START + 40_000)
        .render(&LiveTrack::Muxed, SegmentAddresses::Private("?st=g"));
    insta::assert_snapshot!(text);
}

#[test]
fn all_tracks_have_the_same_segments_and_discontinuities() {
    let definition = channel(ScheduleMode::Sequential, 3, 5);
    let list = playlist(&definition, PlaylistView::From(START), 3, START + 400_000);
    let [de, en] = ["de", "en"].map(|tag| crate::domain::media::TrackLanguage::from_text(tag).unwrap());
    let tracks = [
        LiveTrack::Muxed,
        LiveTrack::Video,
        LiveTrack::Audio(LiveAudio { layout: AudioLayout::Stereo, language: de }),
        LiveTrack::Text(en),
    ];
    let texts = tracks.map(|track| (list.render(&track, SegmentAddresses::Private("?st=g")), track));
    // Without names of files, and without versions.
    let timeline = |text: &str| {
        let lines =
            text.lines().filter(|line| !line.starts_with("#EXT-X-MAP:") && !line.starts_with("#EXT-X-VERSION:"));
        lines.filter(|line| line.starts_with('#')).collect::<Vec<_>>().join("\n")
    };
    for (text, track) in &texts {
        assert_eq!(timeline(text), timeline(&texts[0].0), "{track:?}");
        let names = text.lines().filter(|line| !line.starts_with('#'));
        for (name, segment) in names.zip(list.segments.iter()) {
            let asset =
                LiveAsset::Segment(VideoClasses::default(), track.clone(), segment.programme_start_ms, segment.index);
            assert_eq!(LiveAsset::parse(name.strip_suffix("?st=g").unwrap()), Some(asset));
        }
    }
    let maps = |text: &str| text.lines().filter(|line| line.starts_with("#EXT-X-MAP:")).count();
    // Each item has another size.
    let programmes = definition.programmes_between(START, START + 400_000).count();
    let listed = list.segments.chunk_by(|one, next| one.programme_start_ms == next.programme_start_ms).count();
    assert_eq!(texts.each_ref().map(|(text, _)| maps(text)), [0, listed, 1, 0]);
    assert!(listed >= 3 && programmes - listed <= 1);
    let map = texts[1].0.lines().find(|line| line.starts_with("#EXT-X-MAP:")).unwrap();
    let name = map.strip_prefix("#EXT-X-MAP:URI=\"").unwrap().strip_suffix("?st=g\"").unwrap();
    assert!(matches!(LiveAsset::parse(name), Some(LiveAsset::Init(TrackKind::Video, _))), "{map}");
}

#[test]
fn a_lineup_in_fmp4_reads_as_players_expect_it() {
    use crate::domain::media::TrackLanguage;
    use crate::domain::schedule::ItemLanguages;
    let tags = |text: &str| text.split(' ').filter_map(TrackLanguage::from_text).collect::<Vec<_>>().into_iter();
    let with_languages = |(item, (audio, text)): (&Arc<ScheduleItem>, (&str, &str))| {
        let languages = ItemLanguages::from_tracks(tags(audio), tags(text), audio == "en").map(Box::new);
        ScheduleItem { languages, ..ScheduleItem::clone(item) }
    };
    let languages = [("en de", "de"), ("en", ""), ("", "")];
    let all = assign_ids(items(3, 2).iter().zip(languages).map(with_languages).collect());
    let mut channel = crate::domain::channel::tests::channel(1);
    channel.definition = ScheduleDefinition::new(START, plain_request(1, ScheduleMode::Sequential, all));
    insta::assert_snapshot!(render_multivariant(&channel, Some(2), "?st=g"), @r#"
    #EXTM3U
    #EXT-X-VERSION:7
    #EXT-X-INDEPENDENT-SEGMENTS
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="en",DEFAULT=YES,AUTOSELECT=YES,LANGUAGE="en",CHANNELS="2",URI="audio-en.m3u8?st=g"
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="audio",NAME="de",DEFAULT=NO,AUTOSELECT=YES,LANGUAGE="de",CHANNELS="2",URI="audio-de.m3u8?st=g"
    #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="subs",NAME="de",DEFAULT=NO,AUTOSELECT=YES,FORCED=NO,LANGUAGE="de",URI="text-de.m3u8?st=g"
    #EXT-X-STREAM-INF:BANDWIDTH=2992000,AVERAGE-BANDWIDTH=2960000,CODECS="avc3.640020,mp4a.40.2",RESOLUTION=1280x720,AUDIO="audio",SUBTITLES="subs"
    video.m3u8?st=g
    "#);
    let all = render_multivariant(&channel, None, "?st=g");
    let of_layout = |text: &str, names: &str| text.lines().filter(|line| line.contains(names)).count();
    assert_eq!([of_layout(&all, "GROUP-ID=\"audio\""), of_layout(&all, "GROUP-ID=\"surround\"")], [2, 2], "{all}");
    insta::assert_snapshot!(render_multivariant(&channel, Some(8), "?st=g"), @r#"
    #EXTM3U
    #EXT-X-VERSION:7
    #EXT-X-INDEPENDENT-SEGMENTS
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="surround",NAME="en",DEFAULT=YES,AUTOSELECT=YES,LANGUAGE="en",CHANNELS="6",URI="surround-en.m3u8?st=g"
    #EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="surround",NAME="de",DEFAULT=NO,AUTOSELECT=YES,LANGUAGE="de",CHANNELS="6",URI="surround-de.m3u8?st=g"
    #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID="subs",NAME="de",DEFAULT=NO,AUTOSELECT=YES,FORCED=NO,LANGUAGE="de",URI="text-de.m3u8?st=g"
    #EXT-X-STREAM-INF:BANDWIDTH=3260000,AVERAGE-BANDWIDTH=3184000,CODECS="avc3.640020,mp4a.40.2",RESOLUTION=1280x720,AUDIO="surround",SUBTITLES="subs"
    video.m3u8?st=g
    "#);
}

#[test]
fn past_playlists_are_vod_and_current_ones_are_events() {
    let definition = channel(ScheduleMode::Shuffle, 4, 3);
    let now = START + 600_000;
    let list = |view| playlist(&definition, view, 3, now).render(&LiveTrack::Muxed, SegmentAddresses::Private(""));
    let past = list(PlaylistView::Between(now - 120_000, now - 60_000));
    assert!(past.contains("PLAYLIST-TYPE:VOD") && past.ends_with("#EXT-X-ENDLIST\n"), "{past}");
    let going = list(PlaylistView::From(now - 120_000));
    assert!(going.contains("PLAYLIST-TYPE:EVENT") && going.contains("EXT-X-START:") && !going.contains("ENDLIST"));
    let to_come = list(PlaylistView::Between(now - 60_000, now + 60_000));
    assert!(to_come.contains("PLAYLIST-TYPE:EVENT") && !to_come.contains("ENDLIST"));
    assert_eq!(listed_segments(&definition, None, PlaylistView::Live, 3, START - 1), []);
}
