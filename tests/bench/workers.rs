//! Worker processes compared with GStreamer in the server process: probes, first segments, the speed of an encode, and the
//! server's memory over hostile files. With `HEARTHCAST_CORPUS`, probes and memory are measured over that corpus.

use std::path::Path;

/// The server's memory over hostile files.
mod memory;
/// Probes by workers, and in this process.
mod probes;
/// Runs in workers, and in this process.
mod runs;

/// A figure beside its floor.
pub fn print_floor(name: &str, figure: f64, unit: &str, relation: &str, floor: f64) {
    let is_met = if relation == "<=" { figure <= floor } else { figure >= floor };
    println!("{name}: {figure:.2}{unit} (floor {relation} {floor}{unit}){}", if is_met { "" } else { ", MISSED" });
}

/// A percentile of these figures.
pub fn percentile(figures: &[f64], share: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len().saturating_sub(1) as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
}

pub fn median(figures: &[f64]) -> f64 {
    percentile(figures, 0.5)
}

/// The corpus folder, if there is one.
fn corpus_folder() -> Option<std::path::PathBuf> {
    let folder = std::env::var_os("HEARTHCAST_CORPUS").map(std::path::PathBuf::from);
    if folder.is_none() {
        println!("HEARTHCAST_CORPUS does not name a corpus folder: made media are measured");
    }
    folder
}

/// Makes a short film with these arguments of ffmpeg.
fn make_film(path: &Path, source: &str, arguments: &str) {
    let mut command = std::process::Command::new("ffmpeg");
    command.args(["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", source]);
    command.args(["-f", "lavfi", "-i", "sine=f=440:r=48000:d=5", "-shortest"]);
    let status = command.args(arguments.split_whitespace()).arg(path).status().expect("ffmpeg runs");
    assert!(status.success(), "{command:?}");
}

pub fn run() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime can be built");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    println!("\n# workers");
    runtime.block_on(probes::measure(folder.path()));
    runtime.block_on(probes::measure_cold_servers(folder.path()));
    runtime.block_on(runs::measure(folder.path()));
    runtime.block_on(memory::measure(folder.path()));
}
