//! Measures how far audio moved in time between two files.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

/// Loudness values per second: one every 5 ms.
const STEPS_PER_SECOND: usize = 200;
const SAMPLE_RATE: usize = 8000;
/// The largest delay that is searched, steps.
const MAX_LAG_STEPS: usize = STEPS_PER_SECOND / 4;

/// Loudness of a file's first audio stream from `start_seconds` (seconds of its own clock), in steps of 5 ms; a minute at most.
async fn loudness_steps(path: &Path, start_seconds: f64) -> Vec<f64> {
    // Not exactly the start: if the two are equal, ffmpeg shifts the stream to its own beginning.
    let offset = format!("{:.6}", 2e-6 - start_seconds);
    let output = Command::new("ffmpeg")
        .args(["-nostdin", "-v", "quiet", "-copyts", "-itsoffset", &offset, "-i"])
        .arg(path)
        .args(["-map", "0:a:0", "-t", "60", "-af", "aresample=8000:async=1:min_hard_comp=0.01:first_pts=0"])
        .args(["-ac", "1", "-f", "s16le", "-"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .expect("ffmpeg starts");
    let samples: Vec<f64> =
        output.stdout.as_chunks::<2>().0.iter().map(|&pair| f64::from(i16::from_le_bytes(pair))).collect();
    samples
        .chunks(SAMPLE_RATE / STEPS_PER_SECOND)
        .map(|step| (step.iter().map(|s| s * s).sum::<f64>() / step.len() as f64).sqrt())
        .collect()
}

/// Delay of the audio in `ours` against `theirs`, seconds, each relative to its own start. None if it cannot be measured:
/// silence, a steady tone, or different audio.
pub async fn audio_delay_seconds(ours: (&Path, f64), theirs: (&Path, f64)) -> Option<f64> {
    let (ours, theirs) = (loudness_steps(ours.0, ours.1).await, loudness_steps(theirs.0, theirs.1).await);
    let likeness_at = |lag: i64| {
        let (from_ours, from_theirs) = (lag.max(0) as usize, (-lag).max(0) as usize);
        let (a, b) = (ours.get(from_ours..)?, theirs.get(from_theirs..)?);
        let len = a.len().min(b.len());
        (len >= STEPS_PER_SECOND / 5).then(|| correlation(&a[..len], &b[..len]))
    };
    let lags = -(MAX_LAG_STEPS as i64)..=MAX_LAG_STEPS as i64;
    let (best_lag, best_likeness) =
        lags.filter_map(|lag| Some((lag, likeness_at(lag)?))).max_by(|a, b| a.1.total_cmp(&b.1))?;
    // A lag that is hardly better than none counts as none.
    let likeness_without_lag = likeness_at(0)?;
    match best_likeness {
        likeness if likeness < 0.7 => None,
        likeness if likeness - likeness_without_lag < 0.02 => Some(0.0),
        _ => Some(best_lag as f64 / STEPS_PER_SECOND as f64),
    }
}

/// Pearson's correlation coefficient.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut covariance, mut square_a, mut square_b) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        covariance += (x - mean_a) * (y - mean_b);
        square_a += (x - mean_a).powi(2);
        square_b += (y - mean_b).powi(2);
    }
    covariance / (square_a * square_b).sqrt().max(1e-9)
}
