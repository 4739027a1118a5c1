//! Starts servers in this process, on a free port and with a temporary state folder. Their workers are processes of the program.
#![allow(dead_code, reason = "no test needs every helper")]

pub mod audio;
pub mod bitmap_subtitles;
pub mod damage;
pub mod decoder_faults;
pub mod disk;
pub mod faults;
pub mod faulty_element;
pub mod file_client;
pub mod hardware_tools;
pub mod kill;
pub mod media;
mod media_cache;
pub mod mutation;
pub mod player;
pub mod plugin_registry;
pub mod program;
pub mod random;
pub mod remote_server;
pub mod response;
pub mod schema;
pub mod service_config;
pub mod small_films;
pub mod tones;
#[cfg(feature = "otlp")]
pub mod trace_collector;
pub mod ts;
pub mod wait;
pub mod worker_processes;
pub mod xmltv;

use std::path::Path;
use std::sync::Arc;

use hearthcast::config::Config;
use hearthcast::domain::access::Role;
use hearthcast::domain::library::Root;
use hearthcast::service::Service;
use service_config::service_config;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A running server; dropping it stops it.
pub struct Server {
    pub base: String,
    /// A bearer token of an ordinary user.
    pub token: String,
    /// A bearer token of an admin.
    pub admin: String,
    pub service: Arc<Service>,
    pub client: reqwest::Client,
    pub folder: TempDir,
    _stop: oneshot::Sender<()>,
}

/// A server over the given library roots.
pub async fn start_server(roots: &[&Path]) -> Server {
    start_server_with(roots, |_| ()).await
}

/// Starts a server over library roots; `configure` edits its configuration.
pub async fn start_server_with(roots: &[&Path], configure: impl FnOnce(&mut Config)) -> Server {
    let mut server = start_unclaimed(roots, configure).await;
    let accounts = &server.service.accounts;
    server.token = accounts.issue_token("viewer", Role::User).await.expect("a user can be made");
    server.admin = accounts.issue_token("operator", Role::Admin).await.expect("a user can be made");
    server
}

/// Starts a server that is not set up: it has no users, and the tokens are empty.
pub async fn start_unclaimed(roots: &[&Path], configure: impl FnOnce(&mut Config)) -> Server {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut config = service_config(&folder.path().join("state"), &folder.path().join("cache"));
    config.roots =
        roots.iter().enumerate().map(|(n, path)| Root { id: format!("r{n}"), path: path.to_path_buf() }).collect();
    configure(&mut config);
    plugin_registry::copy_registry(&config.cache);
    let service = Service::open(config).expect("the service opens");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let base = format!("http://{}", listener.local_addr().expect("bound"));
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(hearthcast::http::serve(service.clone(), listener, async {
        let _ = stopped.await;
    }));
    Server {
        base,
        token: String::new(),
        admin: String::new(),
        service,
        client: reqwest::Client::new(),
        folder,
        _stop: stop,
    }
}

impl Server {
    /// A request as the ordinary user.
    pub fn get(&self, path: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}{path}", self.base)).bearer_auth(&self.token)
    }

    /// A request without a token.
    pub fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        self.client.request(method, format!("{}{path}", self.base))
    }

    /// A JSON request as the ordinary user.
    pub fn post(&self, path: &str, body: &serde_json::Value) -> reqwest::RequestBuilder {
        self.client.post(format!("{}{path}", self.base)).bearer_auth(&self.token).json(body)
    }
}
