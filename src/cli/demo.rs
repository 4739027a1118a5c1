//! `hearthcast demo`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::{ConfigArgs, Outcome, error_text, runtime};
use crate::app;
use crate::config::Config;
use crate::domain::channel::RequestedItem;
use crate::domain::library::Root;
use crate::domain::schedule::ScheduleMode;
use crate::engine::sample_media;
use crate::service::Service;
use crate::service::channels::ChannelChange;

/// The sample channel's number; low numbers are left for the visitor's own channels.
const CHANNEL_NUMBER: u32 = 500;

/// How many ports after the requested one are tried.
const MAX_PORT_ATTEMPTS: u16 = 100;

#[derive(Args)]
pub struct Demo {
    /// State folder to use and keep [default: a new one that is deleted at the next start].
    #[command(flatten)]
    config_args: ConfigArgs,
    /// Address and port to listen on; the next free port is used if this one is busy [default: 127.0.0.1:8470].
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Only create the sample media, in this folder, and exit.
    #[arg(long, value_name = "DIR")]
    media_only: Option<PathBuf>,
}

impl Demo {
    pub fn run(self) -> Outcome {
        let mut config = self.config_args.load_config()?;
        runtime().block_on(async {
            if let Some(folder) = &self.media_only {
                return make_samples(folder, &config.ffmpeg).await;
            }
            let requested = self.listen.unwrap_or(config.listen);
            let listener = free_port(requested).await?;
            let address = listener.local_addr().map_err(|cause| cause.to_string())?;
            if address.port() != requested.port() && requested.port() != 0 {
                println!("port {} is busy: using {}", requested.port(), address.port());
            }
            let media = prepare(&mut config, self.config_args.state.is_some(), address.port())?;
            let ffmpeg = config.ffmpeg.clone();
            let (service_sender, service_receiver) = oneshot::channel();
            let sample_task = tokio::spawn(async move {
                if let Err(fault) = make_samples(&media, &ffmpeg).await {
                    eprintln!("hearthcast: sample media: {fault}");
                }
                if let Ok(service) = service_receiver.await
                    && let Err(fault) = add_sample_channel(&service, &media).await
                {
                    eprintln!("hearthcast: sample channel: {fault}");
                }
            });
            let welcome = move |service: &Arc<Service>, address: SocketAddr, code: Option<&str>| {
                let _ = service_sender.send(service.clone());
                print_welcome(address, code);
            };
            let stop = app::shutdown_signal().map_err(error_text)?;
            let served = app::run_on(listener, config, welcome, None, stop).await;
            sample_task.abort();
            served.map_err(error_text)
        })
    }
}

/// Changes the configuration for a demo: the sample media are the library and, unless `keeps_state` is set, the state is empty.
/// Returns the media folder.
fn prepare(config: &mut Config, keeps_state: bool, port: u16) -> Result<PathBuf, String> {
    let with_path = |path: &Path, cause: std::io::Error| format!("{}: {cause}", path.display());
    let base = config.cache.join("demo");
    let media = base.join("media");
    std::fs::create_dir_all(&media).map_err(|cause| with_path(&media, cause))?;
    if !keeps_state {
        // We have the port, so no other demo uses this folder.
        config.state = base.join(format!("state-{port}"));
        match std::fs::remove_dir_all(&config.state) {
            Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => return Err(with_path(&config.state, cause)),
            _ => config.cache = config.state.join("cache"),
        }
    }
    config.roots = vec![Root { id: "demo".to_owned(), path: media.clone() }];
    Ok(media)
}

/// Adds a channel of the sample films, unless a channel exists.
async fn add_sample_channel(service: &Arc<Service>, media: &Path) -> crate::error::Result<()> {
    if !service.channels.all().is_empty() {
        return Ok(());
    }
    let path = media.join("Films").to_string_lossy().into_owned();
    let change = ChannelChange {
        name: Some("Hearth".to_owned()),
        number: Some(CHANNEL_NUMBER),
        mode: Some(ScheduleMode::Sequential),
        requested_items: Some(vec![RequestedItem { recursive: true, ..RequestedItem::from_path(path) }]),
        skip_invalid: true,
        ..ChannelChange::default()
    };
    let channel = service.add_channel(change).await?;
    println!("on air: channel {}, {}", channel.settings.number, channel.settings.name);
    Ok(())
}

async fn make_samples(folder: &Path, ffmpeg: &Path) -> Outcome {
    sample_media::make_samples(folder, ffmpeg, |made| println!("sample: {made}")).await.map_err(|why| why.to_string())
}

async fn free_port(requested: SocketAddr) -> Result<TcpListener, String> {
    let mut address = requested;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(cause)
                if cause.kind() == std::io::ErrorKind::AddrInUse
                    && address.port() < requested.port().saturating_add(MAX_PORT_ATTEMPTS) =>
            {
                address.set_port(address.port() + 1);
            }
            Err(cause) => return Err(format!("{address}: {cause}")),
        }
    }
}

fn print_welcome(address: SocketAddr, code: Option<&str>) {
    match code {
        Some(code) => println!(
            "\nOpen this link once to choose a name and a password:\n\n  http://{address}/#/setup?code={code}\n"
        ),
        None => println!("\nOpen http://{address}/ and sign in.\n"),
    }
}
