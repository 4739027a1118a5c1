//! What was taken for the device that asks, on the wire.

use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::playback::Device;

/// What was taken for the device that asks.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::http) struct DeviceBody {
    /// Entry of the table of known players, `web` when none matched; null with a `deviceProfile` in the request.
    name: Option<&'static str>,
    /// `profile` (of the request), `player`, `userAgent` or `default`.
    matched_by: &'static str,
}

impl DeviceBody {
    pub(in crate::http) fn new(device: &Device) -> Self {
        Self { name: device.name, matched_by: device.source.as_str() }
    }
}
