//! A viewer of a session: one connection that requests playlists and segments, and discards the segments in the kernel.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::peer::{ServerUnderTest, discard, read_head};

/// A connection with a user's token.
pub struct HlsClient {
    socket: TcpStream,
    token: String,
}

/// A session that was started.
pub struct StartedSession {
    pub answer: serde_json::Value,
    playlist_url: String,
}

impl HlsClient {
    pub fn connect(peer: &ServerUnderTest) -> Self {
        let socket = TcpStream::connect(peer.address).expect("the server accepts");
        socket.set_nodelay(true).expect("TCP has it");
        let token = peer.request_head.split("Bearer ").nth(1).unwrap_or("none").trim().to_owned();
        Self { socket, token }
    }

    fn send_request(&mut self, method: &str, target: &str, body: &str) {
        let head = format!(
            "{method} {target} HTTP/1.1\r\nHost: b\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        self.socket.write_all(head.as_bytes()).expect("the server reads");
    }

    /// Starts a session with this request body.
    pub fn start_session(&mut self, body: &serde_json::Value) -> StartedSession {
        self.send_request("POST", "/api/stream/transcode/start", &body.to_string());
        let answer: serde_json::Value = serde_json::from_str(&self.read_text()).expect("an answer in JSON");
        let playlist_url = answer["playlistUrl"].as_str().expect("a session has a playlist").to_owned();
        StartedSession { answer, playlist_url }
    }

    /// The multivariant playlist of a session.
    pub fn multivariant(&mut self, session: &StartedSession) -> String {
        self.get_text(&session.playlist_url)
    }

    pub fn get_text(&mut self, target: &str) -> String {
        self.send_request("GET", target, "");
        self.read_text()
    }

    /// Requests a segment and discards it; returns its length.
    pub fn drain(&mut self, target: &str) -> u64 {
        self.send_request("GET", target, "");
        let (len, mut remaining) = read_head(&mut self.socket).expect("the server answers");
        while remaining > 0 {
            remaining -= discard(&self.socket, remaining).expect("the answer is whole");
        }
        len
    }

    pub fn stop_session(&mut self, session: &StartedSession) {
        self.send_request("DELETE", session.playlist_url.trim_end_matches("/index.m3u8"), "");
        self.read_text();
    }

    /// Reads a small response; returns its body.
    fn read_text(&mut self) -> String {
        let mut answer = Vec::new();
        loop {
            let mut buffer = [0; 16 * 1024];
            let read = self.socket.read(&mut buffer).expect("the server answers");
            assert!(read > 0, "the connection ended early");
            answer.extend_from_slice(&buffer[..read]);
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            assert!(head.starts_with("HTTP/1.1 20"), "{text}");
            let head = head.to_ascii_lowercase();
            let len = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
            if body.len() >= len.unwrap_or(0) {
                return body.to_owned();
            }
        }
    }
}

impl StartedSession {
    /// The addresses in a playlist of the session that are no tags.
    pub fn listed_urls(&self, playlist: &str) -> Vec<String> {
        let names = playlist.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        names.map(|name| self.url_of(name)).collect()
    }

    /// The address in a tag's attribute `URI`, for each line that begins with `tag`.
    pub fn tagged_urls(&self, playlist: &str, tag: &str) -> Vec<String> {
        let lines = playlist.lines().filter(|line| line.starts_with(tag));
        let uris = lines.filter_map(|line| line.split("URI=\"").nth(1)?.split('"').next());
        uris.map(|name| self.url_of(name)).collect()
    }

    fn url_of(&self, name: &str) -> String {
        let base = self.playlist_url.rsplit_once('/').expect("the URL has a folder").0;
        if name.starts_with('/') { name.to_owned() } else { format!("{base}/{name}") }
    }
}
