//! A player's buffer: it plays in real time what was received, and stalls when that is played.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// At most as many faults are kept with their text.
const MAX_FAULTS: usize = 20;

/// Figures of all viewers.
#[derive(Default)]
pub struct Totals {
    pub bytes: AtomicU64,
    pub stalls: AtomicU64,
    pub zaps: AtomicU64,
    pub slowest_zap_millis: AtomicU64,
    faults: Mutex<(u64, Vec<String>)>,
}

impl Totals {
    /// Notes an answer that a viewer could do nothing with.
    pub fn add_fault(&self, text: String) {
        let mut faults = self.faults.lock().expect("no panic");
        faults.0 += 1;
        if faults.1.len() < MAX_FAULTS {
            faults.1.push(text);
        }
    }

    pub fn fault_count(&self) -> u64 {
        self.faults.lock().expect("no panic").0
    }

    pub fn print(&self) {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        println!(
            "{} stalls, {} faults; {} zaps, the slowest {} ms; {:.1} GiB",
            load(&self.stalls),
            self.fault_count(),
            load(&self.zaps),
            load(&self.slowest_zap_millis),
            load(&self.bytes) as f64 / f64::from(1 << 30)
        );
        for fault in &self.faults.lock().expect("no panic").1 {
            println!("  {fault}");
        }
    }
}

/// The buffer of one player.
pub struct PlayerBuffer {
    /// Plays once it has this much.
    start_at: Duration,
    received: Duration,
    /// When the media's beginning was played, moved by stalls.
    began: Option<Instant>,
}

impl PlayerBuffer {
    pub fn new(start_at: Duration) -> Self {
        Self { start_at, received: Duration::ZERO, began: None }
    }

    /// Adds media of this length; a stall before it is counted.
    pub fn receive(&mut self, media: Duration, totals: &Totals) {
        if let Some(began) = self.began
            && began.elapsed() > self.received
        {
            totals.stalls.fetch_add(1, Ordering::Relaxed);
            self.began = Some(Instant::now() - self.received);
        }
        self.received += media;
        if self.began.is_none() && self.received >= self.start_at {
            self.began = Some(Instant::now());
        }
    }

    /// How much is received and not played.
    pub fn ahead(&self) -> Duration {
        self.received.saturating_sub(self.began.map_or(Duration::ZERO, |began| began.elapsed()))
    }
}
