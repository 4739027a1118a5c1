//! One track entry.

use super::ebml::{children, number};
use crate::engine::tables::Refusal;

/// A track whose blocks hold its samples as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Track {
    /// By which blocks name it.
    pub number: u64,
    /// E.g. `V_MPEG4/ISO/AVC`.
    pub codec: Vec<u8>,
    /// What a decoder must be told.
    pub private: Vec<u8>,
    /// Nanoseconds of one picture or frame of sound.
    pub duration: Option<u64>,
    /// Nanoseconds by which everything is earlier than its blocks say.
    pub delay: u64,
}

impl Track {
    /// ffmpeg counts video, audio, subtitle and metadata tracks in order.
    pub(super) fn read(tracks: &[u8], stream: u32) -> Result<Self, Refusal> {
        let entries = children(tracks).filter(|(id, _)| *id == 0xae).map(|(_, entry)| entry);
        let counted = |entry: &&[u8]| {
            let kind = children(entry).find(|(id, _)| *id == 0x83).map_or(0, |(_, bytes)| number(bytes));
            [1, 2, 0x11, 0x21].contains(&kind)
        };
        let entry = entries.filter(counted).nth(stream as usize).ok_or(Refusal::Unread("there is no such track"))?;
        let part = |wanted: u32| children(entry).find(|(id, _)| *id == wanted).map(|(_, bytes)| bytes);
        if part(0x6d80).is_some() {
            return Err(Refusal::Unread("the track is packed or encrypted"));
        }
        let figure = |wanted: u32| part(wanted).map(self::number).filter(|&number| number > 0);
        Ok(Self {
            number: figure(0xd7).ok_or(Refusal::Unread("the track has no number"))?,
            codec: part(0x86).unwrap_or_default().to_vec(),
            private: part(0x63a2).unwrap_or_default().to_vec(),
            duration: figure(0x23_e383),
            delay: figure(0x56aa).unwrap_or(0),
        })
    }

    /// Whether this is H.264 in its usual form.
    pub fn is_avc(&self) -> bool {
        self.codec == b"V_MPEG4/ISO/AVC"
    }
}
