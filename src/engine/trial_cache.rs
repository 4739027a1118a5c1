//! Results of trials, one for each program this process was configured to use.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;

use super::renewable_cell::RenewableCell;

/// Results kept: one per ffmpeg binary.
const MAX_PROGRAMS: NonZeroUsize = NonZeroUsize::new(16).expect("not zero");

type Cell<T> = Arc<RenewableCell<Arc<T>>>;

/// The results by path of the program. Callers of the same program wait for one trial.
pub(super) struct TrialCache<T> {
    cells: Mutex<LruCache<PathBuf, Cell<T>>>,
}

impl<T> Default for TrialCache<T> {
    fn default() -> Self {
        Self { cells: Mutex::new(LruCache::sparse(MAX_PROGRAMS)) }
    }
}

impl<T> TrialCache<T> {
    /// The result for a program; tried now if it is not known. One that is an error is given to the callers that wait for it, and
    /// not kept.
    pub async fn get(&self, program: &Path, trial: impl Future<Output = Result<Arc<T>, Arc<T>>>) -> Arc<T> {
        self.cell(program).get_or_try_find(trial).await.unwrap_or_else(|result| result)
    }

    /// The result for a program, if it was tried.
    pub fn find(&self, program: &Path) -> Option<Arc<T>> {
        self.cell(program).found()
    }

    /// Replaces the result for a program.
    pub fn replace(&self, program: &Path, result: Arc<T>) {
        self.cell(program).replace(result);
    }

    fn cell(&self, program: &Path) -> Cell<T> {
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.get_or_insert(program.to_owned(), Arc::default).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_result_is_kept_until_it_is_replaced() {
        let (cache, program) = (TrialCache::default(), Path::new("/bin/true"));
        assert_eq!(*cache.get(program, async { Err(Arc::new(0)) }).await, 0);
        assert_eq!(*cache.get(program, async { Ok(Arc::new(1)) }).await, 1);
        assert_eq!(*cache.get(program, async { Ok(Arc::new(2)) }).await, 1);
        cache.replace(program, Arc::new(3));
        assert_eq!(cache.find(program).as_deref(), Some(&3));
        assert_eq!(cache.find(Path::new("/bin/false")), None);
        assert_eq!(*cache.get(program, async { Ok(Arc::new(4)) }).await, 3);
        assert_eq!(*cache.get(Path::new("/bin/false"), async { Ok(Arc::new(5)) }).await, 5);
    }
}
