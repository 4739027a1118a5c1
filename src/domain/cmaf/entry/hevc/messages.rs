//! Supplemental enhancement information of HEVC (ITU-T H.265 annex D): the messages that the boxes of a sample entry repeat.

use std::num::NonZeroUsize;

use crate::domain::bytes::{ByteCursor, Truncated};
use crate::domain::sei::read_messages;

/// Of a NAL unit's header.
const HEADER_BYTES: NonZeroUsize = NonZeroUsize::new(2).expect("not zero");

/// `nal_unit_type` of messages before a picture (table 7-1).
const PREFIX_SEI: u8 = 39;

/// Values of `payloadType` (section D.2.1).
const MASTERING_DISPLAY: u32 = 137;
const CONTENT_LIGHT: u32 = 144;
const ALTERNATIVE_TRANSFER: u32 = 147;

/// Colour and light as messages state them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HdrMessages {
    /// SMPTE ST 2086, in the order of a `mdcv` box.
    pub mastering_display: Option<[u8; 24]>,
    /// Maximum and average light level, cd/m².
    pub content_light: Option<(u16, u16)>,
    /// Transfer characteristics in place of those of the parameter set: hybrid log-gamma over a compatible one.
    pub transfer: Option<u16>,
}

impl HdrMessages {
    /// Reads the messages of an access unit's NAL units. Damaged ones are left out.
    pub fn read<'a>(nal_units: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut found = Self::default();
        for unit in nal_units.into_iter().filter(|unit| super::unit_type(unit) == Some(PREFIX_SEI)) {
            read_messages(unit, HEADER_BYTES, |kind, message| {
                let _ = found.read_message(kind, ByteCursor(message));
            });
        }
        found
    }

    fn read_message(&mut self, kind: u32, mut message: ByteCursor) -> Result<(), Truncated> {
        match kind {
            MASTERING_DISPLAY => self.mastering_display = message.0.first_chunk().copied(),
            CONTENT_LIGHT => self.content_light = Some((message.u16()?, message.u16()?)),
            ALTERNATIVE_TRANSFER => self.transfer = Some(message.u8()?.into()),
            _ => {}
        }
        Ok(())
    }
}
