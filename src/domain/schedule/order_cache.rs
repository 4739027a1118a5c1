//! Cache of the last cycle's order: guide, playlist and validators all need that of the cycle on air.

use std::sync::{Arc, Mutex, PoisonError};

use super::ScheduleRevision;

/// One cached order. It is computed from the revision alone, so clones start empty and all compare equal. It is boxed
/// because most channels of a long lineup are never requested.
#[derive(Debug, Default)]
pub struct OrderCache(Mutex<Option<Box<CachedOrder>>>);

#[derive(Debug)]
struct CachedOrder {
    cycle: u64,
    order: Arc<[u32]>,
}

impl ScheduleRevision {
    /// [`ScheduleRevision::cycle_order`], cached until another cycle is requested.
    pub(super) fn cached_order(&self, cycle: u64) -> Arc<[u32]> {
        let mut cached = self.order_cache.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hit) = cached.as_ref().filter(|cached| cached.cycle == cycle) {
            return hit.order.clone();
        }
        let order: Arc<[u32]> = self.cycle_order(cycle).into();
        *cached = Some(Box::new(CachedOrder { cycle, order: order.clone() }));
        order
    }
}

impl Clone for OrderCache {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for OrderCache {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
