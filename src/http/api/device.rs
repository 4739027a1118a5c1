//! The device detected for a request, in responses.

use crate::domain::playback::RequestDevice;
use crate::http::api::prelude::*;

/// The device detected for this request.
#[derive(Debug, Default, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct DeviceBody {
    /// Entry of the table of known players, `web` if none matched; null if the request has a `deviceProfile`.
    name: Option<&'static str>,
    /// `profile` (of the request), `player`, `userAgent` or `default`.
    matched_by: &'static str,
}

impl DeviceBody {
    pub(in crate::http) fn new(device: &RequestDevice) -> Self {
        Self { name: device.name, matched_by: device.source.as_str() }
    }
}
