//! `/hdhr/{token}/…`: the lineup as an HDHomeRun network tuner, for Plex, Emby, Jellyfin and other programs that accept a
//! tuner rather than a playlist. Always mounted, open only with `hdhomerun = true`.
//!
//! Field names are those of SiliconDust's HTTP interface ("HDHomeRun HTTP Development Guide"). The stream token is part of
//! the path, because such programs know a tuner by its address alone. Each token is a device of its own.
//!
//! These programs are recorders. An external channel is offered to them only if its rights permit a recording
//! (`rights.recordingBasis`).

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::Method;
use http::header::{CONTENT_TYPE, HeaderValue};
use tokio::sync::mpsc;
use warp::Reply;

use super::links::base_url;
use crate::domain::channel::Channel;
use crate::domain::xmltv::encoding::escape;
use crate::http::api::prelude::*;
use crate::http::reply::secretive;
use crate::service::live::TunerStream;

/// A client that reads nothing for this long is disconnected.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// A tuner.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TunerAnswer {
    friendly_name: String,
    manufacturer: &'static str,
    model_number: &'static str,
    firmware_name: &'static str,
    firmware_version: &'static str,
    /// Eight hexadecimal digits, constant for the lifetime of the token.
    #[serde(rename = "DeviceID")]
    device_id: String,
    device_auth: &'static str,
    #[serde(rename = "BaseURL")]
    base_url: String,
    #[serde(rename = "LineupURL")]
    lineup_url: String,
    /// Number of channels that can be received at once.
    tuner_count: usize,
}

/// A channel of a tuner.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TunerChannel {
    guide_number: String,
    guide_name: String,
    #[serde(rename = "URL")]
    url: String,
    video_codec: &'static str,
    audio_codec: &'static str,
    /// 1 if the video can have 720 lines or more, otherwise absent.
    #[serde(rename = "HD", skip_serializing_if = "Option::is_none")]
    hd: Option<u8>,
}

/// Scan status of a tuner. It never scans.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct TunerStatus {
    scan_in_progress: u8,
    scan_possible: u8,
    source: &'static str,
    source_list: [&'static str; 1],
}

/// HDHomeRun device information
#[utoipa::path(get, path = "/hdhr/{token}/discover.json", params(("token" = String, Path, description = "A stream token")), responses(
    (status = 200, description = "The device and the URL of its lineup", body = TunerAnswer),
    (status = 404, description = "`NOT_FOUND`: `hdhomerun` is not enabled in the configuration")))]
pub async fn discover(service: Arc<Service>, call: Call) -> Result<Response> {
    let base_url = tuner_base_url(&service, &call)?;
    Ok(reply::json(&TunerAnswer {
        friendly_name: friendly_name(&call)?,
        manufacturer: "Hearthcast",
        model_number: "Hearthcast",
        firmware_name: "hearthcast",
        firmware_version: env!("CARGO_PKG_VERSION"),
        device_id: device_id(&call)?,
        device_auth: "hearthcast",
        lineup_url: format!("{base_url}/lineup.json"),
        base_url,
        tuner_count: service.config.limits.sessions_per_user,
    }))
}

/// HDHomeRun channel lineup
#[utoipa::path(get, path = "/hdhr/{token}/lineup.json", params(("token" = String, Path, description = "A stream token")), responses(
    (status = 200, description = "Enabled channels the token is valid for, by number; external channels only if their rights permit recording", body = Vec<TunerChannel>)))]
pub async fn lineup(service: Arc<Service>, call: Call) -> Result<Response> {
    let (base, user) = (tuner_base_url(&service, &call)?, call.user()?);
    let channels = service.channels.all().into_iter();
    let is_listed = |channel: &Arc<Channel>| {
        channel.settings.enabled && user.may_watch(channel.id) && service.check_recording_rights(channel).is_ok()
    };
    let lineup = channels.filter(is_listed).map(|channel| {
        let number = channel.settings.number;
        TunerChannel {
            guide_number: number.to_string(),
            guide_name: channel.settings.name.to_string(),
            url: format!("{base}/auto/v{number}"),
            video_codec: "H264",
            audio_codec: "AAC",
            hd: channel.output.max_height.is_none_or(|height| height >= 720).then_some(1),
        }
    });
    Ok(secretive(reply::json(&lineup.collect::<Vec<_>>())))
}

/// HDHomeRun scan status
#[utoipa::path(get, path = "/hdhr/{token}/lineup_status.json", params(("token" = String, Path, description = "A stream token")), responses(
    (status = 200, description = "No scan is in progress", body = TunerStatus)))]
pub async fn status(_: Arc<Service>, _: Call) -> Result<Response> {
    let status = TunerStatus { scan_in_progress: 0, scan_possible: 1, source: "Cable", source_list: ["Cable"] };
    Ok(reply::json(&status))
}

/// HDHomeRun channel scan: does nothing, the lineup is always complete
#[utoipa::path(post, path = "/hdhr/{token}/lineup.post", params(("token" = String, Path, description = "A stream token")), responses(
    (status = 204, description = "Done")))]
pub async fn scan(_: Arc<Service>, _: Call) -> Result<Response> {
    Ok(reply::empty())
}

/// UPnP description of the tuner
#[utoipa::path(get, path = "/hdhr/{token}/device.xml", params(("token" = String, Path, description = "A stream token")), responses(
    (status = 200, description = "UPnP device description", body = String, content_type = "application/xml")))]
pub async fn device(service: Arc<Service>, call: Call) -> Result<Response> {
    let xml = |text: String| {
        let mut out = Vec::new();
        escape(&mut out, &text);
        String::from_utf8(out).map_err(Error::internal)
    };
    let (base, name, id) = (xml(tuner_base_url(&service, &call)?)?, xml(friendly_name(&call)?)?, device_id(&call)?);
    let unique = unique_id(&call.user()?.login_id);
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <root xmlns=\"urn:schemas-upnp-org:device-1-0\">\n\
         <specVersion><major>1</major><minor>0</minor></specVersion>\n\
         <URLBase>{base}</URLBase>\n\
         <device>\n\
         <deviceType>urn:schemas-upnp-org:device:MediaServer:1</deviceType>\n\
         <friendlyName>{name}</friendlyName>\n\
         <manufacturer>Hearthcast</manufacturer>\n\
         <modelName>Hearthcast</modelName>\n\
         <modelNumber>Hearthcast</modelNumber>\n\
         <serialNumber>{id}</serialNumber>\n\
         <UDN>uuid:{unique}</UDN>\n\
         </device>\n\
         </root>\n"
    );
    Ok(secretive(reply::bytes("application/xml", text.into())))
}

/// Receive a channel as an endless MPEG-TS stream
///
/// The stream starts a few seconds behind the schedule and runs in real time. It ends when the client disconnects, the
/// token is revoked or the channel is deleted.
#[utoipa::path(get, path = "/hdhr/{token}/auto/{channel}", params(
    ("token" = String, Path, description = "A stream token"),
    ("channel" = String, Path, description = "`v` and the channel number")), responses(
    (status = 200, description = "MPEG-TS", content_type = "video/mp2t", body = Vec<u8>),
    (status = 403, description = "`RIGHTS_WITHDRAWN`"),
    (status = 404, description = "`CHANNEL_NOT_FOUND`"),
    (status = 422, description = "`RIGHTS_BASIS_REQUIRED`: an external channel without `rights.recordingBasis`"),
    (status = 503, description = "`SERVER_BUSY`: all tuners are in use; `CHANNEL_UNAVAILABLE`, `TRANSCODER_BUSY`")))]
pub async fn receive(service: Arc<Service>, call: Call) -> Result<Response> {
    let channel = find_channel_by_number(&service, &call)?;
    let (sender, mut receiver) = mpsc::channel::<std::result::Result<Bytes, std::io::Error>>(1);
    if call.method != Method::HEAD {
        let (mut tuner, mut chunk) = TunerStream::open(&service, &call.params[0], channel.id).await?;
        tokio::spawn(async move {
            loop {
                if !matches!(tokio::time::timeout(STALL_TIMEOUT, sender.send(Ok(chunk))).await, Ok(Ok(()))) {
                    return;
                }
                chunk = tokio::select! {
                    next = tuner.next_segment() => match next {
                        Ok(next) => next,
                        Err(error) => {
                            tracing::info!(channel.id = channel.id, %error, "tuner stream ended");
                            return;
                        }
                    },
                    () = sender.closed() => return,
                };
            }
        });
    }
    let mut response = warp::reply::stream(stream::poll_fn(move |context| receiver.poll_recv(context))).into_response();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("video/mp2t"));
    Ok(secretive(response))
}

/// The channel of a path segment such as `v12`.
fn find_channel_by_number(service: &Service, call: &Call) -> Result<Arc<Channel>> {
    let (segment, user) = (&call.params[1], call.user()?);
    let number: Option<u32> = segment.strip_prefix('v').and_then(|number| number.parse().ok());
    let found = service.channels.all().into_iter().find(|channel| Some(channel.settings.number) == number);
    let found = found.filter(|channel| channel.settings.enabled && user.may_watch(channel.id));
    let channel = found.ok_or_else(|| Error::new(Code::ChannelNotFound, "there is no channel with this number"))?;
    service.check_recording_rights(&channel)?;
    Ok(channel)
}

fn tuner_base_url(service: &Service, call: &Call) -> Result<String> {
    Ok(format!("{}/hdhr/{}", base_url(service, call)?, call.params[0]))
}

fn friendly_name(call: &Call) -> Result<String> {
    Ok(format!("Hearthcast ({})", call.user()?.username))
}

fn device_id(call: &Call) -> Result<String> {
    Ok(device_id_of_token(&call.user()?.login_id))
}

/// Device id of a token, with the check digit of real HDHomeRun device ids.
fn device_id_of_token(token: &str) -> String {
    let hash = blake3::hash(token.as_bytes());
    let hash_value = u32::from_le_bytes(hash.as_bytes()[..4].try_into().expect("four of thirty-two"));
    format!("{:08X}", with_check_digit(hash_value))
}

/// UPnP unique device name (UUID) of a token's tuner.
pub fn unique_id(token: &str) -> String {
    format!("48454152-5448-4341-5354-0000{}", device_id_of_token(token))
}

/// Replaces the last digit with the check digit: the first, third, fifth and seventh digits are mapped by a table, and all
/// are combined by XOR.
fn with_check_digit(value: u32) -> u32 {
    const LOOKUP: [u32; 16] = [10, 5, 15, 6, 7, 12, 1, 11, 9, 2, 8, 13, 4, 3, 14, 0];
    let digit = |position: u32| value >> (28 - 4 * position) & 15;
    let sum = (0..7).fold(0, |sum, n| sum ^ if n % 2 == 0 { LOOKUP[digit(n) as usize] } else { digit(n) });
    value & !15 | sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_digit_makes_any_value_valid() {
        // Calculated by hand.
        assert_eq!(with_check_digit(0x0000_0000), 0);
        assert_eq!(with_check_digit(0x1000_0000), 0x1000_000F);
        for value in [1, 0x1234_5678, u32::MAX] {
            assert_eq!(with_check_digit(value) >> 4, value >> 4);
            assert_eq!(with_check_digit(with_check_digit(value)), with_check_digit(value));
        }
    }
}
