//! Multivariant playlists of whole items, and the rules that a parser does not check.

use super::*;
use m3u8_rs::{AlternativeMediaType, ClosedCaptionGroupId};

/// Checks a multivariant playlist against draft-pantos-hls-rfc8216bis section 4.4.6.
fn check_rules(text: &str) {
    let parsed = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
    let is_ours = |uri: &str| parse_asset(uri.strip_suffix("?st=g").unwrap()).is_some();
    let group = |kind: AlternativeMediaType, id: &str| {
        let members = parsed.alternatives.iter().filter(move |it| it.media_type == kind && it.group_id == id);
        members.collect::<Vec<_>>()
    };
    for member in &parsed.alternatives {
        let members = group(member.media_type.clone(), &member.group_id);
        assert_eq!(members.iter().filter(|other| other.name == member.name).count(), 1, "{}", member.name);
        assert!(members.iter().filter(|other| other.default).count() <= 1);
        assert!(member.autoselect || !member.default);
        let select = |it: &m3u8_rs::AlternativeMedia| (it.language.clone(), it.forced, it.characteristics.clone());
        let is_equal = |other: &&&m3u8_rs::AlternativeMedia| other.autoselect && select(other) == select(member);
        assert!(!member.autoselect || members.iter().filter(is_equal).count() == 1, "{}", member.name);
        assert!(member.uri.as_deref().is_none_or(is_ours));
        let is_captions = member.media_type == AlternativeMediaType::ClosedCaptions;
        assert_eq!((member.instream_id.is_some(), is_captions && member.uri.is_some()), (is_captions, false));
        assert_eq!(member.channels.is_some(), member.media_type == AlternativeMediaType::Audio);
        // Groups of a type have the same members.
        let others = parsed.alternatives.iter().filter(|other| other.media_type == member.media_type);
        let names = |id: &str| -> Vec<String> {
            group(member.media_type.clone(), id).iter().map(|it| it.name.clone()).collect()
        };
        others.for_each(|other| assert_eq!(names(&other.group_id), names(&member.group_id)));
    }
    for variant in parsed.variants.iter().filter(|variant| !variant.is_i_frame) {
        assert!(is_ours(&variant.uri));
        let exists = |kind, id: &Option<String>| id.as_deref().is_none_or(|id| !group(kind, id).is_empty());
        assert!(exists(AlternativeMediaType::Audio, &variant.audio));
        assert!(exists(AlternativeMediaType::Subtitles, &variant.subtitles));
        if let Some(ClosedCaptionGroupId::GroupId(id)) = &variant.closed_captions {
            assert!(!group(AlternativeMediaType::ClosedCaptions, id).is_empty());
        }
        let codecs: Vec<&str> = variant.codecs.as_deref().unwrap_or_default().split(',').collect();
        assert!(codecs.iter().all(|codec| codecs.iter().filter(|other| *other == codec).count() == 1), "{codecs:?}");
    }
}

fn rendered(playlist: &MultivariantPlaylist) -> String {
    let text = playlist.render("g");
    check_rules(&text);
    text
}

fn fmp4<'a>(
    variants: &'a [Variant],
    audio: &'a [AudioRendition],
    groups: &'a [AudioGroup],
) -> MultivariantPlaylist<'a> {
    MultivariantPlaylist {
        format: SegmentFormat::Fmp4,
        audio,
        audio_groups: groups,
        captions: Some(&[]),
        ..MultivariantPlaylist::of_mpegts(variants, &[], 0.0)
    }
}

fn audio(name: &str, language: &str) -> AudioRendition {
    AudioRendition { name: name.into(), language: Some(language.into()), ..AudioRendition::default() }
}

/// Tracks from number `first`, each with its number of channels and its rate.
fn group(id: &str, codecs: &str, first: usize, tracks: &[(&str, u64)]) -> AudioGroup {
    let encoding = |(n, (channels, rate)): (usize, &(&str, u64))| AudioEncoding {
        track: PlaylistTrack::Audio(first + n),
        codecs: codecs.into(),
        channels: (*channels).into(),
        bandwidth: *rate,
        average_bandwidth: rate / 10 * 9,
    };
    AudioGroup { id: id.into(), encodings: tracks.iter().enumerate().map(encoding).collect() }
}

/// HEVC with the rates of a film from a disc.
fn hdr10() -> Variant {
    Variant {
        codecs: Some("hvc1.2.4.L153.B0".into()),
        size: Some((3840, 1600)),
        video_range: Some("PQ"),
        bandwidth: 31_000_000,
        average_bandwidth: 18_000_000,
        iframe_bandwidth: Some(4_500_000),
        ..variant()
    }
}

#[test]
fn h264_and_aac_in_two_rungs() {
    let best = Variant { codecs: Some("avc1.640028".into()), iframe_bandwidth: Some(900_000), ..variant() };
    let lower = Variant {
        track: PlaylistTrack::Video(1),
        codecs: Some("avc1.64001E".into()),
        size: Some((854, 480)),
        bandwidth: 1_400_000,
        average_bandwidth: 1_100_000,
        iframe_bandwidth: None,
        ..variant()
    };
    let (variants, tracks) = ([best, lower], [audio("Deutsch", "de")]);
    let groups = [group("aac", "mp4a.40.2", 0, &[("2", 160_000)])];
    insta::assert_snapshot!(rendered(&fmp4(&variants, &tracks, &groups)));
}

#[test]
fn each_rung_is_listed_once_for_each_group() {
    let best = Variant { codecs: Some("avc1.640028".into()), ..variant() };
    let lower = Variant {
        track: PlaylistTrack::Video(1),
        codecs: Some("avc1.64001e".into()),
        bandwidth: 1_000_000,
        average_bandwidth: 800_000,
        ..variant()
    };
    let (variants, tracks) = ([best, lower], [audio("English", "en"), audio("Deutsch", "de")]);
    // The second track is AAC in the file, and the same in both groups.
    let mut own = group("audio", "ac-3", 0, &[("6", 448_000), ("2", 128_000)]);
    own.encodings[1].codecs = "mp4a.40.2".into();
    let mut aac = group("aac", "mp4a.40.2", 2, &[("2", 240_000)]);
    aac.encodings.push(own.encodings[1].clone());
    let text = rendered(&fmp4(&variants, &tracks, &[aac, own]));
    let parsed = m3u8_rs::parse_master_playlist_res(text.as_bytes()).unwrap();
    let listed = parsed.variants.iter().map(|variant| {
        let (codecs, audio) = (variant.codecs.as_deref().unwrap(), variant.audio.as_deref().unwrap());
        (variant.uri.as_str(), audio, codecs, variant.bandwidth, variant.average_bandwidth.unwrap())
    });
    let expected = [
        ("v0.m3u8?st=g", "aac", "avc1.640028,mp4a.40.2", 3_540_000, 2_616_000),
        ("v1.m3u8?st=g", "aac", "avc1.64001e,mp4a.40.2", 1_240_000, 1_016_000),
        ("v0.m3u8?st=g", "audio", "avc1.640028,ac-3,mp4a.40.2", 3_748_000, 2_803_200),
        ("v1.m3u8?st=g", "audio", "avc1.64001e,ac-3,mp4a.40.2", 1_448_000, 1_203_200),
    ];
    assert_eq!(listed.collect::<Vec<_>>(), expected);
    let members = parsed.alternatives.iter().map(|it| {
        let (language, channels) = (it.language.as_deref().unwrap(), it.channels.as_ref().unwrap().as_str());
        (it.group_id.as_str(), it.name.as_str(), language, it.default, channels, it.uri.as_deref().unwrap())
    });
    let expected = [
        ("aac", "English", "en", true, "2", "a2.m3u8?st=g"),
        ("aac", "Deutsch", "de", false, "2", "a1.m3u8?st=g"),
        ("audio", "English", "en", true, "6", "a0.m3u8?st=g"),
        ("audio", "Deutsch", "de", false, "2", "a1.m3u8?st=g"),
    ];
    assert_eq!(members.collect::<Vec<_>>(), expected);
}

#[test]
fn hdr10_with_eac3_and_aac_in_three_languages() {
    let commentary = audio("Commentary \"Director's cut\"", "en");
    let described = AudioRendition { describes_video: true, ..audio("Audio description", "en") };
    let french = AudioRendition { is_default: true, ..audio("Français", "fr") };
    let tracks = [audio("English", "en"), french, audio("Deutsch", "de"), commentary, described];
    let groups = [
        group(
            "eac3",
            "ec-3",
            0,
            &[("16/JOC", 768_000), ("6", 640_000), ("6", 640_000), ("2", 192_000), ("2", 192_000)],
        ),
        group("aac", "mp4a.40.2", 5, &[("2", 160_000); 5]),
    ];
    let subtitle = |name: &str, language: &str| SubtitleRendition {
        name: name.into(),
        language: Some(language.into()),
        ..SubtitleRendition::default()
    };
    let subtitles = [
        SubtitleRendition { is_default: true, is_forced: true, ..subtitle("Français", "fr") },
        subtitle("Français", "fr"),
        SubtitleRendition { is_hearing_impaired: true, ..subtitle("English (SDH)", "en") },
        subtitle("", "de"),
    ];
    let variants = [hdr10()];
    // Copied video with open GOPs.
    let playlist = MultivariantPlaylist {
        is_independent: false,
        start_seconds: 61.5,
        subtitles: &subtitles,
        ..fmp4(&variants, &tracks, &groups)
    };
    insta::assert_snapshot!(rendered(&playlist));
}

#[test]
fn dolby_vision_over_a_base_layer() {
    let variants = [Variant { supplemental_codecs: Some("dvh1.08.06/db1p".into()), ..hdr10() }];
    let tracks = [audio("English", "en")];
    let groups = [group("eac3", "ec-3", 0, &[("6", 640_000)])];
    insta::assert_snapshot!(rendered(&fmp4(&variants, &tracks, &groups)));
}

#[test]
fn audio_only_in_two_languages() {
    let tracks = [audio("Deutsch", "de"), audio("English", "en")];
    let groups = [
        group("flac", "fLaC", 0, &[("2", 1_100_000), ("2", 980_000)]),
        group("aac", "mp4a.40.2", 2, &[("2", 160_000); 2]),
    ];
    insta::assert_snapshot!(rendered(&fmp4(&[], &tracks, &groups)));
}

#[test]
fn closed_captions_in_a_recording() {
    let service = |channel, name: &str, language: Option<&str>| CaptionService {
        channel,
        name: name.into(),
        language: language.map(str::to_owned),
    };
    let captions = [
        service(CaptionChannel::Cea608(1), "English", Some("en")),
        service(CaptionChannel::Cea708(2), "Español", Some("es")),
        service(CaptionChannel::Cea708(0), "damaged", None),
        service(CaptionChannel::Cea608(5), "damaged", None),
    ];
    let variants = [variant()];
    let playlist =
        MultivariantPlaylist { captions: Some(&captions), ..MultivariantPlaylist::of_mpegts(&variants, &[], 0.0) };
    insta::assert_snapshot!(rendered(&playlist));
    let of_cea_608 = MultivariantPlaylist { captions: Some(&captions[..1]), ..playlist };
    assert!(rendered(&of_cea_608).starts_with("#EXTM3U\n#EXT-X-VERSION:6\n"));
}

proptest! {
    #[test]
    fn any_renditions_follow_the_rules(
        names in proptest::collection::vec(("\\PC{0,9}", "[a-z\"-]{0,4}", any::<bool>(), any::<bool>()), 0..5),
        group_count in 0usize..3,
        has_video in any::<bool>(),
    ) {
        let tracks: Vec<AudioRendition> = names.iter().map(|(name, language, is_default, describes_video)| {
            AudioRendition { is_default: *is_default, describes_video: *describes_video, ..audio(name, language) }
        }).collect();
        let subtitles: Vec<SubtitleRendition> = tracks.iter().map(|track| SubtitleRendition {
            name: track.name.clone(),
            language: track.language.clone(),
            is_default: track.is_default,
            is_forced: track.describes_video,
            is_hearing_impaired: track.is_default,
        }).collect();
        let count = if tracks.is_empty() { 0 } else { group_count };
        let groups: Vec<AudioGroup> = (0..count)
            .map(|n| group(&format!("group{n}"), ["ec-3", "mp4a.40.2"][n], n * 9, &vec![("2", u64::MAX); tracks.len()]))
            .collect();
        let variants = if has_video || groups.is_empty() { vec![hdr10()] } else { Vec::new() };
        rendered(&MultivariantPlaylist { subtitles: &subtitles, ..fmp4(&variants, &tracks, &groups) });
    }
}
