use super::*;

fn mime_of(mut bytes: &[u8]) -> Option<&'static str> {
    detect_format(&mut bytes).unwrap_or_else(|never| match never {}).map(FileFormat::mime)
}

fn mp4_box(kind: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [&(content.len() as u32 + 8).to_be_bytes()[..], kind, content].concat()
}

fn moov_box(handlers: &[&[u8; 4]]) -> Vec<u8> {
    let tracks: Vec<u8> = handlers
        .iter()
        .flat_map(|handler| {
            let hdlr = mp4_box(b"hdlr", &[&[0; 8][..], *handler, &[0; 13]].concat());
            let mdia = mp4_box(b"mdia", &[mp4_box(b"mdhd", &[0; 24]), hdlr].concat());
            mp4_box(b"trak", &[mp4_box(b"tkhd", &[0; 84]), mdia].concat())
        })
        .collect();
    mp4_box(b"moov", &[mp4_box(b"mvhd", &[0; 100]), tracks].concat())
}

#[test]
fn boxes_identify_brand_and_video() {
    let file = |brand: &[u8; 4], handlers: &[&[u8; 4]]| {
        let ftyp = mp4_box(b"ftyp", &[brand, &[0, 0, 2, 0][..]].concat());
        [ftyp, mp4_box(b"free", &[0; 40]), mp4_box(b"mdat", &[7; 50_000]), moov_box(handlers)].concat()
    };
    assert_eq!(mime_of(&file(b"isom", &[b"vide", b"soun"])), Some("video/mp4"));
    assert_eq!(mime_of(&file(b"isom", &[b"soun"])), Some("audio/mp4"));
    assert_eq!(mime_of(&file(b"M4B ", &[b"soun", b"vide"])), Some("audio/mp4"));
    assert_eq!(mime_of(&file(b"3gp6", &[b"vide"])), Some("video/3gpp"));
    assert_eq!(mime_of(&file(b"qt  ", &[b"vide"])), Some("video/quicktime"));
    assert_eq!(mime_of(&file(b"heic", &[])), None);
    assert_eq!(mime_of(&file(b"isom", &[])), Some("video/mp4"), "without tracks, video is assumed");
    // Old QuickTime files have no brand.
    let old = |first: Vec<u8>, second: Vec<u8>| mime_of(&[first, second, moov_box(&[b"vide"])].concat());
    assert_eq!(old(mp4_box(b"wide", &[]), mp4_box(b"mdat", &[7; 99])), Some("video/quicktime"));
    assert_eq!(old(mp4_box(b"free", &[0; 9]), mp4_box(b"skip", &[0; 9])), Some("video/quicktime"));
    assert_eq!(mime_of(&mp4_box(b"free", &[0; 99])), None);
    // A reference movie only refers to other files.
    let refers = mp4_box(b"moov", &mp4_box(b"rmra", &mp4_box(b"rmda", b"rtsp://127.0.0.1/x")));
    assert_eq!(mime_of(&[mp4_box(b"ftyp", b"qt  \0\0\0\0"), refers].concat()), None);
    assert_eq!(mime_of(b"RTSPtextRTSP://127.0.0.1:9/x\r\n"), None);
}

#[test]
fn reference_movies_are_found_anywhere_in_moov() {
    let file = |moov: &[&[u8]]| [mp4_box(b"ftyp", b"isom\0\0\0\0"), mp4_box(b"moov", &moov.concat())].concat();
    let header = mp4_box(b"mvhd", &[0; 100]);
    let track = &moov_box(&[b"vide"])[8 + header.len()..];
    let refers = mp4_box(b"rmra", &mp4_box(b"rmda", b"http://127.0.0.1/x"));
    let free = |count: usize| mp4_box(b"free", &[]).repeat(count);
    assert_eq!(mime_of(&file(&[&header, &free(300), track])), Some("video/mp4"), "many boxes alone are valid");
    assert_eq!(mime_of(&file(&[&header, track, &free(300), &refers])), None, "after 300 boxes");
    assert_eq!(mime_of(&file(&[&header, track, &free(5000), &refers])), None, "after more boxes than are read");
    assert_eq!(mime_of(&file(&[&header, &mp4_box(b"cmov", &[0; 40])])), None, "compressed, so its content is hidden");
    assert_eq!(mime_of(&file(&[track, &refers])), None);
    assert_eq!(mime_of(&file(&[track])), None, "a movie without a header is refused");
}

#[test]
fn matroska_identifies_doc_type_and_video() {
    let file = |doc: &[u8], types: &[u8]| {
        let element = |id: &[u8], content: &[u8]| {
            [id, &[0x40 | (content.len() >> 8) as u8, content.len() as u8], content].concat()
        };
        let entries: Vec<u8> = types
            .iter()
            .flat_map(|kind| element(&[0xae], &[element(&[0xd7], &[1]), element(&[0x83], &[*kind])].concat()))
            .collect();
        let header = [element(&[0x42, 0x86], &[1]), element(&[0x42, 0x82], doc)].concat();
        let segment = [element(&[0xec], &[0; 300]), element(&[0x16, 0x54, 0xae, 0x6b], &entries)].concat();
        let ebml = element(&[0x1a, 0x45, 0xdf, 0xa3], &header);
        [ebml, [&[0x18, 0x53, 0x80, 0x67, 0x01][..], &[0xff; 7], &segment].concat()].concat()
    };
    assert_eq!(mime_of(&file(b"webm", &[1, 2])), Some("video/webm"));
    assert_eq!(mime_of(&file(b"webm", &[2])), Some("audio/webm"));
    assert_eq!(mime_of(&file(b"matroska", &[2, 17, 1])), Some("video/x-matroska"));
    assert_eq!(mime_of(&file(b"matroska", &[2])), Some("audio/x-matroska"));
    assert_eq!(mime_of(&file(b"other", &[1])), None);
    assert_eq!(mime_of(&file(b"webm", &[])), Some("video/webm"));
}

#[test]
fn headerless_streams_are_recognised_by_consecutive_frames() {
    let mp3 = [&[0xff, 0xfb, 0x90, 0x00][..], &[0; 413]].concat();
    assert_eq!(mime_of(&mp3.repeat(4)), Some("audio/mpeg"));
    assert_eq!(mime_of(&[vec![0; 700], mp3.repeat(4)].concat()), Some("audio/mpeg"));
    assert_eq!(mime_of(&mp3), None, "one frame is not a stream");
    let tag = [b"ID3\x04\0\0\0\0\x02\x00", &[0; 256][..]].concat();
    assert_eq!(mime_of(&[tag.clone(), mp3.repeat(4)].concat()), Some("audio/mpeg"));
    assert_eq!(mime_of(&[tag.clone(), b"fLaC\0\0\0\x22".to_vec()].concat()), Some("audio/flac"));
    assert_eq!(mime_of(&[tag, b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n".to_vec()].concat()), None, "a tag hides nothing");
    let adts = [&[0xff, 0xf1, 0x50, 0x80, 0x03, 0x3f, 0xfc][..], &[0; 18]].concat();
    assert_eq!(mime_of(&adts.repeat(4)), Some("audio/aac"));
    let packet = |size: usize, at: usize| {
        let mut packet = vec![0xff; size];
        packet[at] = 0x47;
        packet.repeat(9)
    };
    assert_eq!(mime_of(&packet(188, 0)), Some("video/mp2t"));
    assert_eq!(mime_of(&packet(188, 0)[94..]), Some("video/mp2t"));
    assert_eq!(mime_of(&packet(192, 4)), Some("video/mp2t"));
    assert_eq!(mime_of(&packet(204, 0)), Some("video/mp2t"));
    assert_eq!(mime_of(&[0xff; 4000]), None);
}

#[test]
fn formats_that_refer_to_other_files_are_refused() {
    for text in [
        "#EXTM3U\n#EXTINF:9,\nfile:///etc/passwd\n",
        "\u{feff}#EXTM3U\n",
        "ffconcat version 1.0\nfile x\n",
        "[playlist]\nFile1=x\n",
        "<?xml version=\"1.0\"?><MPD/>",
        "  \n<MPD/>",
        "<SmoothStreamingMedia/>",
        "v=0\no=- 0 0 IN IP4 127.0.0.1\n",
        "<playlist version=\"1\"/>",
        "<svg/>",
        "<!doctype html><title>404</title>",
        "http://127.0.0.1/x.strm",
        "WEBVTT\n\n",
        "1\n00:00:01,000 --> 00:00:02,000\n",
        "",
    ] {
        assert_eq!(mime_of(text.as_bytes()), None, "{text}");
        // Also refused with a stream hidden after it.
        let mp3 = [&[0xff, 0xfb, 0x90, 0x00][..], &[0; 413]].concat().repeat(9);
        assert_eq!(mime_of(&[text.as_bytes(), &mp3].concat()).filter(|_| text.len() > 8), None, "{text} and a stream");
    }
    let utf16: Vec<u8> = "\u{feff}#EXTM3U\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(mime_of(&utf16), None);
}

#[test]
fn signatures_are_known() {
    let table: [(&[u8], &str); 14] = [
        (b"RIFF\0\0\0\0AVI LIST", "video/x-msvideo"),
        (b"RIFF\0\0\0\0WAVEfmt ", "audio/wav"),
        (b"RF64\xff\xff\xff\xffWAVEds64", "audio/wav"),
        (b"FLV\x01\x05\0\0\0\x09", "video/x-flv"),
        (b"OggS\0\x02OpusHead", "audio/ogg"),
        (b"OggS\0\x02\x80theora", "video/ogg"),
        (b"FORM\0\0\0\0AIFF", "audio/aiff"),
        (b"wvpk\0\0\0\0", "audio/x-wavpack"),
        (b"\0\0\x01\xba\x44\0", "video/mpeg"),
        (b"DTSHDHDR\0\0\0\0\0\0\0\x10", "audio/vnd.dts"),
        (b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\0\0", "audio/x-w64"),
        (b"\0\0\0\x01\x67\x64\0\x0c", "video/mpeg"),
        // Bare H.264 and H.265 with access unit delimiters.
        (b"\0\0\0\x01\x09\x10\0\0\0\x01\x67\x64\0\x0c", "video/mpeg"),
        (b"\0\0\0\x01\x46\x01\x10\0\0\0\x01\x40\x01\x0c", "video/mpeg"),
    ];
    for (bytes, mime) in table {
        assert_eq!(mime_of(bytes), Some(mime));
    }
    let others: [&[u8]; 8] = [
        b"DTSHD",
        b"\0\0\0\x01\x09\x10\0\0\0\x01\x65\x64\0\x0c",
        b"RIFF\0\0\0\0WEBPVP8 ",
        b"\x89PNG\r\n\x1a\n",
        b"\xff\xd8\xff\xe0\0\x10JFIF",
        b"GIF89a",
        b"PK\x03\x04",
        b"%PDF-1.7",
    ];
    for bytes in others {
        assert_eq!(mime_of(bytes), None);
    }
}

proptest::proptest! {
    /// No input makes it panic or read endlessly.
    #[test]
    fn any_bytes_are_sniffed_without_panic(
        start in proptest::sample::select(vec![
            &b""[..], b"ID3\x04\0\0\0\0\0\0", b"\x1a\x45\xdf\xa3", b"\0\0\0\x18ftypisom", b"\0\0\0\x08moov", b"OggS", b"\xff\xfb\x90\0",
        ]),
        rest in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..600),
    ) {
        mime_of(&[start, &rest].concat());
    }
}
