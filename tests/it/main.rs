//! One test binary; a line per module says what belongs there.
#![allow(clippy::disallowed_methods, reason = "tests open what they made")]

/// The program's own commands, as a person at a terminal meets them.
mod commands;
/// Rules that hold for every answer: error body, methods, headers.
mod contract;
/// Every file of a real-world corpus, started and played to its end.
mod corpus;
/// Runs of real producers over real files: what comes out is played, not trusted.
mod engine;
/// The rooms and their one direction, read from the sources.
mod floors;
/// Files and paths made to do harm: no crash, no leak, no hang, nothing left behind.
mod hostile;
/// External channels: one connection, slates while the source is away, recordings over interruptions.
mod ingest;
/// What users do, from end to end.
mod journeys;
/// Starts servers and makes media, so that a test is three lines.
mod kit;
/// The library over HTTP: paths, folders, bytes.
mod library;
/// Channels out of the library, and their guide.
mod livetv;
/// What is remembered: progress, history, books, events, and what survives.
mod memory;
/// Texts of pipelines: built, drawn, held against golden graphs.
mod pipelines;
/// Media info and the play decision, over made files and over the corpus.
mod probe;
/// The program: commands, start, stop.
mod program;
/// Recordings: made, made again after a crash, kept and removed.
mod recordings;
/// Pages for readers of the source, compared with the files and the numbers they name.
mod searches;
/// Imported lists and guides: rights, parsing, SSRF.
mod sources;
/// Embedded and sidecar subtitles as text.
mod subtitles;
