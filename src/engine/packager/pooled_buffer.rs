//! Pooled buffers for packed chunks. A thread reuses its buffers while they are in the processor's cache.

use std::cell::RefCell;

/// Maximum size of a kept buffer, bytes, and how many a thread keeps.
const MAX_KEPT_BYTES: usize = 512 << 10;
const MAX_SPARE_BUFFERS: usize = 3;

thread_local! {
    static SPARE_BUFFERS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer that returns to the pool of the thread that drops it. The kernel clears fresh memory page by page, which costs
/// more than writing the chunk.
#[derive(Debug)]
pub(super) struct PooledBuffer(Vec<u8>);

impl PooledBuffer {
    /// An empty buffer with this capacity, bytes.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let mut bytes = SPARE_BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
        bytes.clear();
        bytes.reserve(capacity);
        Self(bytes)
    }

    /// A buffer of these many bytes of any content, to be overwritten. Only those that a buffer lacks are cleared.
    pub(super) fn with_len(len: usize) -> Self {
        let mut bytes = SPARE_BUFFERS.with_borrow_mut(Vec::pop).unwrap_or_default();
        bytes.resize(len, 0);
        Self(bytes)
    }

    pub(super) fn as_mut_vec(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        if bytes.capacity() > MAX_KEPT_BYTES {
            return;
        }
        // A thread that is ending has no pool any more.
        let _ = SPARE_BUFFERS.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MAX_SPARE_BUFFERS {
                spare.push(bytes);
            }
        });
    }
}
