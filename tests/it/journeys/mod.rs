//! User journeys from end to end.

mod burned;
mod changing;
mod interface;
mod ladder;
mod native;
mod packaged;
mod seeks;
mod sessions;
