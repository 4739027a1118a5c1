//! The parts of a plan that depend on how fast this machine encodes. A session that continues after a restart keeps them,
//! because nothing is measured then.

use serde::{Deserialize, Serialize};

use super::video_encode::{CodecChoice, FieldRate};
use super::{SessionPlan, StartRequest};
use crate::domain::codec::TargetCodec;
use crate::domain::plan::{EncodeVideo, VideoPlan};

/// The choice of an earlier plan of the same session for its encoded video.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EncodeChoice {
    pub codec: TargetCodec,
    pub has_frame_per_field: bool,
}

impl SessionPlan {
    /// The choice for its encoded video, which all rungs share; None if video is only copied.
    pub fn encode_choice(&self) -> Option<EncodeChoice> {
        self.rungs.iter().find_map(|rung| match &rung.spec.rendition.video {
            Some(VideoPlan::Encode(EncodeVideo { codec, has_frame_per_field, .. })) => {
                Some(EncodeChoice { codec: *codec, has_frame_per_field: *has_frame_per_field })
            }
            _ => None,
        })
    }
}

impl StartRequest {
    /// How the codec of video in fMP4 is chosen.
    pub(super) fn codec_choice(&self) -> CodecChoice<'_> {
        match self.earlier_choice {
            Some(earlier) => CodecChoice::Fixed(earlier.codec),
            None => CodecChoice::Preferred(&self.capabilities),
        }
    }

    /// How interlaced video is encoded.
    pub(super) fn field_rate(&self) -> FieldRate<'_> {
        match self.earlier_choice {
            Some(EncodeChoice { has_frame_per_field: true, .. }) => FieldRate::FramePerField,
            Some(EncodeChoice { has_frame_per_field: false, .. }) => FieldRate::FramePerPair,
            None => FieldRate::IfFastEnough(&self.capabilities),
        }
    }
}
