//! The colours of decoded frames: their range, the label under which they are scaled, and the description that the encoder
//! writes into its parameter sets. All as ffmpeg does it.

use gstreamer as gst;
use gstreamer_video::{
    VideoColorMatrix, VideoColorPrimaries, VideoColorRange, VideoColorimetry, VideoFormat, VideoFormatInfo,
    VideoTransferFunction,
};

use crate::domain::media::Video;

/// How frames of one format are converted and described.
#[derive(Clone, Debug)]
pub(super) struct FrameColor {
    /// Colorimetry to label them with before they are scaled; None keeps the decoder's, for RGB.
    pub input: Option<VideoColorimetry>,
    /// Colorimetry to request from the scaler. The range is always limited.
    pub output: VideoColorimetry,
    /// Chroma location before and after scaling, by GStreamer's name, if the decoder states it.
    pub chroma_site: Option<String>,
    /// Their values are in full range under the label of limited range, and are converted after scaling.
    pub is_full_range: bool,
    pub description: ColorDescription,
}

/// The colour description of ITU-T H.264 section E.2.1, by x264's names; None is unspecified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColorDescription {
    primaries: Option<&'static str>,
    transfer: Option<&'static str>,
    matrix: Option<&'static str>,
    /// `chroma_sample_loc_type`; 0 is left.
    chroma_location: u8,
}

/// The beginning of [`ColorDescription::x264_options`].
pub(super) const COLOR_OPTIONS_START: &str = ":colorprim=";

/// x264's names of code points of ITU-T H.273, which are ffmpeg's but for some letters.
const PRIMARIES: &[&str] =
    &["bt709", "bt470m", "bt470bg", "smpte170m", "smpte240m", "film", "bt2020", "smpte428", "smpte431", "smpte432"];

const TRANSFERS: &[&str] = &[
    "bt709",
    "bt470m",
    "bt470bg",
    "smpte170m",
    "smpte240m",
    "linear",
    "log100",
    "log316",
    "iec61966-2-4",
    "bt1361e",
    "iec61966-2-1",
    "bt2020-10",
    "bt2020-12",
    "smpte428",
];

const MATRICES: &[&str] = &["bt709", "fcc", "bt470bg", "smpte170m", "smpte240m", "YCgCo", "bt2020nc", "bt2020c"];

impl FrameColor {
    /// For frames with these caps of a stream that its file describes as `source`.
    pub(super) fn new(caps: &gst::CapsRef, source: &Video) -> Self {
        let fields = caps.structure(0);
        let text = |name: &str| fields.and_then(|fields| fields.get::<String>(name).ok());
        let format = text("format").map_or(VideoFormat::Unknown, |name| VideoFormat::from_string(&name));
        let format_info = VideoFormatInfo::from_format(format);
        if format_info.is_rgb() {
            return Self::converted_rgb();
        }
        let decoded = text("colorimetry").and_then(|name| name.parse::<VideoColorimetry>().ok());
        let is_full_range = match (source.color.range.as_deref(), &decoded) {
            (Some(range), _) => range == "full",
            (None, Some(decoded)) => decoded.range() == VideoColorRange::Range0_255,
            (None, None) => format_info.is_gray(),
        };
        // The scaler takes YUV without a matrix for something else (measured). The name does not matter to it here, because
        // it is the same before and after; encoders other than x264enc write it.
        let matrix = decoded.map_or(VideoColorMatrix::Unknown, |decoded| decoded.matrix());
        let label_matrix = match matrix {
            VideoColorMatrix::Unknown | VideoColorMatrix::Rgb if source.uses_bt709() => VideoColorMatrix::Bt709,
            VideoColorMatrix::Unknown | VideoColorMatrix::Rgb => VideoColorMatrix::Bt601,
            known => known,
        };
        let transfer = decoded.map_or(VideoTransferFunction::Unknown, |decoded| decoded.transfer());
        let primaries = decoded.map_or(VideoColorPrimaries::Unknown, |decoded| decoded.primaries());
        let label = VideoColorimetry::new(VideoColorRange::Range16_235, label_matrix, transfer, primaries);
        let chroma_site = text("chroma-site");
        let description = ColorDescription {
            primaries: find_name(PRIMARIES, source.color.primaries.as_deref()),
            transfer: find_name(TRANSFERS, source.color.transfer.as_deref()),
            matrix: find_name(MATRICES, source.color.matrix.as_deref()),
            chroma_location: match chroma_site.as_deref() {
                Some("jpeg") => 1,
                Some("dv") => 2,
                Some("v-cosited") => 3,
                _ => 0,
            },
        };
        Self { input: Some(label), output: label, chroma_site, is_full_range, description }
    }

    /// RGB becomes BT.709.
    pub(super) fn converted_rgb() -> Self {
        let output = VideoColorimetry::new(
            VideoColorRange::Range16_235,
            VideoColorMatrix::Bt709,
            VideoTransferFunction::Bt709,
            VideoColorPrimaries::Bt709,
        );
        let bt709 = Some("bt709");
        let description = ColorDescription { primaries: bt709, transfer: bt709, matrix: bt709, chroma_location: 0 };
        Self { input: None, output, chroma_site: None, is_full_range: false, description }
    }

    /// Sets the requested colorimetry and chroma location of scaled frames.
    pub(super) fn set_output(&self, caps: &mut gst::StructureRef) {
        caps.set("colorimetry", self.output.to_string());
        if let Some(chroma_site) = &self.chroma_site {
            caps.set("chroma-site", chroma_site);
        }
    }
}

impl ColorDescription {
    /// As options of x264, each after a colon.
    pub(super) fn x264_options(&self) -> String {
        let Self { primaries, transfer, matrix, chroma_location } = *self;
        let [primaries, transfer, matrix] = [primaries, transfer, matrix].map(|name| name.unwrap_or("undef"));
        format!("{COLOR_OPTIONS_START}{primaries}:transfer={transfer}:colormatrix={matrix}:chromaloc={chroma_location}")
    }
}

/// x264's name for what the file states by ffmpeg's name; None if it states nothing, whatever a decoder assumes then.
fn find_name(names: &[&'static str], stated: Option<&str>) -> Option<&'static str> {
    let stated = match stated? {
        "gamma22" => "bt470m",
        "gamma28" => "bt470bg",
        "ycgco" => "YCgCo",
        name => name,
    };
    names.iter().find(|name| **name == stated).copied()
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;
    use crate::domain::media::Color;

    fn color_of(caps: &str, source: Color) -> FrameColor {
        gst::init().unwrap();
        let caps = gst::Caps::from_str(&format!("video/x-raw,{caps}")).unwrap();
        FrameColor::new(&caps, &Video { color: source, ..Video::new(640, 360) })
    }

    #[test]
    fn the_range_is_the_files_and_otherwise_the_decoders() {
        let range = |name: &str| Color { range: Some(name.into()), ..Color::default() };
        let is_full = |caps: &str, source| color_of(caps, source).is_full_range;
        assert!(is_full("format=I420,colorimetry=1:3:5:1", Color::default()));
        assert!(is_full("format=I420,colorimetry=bt709", range("full")));
        assert!(is_full("format=I420", range("full")));
        assert!(!is_full("format=I420,colorimetry=1:3:5:1", range("limited")));
        assert!(!is_full("format=I420", Color::default()));
        assert!(is_full("format=GRAY8", Color::default()));
        assert!(!is_full("format=RGB,colorimetry=sRGB", range("full")), "the scaler converts RGB");
    }

    #[test]
    fn the_label_is_the_same_before_and_after_scaling_and_never_lacks_a_matrix() {
        for (caps, label) in [
            ("format=I420,colorimetry=1:3:5:1", "bt709"),
            ("format=I420,colorimetry=1:0:0:0", "2:4:0:0"),
            ("format=I420_10LE", "2:4:0:0"),
            ("format=GRAY8,colorimetry=1:1:0:0", "2:4:0:0"),
        ] {
            let color = color_of(caps, Color::default());
            assert_eq!(color.input.unwrap().to_string(), label, "{caps}");
            assert_eq!(color.output.to_string(), label, "{caps}");
        }
    }

    #[test]
    fn descriptions_are_those_of_the_file() {
        let options = |caps: &str, source| color_of(caps, source).description.x264_options();
        let unspecified = ":colorprim=undef:transfer=undef:colormatrix=undef:chromaloc=0";
        assert_eq!(options("format=I420,colorimetry=2:0:0:0", Color::default()), unspecified);
        let odd = Color { matrix: Some("bt470bg:keyint=1".into()), ..Color::default() };
        assert_eq!(options("format=I420", odd), unspecified, "only known names reach the encoder");
        let pal = Color {
            primaries: Some("bt470bg".into()),
            transfer: Some("gamma28".into()),
            matrix: Some("bt470bg".into()),
            range: None,
        };
        assert_eq!(
            options("format=I420,colorimetry=bt601,chroma-site=jpeg", pal),
            ":colorprim=bt470bg:transfer=bt470bg:colormatrix=bt470bg:chromaloc=1"
        );
        assert_eq!(
            options("format=I420,colorimetry=2:3:5:1", Color::default()),
            unspecified,
            "the decoder's assumption"
        );
        assert_eq!(
            options("format=GBR,colorimetry=1:1:0:0", Color::default()),
            ":colorprim=bt709:transfer=bt709:colormatrix=bt709:chromaloc=0"
        );
    }
}
