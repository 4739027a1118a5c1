//! The encoders of a standby are tested before it takes over.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;

use super::household::Household;
use crate::kit::response::{expect_success, send_until_ready};
use crate::kit::wait::MAX_WAIT;

/// Makes ffmpeg in a folder; without trials, those of encoders fail, which read generated media.
fn write_ffmpeg(folder: &Path, has_trials: bool) {
    let refusal = if has_trials { "" } else { "case \" $* \" in *' lavfi '*) exit 1;; esac\n" };
    for (name, refusal) in [("ffmpeg", refusal), ("ffprobe", "")] {
        let draft = folder.join("draft");
        std::fs::write(&draft, format!("#!/bin/sh\n{refusal}exec {name} \"$@\"\n")).unwrap();
        std::fs::set_permissions(&draft, PermissionsExt::from_mode(0o755)).unwrap();
        std::fs::rename(draft, folder.join(name)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_tests_its_encoders_before_it_is_active() {
    let Some(mut household) = Household::start().await else { return };
    let mut active = household.server("a");
    active.wait_until_listening();
    let tools = household.folder.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    write_ffmpeg(&tools, true);
    household.settings.push(("HEARTHCAST_FFMPEG", tools.join("ffmpeg").display().to_string()));
    let mut standby = household.server("b");
    standby.wait_until_standby();
    let log = household.folder.path().join("b/log");
    let began = Instant::now();
    while !std::fs::read_to_string(&log).unwrap().contains("encoders ready") {
        assert!(began.elapsed() < MAX_WAIT, "the standby has not tested its encoders");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    write_ffmpeg(&tools, false);
    active.kill();
    standby.wait_until_listening();

    let url = format!("{}/api/stream/transcode/start", standby.base);
    let options = json!({"mediaPath": household.film, "forceTranscode": true});
    let request = standby.client.request(Method::POST, url).bearer_auth(&household.token).json(&options);
    expect_success(send_until_ready(request).await, 200).await;
}
