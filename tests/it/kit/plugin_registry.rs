//! GStreamer's registry of plugins, made once for the servers of all tests: each server would take half a second of a processor.

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Puts the registry into the cache folder of a server that is not started yet, as if it had been started before.
pub fn copy_registry(cache: &Path) {
    static REGISTRY: OnceLock<Vec<u8>> = OnceLock::new();
    let registry = REGISTRY.get_or_init(make_registry);
    std::fs::create_dir_all(cache).expect("the cache folder can be made");
    std::fs::write(cache.join("gstreamer-registry.bin"), registry).expect("the cache folder is writable");
}

fn make_registry() -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("registry");
    let made = Command::new(env!("CARGO_BIN_EXE_hearthcast"))
        .args(["worker", "--make-registry"])
        .env("GST_REGISTRY", &path)
        .status()
        .expect("the program starts");
    assert!(made.success(), "{made}");
    std::fs::read(path).expect("the registry was written")
}
