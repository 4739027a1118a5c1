//! Decoders of runs that have ended, kept for some seconds: a viewer who jumps ends one run and starts another over the
//! same file, which then only seeks where a fresh one opens the file, finds out what it is and fills its queues first.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::WeakSender;

use super::decode::{Decoder, Wish};
use crate::engine::{RunError, Segment};

/// How long decoders are kept. A jump ends one run and starts the next in the same breath.
const KEPT: Duration = Duration::from_secs(3);

/// Decoders kept at once: those of two runs. Each holds its file open and some pictures, with 4K some 200 MiB.
const MOST: usize = 4;

/// How long a run waits for the decoders of one that its owner has just let go.
const RETURN: Duration = Duration::from_millis(150);

/// Where a run answers its owner.
type Owner = WeakSender<Result<Segment, RunError>>;

#[derive(Debug, Default)]
pub(super) struct Shelf {
    inner: Mutex<Inner>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    kept: Vec<Kept>,
    /// Runs at work, with what they decode.
    lent: Vec<(u64, Owner, Vec<Wish>)>,
    number: u64,
    #[cfg(test)]
    taken: usize,
}

#[derive(Debug)]
struct Kept {
    decoder: Decoder,
    /// The run it comes from.
    of: u64,
}

impl Shelf {
    /// A run is at work with its decoders; the number it is known by.
    pub(super) fn lend(&self, owner: Owner, wishes: Vec<Wish>) -> u64 {
        let mut inner = self.lock();
        inner.number += 1;
        let number = inner.number;
        inner.lent.push((number, owner, wishes));
        number
    }

    /// A decoder that can go on with `wish`. Waits a moment where a run that nobody wants any more still holds one.
    pub(super) fn take(&self, wish: &Wish) -> Option<Decoder> {
        let until = Instant::now() + RETURN;
        let mut inner = self.lock();
        loop {
            if let Some(at) = inner.kept.iter().position(|kept| kept.decoder.serves(wish)) {
                #[cfg(test)]
                {
                    inner.taken += 1;
                }
                let taken = inner.kept.swap_remove(at).decoder;
                self.returned.notify_all();
                return Some(taken);
            }
            let given_up = |owner: &Owner| owner.upgrade().is_none_or(|owner| owner.is_closed());
            let coming = |wishes: &[Wish]| wishes.iter().any(|other| other.is_like(wish));
            let soon = inner.lent.iter().any(|(_, owner, wishes)| given_up(owner) && coming(wishes));
            let left = until.saturating_duration_since(Instant::now());
            if !soon || left.is_zero() {
                return None;
            }
            inner = self.returned.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A run is over, its decoders are for whoever wants them next. Returns when they are taken or have been kept long
    /// enough.
    pub(super) fn keep(&self, number: u64, decoders: Vec<Decoder>) {
        let until = Instant::now() + KEPT;
        let mut inner = self.lock();
        inner.lent.retain(|(of, ..)| *of != number);
        let fit = decoders.into_iter().filter(Decoder::is_fit);
        inner.kept.extend(fit.map(|decoder| Kept { decoder, of: number }));
        let over = inner.kept.len().saturating_sub(MOST);
        let mut dropped: Vec<Kept> = inner.kept.drain(..over).collect();
        self.returned.notify_all();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || !inner.kept.iter().any(|kept| kept.of == number) {
                break;
            }
            inner = self.returned.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        while let Some(at) = inner.kept.iter().position(|kept| kept.of == number) {
            dropped.push(inner.kept.swap_remove(at));
        }
        // Without the lock: a pipeline is stopped for each.
        drop(inner);
        drop(dropped);
    }

    /// How often a decoder was taken.
    #[cfg(test)]
    pub(super) fn taken(&self) -> usize {
        self.lock().taken
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
