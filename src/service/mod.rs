#![doc = include_str!("README.md")]

use std::sync::Arc;

use jiff::Timestamp;

use crate::config::live::{LiveConfig, TooManyChanges};
use crate::config::reload::{self, ConfigChange};
use crate::config::{Config, IsolationSetting};
use crate::domain::histogram::Histogram;
use crate::domain::ssrf::AllowedSources;
use crate::domain::traffic::TrafficCounts;
use crate::engine::outbound::OutboundClient;
use crate::engine::packager::PackageCache;
use crate::engine::source::Roots;
use crate::engine::versions;
use crate::engine::worker::{FaultRecorder, Isolation, PoolSettings, WorkerPool};
use crate::error::{Error, Result};
use crate::store::{Store, Tree};

pub mod accounts;
pub mod artwork;
pub mod background_tasks;
pub mod catalogue;
pub mod channels;
pub mod clock;
pub mod events;
pub mod ingest;
pub mod library;
pub mod library_watcher;
pub mod live;
pub mod marks;
pub mod media;
pub mod media_folders;
pub mod playback;
pub mod progress;
pub mod quarantine;
pub mod read_replica;
pub mod recordings;
pub mod renditions;
pub mod server_status;
pub mod sessions;
pub mod workers;

use accounts::Accounts;
use artwork::Artworks;
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
use marks::Marks;
use media::Probes;
use media::loudness::LoudnessCache;
use media::subtitles::Subtitles;
use media_folders::MediaFolders;
use progress::ProgressStore;
use progress::audiobook::FolderIdentities;
use quarantine::{Quarantine, old_marks};
use recordings::Recordings;
use renditions::Renditions;
use renditions::local_encoders::LocalEncoders;
use server_status::ServerStatus;
use sessions::Sessions;
use workers::RemoteWorkers;

/// The handles that requests and background tasks work with.
pub struct Service {
    pub config: LiveConfig,
    pub started_at: Timestamp,
    /// Requests and bytes.
    pub traffic: TrafficCounts,
    /// From the first event of a change in a library folder until viewers are notified of it.
    pub library_change_times: Histogram,
    /// How busy the server was, for admins.
    pub status: ServerStatus,
    pub tasks: BackgroundTasks,
    pub store: Store,
    pub clock: Clock,
    pub accounts: Accounts,
    pub library: Arc<Library>,
    pub media_folders: MediaFolders,
    /// All items of the library.
    pub catalogue: Arc<Catalogue>,
    /// The parts of films and episodes that viewers may skip.
    pub marks: Marks,
    /// Images of items.
    pub artworks: Artworks,
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
    /// Workers on other machines; None without a queue.
    pub remote_workers: Option<Arc<RemoteWorkers>>,
    /// The client for remote servers, with its SSRF checks.
    pub outbound: OutboundClient,
}

impl Service {
    /// Opens roots and state. Must be called inside the runtime.
    ///
    /// # Errors
    /// The error of what could not be opened.
    pub fn open(config: Config) -> Result<Arc<Self>> {
        let store = Store::open_configured(&config.state, config.database_settings(), true)?;
        Self::open_on(config, store)
    }

    /// Opens the roots, over a state that is open. Must be called inside the runtime.
    ///
    /// # Errors
    /// The error of what could not be opened.
    pub fn open_on(config: Config, store: Store) -> Result<Arc<Self>> {
        let roots = Roots::open(config.library_roots()).map_err(Error::internal)?.shared(config.database.is_some());
        let tasks = BackgroundTasks::default();
        old_marks::remove_old_marks(&config.state);
        let quarantine = Quarantine::open(store.clone());
        let isolation = open_isolation(&config, Arc::new(quarantine.clone()));
        let media_folders = MediaFolders::open(store.clone(), &config, &roots)?;
        let library = Library::new(Arc::new(roots), tasks.clone()).with_workers(isolation.clone());
        let library = Arc::new(library);
        let media = Probes::new(&config.ffmpeg, config.limits.probe_deadline, isolation.clone());
        let media = media.with_store(store.clone(), quarantine.clone());
        let clock = Clock::default();
        let events = Events::new(data_encoding::HEXLOWER.encode(&accounts::random_bytes::<4>()));
        let open_tree = |tree| ProgressStore::open(store.clone(), tree, clock.clone(), events.clone()).map(Arc::new);
        let catalogue = Arc::new(Catalogue::new(store.clone()));
        let remote_workers = RemoteWorkers::open(&config, store.clone(), clock.clone())?;
        let cluster = remote_workers.as_ref().map(|workers| workers.cluster.clone());
        let renditions = Renditions::open(&config, isolation.clone(), Some(quarantine.clone()), tasks.clone())?;
        if let Some(cluster) = cluster {
            renditions.backends.use_cluster(cluster);
        }
        let sessions = Sessions::open(&config, store.clone(), renditions.clone(), tasks.clone())?;
        let service = Arc::new(Self {
            started_at: Timestamp::now(),
            traffic: TrafficCounts::default(),
            library_change_times: Histogram::default(),
            status: ServerStatus::default(),
            accounts: Accounts::open(&config, store.clone(), clock.clone())?,
            progress: open_tree(Tree::Progress)?,
            books: open_tree(Tree::Books)?,
            folder_books: FolderIdentities::default(),
            marks: Marks::new(store.clone()),
            artworks: Artworks::open(&config)?,
            channels: Channels::open(store.clone(), clock.clone())?.with_library(catalogue.clone()),
            catalogue,
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
            remote_workers,
            quarantine,
            media,
            store,
            clock,
            subtitles: Subtitles::new(config.ffmpeg.clone(), library.clone()),
            library,
            media_folders,
            sessions,
            tasks,
            renditions,
            packages: PackageCache::default(),
            local_encoders: LocalEncoders::new(&config),
            config: LiveConfig::new(config),
        });
        service.map_first_guides();
        Ok(service)
    }

    /// Applies the settings of `loaded` that need no restart; returns which differ from those in force.
    ///
    /// # Errors
    /// [`TooManyChanges`]: nothing was applied.
    pub fn apply_config(&self, loaded: &Config) -> std::result::Result<ConfigChange, TooManyChanges> {
        let (config, change) = reload::merge(&self.config, loaded);
        if change.applied.is_empty() {
            return Ok(change);
        }
        self.config.replace(config)?;
        self.accounts.set_limits(&self.config.limits);
        self.sessions.set_limits(&self.config.limits);
        match AllowedSources::parse(&self.config.allowed_sources) {
            Ok(allowed) => self.outbound.set_allowed(allowed),
            Err(fault) => tracing::error!(%fault, "allowed_sources was checked before and is not valid now"),
        }
        Ok(change)
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
