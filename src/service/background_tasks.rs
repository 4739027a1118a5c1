//! The long-lived background tasks: tracked together, ended by one token and joined at shutdown.

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// All background tasks of the server. Clones share them.
#[derive(Clone, Default)]
pub struct BackgroundTasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl BackgroundTasks {
    /// Spawns a task that shutdown drops at its next await.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            stop.run_until_cancelled(task).await;
        })
    }

    /// Spawns a task that ends itself when a [`Self::stop_token`] is cancelled.
    pub fn spawn_graceful(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.tracker.spawn(task)
    }

    /// A token of one task, cancelled at shutdown at the latest.
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.child_token()
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Ends all tasks and waits for them.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
