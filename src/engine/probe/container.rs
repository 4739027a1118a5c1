//! The container of a file, and the `Content-Type` it is served with.

use super::ffprobe::ReportedStream as Raw;
use crate::domain::media::{Container, Stream};

/// The container, by ffmpeg's format name.
pub(super) fn from_format_name(format: &str, head: &[u8], streams: &[Raw]) -> Container {
    match format {
        "matroska,webm" if doc_type(head) == Some(b"webm") => Container::Webm,
        "matroska,webm" => Container::Matroska,
        "mpegts" => Container::MpegTs,
        "mpeg" => Container::MpegPs,
        "avi" => Container::Avi,
        "flv" => Container::Flv,
        "asf" => Container::Asf,
        "ogg" => Container::Ogg,
        "wav" => Container::Wav,
        "flac" => Container::Flac,
        "mp3" => Container::Mp3,
        "aac" => Container::Adts,
        "ac3" | "eac3" => Container::Ac3,
        "aiff" => Container::Aiff,
        "wv" => Container::WavPack,
        _ if format.starts_with("mov,") && !streams.is_empty() => Container::Mp4,
        _ => Container::Other,
    }
}

/// The EBML DocType (RFC 8794 section 11.2.4), searched in the header only.
pub(super) fn doc_type(head: &[u8]) -> Option<&[u8]> {
    let position = head.get(..256.min(head.len()))?.windows(2).position(|id| id == [0x42, 0x82])?;
    let size = usize::from(*head.get(position + 2)? & 0x7f);
    head.get(position + 3..position + 3 + size)
}

/// The `Content-Type`, by the file's first bytes and its streams.
pub(super) fn mime_type(container: Container, head: &[u8], has_video: bool, streams: &[Stream]) -> &'static str {
    let pick = |video, audio| if has_video { video } else { audio };
    match container {
        Container::Mp4 => match head.get(8..11) {
            Some(b"qt ") => pick("video/quicktime", "audio/mp4"),
            Some(b"3gp" | b"3g2") => pick("video/3gpp", "audio/3gpp"),
            _ => pick("video/mp4", "audio/mp4"),
        },
        Container::Matroska => pick("video/x-matroska", "audio/x-matroska"),
        Container::Webm => pick("video/webm", "audio/webm"),
        Container::MpegTs => "video/mp2t",
        Container::MpegPs => "video/mpeg",
        Container::Avi => "video/x-msvideo",
        Container::Flv => "video/x-flv",
        Container::Asf => pick("video/x-ms-wmv", "audio/x-ms-wma"),
        Container::Ogg => pick("video/ogg", "audio/ogg"),
        Container::Wav => "audio/wav",
        Container::Flac => "audio/flac",
        Container::Mp3 => "audio/mpeg",
        Container::Adts => "audio/aac",
        Container::Ac3 if streams.iter().any(|stream| stream.codec == "eac3") => "audio/eac3",
        Container::Ac3 => "audio/ac3",
        Container::Aiff => "audio/aiff",
        Container::WavPack => "audio/x-wavpack",
        Container::Other => "application/octet-stream",
    }
}
