//! Follows a remote HLS stream: it polls the playlist and fetches each segment once. All requests go through `outbound`,
//! which blocks SSRF.

use std::time::Duration;

use tokio::time::Instant;

use super::feeder::Ended;
use super::intake::Intake;
use crate::domain::address::Address;
use crate::domain::external::ExternalStream;
use crate::domain::ingest::hls_playlist::{MAX_PLAYLIST_BYTES, MediaPlaylist, HlsPlaylist, HlsSegment, choose_variant};
use crate::engine::outbound::{OutboundResponse, OutboundRequest};
use crate::service::Service;

/// Most lines of the chosen variant.
const MAX_HEIGHT: u32 = 1080;

/// Most bytes of a segment.
const SEGMENT_BYTES: u64 = 64 << 20;

/// How far before the end playback starts, in segments (RFC 8216 section 6.3.3).
const BEHIND: usize = 3;

/// A playlist without a new segment for this many target durations is stale.
const STALE: f64 = 6.0;

/// A playlist that is followed.
pub(super) struct Hls {
    user_agent: Option<String>,
    address: Address,
    /// The first playlist, read while the source was identified.
    first: Option<MediaPlaylist>,
}

impl Hls {
    /// Reads the rest of a playlist, and the media playlist it refers to.
    pub(super) async fn begin(
        service: &Service,
        feed: &ExternalStream,
        mut answer: OutboundResponse,
        mut head: Vec<u8>,
    ) -> Result<Self, Ended> {
        let mut address = answer.address.clone();
        while let Some(bytes) = answer.next_chunk().await? {
            head.extend_from_slice(&bytes);
            if head.len() as u64 > MAX_PLAYLIST_BYTES {
                return Err(Ended::Unfit("its playlist is larger than 1 MiB"));
            }
        }
        drop(answer);
        let mut this = Self { user_agent: feed.user_agent.clone(), address: address.clone(), first: None };
        let mut text = String::from_utf8_lossy(&head).into_owned();
        for _ in 0..2 {
            match HlsPlaylist::parse(&text).ok_or(Ended::Unfit("its playlist cannot be read"))? {
                HlsPlaylist::Media(media) => {
                    (this.address, this.first) = (address, Some(media));
                    return Ok(this);
                }
                HlsPlaylist::Master(variants) => {
                    let variant = choose_variant(&variants, MAX_HEIGHT);
                    let unfit = Ended::Unfit(
                        "all its variants have separate audio (EXT-X-MEDIA with URI), which is not supported",
                    );
                    let next = address.resolve(&variant.ok_or(unfit)?.uri).map_err(Ended::Unfit)?;
                    (address, text) = this.list(service, &next).await?;
                }
            }
        }
        Err(Ended::Unfit("its multivariant playlist refers to another multivariant playlist"))
    }

    async fn list(&self, service: &Service, address: &Address) -> Result<(Address, String), Ended> {
        let ask = OutboundRequest { user_agent: self.user_agent.clone(), ..OutboundRequest::for_file(MAX_PLAYLIST_BYTES) };
        let answer = service.outbound.get(address, &ask).await?;
        let from = answer.address.clone();
        Ok((from, String::from_utf8_lossy(&answer.read_all().await?).into_owned()))
    }

    /// Fetches segment after segment. Ok only if the receiver is gone.
    pub(super) async fn follow(&mut self, service: &Service, intake: &mut Intake<'_>) -> Result<(), Ended> {
        let mut media = self.first.take().unwrap_or_default();
        let mut next: Option<u64> = None;
        let mut map: Option<String> = None;
        let mut news = Instant::now();
        loop {
            let asked = Instant::now();
            if let Some(why) = media.unsupported_reason {
                return Err(Ended::Unfit(why));
            }
            let end = media.media_sequence + media.segments.len() as u64;
            let first = next.unwrap_or_else(|| end.saturating_sub(BEHIND as u64).max(media.media_sequence));
            // A restarted server numbers from the beginning.
            let reset = first > end;
            if reset {
                return Err(Ended::Unfit("its playlist was restarted"));
            }
            let missed = first < media.media_sequence;
            let first = first.max(media.media_sequence);
            for (n, segment) in media.segments.iter().enumerate().skip((first - media.media_sequence) as usize) {
                let fresh = next.is_some() && (segment.is_discontinuity || missed && n == 0) || segment.init_uri != map;
                if fresh {
                    intake.restart().await;
                }
                if segment.init_uri.is_some() && (fresh || next.is_none()) && self.put_map(service, segment, intake).await? {
                    return Ok(());
                }
                map.clone_from(&segment.init_uri);
                if self.put(service, segment, intake).await? {
                    return Ok(());
                }
                next = Some(media.media_sequence + n as u64 + 1);
                news = Instant::now();
            }
            next = next.or(Some(end));
            if media.has_endlist {
                return Err(Ended::Over);
            }
            if news.elapsed().as_secs_f64() > STALE * media.target_seconds {
                return Err(Ended::Unfit("its playlist has stopped updating"));
            }
            let pause = Duration::from_secs_f64((media.target_seconds / 2.0).clamp(0.5, 6.0));
            tokio::time::sleep_until(asked + pause).await;
            let address = self.address.clone();
            let (_, text) = self.list(service, &address).await?;
            media = match HlsPlaylist::parse(&text) {
                Some(HlsPlaylist::Media(media)) => media,
                _ => return Err(Ended::Unfit("its playlist cannot be read")),
            };
        }
    }

    async fn put_map(&self, service: &Service, segment: &HlsSegment, intake: &mut Intake<'_>) -> Result<bool, Ended> {
        let Some(uri) = &segment.init_uri else { return Ok(false) };
        let header = HlsSegment { uri: uri.clone(), ..HlsSegment::default() };
        self.put(service, &header, intake).await
    }

    async fn put(&self, service: &Service, segment: &HlsSegment, intake: &mut Intake<'_>) -> Result<bool, Ended> {
        let address = self.address.resolve(&segment.uri).map_err(Ended::Unfit)?;
        let range = segment
            .byte_range
            .map(|(first, count)| format!("bytes={first}-{}", first.saturating_add(count).saturating_sub(1)));
        let ask = OutboundRequest { user_agent: self.user_agent.clone(), range, ..OutboundRequest::for_file(SEGMENT_BYTES) };
        let mut answer = service.outbound.get(&address, &ask).await?;
        let mut all = Vec::new();
        // Read completely before passing it on, so that back-pressure does not look like a slow server.
        while let Some(bytes) = answer.next_chunk().await? {
            all.extend_from_slice(&bytes);
        }
        drop(answer);
        for bytes in all.chunks(64 << 10) {
            if intake.put(bytes).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
