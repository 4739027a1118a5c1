//! The two layouts of a channel's audio, both AAC-LC at 48 kHz.

/// One AAC-LC frame of silence, 48 kHz, stereo, with its ADTS header: what an encoder makes of zeros, plus a fill
/// element. This makes it long enough that its PES packet can be split into sixteen packets, so a segment of one frame
/// can close its counter.
const SILENT_STEREO_FRAME: [u8; 16] =
    [0xff, 0xf1, 0x4c, 0x80, 0x02, 0x1f, 0xfc, 0x21, 0x10, 0x04, 0x60, 0x8c, 0x18, 0x80, 0x00, 0x38];

/// One AAC-LC frame of silence, 48 kHz, 5.1, with its ADTS header: a single channel element, two channel pairs and an LFE
/// element, each with `max_sfb` 0 and therefore without spectral data (ISO/IEC 14496-3 section 4.4.2.1).
const SILENT_SURROUND_FRAME: [u8; 26] = [
    0xff, 0xf1, 0x4d, 0x80, 0x03, 0x5f, 0xfc, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0x00, 0x00, 0x00, 0x23, 0x00, 0x00,
    0x00, 0x00, 0x0c, 0x00, 0x00, 0x00, 0xe0,
];

/// Speakers of a channel's audio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AudioLayout {
    #[default]
    Stereo,
    /// 5.1.
    Surround,
}

impl AudioLayout {
    /// Number of channels, that of the LFE included.
    pub fn channel_count(self) -> u32 {
        match self {
            Self::Stereo => 2,
            Self::Surround => 6,
        }
    }

    /// AudioSpecificConfig (ISO/IEC 14496-3 section 1.6.2.1).
    pub fn audio_specific_config(self) -> [u8; 2] {
        match self {
            Self::Stereo => [0x11, 0x90],
            Self::Surround => [0x11, 0xb0],
        }
    }

    /// A frame of silence with its ADTS header.
    pub fn silent_frame(self) -> &'static [u8] {
        match self {
            Self::Stereo => &SILENT_STEREO_FRAME,
            Self::Surround => &SILENT_SURROUND_FRAME,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::cmaf::entry::aac;

    #[test]
    fn silent_frames_have_the_layout_and_length_that_their_headers_state() {
        for layout in [AudioLayout::Stereo, AudioLayout::Surround] {
            let frame = layout.silent_frame();
            let configuration = u32::from(frame[2] & 1) << 2 | u32::from(frame[3] >> 6);
            assert_eq!(configuration, layout.channel_count());
            let length = usize::from(frame[3] & 3) << 11 | usize::from(frame[4]) << 3 | usize::from(frame[5] >> 5);
            assert!(length == frame.len() && length >= 16);
            let channels = layout.channel_count() as u16;
            assert_eq!(layout.audio_specific_config(), aac::audio_specific_config(2, 48_000, channels).unwrap());
        }
    }
}
