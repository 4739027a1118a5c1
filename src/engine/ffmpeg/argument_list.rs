//! An argument vector under construction, and the item as its input.

use super::demuxers::{demuxer_name, format_whitelist};
use crate::domain::media::Container;
use crate::engine::clock::PipeInput;
use crate::engine::source::LOOPBACK_PREFIX;

#[derive(Debug, Default)]
pub struct ArgumentList(pub Vec<String>);

impl ArgumentList {
    /// Begins with constant arguments, separated by spaces.
    pub fn new(words: &str) -> Self {
        let mut list = Self::default();
        list.add(words);
        list
    }

    /// Adds constant arguments, separated by spaces.
    pub fn add(&mut self, words: &str) -> &mut Self {
        self.0.extend(words.split_whitespace().map(str::to_owned));
        self
    }

    pub fn pair(&mut self, option: &str, value: impl ToString) -> &mut Self {
        self.0.extend([option.to_owned(), value.to_string()]);
        self
    }

    /// Adds an item as an input, by its path among the descriptors or through a pipe. The demuxer is named, so that ffmpeg
    /// cannot mistake the file for a playlist that names other files.
    pub fn add_item(&mut self, container: Container, path: &str, pipe_input: Option<&PipeInput>) -> &mut Self {
        let demuxer = demuxer_name(container);
        if let Some(PipeInput { address, .. }) = pipe_input {
            return self.add("-protocol_whitelist pipe").pair("-f", demuxer.unwrap_or("mpegts")).pair("-i", address);
        }
        let is_remote = path.starts_with(LOOPBACK_PREFIX);
        self.add(if is_remote { "-protocol_whitelist http,tcp -seekable 1" } else { "-protocol_whitelist file" });
        match demuxer {
            Some(demuxer) => self.pair("-f", demuxer),
            None => self.pair("-format_whitelist", format_whitelist()),
        };
        self.pair("-i", if is_remote { path.to_owned() } else { format!("file:{path}") })
    }
}
