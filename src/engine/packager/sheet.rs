//! Memory that pieces are packed into, used again by its thread while it is warm.

use std::cell::RefCell;

/// Largest that is kept, bytes, and how many a thread keeps.
const KEPT: usize = 512 << 10;
const MOST_SPARE: usize = 3;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer that goes back to the thread where it is dropped: the kernel clears fresh memory page by page, which costs more
/// than what is written into it.
#[derive(Debug)]
pub(super) struct Sheet(Vec<u8>);

impl Sheet {
    /// An empty one with room for this many bytes.
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
        // A thread that is ending has no spare ones any more.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < MOST_SPARE {
                spare.push(bytes);
            }
        });
    }
}
