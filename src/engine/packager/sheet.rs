//! Pooled buffers for packed chunks. A thread reuses its buffers while they are in the processor's cache.

use std::cell::RefCell;

/// Maximum size of a kept buffer, bytes, and how many a thread keeps.
const KEPT: usize = 512 << 10;
const MOST_SPARE: usize = 3;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer that returns to the pool of the thread that drops it. The kernel clears fresh memory page by page, which costs
/// more than writing the chunk.
#[derive(Debug)]
pub(super) struct Sheet(Vec<u8>);

impl Sheet {
    /// An empty buffer with this capacity, bytes.
    pub(super) fn of(room: usize) -> Self {
        let mut bytes = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        bytes.clear();
        bytes.reserve(room);
        Self(bytes)
    }

    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl AsRef<[u8]> for Sheet {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Sheet {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        if bytes.capacity() > KEPT {
            return;
        }
        // A thread that is ending has no pool any more.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MOST_SPARE {
                spare.push(bytes);
            }
        });
    }
}
