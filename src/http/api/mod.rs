//! The handlers, a file or folder per resource (parse, call one service function, render), and all routes to them.

use super::call::Call;
use super::endpoint::{Endpoint, route};
use super::openapi;
use crate::domain::access::Access;

mod attachment;
mod audiobook;
mod auth;
mod debug;
mod device;
mod events;
pub mod file;
pub(super) mod health;
mod household;
pub mod info;
mod library;
pub(super) mod livetv;
mod metrics;
mod preferences;
mod prelude;
mod progress;
mod quarantine;
mod recordings;
mod server_status;
mod stream_index;
mod subtitle;
mod transcode;
mod users;
mod web;
mod workers;

use livetv::{export, guide, segments, sources, tokens, tuner, warm, watch};

/// All routes of the server.
pub fn endpoints() -> Vec<Endpoint> {
    let routes = [
        server_routes(),
        worker_routes(),
        account_routes(),
        media_routes(),
        progress_routes(),
        transcode_routes(),
        channel_routes(),
        live_routes(),
        web::endpoints(),
    ];
    routes.into_iter().flatten().collect()
}

fn server_routes() -> Vec<Endpoint> {
    vec![
        route!(health::health, Access::Public),
        route!(openapi::openapi, Access::Public),
        route!(events::events, Access::User),
        route!(workers::workers, Access::User),
        route!(metrics::metrics, Access::Admin),
        route!(debug::all, Access::Admin),
        route!(debug::draw, Access::Admin),
        route!(debug::log, Access::Admin),
        route!(debug::tail, Access::Admin),
        route!(server_status::status, Access::Admin),
        route!(quarantine::list, Access::Admin),
        route!(quarantine::lift, Access::Admin),
    ]
}

/// Workers on other machines.
fn worker_routes() -> Vec<Endpoint> {
    vec![
        route!(workers::enrolment::list, Access::Admin),
        route!(workers::enrolment::make_code, Access::Admin),
        route!(workers::enrolment::queue_configuration, Access::Admin),
        route!(workers::enrolment::remove, Access::Admin),
        route!(workers::enrolment::enrol, Access::Public),
        route!(workers::enrolment::renew, Access::Public),
        route!(workers::runs::claim, Access::Worker),
        route!(workers::runs::source, Access::Worker),
        route!(workers::runs::put_segment, Access::Worker).body_limit(workers::runs::MAX_SEGMENT_BYTES),
        route!(workers::runs::end, Access::Worker),
    ]
}

fn account_routes() -> Vec<Endpoint> {
    vec![
        route!(auth::status, Access::Public),
        route!(auth::set_up, Access::Public),
        route!(auth::login, Access::Public),
        route!(auth::logout, Access::User),
        route!(auth::me, Access::User),
        route!(auth::change_password, Access::User),
        route!(auth::sessions, Access::User),
        route!(auth::revoke_others, Access::User),
        route!(auth::revoke, Access::User),
        route!(preferences::read, Access::User),
        route!(preferences::change, Access::User),
        route!(household::household, Access::User),
        route!(household::change_user, Access::User),
        route!(household::own_member, Access::User),
        route!(household::change_own_member, Access::User),
        route!(users::users, Access::Admin),
        route!(users::add_user, Access::Admin),
        route!(users::change_user, Access::Admin),
        route!(users::remove_user, Access::Admin),
        route!(users::set_password, Access::Admin),
        route!(users::tokens, Access::Admin),
        route!(users::revoke_token, Access::Admin),
    ]
}

fn media_routes() -> Vec<Endpoint> {
    let resource = file::grant_resource;
    vec![
        route!(library::browse, Access::User),
        route!(library::folders::folders, Access::Admin),
        route!(library::folders::add, Access::Admin),
        route!(library::folders::remove, Access::Admin),
        route!(library::folders::browse_server, Access::Admin),
        route!(library::items::items, Access::User),
        route!(library::items::genres, Access::User),
        route!(library::items::item, Access::User),
        route!(library::items::similar, Access::User),
        route!(library::items::change, Access::Admin),
        route!(library::albums::albums, Access::User),
        route!(library::albums::album, Access::User),
        route!(library::artists::artists, Access::User),
        route!(library::books::books, Access::User),
        route!(library::playlists::playlists, Access::User),
        route!(library::series::all, Access::User),
        route!(library::series::one, Access::User),
        route!(library::search::search, Access::User),
        route!(library::previews::index, Access::Granted).resource(library::artwork::grant_resource),
        route!(library::previews::sheet, Access::Granted).resource(library::artwork::grant_resource),
        route!(library::artwork::of_item, Access::Granted).resource(library::artwork::grant_resource),
        route!(library::artwork::of_series, Access::Granted).resource(library::artwork::grant_resource),
        route!(file::file, Access::Granted).resource(resource).inline(),
        route!(subtitle::subtitle, Access::Granted).resource(resource),
        route!(attachment::attachment, Access::Granted).resource(resource),
        route!(info::info_full, Access::User),
        route!(info::info_full_for_device, Access::User),
    ]
}

fn progress_routes() -> Vec<Endpoint> {
    vec![
        route!(progress::save, Access::User),
        route!(progress::read, Access::User),
        route!(progress::reset, Access::User),
        route!(progress::mark_watched, Access::User),
        route!(progress::history, Access::User),
        route!(progress::next_up, Access::User),
        route!(audiobook::book, Access::User),
        route!(audiobook::save, Access::User),
        route!(audiobook::read, Access::User),
        route!(audiobook::reset, Access::User),
        route!(audiobook::history, Access::User),
    ]
}

fn transcode_routes() -> Vec<Endpoint> {
    let resource = |call: &Call| call.params.first().map(|id| transcode::grant_resource(id));
    vec![
        route!(transcode::index, Access::Granted).resource(resource),
        route!(transcode::status, Access::Granted).resource(resource),
        route!(transcode::session_asset, Access::Granted).resource(resource),
        route!(transcode::list::sessions, Access::Admin),
        route!(transcode::start, Access::User),
        route!(transcode::stop_by_post, Access::Granted).resource(resource),
        route!(transcode::stop, Access::Granted).resource(resource),
    ]
}

/// Channels, their sources and their recordings.
fn channel_routes() -> Vec<Endpoint> {
    vec![
        route!(livetv::channels, Access::User),
        route!(livetv::add, Access::Admin).body_limit(livetv::MAX_BODY_BYTES),
        route!(livetv::preview, Access::Admin).body_limit(livetv::MAX_BODY_BYTES),
        route!(livetv::channel, Access::User),
        route!(livetv::change, Access::Admin).body_limit(livetv::MAX_BODY_BYTES),
        route!(livetv::remove, Access::Admin),
        route!(livetv::preview_change, Access::Admin).body_limit(livetv::MAX_BODY_BYTES),
        route!(livetv::skip, Access::Admin),
        route!(livetv::audit::audit, Access::Admin),
        route!(livetv::logo::logo, Access::Public),
        route!(livetv::logo::icon, Access::Public),
        route!(sources::sources, Access::Admin),
        route!(sources::add, Access::Admin).body_limit(sources::MAX_BODY_BYTES),
        route!(sources::preview, Access::Admin).body_limit(sources::MAX_BODY_BYTES),
        route!(sources::source, Access::Admin),
        route!(sources::change, Access::Admin).body_limit(sources::MAX_BODY_BYTES),
        route!(sources::remove, Access::Admin),
        route!(sources::refresh, Access::Admin),
        route!(recordings::recordings, Access::User),
        route!(recordings::add, Access::Admin),
        route!(recordings::recording, Access::User),
        route!(recordings::remove, Access::Admin),
        route!(recordings::change_series, Access::Admin),
        route!(recordings::remove_series, Access::Admin),
    ]
}

/// Guide and playback of channels, and the credentials of players that cannot sign in.
fn live_routes() -> Vec<Endpoint> {
    let m3u = |_: &Call| Some("livetv/m3u".to_owned());
    let xmltv = |_: &Call| Some("livetv/xmltv".to_owned());
    vec![
        route!(guide::epg, Access::User),
        route!(guide::now, Access::User),
        route!(export::m3u, Access::Live).resource(m3u),
        route!(export::xmltv, Access::Live).resource(xmltv),
        route!(export::xmltv_gz, Access::Live).resource(xmltv),
        route!(watch::watch, Access::Live).resource(watch::grant_resource),
        route!(watch::leave, Access::Live).resource(watch::grant_resource),
        route!(watch::playlist, Access::Live).resource(watch::grant_resource),
        route!(watch::multivariant, Access::Live).resource(watch::grant_resource),
        route!(watch::asset, Access::Live).resource(watch::grant_resource),
        route!(segments::check, Access::Shared).resource(segments::grant_resource).inline(),
        route!(segments::segment, Access::Shared).resource(segments::grant_resource),
        route!(tokens::tokens, Access::User),
        route!(tokens::add, Access::User),
        route!(tokens::revoke, Access::User),
        route!(tokens::sign, Access::User),
        route!(warm::warmth, Access::User),
        route!(warm::warm, Access::User),
        route!(tuner::discover, Access::Tuner),
        route!(tuner::lineup, Access::Tuner),
        route!(tuner::status, Access::Tuner),
        route!(tuner::scan, Access::Tuner),
        route!(tuner::device, Access::Tuner),
        route!(tuner::receive, Access::Tuner),
    ]
}
