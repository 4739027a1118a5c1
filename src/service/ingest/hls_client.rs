//! Follows a remote HLS stream: it polls the playlist and fetches each segment once. All requests go through `outbound`,
//! which blocks SSRF.

use std::time::Duration;

use tokio::time::Instant;

use super::connection_end::ConnectionEnd;
use super::ingest_input::IngestInput;
use crate::domain::address::Address;
use crate::domain::external::ExternalStream;
use crate::domain::ingest::hls_playlist::{HlsPlaylist, HlsSegment, MAX_PLAYLIST_BYTES, MediaPlaylist, choose_variant};
use crate::engine::outbound::{OutboundClient, OutboundRequest, OutboundResponse};

/// Most lines of the chosen variant.
const MAX_HEIGHT: u32 = 1080;

/// Most bytes of a segment.
const MAX_SEGMENT_BYTES: u64 = 64 << 20;

/// How far before the end playback starts, in segments (RFC 8216 section 6.3.3).
const LIVE_EDGE_SEGMENTS: usize = 3;

/// A playlist without a new segment for this many target durations is stale.
const STALE_TARGET_DURATIONS: f64 = 6.0;

/// A playlist that is followed.
pub(super) struct HlsClient<'a> {
    outbound: &'a OutboundClient,
    user_agent: Option<String>,
    address: Address,
    /// The first playlist, read while the source was identified.
    first_playlist: Option<MediaPlaylist>,
}

impl<'a> HlsClient<'a> {
    /// Reads the rest of a playlist, and the media playlist it refers to.
    pub(super) async fn open(
        outbound: &'a OutboundClient,
        stream: &ExternalStream,
        mut answer: OutboundResponse,
        mut head: Vec<u8>,
    ) -> Result<Self, ConnectionEnd> {
        let mut address = answer.address.clone();
        while let Some(bytes) = answer.next_chunk().await? {
            head.extend_from_slice(&bytes);
            if head.len() as u64 > MAX_PLAYLIST_BYTES {
                return Err(ConnectionEnd::Unsupported("its playlist is larger than 1 MiB"));
            }
        }
        drop(answer);
        let user_agent = stream.user_agent.clone();
        let mut this = Self { outbound, user_agent, address: address.clone(), first_playlist: None };
        let mut text = String::from_utf8_lossy(&head).into_owned();
        for _ in 0..2 {
            match HlsPlaylist::parse(&text).ok_or(ConnectionEnd::Unsupported("its playlist cannot be read"))? {
                HlsPlaylist::Media(media) => {
                    (this.address, this.first_playlist) = (address, Some(media));
                    return Ok(this);
                }
                HlsPlaylist::Master(variants) => {
                    let variant = choose_variant(&variants, MAX_HEIGHT);
                    let refusal = ConnectionEnd::Unsupported(
                        "all its variants have separate audio (EXT-X-MEDIA with URI), which is not supported",
                    );
                    let next = address.resolve(&variant.ok_or(refusal)?.uri).map_err(ConnectionEnd::Unsupported)?;
                    (address, text) = this.fetch_playlist(&next).await?;
                }
            }
        }
        Err(ConnectionEnd::Unsupported("its multivariant playlist refers to another multivariant playlist"))
    }

    async fn fetch_playlist(&self, address: &Address) -> Result<(Address, String), ConnectionEnd> {
        let request =
            OutboundRequest { user_agent: self.user_agent.clone(), ..OutboundRequest::for_file(MAX_PLAYLIST_BYTES) };
        let answer = self.outbound.get(address, &request).await?;
        let final_address = answer.address.clone();
        Ok((final_address, String::from_utf8_lossy(&answer.read_all().await?).into_owned()))
    }

    /// Fetches segment after segment. Ok only if the receiver is gone.
    pub(super) async fn follow(&mut self, input: &mut IngestInput<'_>) -> Result<(), ConnectionEnd> {
        let mut media = self.first_playlist.take().unwrap_or_default();
        let mut next: Option<u64> = None;
        let mut map: Option<String> = None;
        let mut last_new_segment = Instant::now();
        loop {
            let requested_at = Instant::now();
            if let Some(why) = media.unsupported_reason {
                return Err(ConnectionEnd::Unsupported(why));
            }
            let end = media.media_sequence + media.segments.len() as u64;
            let first = next.unwrap_or_else(|| end.saturating_sub(LIVE_EDGE_SEGMENTS as u64).max(media.media_sequence));
            // A restarted server numbers from the beginning.
            if first > end {
                return Err(ConnectionEnd::Unsupported("its playlist was restarted"));
            }
            let has_gap = first < media.media_sequence;
            let first = first.max(media.media_sequence);
            for (position, segment) in media.segments.iter().enumerate().skip((first - media.media_sequence) as usize) {
                let is_discontinuous =
                    next.is_some() && (segment.is_discontinuity || has_gap && position == 0) || segment.init_uri != map;
                if is_discontinuous {
                    input.restart().await;
                }
                if segment.init_uri.is_some()
                    && (is_discontinuous || next.is_none())
                    && self.feed_map(segment, input).await?
                {
                    return Ok(());
                }
                map.clone_from(&segment.init_uri);
                if self.feed_segment(segment, input).await? {
                    return Ok(());
                }
                next = Some(media.media_sequence + position as u64 + 1);
                last_new_segment = Instant::now();
            }
            next = next.or(Some(end));
            if media.has_endlist {
                return Err(ConnectionEnd::StreamEnded);
            }
            if last_new_segment.elapsed().as_secs_f64() > STALE_TARGET_DURATIONS * media.target_seconds {
                return Err(ConnectionEnd::Unsupported("its playlist has stopped updating"));
            }
            let pause = Duration::from_secs_f64((media.target_seconds / 2.0).clamp(0.5, 6.0));
            tokio::time::sleep_until(requested_at + pause).await;
            let (_, text) = self.fetch_playlist(&self.address).await?;
            media = match HlsPlaylist::parse(&text) {
                Some(HlsPlaylist::Media(media)) => media,
                _ => return Err(ConnectionEnd::Unsupported("its playlist cannot be read")),
            };
        }
    }

    async fn feed_map(&self, segment: &HlsSegment, input: &mut IngestInput<'_>) -> Result<bool, ConnectionEnd> {
        let Some(uri) = &segment.init_uri else { return Ok(false) };
        let header = HlsSegment { uri: uri.clone(), ..HlsSegment::default() };
        self.feed_segment(&header, input).await
    }

    async fn feed_segment(&self, segment: &HlsSegment, input: &mut IngestInput<'_>) -> Result<bool, ConnectionEnd> {
        let address = self.address.resolve(&segment.uri).map_err(ConnectionEnd::Unsupported)?;
        let range = segment
            .byte_range
            .map(|(first, count)| format!("bytes={first}-{}", first.saturating_add(count).saturating_sub(1)));
        let request = OutboundRequest {
            user_agent: self.user_agent.clone(),
            range,
            ..OutboundRequest::for_file(MAX_SEGMENT_BYTES)
        };
        // Read completely before passing it on, so that back-pressure does not look like a slow server.
        let segment_bytes = self.outbound.get(&address, &request).await?.read_all().await?;
        for bytes in segment_bytes.chunks(64 << 10) {
            if input.feed(bytes).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
