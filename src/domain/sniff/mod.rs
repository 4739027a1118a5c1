//! Detects the format of a file from its bytes alone (magic numbers).
//!
//! No demuxer sees a file before this does: playlists and manifests with the name of a media file make demuxers open the
//! files and addresses written inside them, so everything that is not a known container is refused. Names are never looked
//! at.

use std::borrow::Cow;

mod boxes;
mod ebml;
mod frames;

pub use frames::{AudioFrame, parse_audio_frame};

/// Bytes read from the start of a file. Further pieces of this size are read where a container refers to them.
const HEAD_BYTES: usize = 32 * 1024;

/// Every container with the MIME type it is served with, and with that of audio alone where it is another.
macro_rules! containers {
    ($($(#[$doc:meta])? $name:ident = $mime:literal $(, audio $audio_mime:literal)?;)+) => {
        /// Container format, as identified by the first bytes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Container { $($(#[$doc])? $name),+ }

        impl Container {
            /// All containers.
            pub const ALL: &[Self] = &[$(Self::$name),+];
        }

        impl FileFormat {
            /// The MIME type to serve it with.
            pub fn mime(self) -> &'static str {
                match (self.container, self.kind) {
                    $($((Container::$name, MediaKind::Audio) => $audio_mime,)?
                    (Container::$name, _) => $mime,)+
                }
            }
        }
    };
}

containers! {
    Mp4 = "video/mp4", audio "audio/mp4";
    QuickTime = "video/quicktime";
    ThreeGp = "video/3gpp", audio "audio/3gpp";
    Matroska = "video/x-matroska", audio "audio/x-matroska";
    WebM = "video/webm", audio "audio/webm";
    MpegTs = "video/mp2t";
    MpegPs = "video/mpeg";
    /// A bare MPEG-1/2, H.264 or H.265 video stream.
    VideoStream = "video/mpeg";
    Avi = "video/x-msvideo";
    Flv = "video/x-flv";
    Asf = "video/x-ms-wmv", audio "audio/x-ms-wma";
    Ogg = "video/ogg", audio "audio/ogg";
    Mxf = "application/mxf";
    Ivf = "video/x-ivf";
    Y4m = "video/x-yuv4mpeg";
    RealMedia = "application/vnd.rn-realmedia";
    Wtv = "video/x-ms-wtv";
    Wav = "audio/wav";
    W64 = "audio/x-w64";
    Aiff = "audio/aiff";
    Au = "audio/basic";
    Caf = "audio/x-caf";
    Flac = "audio/flac";
    Mp3 = "audio/mpeg";
    Aac = "audio/aac";
    Ac3 = "audio/ac3";
    Eac3 = "audio/eac3";
    Dts = "audio/vnd.dts";
    TrueHd = "audio/vnd.dolby.mlp";
    WavPack = "audio/x-wavpack";
    Ape = "audio/x-ape";
    Tta = "audio/x-tta";
    Musepack = "audio/x-musepack";
    Dsd = "audio/x-dsd";
    Amr = "audio/amr";
}

/// Whether a file has video or is audio-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaKind {
    Video,
    Audio,
}

/// Format of a recognised file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileFormat {
    pub container: Container,
    pub kind: MediaKind,
}

/// Random access to a file. Returns at most `max_bytes` bytes at `offset`, fewer past the end.
pub trait ByteSource {
    type Error;
    fn read_at(&mut self, offset: u64, max_bytes: usize) -> Result<Cow<'_, [u8]>, Self::Error>;
}

impl ByteSource for &[u8] {
    type Error = std::convert::Infallible;

    fn read_at(&mut self, offset: u64, max_bytes: usize) -> Result<Cow<'_, [u8]>, Self::Error> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        Ok(Cow::Borrowed(&self[start..self.len().min(start + max_bytes)]))
    }
}

/// Recognises a file; None for everything that is not media.
pub fn detect_format<B: ByteSource>(bytes: &mut B) -> Result<Option<FileFormat>, B::Error> {
    let head = bytes.read_at(0, HEAD_BYTES)?.into_owned();
    if let Some(tag) = frames::tag_len(&head) {
        // A tag can hide anything. Bare audio must follow it, because demuxers would detect the format again after the
        // tag.
        let mut offset = tag;
        let mut rest = bytes.read_at(offset, HEAD_BYTES)?.into_owned();
        for _ in 0..4 {
            let Some(tag) = frames::tag_len(&rest) else { break };
            offset += tag;
            rest = bytes.read_at(offset, HEAD_BYTES)?.into_owned();
        }
        let container = frames::detect_audio(&rest).or_else(|| tagged_lossless_container(&rest));
        return Ok(container.map(audio_format));
    }
    if let Some(format) = by_signature(&head) {
        return Ok(Some(format));
    }
    if head.starts_with(&[0x1a, 0x45, 0xdf, 0xa3]) {
        return ebml::detect_format(bytes, &head);
    }
    if let Some(format) = boxes::detect_format(bytes, &head)? {
        return Ok(Some(format));
    }
    if is_text(&head) {
        return Ok(None);
    }
    if frames::is_transport_stream(&head) {
        return Ok(Some(video_format(Container::MpegTs)));
    }
    Ok(frames::detect_audio(&head).map(audio_format))
}

const fn audio_format(container: Container) -> FileFormat {
    FileFormat { container, kind: MediaKind::Audio }
}

const fn video_format(container: Container) -> FileFormat {
    FileFormat { container, kind: MediaKind::Video }
}

fn tagged_lossless_container(piece: &[u8]) -> Option<Container> {
    match piece.get(..4)? {
        b"fLaC" => Some(Container::Flac),
        b"TTA1" | b"TTA2" => Some(Container::Tta),
        b"MPCK" => Some(Container::Musepack),
        _ => None,
    }
}

/// Recognises signatures at fixed offsets.
fn by_signature(head: &[u8]) -> Option<FileFormat> {
    use Container::*;
    let has_at = |offset: usize, signature: &[u8]| head.get(offset..offset + signature.len()) == Some(signature);
    if has_at(0, b"RIFF") || has_at(0, b"RF64") || has_at(0, b"BW64") {
        return match head.get(8..12)? {
            b"AVI " | b"AVIX" => Some(video_format(Avi)),
            b"WAVE" => Some(audio_format(Wav)),
            b"CDXA" => Some(video_format(MpegPs)),
            _ => None,
        };
    }
    const W64_RIFF: &[u8] = b"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00";
    const ASF: &[u8] = b"\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\x00\xaa\x00\x62\xce\x6c";
    const ASF_VIDEO: &[u8] = b"\xc0\xef\x19\xbc\x4d\x5b\xcf\x11\xa8\xfd\x00\x80\x5f\x5c\x44\x2b";
    const WTV: &[u8] = b"\xb7\xd8\x00\x20\x37\x49\xda\x11\xa6\x4e\x00\x07\xe9\x5e\xad\x8d";
    const MXF: &[u8] = b"\x06\x0e\x2b\x34\x02\x05\x01\x01\x0d\x01\x02\x01\x01";
    let contains = |needle: &[u8]| head.windows(needle.len()).any(|window| window == needle);
    if has_at(0, ASF) {
        return Some(if contains(ASF_VIDEO) { video_format(Asf) } else { audio_format(Asf) });
    }
    if has_at(0, b"OggS") {
        // The first page of every stream is at the start (RFC 3533 section 4).
        let has_video = [&b"\x80theora"[..], b"BBCD\0", b"OVP80", b"\x01video\0\0\0"].into_iter().any(contains);
        return Some(if has_video { video_format(Ogg) } else { audio_format(Ogg) });
    }
    if has_at(0, b"FORM") {
        return matches!(head.get(8..12)?, b"AIFF" | b"AIFC").then_some(audio_format(Aiff));
    }
    if has_at(0, b"FRM8") {
        return has_at(12, b"DSD ").then_some(audio_format(Dsd));
    }
    let table: [(&[u8], FileFormat); 21] = [
        (b"FLV\x01", video_format(Flv)),
        (W64_RIFF, audio_format(W64)),
        (b"fLaC", audio_format(Flac)),
        (b"wvpk", audio_format(WavPack)),
        (b"DTSHDHDR", audio_format(Dts)),
        (b"MAC ", audio_format(Ape)),
        (b"TTA1", audio_format(Tta)),
        (b"MPCK", audio_format(Musepack)),
        (b"MP+", audio_format(Musepack)),
        (b"DSD ", audio_format(Dsd)),
        (b"caff", audio_format(Caf)),
        (b".snd\0", audio_format(Au)),
        (b"#!AMR\n", audio_format(Amr)),
        (b"#!AMR-WB\n", audio_format(Amr)),
        (b"DKIF\0\0", video_format(Ivf)),
        (b"YUV4MPEG2 ", video_format(Y4m)),
        (b".RMF\0\0", video_format(RealMedia)),
        (WTV, video_format(Wtv)),
        (MXF, video_format(Mxf)),
        (b"\x00\x00\x01\xba", video_format(MpegPs)),
        (b"\x00\x00\x01\xb3", video_format(VideoStream)),
    ];
    if let Some((_, format)) = table.iter().find(|(signature, _)| has_at(0, signature)) {
        return Some(*format);
    }
    // TrueHD and MLP: the sync word follows a 4-byte unit header.
    if has_at(4, b"\xf8\x72\x6f\xba") || has_at(4, b"\xf8\x72\x6f\xbb") {
        return Some(audio_format(TrueHd));
    }
    frames::is_video_stream(head).then_some(video_format(VideoStream))
}

/// True if the file starts like text. Text is never media, whatever follows it.
fn is_text(head: &[u8]) -> bool {
    let start = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    if start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff") {
        // UTF-16 with a byte order mark, unless it is an audio sync word with the same bytes.
        return start.get(2..10).is_some_and(|units| {
            units.chunks_exact(2).all(|unit| unit[0] == 0 || unit[1] == 0) && units.iter().any(|byte| *byte != 0)
        });
    }
    let printable = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e);
    !start.is_empty() && start.iter().take(8).all(printable)
}

#[cfg(test)]
mod tests;
