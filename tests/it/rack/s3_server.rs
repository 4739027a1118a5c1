//! An S3 server of a test's own: the crates `s3s` and `s3s-fs` in this process, on a free port.

use std::path::{Path, PathBuf};

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

const BUCKET: &str = "segments";

/// A running S3 server that checks signatures. Dropping it ends it.
pub struct S3Server {
    pub endpoint: String,
    /// `s3://` address of a prefix in its bucket.
    pub address: String,
    /// Credentials in the format of the AWS tools.
    pub credentials_file: PathBuf,
    folder: TempDir,
    task: JoinHandle<()>,
}

impl S3Server {
    pub async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir_all(folder.path().join("objects").join(BUCKET)).expect("a fresh folder");
        let files = FileSystem::new(folder.path().join("objects")).expect("a folder");
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single("HEARTHCAST", "open sesame"));
        let service = service.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let endpoint = format!("http://{}", listener.local_addr().expect("bound"));
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone());
                connections.spawn(async move {
                    let _ = connection.await;
                });
            }
        });
        let credentials_file = folder.path().join("credentials");
        let text = "[default]\naws_access_key_id = HEARTHCAST\naws_secret_access_key = open sesame\n";
        std::fs::write(&credentials_file, text).expect("a fresh file");
        Self { endpoint, address: format!("s3://{BUCKET}/tv"), credentials_file, folder, task }
    }

    /// Ends it with all of its connections.
    pub async fn stop(&mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// The files of all objects, in the order of their names.
    pub fn object_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        collect_files(&self.folder.path().join("objects").join(BUCKET), &mut found);
        found.sort();
        found
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn collect_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { collect_files(&path, found) } else { found.push(path) }
    }
}
