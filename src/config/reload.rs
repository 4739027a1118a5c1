//! A reload (SIGHUP): the settings that a running server applies, and those that need a restart.

use super::{Config, Limits};

/// The settings that differ from those in force, by the names that operators write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigChange {
    /// Settings that are applied.
    pub applied: Vec<&'static str>,
    /// Settings that keep their value until the server starts again.
    pub needs_restart: Vec<&'static str>,
}

impl ConfigChange {
    /// The change in words.
    pub fn to_text(&self) -> String {
        match (self.applied.join(", "), self.needs_restart.join(", ")) {
            (applied, waiting) if applied.is_empty() && waiting.is_empty() => "no setting was changed".to_owned(),
            (applied, waiting) if waiting.is_empty() => format!("applied: {applied}"),
            (applied, waiting) if applied.is_empty() => format!("needs a restart: {waiting}"),
            (applied, waiting) => format!("applied: {applied}; needs a restart: {waiting}"),
        }
    }
}

/// Copies the fields of `$loaded` that need no restart to `$merged`, and notes which fields differ. Every field is in one of
/// the lists, so that the compiler refuses a new setting without this decision.
macro_rules! merge_fields {
    ($type:ident, $loaded:expr => $merged:expr, $change:ident,
        applied { $($applied:ident $applied_name:literal)* } restart { $($waiting:ident $waiting_name:literal)* }
        other { $($other:ident)* }) => {
        let $type { $($applied,)* $($waiting,)* $($other: _,)* } = $loaded;
        $(if $merged.$applied != *$applied {
            $merged.$applied.clone_from($applied);
            $change.applied.push($applied_name);
        })*
        $(if $merged.$waiting != *$waiting {
            $change.needs_restart.push($waiting_name);
        })*
    };
}

/// The configuration in force with those settings of `loaded` that need no restart, and all settings that differ.
pub fn merge(current: &Config, loaded: &Config) -> (Config, ConfigChange) {
    let (mut merged, mut change) = (current.clone(), ConfigChange::default());
    merge_fields!(Config, loaded => merged, change,
        applied {
            public_base_url "public_base_url"
            allowed_origins "allowed_origins"
            allowed_sources "allowed_sources"
            shared_cache "shared_cache"
            hdhomerun "hdhomerun"
        }
        restart {
            listen "listen"
            state "state"
            database "state"
            peer_address "peer_address"
            state_ca_file "state_ca_file"
            cache "cache"
            roots "roots"
            recordings "recordings"
            backend "backend"
            isolation "isolation"
            hevc_encoder "hevc_encoder"
            av1_encoder "av1_encoder"
            forbidden_encoders "forbidden_encoders"
            ffmpeg "ffmpeg"
            segment_seconds "segment_seconds"
            subtitle_font "subtitle_font"
            subtitle_size_percent "subtitle_size_percent"
            trusted_proxies "trusted_proxies"
            hdhomerun_token_file "hdhomerun_token_file"
            find_marks "find_marks"
            queue "queue"
            segments "segments"
            segments_endpoint "segments_endpoint"
            segments_region "segments_region"
            segments_credentials_file "segments_credentials_file"
            otlp_endpoint "otlp_endpoint"
            admin "admin"
        }
        other { limits worker_program segments_deadline }
    );
    merge_limits(&mut merged.limits, &loaded.limits, &mut change);
    (merged, change)
}

fn merge_limits(merged: &mut Limits, loaded: &Limits, change: &mut ConfigChange) {
    merge_fields!(Limits, loaded => merged, change,
        applied {
            body_bytes "limits.body_bytes"
            sessions_per_user "limits.sessions_per_user"
            segment_wait "limits.segment_wait_seconds"
            session_idle "limits.session_idle_seconds"
            ingest_linger "limits.ingest_linger_seconds"
            logins_per_minute "limits.logins_per_minute"
            login_lifetime "limits.login_days"
        }
        restart {
            concurrent_jobs "limits.concurrent_jobs"
            segment_memory_bytes "limits.segment_memory_bytes"
            segment_disk_bytes "limits.segment_disk_bytes"
            probe_deadline "limits.probe_deadline_seconds"
            connections "limits.connections"
        }
        other {}
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_applied_or_named_as_waiting_for_a_restart() {
        let current = Config::default();
        let (_, change) = merge(&current, &current);
        assert_eq!((change.to_text().as_str(), &change), ("no setting was changed", &ConfigChange::default()));

        let mut loaded = current.clone();
        loaded.find_marks = false;
        let (merged, change) = merge(&current, &loaded);
        assert!(merged.find_marks, "it keeps its value until a restart");
        assert_eq!(change.to_text(), "needs a restart: find_marks");

        loaded.hdhomerun = true;
        loaded.limits.login_lifetime *= 2;
        loaded.limits.connections += 1;
        let (merged, change) = merge(&current, &loaded);
        assert!(merged.hdhomerun && merged.limits.login_lifetime == loaded.limits.login_lifetime);
        assert_eq!(merged.limits.connections, current.limits.connections);
        assert_eq!(
            change.to_text(),
            "applied: hdhomerun, limits.login_days; needs a restart: find_marks, limits.connections"
        );
        // A second reload applies nothing, and still names what waits.
        assert_eq!(merge(&merged, &loaded).1.to_text(), "needs a restart: find_marks, limits.connections");
    }
}
