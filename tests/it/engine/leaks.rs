//! Counts GStreamer objects over starts and stops: a child process with the `leaks` tracer lists living objects on request.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::gstreamer_backend::{cycle, wait_until_closed};
use super::*;

use crate::kit::wait::MAX_WAIT;

/// Cycles before the first count, for objects that are created once: four over each film.
const WARM_UP_CYCLES: u64 = 16;

/// Runs in the child process; does nothing without its environment variable.
#[tokio::test]
async fn cycles_of_the_leaks_tracer() {
    let Some(cycle_count) = environment_number("HEARTHCAST_LEAKS_CHILD") else { return };
    let plain = Bench::of_new_film("a.mkv", Container::Matroska, 12, "-c:v libx264 -preset ultrafast -g 60 -c:a aac");
    let benches: Vec<Bench> =
        std::iter::once(plain.with_gstreamer()).chain(bitmap_subtitles::benches_to_cycle()).collect();
    let mut lines = std::io::stdin().lines();
    let mut from = 0;
    for to in [WARM_UP_CYCLES, WARM_UP_CYCLES + cycle_count] {
        for number in from..to {
            cycle(&benches[number as usize / 4 % benches.len()], number).await;
        }
        for bench in &benches {
            wait_until_closed(bench).await;
        }
        println!("\nrest");
        lines.next();
        from = to;
    }
}

fn environment_number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Living objects by type, from the last list in a log.
fn living_objects(log: &str) -> Option<BTreeMap<String, i64>> {
    let (_, list) = log.rsplit_once("start listing currently alive objects")?;
    let (list, _) = list.split_once(" alive objects")?;
    let mut count = BTreeMap::new();
    for line in list.lines().filter(|line| line.contains("object-alive,")) {
        let kind = line.split("type-name=(string)").nth(1)?.split(',').next()?;
        *count.entry(kind.to_owned()).or_default() += 1;
    }
    Some(count)
}

/// `HEARTHCAST_LEAKS` sets the number of cycles. Without it the test is skipped, because the tracer slows all cycles down.
#[tokio::test(flavor = "multi_thread")]
async fn no_gstreamer_object_outlives_its_run() {
    let Some(cycles) = environment_number("HEARTHCAST_LEAKS") else { return };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("leaks.log");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "engine::leaks::cycles_of_the_leaks_tracer", "--nocapture"])
        .env("HEARTHCAST_LEAKS_CHILD", cycles.to_string())
        .env("GST_TRACERS", "leaks")
        .env("GST_LEAKS_TRACER_SIG", "1")
        .env("GST_DEBUG", "GST_TRACER:7,leaks:7")
        .env("GST_DEBUG_NO_COLOR", "1")
        .env("GST_DEBUG_FILE", &log)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut counts = Vec::new();
    for lists in 1..=2 {
        assert!(lines.any(|line| line.unwrap() == "rest"), "the child ended early");
        let signal_status = Command::new("kill").args(["-USR1", &child.id().to_string()]).status().unwrap();
        assert!(signal_status.success());
        let deadline = Instant::now() + MAX_WAIT;
        counts.push(loop {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            if text.matches("> listed ").count() == lists
                && let Some(count) = living_objects(&text)
            {
                break count;
            }
            assert!(Instant::now() < deadline, "no list");
            tokio::time::sleep(Duration::from_millis(20)).await;
        });
        writeln!(child.stdin.as_mut().unwrap(), "on").unwrap();
    }
    assert!(child.wait().unwrap().success());
    let growth: BTreeMap<&String, i64> = counts[1]
        .iter()
        .map(|(kind, count)| (kind, count - counts[0].get(kind).copied().unwrap_or(0)))
        .filter(|(_, difference)| *difference != 0)
        .collect();
    eprintln!("{} objects alive, after {cycles} more cycles additionally: {growth:?}", counts[0].values().sum::<i64>());
    // Fewer than one in two cycles: objects that are created once, late.
    assert!(growth.values().all(|more| more * 2 < cycles as i64), "{growth:?}");
}
