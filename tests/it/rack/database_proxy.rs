//! A connection to PostgreSQL that can be cut for one server alone.

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Passes connections on to a database. Dropping it ends them.
pub struct DatabaseProxy {
    /// Address of the database through it.
    pub url: String,
    is_cut: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl DatabaseProxy {
    /// Starts one for an address with a host, a port and a path.
    pub async fn start(url: &str) -> Self {
        let (head, rest) = url.split_once('@').expect("a user");
        let (target, path) = rest.split_once('/').expect("a database");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{head}@{}/{path}", listener.local_addr().unwrap());
        let (is_cut, target) = (watch::channel(false).0, target.to_owned());
        let sender = is_cut.clone();
        let task = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let (mut is_cut, target) = (sender.subscribe(), target.clone());
                if *is_cut.borrow() {
                    continue;
                }
                tokio::spawn(async move {
                    let Ok(mut database) = TcpStream::connect(target).await else { return };
                    tokio::select! {
                        _ = copy_bidirectional(&mut client, &mut database) => {}
                        _ = is_cut.wait_for(|is_cut| *is_cut) => {}
                    }
                });
            }
        });
        Self { url, is_cut, task }
    }

    /// Closes all connections and refuses new ones.
    pub fn cut(&self) {
        self.is_cut.send_replace(true);
    }

    pub fn restore(&self) {
        self.is_cut.send_replace(false);
    }
}

impl Drop for DatabaseProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}
