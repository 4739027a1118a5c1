//! The errors in a configuration, one sentence each.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Config, Limits, can_be_forbidden};
use crate::domain::ssrf::AllowedSources;

impl Config {
    /// All errors in the configuration, one message each.
    pub fn errors(&self) -> Vec<String> {
        let mut errors = self.limits.errors();
        errors.extend(self.text_style().invalid_reason());
        if !(1.0..=6.0).contains(&self.segment_seconds) {
            errors.push(format!("segment_seconds is {}; it must be 1 to 6", self.segment_seconds));
        }
        for origin in &self.allowed_origins {
            if !is_origin(origin) {
                errors.push(format!("allowed_origins contains {origin:?}; an origin looks like https://tv.example"));
            }
        }
        for name in self.forbidden_encoders.iter().filter(|name| !can_be_forbidden(name)) {
            errors.push(format!(
                "forbidden_encoders contains {name:?}; `hearthcast doctor` lists the hardware encoders and decoders"
            ));
        }
        if let Some(fault) = self.public_base_url.as_deref().and_then(base_url_error) {
            errors.push(fault);
        }
        errors.extend(self.queue.as_deref().and_then(queue_error));
        errors.extend(self.store_error());
        if self.database.is_some() && !cfg!(feature = "cluster") {
            errors
                .push(missing_feature("state is a database, but this program was built without PostgreSQL", "cluster"));
        }
        errors.extend(self.peer_address.as_deref().and_then(peer_error));
        errors.extend(self.otlp_endpoint.as_deref().and_then(otlp_error));
        if self.hdhomerun_token_file.is_some() && !self.hdhomerun {
            errors.push("hdhomerun_token_file requires hdhomerun = true".to_owned());
        }
        if let Err(fault) = AllowedSources::parse(&self.allowed_sources) {
            errors.push(format!("allowed_sources: {fault}"));
        }
        for (index, root) in self.roots.iter().enumerate() {
            if !root.path.is_absolute() {
                errors.push(format!("root {} must be an absolute path", root.path.display()));
            }
            if root.id.is_empty() || !root.id.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)) {
                errors.push(format!("root id {:?} must contain only letters, digits and . _ -", root.id));
            }
            if self.roots[..index].iter().any(|other| other.id == root.id || other.path == root.path) {
                errors.push(format!("root {} ({}) is configured twice", root.id, root.path.display()));
            }
        }
        for root in self.library_roots() {
            for (setting, folder) in [("state", &self.state), ("cache", &self.cache)] {
                if resolve_symlinks(folder).starts_with(resolve_symlinks(&root.path)) {
                    let (folder, root) = (folder.display(), root.path.display());
                    errors.push(format!(
                        "{setting} {folder} is inside the library folder {root}, where clients could download its files: \
                         choose another {setting} folder, or library folders that do not contain it"
                    ));
                }
            }
        }
        errors
    }
}

impl Limits {
    fn errors(&self) -> Vec<String> {
        let whole_seconds = |duration: Duration| duration.as_secs();
        let bounds = [
            ("body_bytes", self.body_bytes, 1024, 16 << 20),
            ("sessions_per_user", self.sessions_per_user as u64, 1, 1000),
            ("concurrent_jobs", self.concurrent_jobs as u64, 1, 256),
            ("segment_memory_bytes", self.segment_memory_bytes, 16 << 20, 1 << 40),
            ("segment_disk_bytes", self.segment_disk_bytes, 0, 1 << 50),
            ("segment_wait_seconds", whole_seconds(self.segment_wait), 1, 120),
            ("session_idle_seconds", whole_seconds(self.session_idle), 5, 24 * 3600),
            ("probe_deadline_seconds", whole_seconds(self.probe_deadline), 1, 60),
            ("ingest_linger_seconds", whole_seconds(self.ingest_linger), 0, 3600),
            ("connections", self.connections as u64, 8, 1 << 20),
            ("logins_per_minute", u64::from(self.logins_per_minute), 1, 1000),
            ("login_days", whole_seconds(self.login_lifetime) / 86_400, 1, 3650),
        ];
        let outside = bounds.into_iter().filter(|(_, value, min, max)| !(min..=max).contains(&value));
        outside.map(|(name, value, min, max)| format!("limits.{name} is {value}; it must be {min} to {max}")).collect()
    }
}

/// The error in a setting of a cargo feature that this build lacks.
pub(super) fn missing_feature(reason: &str, feature: &str) -> String {
    format!("{reason}: use a package, or build it with `cargo build --release --features {feature}`")
}

/// Why the address of a queue is not accepted.
fn queue_error(address: &str) -> Option<String> {
    if !cfg!(feature = "cluster") {
        return Some(missing_feature("queue is set, but this program was built without remote workers", "cluster"));
    }
    let is_address =
        ["nats://", "tls://"].iter().any(|scheme| address.strip_prefix(scheme).is_some_and(|host| !host.is_empty()));
    (!is_address).then(|| "queue must be an address such as nats://127.0.0.1:4222".to_owned())
}

/// Why the address of this server among those of a database is not accepted.
fn peer_error(address: &str) -> Option<String> {
    let is_address = address.starts_with("http://") && is_origin(address);
    (!is_address).then(|| format!("peer_address is {address:?}; it must be an address such as http://10.0.0.2:8470"))
}

/// Why the address of a collector is not accepted.
fn otlp_error(address: &str) -> Option<String> {
    if !cfg!(feature = "otlp") {
        return Some(missing_feature("otlp_endpoint is set, but this program was built without traces", "otlp"));
    }
    let is_address =
        ["http://", "https://"].iter().any(|scheme| address.strip_prefix(scheme).is_some_and(|host| !host.is_empty()));
    (!is_address).then(|| "otlp_endpoint must be an address such as http://127.0.0.1:4318".to_owned())
}

/// First segments of the server's own paths; a path prefix must not begin with one of them.
const RESERVED_PATHS: [&str; 3] = ["api", "web", "hdhr"];

/// The error in a `public_base_url`; None if it is valid.
fn base_url_error(url: &str) -> Option<String> {
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else {
        return Some(format!("public_base_url is {url:?}; it must begin with http:// or https://"));
    };
    let (host, path) = rest.trim_end_matches('/').split_once('/').unwrap_or((rest.trim_end_matches('/'), ""));
    let has_only = |text: &str, allowed: &[u8]| text.bytes().all(|b| b.is_ascii_alphanumeric() || allowed.contains(&b));
    if host.is_empty() || !has_only(host, b".-_:[]") {
        return Some(format!(
            "public_base_url is {url:?}; its host must be a name or an address, optionally with a port"
        ));
    }
    let is_valid_segment = |part: &str| !matches!(part, "" | "." | "..") && has_only(part, b".-_~");
    if !path.is_empty() && !path.split('/').all(is_valid_segment) {
        return Some(format!(
            "public_base_url is {url:?}; its path must contain only letters, digits and - . _ ~ between slashes"
        ));
    }
    let first = path.split('/').next().filter(|first| RESERVED_PATHS.contains(first))?;
    Some(format!("public_base_url is {url:?}; its path must not begin with /{first}"))
}

/// Resolves symlinks in the part of the path that exists.
fn resolve_symlinks(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(real), ..) => real,
        (Err(_), Some(parent), Some(name)) => resolve_symlinks(parent).join(name),
        _ => path.to_owned(),
    }
}

/// Whether the text is exactly `scheme://host[:port]`, as browsers send it.
fn is_origin(text: &str) -> bool {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-:[]".contains(&b))
    })
}
