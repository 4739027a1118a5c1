#![doc = include_str!("README.md")]

mod accept_loop;
mod connection;
mod connection_slots;
mod header_timer;
mod lazy_segment;
mod request_body;
mod request_context;
mod response_body;
mod worker_thread;

pub(super) use accept_loop::{serve, serve_until_handover};
pub(super) use connection_slots::ConnectionSlot;
#[cfg(test)]
pub(super) use connection_slots::ConnectionSlots;
pub(super) use lazy_segment::LazySegmentBody;
pub(super) use request_body::RequestBody;
pub(super) use request_context::{RequestContext, RequestInfo};
pub(super) use response_body::{BodyError, FileBody, ForwardedBody};
pub(super) use worker_thread::Routes;
