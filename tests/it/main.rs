//! The integration tests, one binary. Each module has a line about its tests.
#![allow(clippy::disallowed_methods, reason = "tests open files that they made")]

/// The program's command-line interface.
mod commands;
/// Rules that hold for every answer: error body, methods, headers.
mod contract;
/// Starts and plays every file of a real-world corpus to its end.
mod corpus;
/// Runs of both backends over real files. Their output is decoded and compared.
mod engine;
/// Twelve faults of the machine, each survived with nothing lost.
mod faults;
/// Hostile files and paths: no crash, no leak, no hang, no leftovers.
mod hostile;
/// External channels: one connection, slates while the source is away, recordings over interruptions.
mod ingest;
/// User journeys from end to end.
mod journeys;
/// Helpers that start servers and make media.
mod kit;
/// Retired words, refused in code, comments, texts and pages.
mod language;
/// The library over HTTP: paths, folders, bytes.
mod library;
/// Channels scheduled from the library, and their guide.
mod livetv;
/// Mutated media files: each request is answered, the server lives, and no file is in quarantine without reason.
mod mutated_files;
/// Pipeline texts: built, rendered and compared with golden graphs.
mod pipelines;
/// Media info and the playback decision, over generated files and the corpus.
mod probe;
/// The program as a process: start and stop.
mod process;
/// Stored user data: progress, history, audiobooks, events, and its durability.
mod progress;
/// Workers on other machines, and a store of segments that servers share.
#[cfg(feature = "cluster")]
mod rack;
/// Recordings: made, resumed after a crash, kept and deleted.
mod recordings;
/// System calls that the sandbox refuses during media work, found by strace.
mod refused_calls;
/// The rooms and their import direction, checked in the sources.
mod rooms;
/// The sandbox of child processes, tried from within.
mod sandbox;
/// Pages for readers of the source, compared with the files and the numbers they name.
mod searches;
/// Imported lists and guides: rights, parsing, SSRF.
mod sources;
/// Embedded and sidecar subtitles as text.
mod subtitles;
/// The protocol of service managers: ready, watchdog, reload, stopping.
mod systemd;
/// States that released versions left: this version reads every record as they did.
mod upgrade;
