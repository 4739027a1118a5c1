//! The embedded files of the page, their digests and encodings, and the list of the shell for the service worker.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use data_encoding::BASE64URL_NOPAD;
use flate2::Compression;
use flate2::write::GzEncoder;
use rust_embed::{EmbeddedFile, RustEmbed};
use sha2::{Digest, Sha256};

use super::minify::{minify_script, minify_styles};
use crate::error::{Error, Result};

/// The files of assets/web. A debug build reads them from the source tree, so a reload shows a change.
#[derive(RustEmbed)]
#[folder = "assets/web"]
struct WebAssets;

/// The pages of help.
#[derive(RustEmbed)]
#[folder = "assets/docs"]
struct HelpPages;

/// The folder of the pages of help among the files of the page.
pub const HELP: &str = "help/";

/// The list of the shell, which is generated.
pub const SHELL_LIST: &str = "shell.js";

pub const SERVICE_WORKER: &str = "service-worker.js";

/// A file as it is served, before any encoding.
#[derive(Clone)]
pub struct PageFile {
    pub content: Bytes,
    /// Of the content: a validator, and what the service worker compares.
    pub digest: String,
}

impl PageFile {
    fn new(content: Bytes) -> Self {
        let digest = BASE64URL_NOPAD.encode(&Sha256::digest(&content)[..15]);
        Self { content, digest }
    }
}

/// How a body is compressed (RFC 9110 section 8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    Brotli,
    Gzip,
}

impl Encoding {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }
}

/// Most files to keep of each kind: all of the page, and some versions of them while a debug build reads the source tree.
const MAX_KEPT: usize = 512;

type Kept<K, V> = Mutex<HashMap<K, V>>;

/// Files by name and the digest of their source.
static FILES: LazyLock<Kept<(String, [u8; 32]), PageFile>> = LazyLock::new(Mutex::default);

/// Compressed files by digest: each is compressed once, when it is first requested.
static COMPRESSED: LazyLock<Kept<(String, Encoding), Bytes>> = LazyLock::new(Mutex::default);

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps a value; removes all others first where there are too many.
fn keep<K: std::hash::Hash + Eq, V>(kept: &Kept<K, V>, key: K, value: V) {
    let mut kept = lock(kept);
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(key, value);
}

/// A file of the page by its path in assets/web, or in assets/docs after [`HELP`]. Only embedded files exist, so a name cannot escape the folder.
pub fn find(name: &str) -> Option<PageFile> {
    if name == SHELL_LIST {
        return Some(shell_list());
    }
    let file = match name.strip_prefix(HELP) {
        Some(page) => HelpPages::get(page)?,
        None => WebAssets::get(name)?,
    };
    let key = (name.to_owned(), file.metadata.sha256_hash());
    if let Some(found) = lock(&FILES).get(&key) {
        return Some(found.clone());
    }
    let served = PageFile::new(served_content(name, file));
    keep(&FILES, key, served.clone());
    Some(served)
}

/// The content without comments and unneeded spaces; the files of others stay as they are.
fn served_content(name: &str, file: EmbeddedFile) -> Bytes {
    let minify = match name.rsplit_once('.') {
        _ if name.starts_with("vendor/") => None,
        Some((_, "js")) => Some(minify_script as fn(&str) -> String),
        Some((_, "css")) => Some(minify_styles as fn(&str) -> String),
        _ => None,
    };
    let text = minify.zip(std::str::from_utf8(&file.data).ok()).map(|(minify, text)| minify(text));
    match (text, file.data) {
        (Some(text), _) => text.into(),
        (None, Cow::Borrowed(bytes)) => Bytes::from_static(bytes),
        (None, Cow::Owned(bytes)) => bytes.into(),
    }
}

fn has_extension(name: &str, extension: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

/// Whether a file belongs to the shell: all that the page needs before something plays.
fn is_of_shell(name: &str) -> bool {
    let is_page = ["js", "css", "svg", "webmanifest"].iter().any(|extension| has_extension(name, extension));
    is_page && !name.starts_with("vendor/") && name != SERVICE_WORKER
}

/// A script that sets `SHELL`: the version of the page, and the digests of its files by their address below the page's.
fn shell_list() -> PageFile {
    let digest_of = |name: &str| find(name).map(|file| file.digest).unwrap_or_default();
    let mut files: BTreeMap<String, String> = WebAssets::iter()
        .filter(|name| is_of_shell(name))
        .map(|name| (format!("web/{name}"), digest_of(&name)))
        .collect();
    files.insert(String::new(), digest_of("index.html"));
    let mut all = Sha256::new();
    for (name, digest) in &files {
        all.update(format!("{name} {digest}\n"));
    }
    let version = BASE64URL_NOPAD.encode(&all.finalize()[..15]);
    let list = serde_json::json!({ "files": files, "version": version });
    PageFile::new(format!("self.SHELL = {list};\n").into())
}

/// The compressed content of a file.
pub async fn compressed(file: PageFile, encoding: Encoding) -> Result<Bytes> {
    let key = (file.digest, encoding);
    if let Some(body) = lock(&COMPRESSED).get(&key) {
        return Ok(body.clone());
    }
    // The renderer of subtitles has megabytes.
    let compress = move || match encoding {
        Encoding::Brotli => brotli_of(&file.content),
        Encoding::Gzip => gzip_of(&file.content),
    };
    let body: Bytes =
        tokio::task::spawn_blocking(compress).await.map_err(Error::internal)?.map_err(Error::internal)?.into();
    keep(&COMPRESSED, key, body.clone());
    Ok(body)
}

fn gzip_of(content: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).and_then(|()| encoder.finish())
}

/// Brotli (RFC 7932). Its best quality takes seconds for a megabyte, so large files have a lower one.
fn brotli_of(content: &[u8]) -> std::io::Result<Vec<u8>> {
    const LARGE: usize = 200_000;
    let quality = if content.len() > LARGE { 9 } else { 11 };
    let mut encoder = brotli::CompressorWriter::new(Vec::new(), 16 * 1024, quality, 22);
    encoder.write_all(content)?;
    Ok(encoder.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version_and_files() -> (String, BTreeMap<String, String>) {
        let text = String::from_utf8(shell_list().content.to_vec()).unwrap();
        let json = text.strip_prefix("self.SHELL = ").and_then(|rest| rest.strip_suffix(";\n")).unwrap();
        let list: serde_json::Value = serde_json::from_str(json).unwrap();
        (list["version"].as_str().unwrap().to_owned(), serde_json::from_value(list["files"].clone()).unwrap())
    }

    #[test]
    fn the_shell_has_the_page_and_its_modules_with_their_digests() {
        let (version, files) = version_and_files();
        assert_eq!(version.len(), 20);
        assert_eq!(files[""], find("index.html").unwrap().digest);
        for name in ["app.js", "style.css", "language/de.js", "logo.svg"] {
            assert_eq!(files[&format!("web/{name}")], find(name).unwrap().digest, "{name}");
        }
        assert!(files.keys().all(|name| !name.contains("vendor") && !name.contains(SERVICE_WORKER)), "{files:?}");
    }

    #[tokio::test]
    async fn compressed_bodies_decompress_to_the_content() {
        let file = find("style.css").unwrap();
        let brotli = compressed(file.clone(), Encoding::Brotli).await.unwrap();
        let mut text = Vec::new();
        brotli::BrotliDecompress(&mut brotli.as_ref(), &mut text).unwrap();
        assert_eq!(text, file.content);
        let gzip = compressed(file, Encoding::Gzip).await.unwrap();
        assert!(brotli.len() < gzip.len(), "{} and {} bytes", brotli.len(), gzip.len());
    }
}
