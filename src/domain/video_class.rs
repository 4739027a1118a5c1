//! Classes of video that a client decodes or does not. A channel in fMP4 copies the items of those classes that its viewer
//! decodes, so the set of them identifies a variety of its playlists.

use serde::{Deserialize, Serialize};

use super::media::{Hdr, Stream, StreamKind, Video};

/// The codecs with classes, the first ones in a set's number.
const CODECS: [&str; 3] = ["hevc", "av1", "vp9"];

/// Forms of each codec, in the order of their bits: 8 and 10 bits in SDR, then HDR, each up to Full HD and up to 4K.
const FORMS: [(u8, bool, bool); 6] =
    [(8, false, false), (8, false, true), (10, false, false), (10, false, true), (10, true, false), (10, true, true)];

/// After them the classes of Dolby Vision whose base layer is of no use (profile 5): HEVC in 10 bits, up to Full HD and up to 4K.
const FIRST_DOLBY_VISION: u8 = (CODECS.len() * FORMS.len()) as u8;
const CLASSES: u8 = FIRST_DOLBY_VISION + 2;

/// Luma samples of the largest frame of level 4.1, and of the largest one that is copied.
const MAX_FULL_HD_SAMPLES: u64 = 2_228_224;
const MAX_SAMPLES: u64 = 8_912_896;

/// Levels of the two sizes, of HEVC and AV1. VP9 states none in its files.
const FULL_HD_LEVEL: f64 = 4.1;
const MAX_LEVEL: f64 = 5.1;

/// Video that is alike to a decoder: one codec, bit depth, range and level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct VideoClass(u8);

/// A set of classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VideoClasses(u32);

impl VideoClass {
    /// All classes.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..CLASSES).map(Self)
    }

    /// The class of a stream; None for video that is not copied on channels: other codecs, interlaced or rotated video, 4:4:4,
    /// and levels above 5.1.
    pub fn of(stream: &Stream, video: &Video) -> Option<Self> {
        let codec = CODECS.iter().position(|codec| *codec == stream.codec)?;
        let has_usual_form =
            !video.is_interlaced && video.rotation == 0 && !video.is_mirrored && video.chroma == "4:2:0";
        let samples = u64::from(video.width) * u64::from(video.height);
        let level = stream.level.as_deref().and_then(|level| level.parse::<f64>().ok()).unwrap_or(0.0);
        let is_large = samples > MAX_FULL_HD_SAMPLES || level > FULL_HD_LEVEL;
        if !has_usual_form || samples > MAX_SAMPLES || level > MAX_LEVEL {
            return None;
        }
        if video.hdr == Some(Hdr::DolbyVision) {
            let is_profile_5 = stream.codec == "hevc" && video.bit_depth == 10;
            return is_profile_5.then(|| Self(FIRST_DOLBY_VISION + u8::from(is_large)));
        }
        let form = FORMS.iter().position(|form| *form == (video.bit_depth, video.hdr.is_some(), is_large))?;
        Some(Self((codec * FORMS.len() + form) as u8))
    }

    /// Its bit in a set; 0 for a class of another version of this program.
    fn bit(self) -> u32 {
        1_u32.checked_shl(self.0.into()).unwrap_or(0)
    }

    /// Streams of this class with the highest demands: a client that decodes all of them decodes the class.
    pub fn hardest_streams(self) -> impl Iterator<Item = (Stream, Video)> {
        const DOLBY_VISION: &[Option<Hdr>] = &[Some(Hdr::DolbyVision)];
        let (codec, (bit_depth, is_hdr, is_large)) = match self.0.checked_sub(FIRST_DOLBY_VISION) {
            Some(size) => ("hevc", (10, true, size == 1)),
            None => (CODECS[usize::from(self.0) / FORMS.len()], FORMS[usize::from(self.0) % FORMS.len()]),
        };
        let ranges: &[Option<Hdr>] = match (is_hdr, self.0 >= FIRST_DOLBY_VISION) {
            (_, true) => DOLBY_VISION,
            (true, _) => &[Some(Hdr::Hdr10), Some(Hdr::Hlg)],
            (false, _) => &[None],
        };
        let (width, height) = if is_large { (3840, 2160) } else { (1920, 1080) };
        let profile = match (codec, bit_depth) {
            ("hevc", 10) => "main-10",
            ("vp9", 8) => "profile-0",
            ("vp9", _) => "profile-2",
            _ => "main",
        };
        let level = if is_large { MAX_LEVEL } else { FULL_HD_LEVEL };
        ranges.iter().map(move |hdr| {
            let video = Video { bit_depth, hdr: *hdr, chroma: "4:2:0".to_owned(), ..Video::new(width, height) };
            let stream = Stream::new(0, codec, StreamKind::Video(video.clone()));
            let level = (codec != "vp9").then(|| level.to_string());
            (Stream { profile: Some(profile.to_owned()), level, ..stream }, video)
        })
    }
}

impl VideoClasses {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn contains(self, class: VideoClass) -> bool {
        self.0 & class.bit() != 0
    }

    /// The classes that are in both sets.
    #[must_use]
    pub fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Its number in the names of files.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The set with a number; None if no set has it.
    pub fn from_number(number: u32) -> Option<Self> {
        (number >> CLASSES == 0).then_some(Self(number))
    }
}

impl FromIterator<VideoClass> for VideoClasses {
    fn from_iter<T: IntoIterator<Item = VideoClass>>(classes: T) -> Self {
        Self(classes.into_iter().fold(0, |bits, class| bits | class.bit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(codec: &str, level: Option<&str>, video: Video) -> Option<VideoClass> {
        let stream = Stream::new(0, codec, StreamKind::Video(video.clone()));
        VideoClass::of(&Stream { level: level.map(str::to_owned), ..stream }, &video)
    }

    #[test]
    fn the_hardest_streams_of_a_class_belong_to_it() {
        for class in VideoClass::all() {
            for (stream, video) in class.hardest_streams() {
                assert_eq!(VideoClass::of(&stream, &video), Some(class), "{stream:?}");
            }
        }
    }

    #[test]
    fn unusual_video_has_no_class() {
        let plain = || Video { chroma: "4:2:0".to_owned(), bit_depth: 8, ..Video::new(1920, 1080) };
        assert!(class("hevc", Some("4"), plain()).is_some());
        assert_ne!(class("hevc", Some("4"), plain()), class("hevc", Some("5.1"), plain()));
        assert_ne!(class("hevc", None, plain()), class("av1", None, plain()));
        for video in [
            Video { is_interlaced: true, ..plain() },
            Video { rotation: 90, ..plain() },
            Video { chroma: "4:4:4".to_owned(), ..plain() },
            Video { bit_depth: 12, ..plain() },
            Video { hdr: Some(Hdr::DolbyVision), bit_depth: 8, ..plain() },
            Video { width: 7680, height: 4320, ..plain() },
        ] {
            assert_eq!(class("hevc", None, video.clone()), None, "{video:?}");
        }
        let dolby_vision = Video { hdr: Some(Hdr::DolbyVision), bit_depth: 10, ..plain() };
        let hdr10 = Video { hdr: Some(Hdr::Hdr10), ..dolby_vision.clone() };
        assert!(class("hevc", None, dolby_vision.clone()).is_some());
        assert_ne!(class("hevc", None, dolby_vision.clone()), class("hevc", None, hdr10));
        assert_eq!(class("av1", None, dolby_vision), None);
        assert_eq!((class("h264", None, plain()), class("hevc", Some("6.1"), plain())), (None, None));
    }

    #[test]
    fn numbers_read_back() {
        let all: VideoClasses = VideoClass::all().collect();
        assert_eq!(VideoClasses::from_number(all.number()), Some(all));
        assert_eq!(VideoClasses::from_number(all.number() + 1), None);
        assert!(VideoClass::all().all(|class| all.contains(class)) && VideoClasses::default().is_empty());
    }
}
