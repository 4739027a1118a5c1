//! The encoders and decoders of this machine.

use super::Finding::{self, Failed, Passed};
use crate::config::Config;
use crate::service::renditions::local_encoders::{LocalEncoders, OptionalCodec};

pub async fn check_ffmpeg(config: &Config) -> Vec<Finding> {
    let (ffmpeg, encoders) = (&config.ffmpeg, LocalEncoders::new(config));
    let report = encoders.report().await;
    let Some(version) = &report.version else {
        let reason = report.rejected.first().map_or("", |rejected| rejected.reason.as_str());
        return vec![Failed(format!("ffmpeg: {reason}; files that need transcoding will not play"))];
    };
    let mut findings = vec![Passed(format!("ffmpeg {version} at {}", ffmpeg.display()))];
    findings.extend(report.working.iter().map(|encoder| {
        if !encoder.is_hardware {
            return Passed(format!("encoder {} (software) encoded a frame", encoder.name));
        }
        match encoders.reason_against(encoder.name) {
            Some(reason) => Passed(format!("encoder {} (hardware) works, and is not used: {reason}", encoder.name)),
            None => Passed(format!("encoder {} (hardware) encoded two seconds like the source", encoder.name)),
        }
    }));
    if !report.can_transcode() {
        findings.push(Failed("no H.264 encoder works; files that need transcoding will not play".to_owned()));
    }
    let rejected = report.rejected.iter();
    findings.extend(rejected.map(|one| Passed(format!("encoder {} is not used: {}", one.name, one.reason))));
    let decoders = encoders.decoders().await;
    findings.extend(decoders.working.iter().map(|working| {
        let formats: Vec<&str> = working.formats.iter().map(|format| format.name).collect();
        let (name, formats) = (working.decoder.name, formats.join(", "));
        Passed(match encoders.reason_against(name) {
            Some(reason) => format!("hardware decoder {name} works, and is not used: {reason}"),
            None => format!("hardware decoder {name} decoded like software: {formats}"),
        })
    }));
    let rejected = decoders.rejected.iter();
    findings.extend(rejected.map(|one| Passed(format!("hardware decoder {} is not used: {}", one.name, one.reason))));
    findings
}

/// Measures the encoders of other codecs than H.264, as the server does when a client has preferred one.
pub async fn check_optional_codecs(config: &Config) -> Vec<Finding> {
    let encoders = LocalEncoders::new(config);
    encoders.measure_speeds().await;
    let describe = |codec: &OptionalCodec| {
        let used = if codec.is_used() { "used for clients that prefer it" } else { "not used" };
        Passed(format!("{} is {used}: {}", codec.codec.as_str(), codec.reason()))
    };
    encoders.optional_codecs().await.iter().map(describe).collect()
}
