//! User journeys from end to end.

mod burned_text;
mod changing_files;
mod plain_client;
mod ladder;
mod gstreamer_backend;
mod packaged;
mod seeks;
mod sessions;
