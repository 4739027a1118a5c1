//! User journeys from end to end.

mod audio_groups;
mod broadcast_codecs;
mod burned_text;
mod changing_files;
mod closed_captions;
mod frame_rates;
mod gstreamer_backend;
mod hardware_encoders;
mod iframe_playlists;
mod joins;
mod ladder;
mod media_info;
mod nfo;
mod packaged;
mod plain_client;
mod preferred_encoders;
mod renditions;
mod restarts;
mod seeks;
mod sessions;
mod surround;
#[cfg(feature = "otlp")]
mod traces;
mod worker_faults;
