//! Cache of the last cycle's order: guide, playlist and validators all need that of the cycle on air.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::Revision;

/// One cached order. It is computed from the revision alone, so clones start empty and all compare equal. It is boxed
/// because most channels of a long lineup are never requested.
#[derive(Default)]
pub struct Memo(Mutex<Option<Box<Known>>>);

struct Known {
    cycle: u64,
    order: Arc<[u32]>,
}

impl Revision {
    /// [`Revision::order`], cached until another cycle is requested.
    pub(super) fn order_known(&self, cycle: u64) -> Arc<[u32]> {
        let mut known = self.memo.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| known.cycle == cycle) {
            return known.order.clone();
        }
        let order: Arc<[u32]> = self.order(cycle).into();
        *known = Some(Box::new(Known { cycle, order: order.clone() }));
        order
    }
}

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("Memo")
    }
}
