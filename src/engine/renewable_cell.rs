//! A value that is found when it is first needed, and again when the machine has changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OnceCell;

/// A value found once, until it is renewed. Callers wait for one search.
#[derive(Debug)]
pub struct RenewableCell<T>(Mutex<Arc<OnceCell<T>>>);

impl<T> Default for RenewableCell<T> {
    fn default() -> Self {
        Self(Mutex::new(Arc::new(OnceCell::new())))
    }
}

impl<T: Clone> RenewableCell<T> {
    /// The value; found now if it is not known. A search that fails is repeated by the next call.
    ///
    /// # Errors
    /// Those of the search.
    pub async fn get_or_try_find<E>(&self, search: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let cell = self.lock().clone();
        cell.get_or_try_init(|| search).await.cloned()
    }

    /// The value, if it was found since it was last forgotten.
    pub fn found(&self) -> Option<T> {
        self.lock().get().cloned()
    }

    /// Has the next call find it again. Searches under way give their result to the callers that wait for them only.
    pub fn forget(&self) {
        *self.lock() = Arc::default();
    }

    /// Replaces the value.
    pub fn replace(&self, value: T) {
        *self.lock() = Arc::new(OnceCell::new_with(Some(value)));
    }

    fn lock(&self) -> MutexGuard<'_, Arc<OnceCell<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_value_is_kept_until_it_is_replaced_or_forgotten() {
        let cell = RenewableCell::default();
        assert_eq!(cell.get_or_try_find(async { Err(0) }).await, Err(0));
        assert_eq!(cell.found(), None);
        assert_eq!(cell.get_or_try_find(async { Ok::<_, u8>(1) }).await, Ok(1));
        assert_eq!(cell.get_or_try_find(async { Ok::<_, u8>(2) }).await, Ok(1));
        cell.replace(3);
        assert_eq!(cell.get_or_try_find(async { Ok::<_, u8>(4) }).await, Ok(3));
        assert_eq!(cell.found(), Some(3));
        cell.forget();
        assert_eq!(cell.found(), None);
        assert_eq!(cell.get_or_try_find(async { Ok::<_, u8>(5) }).await, Ok(5));
    }
}
