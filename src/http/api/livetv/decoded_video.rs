//! The video that a client of a channel decodes, in the query of its playlists.

use crate::domain::playback::capabilities::{FormatCapabilities, ProbedCapabilities};
use crate::domain::segment_format::SegmentFormat;
use crate::domain::video_class::VideoClasses;
use crate::http::api::prelude::*;

/// Longest list, bytes.
const MAX_LIST_BYTES: usize = 1024;

/// Classes of video, and the parameters that state them.
pub struct DecodedVideo {
    pub classes: VideoClasses,
    codecs: String,
    ranges: String,
}

impl DecodedVideo {
    /// # Errors
    /// `VALIDATION_ERROR` for a list that is too long or has other characters than codec strings.
    pub fn from_request(call: &Call) -> Result<Self> {
        let (codecs, ranges) = (parse_list(call, "videoCodecs")?, parse_list(call, "videoRanges")?);
        let names = |list: &str| list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let probed =
            ProbedCapabilities { codecs: names(&codecs), hdr: names(&ranges), ..ProbedCapabilities::default() };
        let capabilities = probed.to_capabilities();
        let fmp4 = capabilities.format(SegmentFormat::Fmp4);
        Ok(Self { classes: fmp4.map(FormatCapabilities::decoded_classes).unwrap_or_default(), codecs, ranges })
    }

    /// The same parameters again, each after `&`.
    pub fn query(&self) -> String {
        let parameters = [("videoCodecs", &self.codecs), ("videoRanges", &self.ranges)];
        let given = parameters.into_iter().filter(|(_, list)| !list.is_empty());
        given.map(|(name, list)| format!("&{name}={list}")).collect()
    }
}

fn parse_list(call: &Call, name: &str) -> Result<String> {
    let list = call.query(name).unwrap_or_default();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".,-".contains(&byte);
    match list.len() <= MAX_LIST_BYTES && list.bytes().all(is_allowed) {
        true => Ok(list.to_owned()),
        false => Err(Error::invalid_field(name, "must be a comma-separated list of names")),
    }
}
