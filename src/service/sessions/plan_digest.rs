//! The digest of a plan: equal digests mean equal playlists and segments that continue each other.

use std::time::{Duration, SystemTime};

use crate::domain::plan::{Rendition, VideoPlan};
use crate::domain::playback::SubtitleDelivery;
use crate::engine::source::SourceFile;
use crate::service::renditions::planner::{RenditionId, SessionPlan};

/// A digest of everything that decides the playlists, and what the segments contain. Nothing in it depends on the machine: not
/// the encoder's name, and not device, inode and `ctime` of the file, which another server sees differently.
pub(super) fn plan_digest(plan: &SessionPlan) -> String {
    let mut digest = Digest::default();
    let top = plan.spec();
    digest.add(top.fingerprint.as_bytes()).add_version(&top.source);
    digest.add(&plan.multivariant(None, true, ""));
    digest.add(&plan.list_start().0.to_le_bytes());
    for track in &plan.subtitles {
        match &track.delivery {
            SubtitleDelivery::Text { stream } => digest.add(&stream.to_le_bytes()),
            SubtitleDelivery::TextSidecar { path } => digest.add(path.as_bytes()),
            SubtitleDelivery::None | SubtitleDelivery::Burn(_) => digest.add(b""),
        };
    }
    let rungs = (0..plan.rungs.len()).map(RenditionId::Rung);
    for id in rungs.chain((0..plan.audio.renditions().len()).map(RenditionId::Audio)) {
        let Some(spec) = plan.spec_of(id) else { continue };
        digest.add(rendition_hash(&spec.rendition).as_bytes()).add(&spec.grid.content_digest());
        digest.add(&[u8::from(plan.is_independent(id)), u8::from(spec.package.is_some())]);
        if let Some(track) = spec.package.as_ref().and_then(|package| package.cmaf_track()) {
            digest.add(track.init_segment());
        }
        if let Some(sidecar) = &spec.sidecar {
            digest.add_version(sidecar);
        }
    }
    digest.hasher.finalize().to_hex()[..32].to_owned()
}

/// The hash of a rendition without the encoder, but with its codec.
fn rendition_hash(rendition: &Rendition) -> String {
    let mut rendition = rendition.clone();
    let codec = match &mut rendition.video {
        Some(VideoPlan::Encode(video)) => {
            video.encoder.clear();
            video.codec.as_str()
        }
        Some(VideoPlan::Copy { .. }) | None => "",
    };
    rendition.content_hash(codec)
}

/// A hash of parts, each with its length.
#[derive(Default)]
struct Digest {
    hasher: blake3::Hasher,
}

impl Digest {
    fn add(&mut self, part: &[u8]) -> &mut Self {
        self.hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        self
    }

    /// Length and modification time of a file.
    fn add_version(&mut self, file: &SourceFile) -> &mut Self {
        let modified = file.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        self.add(&file.len.to_le_bytes()).add(&modified.as_nanos().to_le_bytes())
    }
}
