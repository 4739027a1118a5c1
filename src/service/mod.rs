#![doc = include_str!("README.md")]

use std::sync::Arc;

use jiff::Timestamp;

use crate::config::{Config, IsolationSetting};
use crate::domain::ssrf::AllowedSources;
use crate::engine::outbound::OutboundClient;
use crate::engine::packager::PackageCache;
use crate::engine::source::Roots;
use crate::engine::versions;
use crate::engine::worker::{FaultRecorder, Isolation, PoolSettings, WorkerPool};
use crate::error::{Error, Result};
use crate::store::{Store, Tree};

pub mod accounts;
pub mod background_tasks;
pub mod catalogue;
pub mod channels;
pub mod clock;
pub mod events;
pub mod ingest;
pub mod library;
pub mod library_watcher;
pub mod live;
pub mod media;
pub mod playback;
pub mod progress;
pub mod quarantine;
pub mod recordings;
pub mod renditions;
pub mod sessions;

use accounts::Accounts;
use background_tasks::BackgroundTasks;
use catalogue::Catalogue;
use channels::rights::{AuditLog, RightsNotifier};
use channels::slates::Slates;
use channels::sources::Sources;
use channels::{Channels, Viewers};
use clock::Clock;
use events::Events;
use ingest::Ingests;
use library::Library;
use live::LiveChannels;
use media::Probes;
use media::loudness::LoudnessCache;
use media::subtitles::Subtitles;
use progress::ProgressStore;
use progress::audiobook::FolderIdentities;
use quarantine::{Quarantine, old_marks};
use recordings::Recordings;
use renditions::Renditions;
use renditions::local_encoders::LocalEncoders;
use sessions::Sessions;

/// The handles that requests and background tasks work with.
pub struct Service {
    pub config: Config,
    pub started_at: Timestamp,
    pub tasks: BackgroundTasks,
    pub store: Store,
    pub clock: Clock,
    pub accounts: Accounts,
    pub library: Arc<Library>,
    /// All items of the library.
    pub catalogue: Catalogue,
    pub local_encoders: LocalEncoders,
    /// Where GStreamer runs: the pool of worker processes, or this process.
    pub isolation: Isolation,
    /// Files that no worker reads again.
    pub quarantine: Quarantine,
    pub media: Probes,
    pub subtitles: Subtitles,
    pub renditions: Arc<Renditions>,
    pub sessions: Sessions,
    /// Sample tables of files that are packaged.
    pub packages: PackageCache,
    pub events: Arc<Events>,
    /// Watch progress.
    pub progress: Arc<ProgressStore>,
    /// Audiobook progress.
    pub books: Arc<ProgressStore>,
    pub folder_books: FolderIdentities,
    pub channels: Channels,
    /// The audit log of rights of external channels.
    pub audit_log: AuditLog,
    /// Notifies about changed rights.
    pub rights_changes: RightsNotifier,
    pub sources: Sources,
    pub viewers: Viewers,
    pub slates: Slates,
    pub live_channels: LiveChannels,
    pub loudness: LoudnessCache,
    pub recordings: Recordings,
    /// External channels that are being received.
    pub ingests: Ingests,
    /// The client for remote servers, with its SSRF checks.
    pub outbound: OutboundClient,
}

impl Service {
    /// Opens roots and state. Must be called inside the runtime.
    ///
    /// # Errors
    /// The error of what could not be opened.
    pub fn open(config: Config) -> Result<Arc<Self>> {
        let roots = Roots::open(config.library_roots()).map_err(crate::error::Error::internal)?;
        let tasks = BackgroundTasks::default();
        let store = Store::open_waiting(&config.state)?;
        old_marks::remove_old_marks(&config.state);
        let quarantine = Quarantine::open(store.clone());
        let isolation = open_isolation(&config, Arc::new(quarantine.clone()));
        let library = Library::new(Arc::new(roots), tasks.clone()).with_workers(isolation.clone());
        let library = Arc::new(library);
        let media = Probes::new(&config.ffmpeg, config.limits.probe_deadline, isolation.clone());
        let media = media.with_store(store.clone(), quarantine.clone());
        let clock = Clock::default();
        let events = Events::new(data_encoding::HEXLOWER.encode(&accounts::random_bytes::<4>()));
        let open_tree = |tree| ProgressStore::open(store.clone(), tree, clock.clone(), events.clone()).map(Arc::new);
        let renditions = Renditions::open(&config, isolation.clone(), Some(quarantine.clone()), tasks.clone())?;
        let service = Arc::new(Self {
            started_at: Timestamp::now(),
            accounts: Accounts::open(&config, store.clone(), clock.clone())?,
            progress: open_tree(Tree::Progress)?,
            books: open_tree(Tree::Books)?,
            folder_books: FolderIdentities::default(),
            catalogue: Catalogue::new(store.clone()),
            channels: Channels::open(store.clone(), clock.clone())?,
            sources: Sources::open(store.clone())?,
            audit_log: AuditLog::open(store.clone(), clock.clone())?,
            rights_changes: RightsNotifier::default(),
            viewers: Viewers::default(),
            slates: Slates::default(),
            live_channels: LiveChannels::default(),
            loudness: LoudnessCache::default(),
            ingests: Ingests::default(),
            recordings: Recordings::open(store.clone(), &config, events.clone(), clock.clone())?,
            outbound: OutboundClient::new(AllowedSources::parse(&config.allowed_sources).map_err(Error::internal)?),
            events,
            isolation,
            quarantine,
            media,
            store,
            clock,
            subtitles: Subtitles::new(config.ffmpeg.clone(), library.clone()),
            library,
            sessions: Sessions::new(&config, renditions.clone(), tasks.clone()),
            tasks,
            renditions,
            packages: PackageCache::default(),
            local_encoders: LocalEncoders::new(&config),
            config,
        });
        service.map_first_guides();
        Ok(service)
    }

    /// Ends all background tasks, with sessions, runs and recordings, and waits for them. Recordings have all of their data
    /// synced; the next start continues them.
    pub async fn shutdown(&self) {
        self.tasks.shutdown().await;
        self.renditions.clear_segments();
    }
}

/// The workers of a server or of a command, or none. They start with the first work or with [`Isolation::warm`]. Must be
/// called inside the runtime when workers are configured.
pub fn open_isolation(config: &Config, recorder: Arc<dyn FaultRecorder>) -> Isolation {
    match config.isolation {
        IsolationSetting::Process => {
            let settings = PoolSettings {
                program: config.worker_program.clone(),
                cache: config.cache.clone(),
                recorder,
                version: versions::worker_version(),
            };
            Isolation::Process(Arc::new(WorkerPool::new(settings)))
        }
        IsolationSetting::None => Isolation::None,
    }
}
