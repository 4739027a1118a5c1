//! The demuxers of ffmpeg that child processes may use: those of the formats that `domain::sniff` accepts. Each reads one file
//! and opens no other; playlists, scripts, devices and image patterns are not among them.

use std::sync::LazyLock;

use crate::domain::media;
use crate::domain::sniff::Container;

/// The demuxers of a format, by their names in ffmpeg 5.1 and later.
fn demuxers_of(container: Container) -> &'static [&'static str] {
    match container {
        Container::Mp4 | Container::QuickTime | Container::ThreeGp => &["mov"],
        Container::Matroska | Container::WebM => &["matroska"],
        Container::MpegTs => &["mpegts"],
        Container::MpegPs => &["mpeg"],
        Container::VideoStream => &["mpegvideo", "h264", "hevc"],
        Container::Avi => &["avi"],
        Container::Flv => &["flv"],
        Container::Asf => &["asf"],
        Container::Ogg => &["ogg"],
        Container::Mxf => &["mxf"],
        Container::Ivf => &["ivf"],
        Container::Y4m => &["yuv4mpegpipe"],
        Container::RealMedia => &["rm"],
        Container::Wtv => &["wtv"],
        Container::Wav => &["wav"],
        Container::W64 => &["w64"],
        Container::Aiff => &["aiff"],
        Container::Au => &["au"],
        Container::Caf => &["caf"],
        Container::Flac => &["flac"],
        Container::Mp3 => &["mp3"],
        Container::Aac => &["aac"],
        Container::Ac3 => &["ac3"],
        Container::Eac3 => &["eac3"],
        Container::Dts => &["dts", "dtshd"],
        Container::TrueHd => &["truehd", "mlp"],
        Container::WavPack => &["wv"],
        Container::Ape => &["ape"],
        Container::Tta => &["tta"],
        Container::Musepack => &["mpc", "mpc8"],
        Container::Dsd => &["dsf", "iff"],
        Container::Amr => &["amr"],
    }
}

/// All demuxers that a child process may use: the value of its `-format_whitelist`.
pub fn format_whitelist() -> &'static str {
    static NAMES: LazyLock<String> = LazyLock::new(|| {
        let mut names: Vec<&str> = Container::ALL.iter().flat_map(|one| demuxers_of(*one)).copied().collect();
        names.dedup();
        names.join(",")
    });
    &NAMES
}

/// The demuxer of a probed container; None if there are several.
pub fn demuxer_name(container: media::Container) -> Option<&'static str> {
    use media::Container::*;
    Some(match container {
        Mp4 => "mov",
        Matroska | Webm => "matroska",
        MpegTs => "mpegts",
        MpegPs => "mpeg",
        Avi => "avi",
        Flv => "flv",
        Asf => "asf",
        Ogg => "ogg",
        Wav => "wav",
        Flac => "flac",
        Mp3 => "mp3",
        Adts => "aac",
        Aiff => "aiff",
        WavPack => "wv",
        // One signature, two demuxers (AC-3, E-AC-3).
        Ac3 | Other => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recognised_format_has_an_allowed_demuxer() {
        let allowed: Vec<&str> = format_whitelist().split(',').collect();
        for container in Container::ALL {
            let demuxers = demuxers_of(*container);
            assert!(!demuxers.is_empty(), "{container:?}");
            assert!(demuxers.iter().all(|name| allowed.contains(name)), "{container:?}: {demuxers:?}");
        }
        for name in ["wtv", "yuv4mpegpipe", "mlp", "truehd", "iff", "dsf", "dtshd", "w64"] {
            assert!(allowed.contains(&name), "{name}");
        }
        let mut distinct = allowed.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), allowed.len(), "{allowed:?}");
    }

    #[test]
    fn demuxers_that_open_other_files_are_not_allowed() {
        for name in ["concat", "hls", "dash", "image2", "sdp", "rtsp", "imf", "lavfi", "vobsub", "ffmetadata", "webvtt"]
        {
            assert!(!format_whitelist().split(',').any(|allowed| allowed == name), "{name}");
        }
    }

    #[test]
    fn installed_ffmpeg_has_every_allowed_demuxer() {
        let listing = std::process::Command::new("ffmpeg").args(["-v", "quiet", "-demuxers"]).output().unwrap();
        let listing = String::from_utf8(listing.stdout).unwrap();
        let installed: Vec<&str> = listing
            .lines()
            .filter_map(|line| line.split_whitespace().nth(1))
            .flat_map(|names| names.split(','))
            .collect();
        for name in format_whitelist().split(',') {
            assert!(installed.contains(&name), "{name}");
        }
    }
}
