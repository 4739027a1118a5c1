use super::super::boxes::tests::{dump, find};
use super::*;

fn entry(supplemental_codecs: Option<&str>) -> SampleEntry {
    SampleEntry {
        bytes: b"\0\0\0\x0ctestABCD".to_vec(),
        codecs: String::new(),
        supplemental_codecs: supplemental_codecs.map(str::to_owned),
        channels: None,
    }
}

fn audio(language: Option<&str>) -> Vec<u8> {
    write_init(&InitTrack { header: TrackHeader::Audio, timescale: 48_000, language, entry: &entry(None) })
}

#[test]
fn video_has_its_size_and_rotation() {
    let format = VideoFormat { width: 720, height: 576, pixel_aspect: Some((16, 11)), ..VideoFormat::default() };
    let matrix = [0, 0x1_0000, 0, -0x1_0000, 0, 0, 0x240_0000, 0, 0x4000_0000];
    let header = TrackHeader::Video { format: &format, matrix };
    let entry = entry(Some("dvh1.08.07/db1p"));
    let init = write_init(&InitTrack { header, timescale: 24_000, language: None, entry: &entry });
    insta::assert_snapshot!(dump(&init, 0), @"
    ftyp 36 69736f36 00000000 69736f36 636d6663 636d6632 6d703431 64623170
    moov 502
      mvhd 108 00000000 00000000 00000000 00005dc0 00000000 00010000 01000000 00000000
           00000000 00010000 00000000 00000000 00000000 00010000 00000000 00000000
           00000000 40000000 00000000 00000000 00000000 00000000 00000000 00000000
           00000002
      trak 346
        tkhd 92 00000007 00000000 00000000 00000001 00000000 00000000 00000000 00000000
             00000000 00000000 00000000 00010000 00000000 ffff0000 00000000 00000000
             02400000 00000000 40000000 041745d1 02400000
        mdia 246
          mdhd 32 00000000 00000000 00000000 00005dc0 00000000 55c40000
          hdlr 38 00000000 00000000 76696465 00000000 00000000 00000000 76696465 6f00
          minf 168
            vmhd 20 00000001 00000000 00000000
            dinf 36
              dref 28 00000000 00000001 0000000c 75726c20 00000001
            stbl 104
              stsd 28 00000000 00000001 0000000c 74657374 41424344
              stts 16 00000000 00000000
              stsc 16 00000000 00000000
              stsz 20 00000000 00000000 00000000
              stco 16 00000000 00000000
      mvex 40
        trex 32 00000000 00000001 00000001 00000000 00000000 00000000
    ");
    let odd = VideoFormat { pixel_aspect: Some((1, 0)), ..format.clone() };
    assert_eq!(display_size(&odd), [720 << 16, 576 << 16]);
    let wide = VideoFormat { width: u16::MAX, pixel_aspect: Some((u32::MAX, 1)), ..format };
    assert_eq!(display_size(&wide), [u32::MAX, 576 << 16]);
}

#[test]
fn audio_has_a_language() {
    insta::assert_snapshot!(dump(&audio(Some("pt-BR")), 0), @"
    ftyp 32 69736f36 00000000 69736f36 636d6663 636d6632 6d703431
    moov 516
      mvhd 108 00000000 00000000 00000000 0000bb80 00000000 00010000 01000000 00000000
           00000000 00010000 00000000 00000000 00000000 00010000 00000000 00000000
           00000000 40000000 00000000 00000000 00000000 00000000 00000000 00000000
           00000002
      trak 360
        tkhd 92 00000007 00000000 00000000 00000001 00000000 00000000 00000000 00000000
             00000000 01000000 00010000 00000000 00000000 00000000 00010000 00000000
             00000000 00000000 40000000 00000000 00000000
        mdia 260
          mdhd 32 00000000 00000000 00000000 0000bb80 00000000 41f20000
          elng 18 00000000 70742d42 5200
          hdlr 38 00000000 00000000 736f756e 00000000 00000000 00000000 61756469 6f00
          minf 164
            smhd 16 00000000 00000000
            dinf 36
              dref 28 00000000 00000001 0000000c 75726c20 00000001
            stbl 104
              stsd 28 00000000 00000001 0000000c 74657374 41424344
              stts 16 00000000 00000000
              stsc 16 00000000 00000000
              stsz 20 00000000 00000000 00000000
              stco 16 00000000 00000000
      mvex 40
        trex 32 00000000 00000001 00000001 00000000 00000000 00000000
    ");
}

#[test]
fn languages_are_packed_and_extended_only_where_that_says_more() {
    let of = |text| {
        let init = audio(text);
        let mdhd = find(&init, &[b"moov", b"trak", b"mdia", b"mdhd"]);
        let packed = u16::from_be_bytes([mdhd[20], mdhd[21]]);
        let code: String = [10, 5, 0].iter().map(|shift| char::from((packed >> shift & 0x1f) as u8 + 0x60)).collect();
        (code, TrackLanguage::parse(text).extended_tag)
    };
    let expected = |code: &str, tag: Option<&str>| (code.to_owned(), tag.map(str::to_owned));
    assert_eq!(of(Some("ger")), expected("deu", None));
    assert_eq!(of(Some("en")), expected("eng", None));
    assert_eq!(of(Some("gsw")), expected("gsw", None));
    assert_eq!(of(Some("zh-Hant")), expected("zho", Some("zh-Hant")));
    assert_eq!(of(Some("io")), expected("und", Some("io")));
    assert_eq!(of(Some("German")), expected("und", None));
    assert_eq!(of(Some("en-\0x")), expected("und", None));
    assert_eq!(of(None), expected("und", None));
}

#[test]
fn an_init_segment_is_small() {
    assert!((500..560).contains(&audio(None).len()), "{}", audio(None).len());
}
