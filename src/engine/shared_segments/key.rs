//! The key of a segment that servers share.

use std::time::SystemTime;

use crate::domain::plan::VideoPlan;
use crate::engine::{Backend, RenditionSpec};

/// Raised when segments of earlier versions of this program must not be used any more, with the same version number.
const KEY_VERSION: u32 = 1;

/// The name of a rendition in the store, the same on all servers that would make the same segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedKey {
    name: String,
    extension: &'static str,
    pub(super) content_type: &'static str,
}

impl SharedKey {
    /// The key of a rendition; None if its segments are not shared: video is copied, which is quick and as large as the
    /// source; nothing is encoded; or text of a file beside it is burned in, because that file is known by its inode only.
    ///
    /// It contains what decides the bytes, and instead of the file's version, which holds only on this machine, its
    /// fingerprint, length and modification time in milliseconds.
    pub fn of_rendition(backend: &dyn Backend, spec: &RenditionSpec) -> Option<Self> {
        let RenditionSpec { rendition, source, .. } = spec;
        let is_encoded = !rendition.copies_video() && (rendition.encodes_video() || rendition.encodes_audio());
        if !is_encoded || backend.has_instant_start() || spec.sidecar.is_some() {
            return None;
        }
        let modified = source.modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let video_encoder = match &rendition.video {
            // Its name at the backend, which may differ from that in the plan.
            Some(VideoPlan::Encode(plan)) => backend.video_encoder(plan).unwrap_or(&plan.encoder),
            _ => "",
        };
        let parts = [
            KEY_VERSION.to_string(),
            env!("CARGO_PKG_VERSION").to_owned(),
            backend.name().to_owned(),
            backend.version().to_owned(),
            video_encoder.to_owned(),
            backend.audio_encoder().to_owned(),
            data_encoding::HEXLOWER.encode(&spec.grid.content_digest()),
            source.len.to_string(),
            modified.as_millis().to_string(),
        ];
        let format = rendition.format;
        Some(Self {
            name: format!("{}-{}", spec.fingerprint, rendition.content_hash(&parts.join("\0"))),
            extension: format.extension(),
            content_type: match rendition.video {
                Some(_) => format.content_type(),
                None => format.audio_content_type(),
            },
        })
    }

    /// The path of a segment below the configured prefix.
    pub fn object_path(&self, index: usize) -> String {
        format!("{}/{index}.{}", self.name, self.extension)
    }
}
